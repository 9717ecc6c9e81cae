package aprender

import (
	"slices"
	"testing"
)

// FuzzDecode decodes anything. What is accepted must keep an Index's promises.
func FuzzDecode(f *testing.F) {
	f.Add([]byte(literal))
	format.Seed(f, 1<<20)
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) >= headerSize && data[headerSize-1] == 0 { // or else the fuzzer would have to find checksums
			data = resum(slices.Clone(data))
		}
		format.Use(t, data)
	})
}
