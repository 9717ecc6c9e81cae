package apr1

import "testing"

// FuzzDecode decodes anything. What is accepted must keep an Index's promises, and answer
// whatever it is asked.
func FuzzDecode(f *testing.F) {
	format.Seed(f, 10_000)
	f.Fuzz(func(t *testing.T, data []byte) { format.Use(t, data) })
}
