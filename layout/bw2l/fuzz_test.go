package bw2l_test

import (
	"testing"

	"github.com/tensormap/tensormap/layout"
)

// FuzzDecode decodes anything. What is accepted must keep an Index's promises, and answer
// whatever can be asked of it.
func FuzzDecode(f *testing.F) {
	f.Add([]byte(literal))
	for _, name := range fixtureNames(f) {
		f.Add([]byte(fixture(f, name)))
	}
	f.Fuzz(func(t *testing.T, data []byte) { tryAll(t, layout.Bytes(data)) })
}
