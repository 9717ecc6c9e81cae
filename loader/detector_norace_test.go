//go:build !race

package loader_test

// raceEnabled says that the race detector is on, under which pools forget at random.
const raceEnabled = false
