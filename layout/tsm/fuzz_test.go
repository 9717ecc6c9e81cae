package tsm

import "testing"

// FuzzDecode reads any bytes and, where they are a module, all that there is to ask of it.
func FuzzDecode(f *testing.F) {
	format.Seed(f, 1<<20)
	f.Add([]byte(ring(5).b))
	f.Add([]byte(network(2, 1).b))
	f.Fuzz(func(t *testing.T, data []byte) {
		format.Use(t, data)
		fast, err1 := described(data, fastDims)
		all, err2 := described(data, -1)
		if fast != all || (err1 == nil) != (err2 == nil) || err1 != nil && err1.Error() != err2.Error() {
			t.Fatalf("the fast way finds %s, %v; the other %s, %v", fast, err1, all, err2)
		}
	})
}
