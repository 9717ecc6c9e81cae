package contentid

import (
	"bytes"
	"strings"
	"testing"
)

// TestParse has digests of "hello\n" by sha256sum, sha512sum and git hash-object.
func TestParse(t *testing.T) {
	for _, text := range []string{
		"5891b5b522d5df086d0ff0b110fbd9d21bb4fc7163af34d08286a2e846f6be03",
		"sha256:5891b5b522d5df086d0ff0b110fbd9d21bb4fc7163af34d08286a2e846f6be03",
		"sha512:e7c22b994c59d9cf2b48e549b1e24666636045930d3da7c1acb299d1c3b7f931f94aae41edda2c2b207a36e10f8bcb8d45223e54878f5b316e7ce3b6bc019629",
		"ce013625030ba8dba906f756967f9e9ca394464a",
	} {
		id, err := Parse(text)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		h := id.Hash(6)
		h.Write([]byte("hello\n"))
		if !bytes.Equal(h.Sum(nil), id.Sum) {
			t.Errorf("%s: %x", text, h.Sum(nil))
		}
	}
	good := strings.Repeat("ab", 32)
	for _, text := range []string{"", "sha256:", "sha256:" + good[2:], "sha1:" + good[:40], strings.ToUpper(good), good + "00", "sha256:" + good[:40], "x" + good[1:], " " + good} {
		if _, err := Parse(text); err == nil {
			t.Errorf("%q passes", text)
		}
	}
}
