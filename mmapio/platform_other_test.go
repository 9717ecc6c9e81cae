//go:build !unix && !windows

package mmapio

const mapsFiles = false
