// Package sealed reads and writes the keys by which an APR2 file or manifest says that it is signed. The
// layout is an extension of the format, version 1 of minor version 1; docs/trust.md describes it.
//
// It holds no keys and trusts nobody: package trust does.
package sealed

import (
	"bytes"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"strings"

	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/layout/jsontext"
)

// A signed message starts with one of these.
const (
	fileContext     = "APR2-SIGNED-v1\x00"
	manifestContext = "APR2-MANIFEST-v1\x00"
)

// valueChars is the length of a signature in base64. All of them are A in the signed message.
const valueChars = 88

// algorithm is the only one of signatures.
const algorithm = "Ed25519"

// Signature is the object "signature" of a file's metadata, or of a manifest.
type Signature struct {
	PublicKey []byte // says which key; trust in it has to come from elsewhere
	ChunkSize uint64 // of files
	Digests   []byte // of files: SHA-256 of the data's chunks, one behind the other
	Value     []byte

	value, digests, digestsEnd int // where the texts between quotes start, and the second ends
}

// ParseSignature reads the signature in text: a file's metadata, which starts at offset at, or a whole
// manifest. It is nil if there is none. A key that occurs twice, at any depth, is an error.
func ParseSignature(text []byte, f layout.Format, at uint64) (*Signature, error) {
	js := jsontext.New(text, f, at, "metadata", (*layout.Limits)(nil).WithDefaults())
	var s *Signature
	for key := range js.Members("an object") {
		if string(key) != "signature" || js.Next() != '{' {
			js.Skip()
			continue
		}
		s = new(Signature)
		s.parse(&js, text, at, f == layout.APR2)
	}
	js.End()
	return s, js.Err()
}

func (s *Signature) parse(js *jsontext.Scanner[[]byte], text []byte, at uint64, file bool) {
	outer := js.Field
	js.Field = "signature"
	seen := make(map[string]bool)
	start := js.Offset()
	for key := range js.Members("an object") {
		seen[string(key)] = true
		js.Next()
		place := js.Offset()
		in := int(place-at) + 1 // of what is between quotes
		switch string(key) {
		case "algorithm":
			if got := string(js.Text()); got != algorithm && js.Err() == nil {
				js.Fail(place, layout.ErrUnsupported, "algorithm %s; %s is known", layout.Quote([]byte(got)), algorithm)
			}
		case "public_key":
			s.PublicKey = base64Of(js, ed25519.PublicKeySize)
		case "value":
			s.Value, s.value = base64Of(js, ed25519.SignatureSize), in
			if js.Err() == nil && (in+valueChars >= len(text) || text[in+valueChars] != '"') {
				js.Fail(place, layout.ErrInvalid, "the value has escapes")
			}
		case "chunk_size":
			if s.ChunkSize = js.Uint(); js.Err() == nil && !layout.ChunkOK(s.ChunkSize, 0) {
				js.Fail(place, layout.ErrInvalid, "chunk_size is %d, not a power of two from %d to %d", s.ChunkSize, layout.MinChunk, layout.MaxChunk)
			}
		case "digests":
			s.Digests, s.digests = base64Of(js, -1), in
			s.digestsEnd = int(js.Offset()-at) - 1
		default:
			js.Skip()
		}
	}
	wanted := []string{"algorithm", "public_key", "value"}
	if file {
		wanted = append(wanted, "chunk_size", "digests")
	}
	for _, key := range wanted {
		if !seen[key] && js.Err() == nil {
			js.Fail(start, layout.ErrInvalid, "no %s", key)
		}
	}
	js.Field = outer
}

// base64Of reads a string of n bytes in base64, canonical and padded; -1 is any number.
func base64Of(js *jsontext.Scanner[[]byte], n int) []byte {
	js.Next()
	at := js.Offset()
	text := string(js.Text())
	b, err := base64.StdEncoding.Strict().DecodeString(text)
	if err != nil || strings.ContainsAny(text, "\r\n") || n >= 0 && len(b) != n {
		js.Fail(at, layout.ErrInvalid, "not canonical base64 of %d bytes", n)
		return nil
	}
	return b
}

// Verify checks that key has signed head, in whose metadata, at offset at, s was found.
func (s *Signature) Verify(key ed25519.PublicKey, head []byte, at int) bool {
	return bytes.Equal(key, s.PublicKey) && ed25519.Verify(key, message(fileContext, head, at+s.value), s.Value)
}

// VerifyManifest checks that key has signed the manifest in which s was found.
func (s *Signature) VerifyManifest(key ed25519.PublicKey, text []byte) bool {
	return bytes.Equal(key, s.PublicKey) && ed25519.Verify(key, message(manifestContext, text, s.value), s.Value)
}

// message returns what is signed: the bytes with the signature's text replaced.
func message(context string, b []byte, value int) []byte {
	m := append([]byte(context), b...)
	fill(m[len(context)+value:][:valueChars])
	return m
}

func fill(b []byte) {
	for i := range b {
		b[i] = 'A'
	}
}

// Placeholder returns the object "signature" for a file whose data will have at most n bytes, with room for
// the digests and the value.
func Placeholder(key ed25519.PublicKey, n uint64) layout.Metadata {
	chunk := layout.ChunkFor(n)
	sums := (n + chunk - 1) / chunk * sha256.Size
	return layout.Metadata{
		{Key: "algorithm", Value: algorithm},
		{Key: "public_key", Value: base64.StdEncoding.EncodeToString(key)},
		{Key: "chunk_size", Value: jsonUint(chunk)},
		{Key: "digests", Value: base64.StdEncoding.EncodeToString(make([]byte, sums))},
		{Key: "value", Value: base64.StdEncoding.EncodeToString(make([]byte, ed25519.SignatureSize))},
	}
}

// Sign fills in a placeholder in head, whose metadata is n bytes at offset at. digests are those of the
// data.
func Sign(key func(message []byte) ([]byte, error), head []byte, at, n int, digests []byte) error {
	s, err := ParseSignature(head[at:at+n], layout.APR2, uint64(at))
	if err != nil {
		return err
	}
	text := base64.StdEncoding.EncodeToString(digests) + `"`
	room := head[at+s.digests : at+s.digestsEnd+1]
	if len(text) > len(room) {
		return layout.Errorf(layout.APR2, uint64(at+s.digests), "signature", layout.ErrLimit, "%d bytes of digests, where there is room for %d", len(text), len(room))
	}
	for i := range room[copy(room, text):] {
		room[len(text)+i] = ' '
	}
	return put(key, fileContext, head, at+s.value)
}

// put signs b and writes the signature to its place.
func put(key func(message []byte) ([]byte, error), context string, b []byte, value int) error {
	sig, err := key(message(context, b, value))
	if err != nil {
		return err
	}
	base64.StdEncoding.Encode(b[value:value+valueChars], sig)
	return nil
}

// SignManifest adds a signature to the text of a manifest, an object.
func SignManifest(public ed25519.PublicKey, key func(message []byte) ([]byte, error), text []byte) ([]byte, error) {
	object, err := Placeholder(public, 0).MarshalJSON()
	if err != nil {
		return nil, err
	}
	end := bytes.LastIndexByte(text, '}')
	text = append(bytes.TrimRight(text[:end:end], " \n"), ",\n  \"signature\": "...)
	text = append(append(text, object...), "\n}\n"...)
	s, err := ParseSignature(text, layout.Manifest, 0)
	if err != nil {
		return nil, err
	}
	return text, put(key, manifestContext, text, s.value)
}

func jsonUint(n uint64) json.Number {
	b, _ := json.Marshal(n) // a number always can be
	return json.Number(b)
}
