package iofault

import "testing"

func TestFull(t *testing.T) {
	for _, short := range []bool{false, true} {
		w := &Full{Left: 3, Short: short}
		n1, err1 := w.Write([]byte("12"))
		n2, err2 := w.Write([]byte("34"))
		if n1 != 2 || err1 != nil || n2 != 1 || (err2 == nil) != short {
			t.Errorf("%d, %v, %d, %v", n1, err1, n2, err2)
		}
	}
}
