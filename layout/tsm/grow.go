package tsm

import "slices"

// push appends v, doubling the capacity where it is used up: append itself grows long
// slices by a quarter, which copies them more often than it saves memory here.
func push[T any](to []T, v T) []T {
	if len(to) == cap(to) {
		to = slices.Grow(to, max(len(to), 8))
	}
	return append(to, v)
}
