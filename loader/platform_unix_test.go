//go:build unix

package loader_test

const mapsFiles = true
