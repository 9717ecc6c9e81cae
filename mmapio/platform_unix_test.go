//go:build unix

package mmapio

const mapsFiles = true
