package tsm

import "testing"

// FuzzDecode reads any bytes and, where they are a module, all that there is to ask of it.
func FuzzDecode(f *testing.F) {
	format.Seed(f, 1<<20)
	f.Add([]byte(ring(5).b))
	f.Add([]byte(network(2, 1).b))
	f.Fuzz(func(t *testing.T, data []byte) {
		format.Use(t, data)
		usual, err1 := described(data, fastDims)
		all, err2 := described(data, -1)
		if usual != all || (err1 == nil) != (err2 == nil) || err1 != nil && err1.Error() != err2.Error() {
			t.Fatalf("the short way finds %s, %v; the other %s, %v", usual, err1, all, err2)
		}
	})
}
