package bw2l_test

import "testing"

// FuzzDecode decodes anything. What is accepted must keep an Index's promises, and answer
// whatever can be asked of it.
func FuzzDecode(f *testing.F) {
	f.Add([]byte(literal))
	format.Seed(f, 1<<20)
	f.Fuzz(func(t *testing.T, data []byte) { format.Use(t, data) })
}
