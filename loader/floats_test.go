package loader_test

import (
	"math"
	"slices"
)

// sameFloats compares bit by bit, but for NaNs: arithmetic does not specify theirs.
func sameFloats(a, b []float32) bool { return slices.EqualFunc(a, b, sameFloat) }

func sameFloat(a, b float32) bool {
	return math.Float32bits(a) == math.Float32bits(b) || a != a && b != b
}
