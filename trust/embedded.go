package trust

import (
	"crypto"
	"crypto/ed25519"
	"crypto/rand"
	"fmt"

	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/layout/apr2"
	"github.com/tensormap/tensormap/layout/encrypted"
)

// Embedded trusts APR2 files and manifests that carry the signature of one Ed25519 key. It is the Trust of a
// [loader.Model]. Files without a signature are refused, whatever their format.
//
// [loader.Model]: https://pkg.go.dev/github.com/tensormap/tensormap/loader#Model
type Embedded struct{ key ed25519.PublicKey }

// NewEmbedded returns the trust in a key. Other keys than Ed25519 sign bundles only, and are ErrKey.
func NewEmbedded(key crypto.PublicKey) (*Embedded, error) {
	k, ok := key.(ed25519.PublicKey)
	if !ok {
		return nil, fmt.Errorf("%w: files carry Ed25519 signatures; %s needs a bundle (--signature)", ErrKey, keyKind(key))
	}
	return &Embedded{k}, nil
}

// Digests verifies the head of a file, or a whole manifest, and returns the digests of the bytes behind it. A file
// without a signature is ErrUnsigned, and one of another key ErrSignature.
func (e *Embedded) Digests(_ string, in layout.Input) (*layout.Digests, error) {
	switch f, err := encrypted.FormatOf(in); {
	case err != nil:
		return nil, err
	case f == layout.APR2:
		return e.fileDigests(in)
	case f == layout.Manifest:
		return e.manifestDigests(in)
	}
	return nil, fmt.Errorf("%w: the file's format has no signatures of its own; a bundle can sign it (--signature)", ErrUnsigned)
}

// fileDigests verifies the head of an APR2 file, and returns the digests of the data. The error is ErrUnsigned if the head
// cannot be read or has no signature, and ErrSignature for another key's. It is layout.ErrChecksum if the digests do not fit the data.
func (e *Embedded) fileDigests(in layout.Input) (*layout.Digests, error) {
	h, err := apr2.ReadEncryptedHead(in, apr2.Signed, nil)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrUnsigned, err)
	}
	if !h.Verify(e.key) {
		return nil, fmt.Errorf("%w: the head of the file is not what the trusted key has signed", ErrSignature)
	}
	s := h.Signature
	d := &layout.Digests{Head: h.Bytes, Off: uint64(len(h.Bytes)), End: h.End, Chunk: s.ChunkSize, Sums: s.Digests, Granularity: layout.ByChunk}
	if n := d.End - d.Off; !layout.ChunkOK(s.ChunkSize, n) || d.Count()*uint64(d.HashSize()) != uint64(len(s.Digests)) {
		return nil, fmt.Errorf("%w: %d bytes of digests do not fit %d bytes of data", layout.ErrChecksum, len(s.Digests), n)
	}
	return d, nil
}

// manifestDigests verifies an APR2 manifest, which is signed as a whole: no byte is left to verify by digests. The error is ErrUnsigned
// without a signature, and ErrSignature for another key's.
func (e *Embedded) manifestDigests(in layout.Input) (*layout.Digests, error) {
	b, keys, err := encrypted.ReadManifest(in, nil)
	s, size := keys.Signature, in.Size()
	switch {
	case err != nil:
		return nil, err
	case s == nil:
		return nil, fmt.Errorf("%w: the manifest has no signature", ErrUnsigned)
	case !s.Verify(e.key, b, 0):
		return nil, fmt.Errorf("%w: the manifest is not what the trusted key has signed", ErrSignature)
	}
	return &layout.Digests{Head: b, Off: size, End: size, Chunk: 1, Granularity: layout.ByChunk}, nil
}

// NewSigner returns the signer of APR2 files that a private key makes, which must be Ed25519.
func NewSigner(key crypto.Signer) (*apr2.Signer, error) {
	public, ok := key.Public().(ed25519.PublicKey)
	if !ok {
		return nil, fmt.Errorf("%w: APR2 files are signed with Ed25519, not with %s", ErrKey, keyKind(key.Public()))
	}
	return &apr2.Signer{Public: public, Sign: func(message []byte) ([]byte, error) {
		return key.Sign(rand.Reader, message, crypto.Hash(0))
	}}, nil
}
