// Package doubling grows slices by their length. The built-in append grows long ones by a quarter, copies them too often, and
// takes more memory in total: all that a decoder allocates then stays close to its needs.
package doubling

import "slices"

// Grow returns s with room for n more elements.
func Grow[T any](s []T, n int) []T {
	if n <= cap(s)-len(s) {
		return s
	}
	return slices.Grow(s, max(n, len(s), 8))
}

// Append appends v to s.
func Append[T any](s []T, v T) []T { return append(Grow(s, 1), v) }
