package layout

import (
	"bytes"
	"testing"
)

func TestPlainASCII(t *testing.T) {
	for n := range 20 {
		for at := range n {
			for c := range 256 {
				for _, fill := range []byte{1, 'a', 0x7f} {
					b := bytes.Repeat([]byte{fill}, n)
					b[at] = byte(c)
					if got, want := plainASCII(b), 0 < c && c < 0x80; got != want {
						t.Fatalf("plainASCII(% x) = %v", b, got)
					}
				}
			}
		}
	}
}
