//go:build unix || windows

package loader_test

const mapsFiles = true
