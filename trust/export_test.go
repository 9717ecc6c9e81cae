package trust

import (
	"crypto"
	"os"
	"testing"
)

// Verified returns what the bundle at path says that key has signed.
func Verified(t testing.TB, path string, key crypto.Signer) *Statement {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	b, err := ParseBundle(text)
	if err != nil {
		t.Fatal(err)
	}
	s, err := b.VerifyKey(key.Public())
	if err != nil {
		t.Fatal(err)
	}
	return s
}
