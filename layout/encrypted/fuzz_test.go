package encrypted

import (
	"crypto/ed25519"
	"testing"

	"github.com/tensormap/tensormap/layout"
)

// FuzzSignature parses metadata of strangers. What parses has its places inside the text.
func FuzzSignature(f *testing.F) {
	public, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		f.Fatal(err)
	}
	text, err := layout.Metadata{{Key: "a", Value: "b"}, {Key: "signature", Value: Placeholder(public, 1<<25, 0)}}.MarshalJSON()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(text)
	signed, err := Finisher{Sign: func(m []byte) ([]byte, error) { return ed25519.Sign(private, m), nil }}.Manifest([]byte(`{"shards": []}`), Placeholder(public, 0, 0), nil)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(signed)
	f.Fuzz(func(t *testing.T, text []byte) {
		for _, format := range []layout.Format{layout.APR2, layout.Manifest} {
			keys, err := Parse(text, format, 0, nil)
			s := keys.Signature
			if err != nil || s == nil {
				continue
			}
			if len(s.PublicKey) != ed25519.PublicKeySize || len(s.Value) != ed25519.SignatureSize || text[s.value-1] != '"' || text[s.value+valueChars] != '"' {
				t.Fatalf("%+v in %q", s, text)
			}
			s.Verify(public, text, 0)
			if s.Verify(public, append([]byte{' '}, text...), 1) { // as if it were in a file
				t.Fatal("nobody signed it so")
			}
		}
	})
}
