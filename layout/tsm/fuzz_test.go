package tsm

import "testing"

// FuzzDecode reads any bytes and, where they are a module, all that there is to ask of it.
func FuzzDecode(f *testing.F) {
	format.Seed(f, 1<<20)
	f.Add([]byte(ring(5).b))
	f.Add([]byte(network(2, 1).b))
	f.Fuzz(func(t *testing.T, data []byte) {
		format.Use(t, data)
	})
}
