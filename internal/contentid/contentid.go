// Package contentid reads the digests by which registries and hubs name content.
package contentid

import (
	"crypto/sha1"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/hex"
	"fmt"
	"hash"
	"strings"
)

// ID is the digest of a whole file.
type ID struct {
	Sum []byte
	new func(size uint64) hash.Hash
}

// forms are the ways to write an ID. It has a prefix, or the number of digits tells the hash.
var forms = []struct {
	prefix string
	bytes  int
	new    func(size uint64) hash.Hash
}{
	{"sha256:", sha256.Size, func(uint64) hash.Hash { return sha256.New() }}, // an OCI digest
	{"sha512:", sha512.Size, func(uint64) hash.Hash { return sha512.New() }}, // an OCI digest
	{"", sha256.Size, func(uint64) hash.Hash { return sha256.New() }},        // the Hub's ETag of a large file
	{"", sha1.Size, func(size uint64) hash.Hash { // git's id, the Hub's ETag of a small file
		h := sha1.New()
		fmt.Fprintf(h, "blob %d\x00", size)
		return h
	}},
}

// Parse reads sha256:HEX or sha512:HEX as OCI has them, 64 digits of SHA-256, or 40 of git's blob id. Digits
// are lower-case.
func Parse(text string) (ID, error) {
	for _, f := range forms {
		digits, ok := strings.CutPrefix(text, f.prefix)
		if sum, err := hex.DecodeString(digits); ok && err == nil && len(sum) == f.bytes && digits == strings.ToLower(digits) {
			return ID{sum, f.new}, nil
		}
	}
	return ID{}, fmt.Errorf("digest %.200q: not sha256:HEX, sha512:HEX, or 64 or 40 lower-case hexadecimal digits", text)
}

// Hash returns the hash whose sum over a file of size bytes is Sum.
func (id ID) Hash(size uint64) hash.Hash { return id.new(size) }
