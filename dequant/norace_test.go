//go:build !race

package dequant

const raceEnabled = false
