//go:build !unix

package mmapio

const mapsFiles = false
