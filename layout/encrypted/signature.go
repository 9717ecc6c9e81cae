package encrypted

import (
	"bytes"
	"cmp"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"strconv"
	"strings"

	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/layout/jsontext"
)

// The texts that signed messages start with.
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

// parse reads the object that comes next in js. text starts at offset at. A file must have chunk_size and digests.
func (s *Signature) parse(js *jsontext.Scanner, text []byte, at uint64, file bool) {
	wanted := []string{"algorithm", "public_key", "value"}
	if file {
		wanted = append(wanted, "chunk_size", "digests")
	}
	readMembers(js, wanted, func(key string, place uint64) {
		in := int(place-at) + 1 // of what is between quotes
		switch key {
		case "algorithm":
			checkAlgorithm(js, algorithm)
		case "public_key":
			s.PublicKey = ReadBase64(js, "public_key", ed25519.PublicKeySize)
		case "value":
			s.Value, s.value = ReadBase64(js, "value", ed25519.SignatureSize), in
			if in+valueChars >= len(text) || text[in+valueChars] != '"' {
				js.Fail(place, layout.ErrInvalid, "the value has escapes")
			}
		case "chunk_size":
			if s.ChunkSize = js.Uint(); !layout.ChunkOK(s.ChunkSize, 0) {
				js.Fail(place, layout.ErrInvalid, "chunk_size is %d, not a power of two from %d to %d", s.ChunkSize, layout.MinChunk, layout.MaxChunk)
			}
		case "digests":
			s.Digests, s.digests = ReadBase64(js, "digests", -1), in
			s.digestsEnd = int(js.Offset()-at) - 1
		}
	})
}

// readMembers reads an object. It calls read with each key and the offset of its value, which read has to scan. A key of required that
// is missing becomes an error of js.
func readMembers(js *jsontext.Scanner, required []string, read func(key string, offset uint64)) {
	seen, start := make(map[string]bool), js.Offset()
	for key := range js.Members("an object") {
		seen[key] = true
		read(key, js.Offset())
	}
	for _, key := range required {
		if !seen[key] {
			js.Fail(start, layout.ErrInvalid, "no %s", key)
		}
	}
}

// checkAlgorithm reads a string, the name of an algorithm. Another one than known becomes an error of js.
func checkAlgorithm(js *jsontext.Scanner, known string) {
	at := js.Offset()
	if got := js.Text(); got != known {
		js.Fail(at, layout.ErrUnsupported, "algorithm %s; %s is known", layout.Quote(got), known)
	}
}

// ReadBase64 reads a string, the member called name, and returns the n bytes that it has in base64, canonical and padded. n is -1 for
// any number. Any other string becomes an error of js.
func ReadBase64(js *jsontext.Scanner, name string, n int) []byte {
	at := js.Offset()
	text := js.Text()
	b, err := base64.StdEncoding.Strict().DecodeString(text)
	switch {
	case err != nil || strings.ContainsAny(text, "\r\n"):
		js.Fail(at, layout.ErrInvalid, "%s is not canonical base64", name)
	case n >= 0 && len(b) != n:
		js.Fail(at, layout.ErrInvalid, "%s has %d bytes, not %d", name, len(b), n)
	}
	return b
}

// Verify checks that key has signed head, in whose metadata, at offset at, s was found. A manifest is all metadata.
func (s *Signature) Verify(key ed25519.PublicKey, head []byte, at int) bool {
	return bytes.Equal(key, s.PublicKey) && ed25519.Verify(key, s.message(head, at), s.Value)
}

// message returns what is signed: a context and b with the signature's value masked. b is a head whose metadata starts at offset at, or a
// manifest if at is 0.
func (s *Signature) message(b []byte, at int) []byte {
	context := fileContext
	if at == 0 {
		context = manifestContext
	}
	m := append([]byte(context), b...)
	maskWithA(m[len(context)+at+s.value:][:valueChars])
	return m
}

// putDigests writes the digests over their placeholder in head. It fails if they are longer.
func (s *Signature) putDigests(head []byte, at int, digests []byte) error {
	text := base64.StdEncoding.EncodeToString(digests) + `"`
	space := head[at+s.digests : at+s.digestsEnd+1]
	if len(text) > len(space) {
		return layout.Errorf(layout.APR2, uint64(at+s.digests), "signature", layout.ErrLimit, "%d bytes of digests, where %d fit", len(text), len(space))
	}
	for i := range space[copy(space, text):] {
		space[len(text)+i] = ' '
	}
	return nil
}

// maskWithA sets all of b to the character A, which stands for a check or a signature in what is checked and signed.
func maskWithA(b []byte) {
	for i := range b {
		b[i] = 'A'
	}
}

// Placeholder returns the object "signature" for a file whose data will have at most n bytes, with placeholders for
// the digests and the value. A chunk of 0 bytes means layout.ChunkFor.
func Placeholder(key ed25519.PublicKey, n, chunk uint64) layout.Metadata {
	chunk = cmp.Or(chunk, layout.ChunkFor(n))
	sums := (n + chunk - 1) / chunk * sha256.Size
	return layout.Metadata{
		{Key: "algorithm", Value: algorithm},
		{Key: "public_key", Value: base64.StdEncoding.EncodeToString(key)},
		{Key: "chunk_size", Value: jsonUint(chunk)},
		{Key: "digests", Value: base64.StdEncoding.EncodeToString(make([]byte, sums))},
		{Key: "value", Value: base64.StdEncoding.EncodeToString(make([]byte, ed25519.SignatureSize))},
	}
}

// jsonUint returns n as a number of JSON.
func jsonUint(n uint64) json.Number { return json.Number(strconv.FormatUint(n, 10)) }
