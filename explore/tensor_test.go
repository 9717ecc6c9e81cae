package explore

import (
	"slices"
	"testing"
)

// TestNearest: an answer lists at most maxSameRole tensors of a role, those around the one that it is about, and counts the others.
func TestNearest(t *testing.T) {
	numbers := make([]int, 1000)
	for i := range numbers {
		numbers[i] = 7 * i
	}
	for _, test := range []struct{ of, at, from, n, more int }{
		{3, 1, 0, 3, 0}, {200, 199, 0, 200, 0}, {201, 0, 0, 200, 1}, {201, 200, 1, 200, 1}, {1000, 500, 400, 200, 800}, {1000, 999, 800, 200, 800}, {0, 0, 0, 0, 0},
	} {
		some, more := nearest(numbers[:test.of], 7*test.at)
		if more != test.more || !slices.Equal(some, numbers[test.from:test.from+test.n]) {
			t.Errorf("%+v: %v and %d more", test, some, more)
		}
	}
}
