package trust

import (
	"bytes"
	"fmt"
	"hash"

	"github.com/tensormap/tensormap/internal/contentid"
	"github.com/tensormap/tensormap/layout"
)

// FileDigests trusts files by digests of their complete content. The caller has them from somebody that it trusts: a
// registry's layer digest, a hub's ETag, a list of checksums. It is the Trust of a [loader.Model]. A file is hashed
// completely before a byte of it is returned.
//
// [loader.Model]: https://pkg.go.dev/github.com/tensormap/tensormap/loader#Model
type FileDigests struct{ files map[string]contentid.ID }

// NewFileDigests returns the trust in files with the given digests by plain names. The name "" stands for every file
// that is not named. A digest is sha256:HEX or sha512:HEX as OCI writes them, or what the Hugging Face Hub has for
// ETag: 64 digits of SHA-256, or 40 of git's blob id. Git's is SHA-1, so whoever made the file may have made another
// one with this id.
func NewFileDigests(digests map[string]string) (*FileDigests, error) {
	f := &FileDigests{make(map[string]contentid.ID, len(digests))}
	for name, text := range digests {
		id, err := contentid.Parse(text)
		if err != nil {
			return nil, fmt.Errorf("%w: %w", ErrKey, err)
		}
		f.files[name] = id
	}
	return f, nil
}

// Lists reports whether a file of this name has a digest of its own. The model must then have this file.
func (f *FileDigests) Lists(name string) bool {
	_, ok := f.files[name]
	return ok && name != ""
}

// Digests returns the digest of the file called name. One that has none is ErrUnsigned.
func (f *FileDigests) Digests(name string, in layout.Input) (*layout.Digests, error) {
	id, ok := f.files[name]
	if !ok {
		id, ok = f.files[""]
	}
	if !ok {
		return nil, fmt.Errorf("%w: no digest was given for %s", ErrUnsigned, layout.Quote(name))
	}
	size := in.Size()
	return wholeFileDigests(size, func() hash.Hash { return id.Hash(size) }, id.Sum)
}

// wholeFileDigests returns the digests of a file of size bytes that has one, sum, over all its bytes. It fails with layout.ErrChecksum
// if the file is empty and sum is not the digest of no bytes.
func wholeFileDigests(size uint64, newHash func() hash.Hash, sum []byte) (*layout.Digests, error) {
	if size == 0 {
		if !bytes.Equal(newHash().Sum(nil), sum) {
			return nil, fmt.Errorf("%w: the file is empty, which the trusted one was not", layout.ErrChecksum)
		}
		sum = nil // an empty file has no chunk
	}
	return &layout.Digests{End: size, Chunk: max(size, 1), Sums: sum, New: newHash, Granularity: layout.ByFile}, nil
}
