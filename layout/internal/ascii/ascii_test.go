package ascii

import (
	"bytes"
	"testing"
)

func TestPlain(t *testing.T) {
	for n := range 20 {
		for at := range n {
			for c := range 256 {
				for _, fill := range []byte{1, 'a', 0x7f} {
					b := bytes.Repeat([]byte{fill}, n)
					b[at] = byte(c)
					if got, want := Plain(b), 0 < c && c < 0x80; got != want {
						t.Fatalf("Plain(% x) = %v", b, got)
					}
				}
			}
		}
	}
}
