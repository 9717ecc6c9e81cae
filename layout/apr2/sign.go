package apr2

import (
	"bytes"
	"crypto/ed25519"
	"crypto/sha256"
	"io"
	"iter"

	"github.com/tensormap/tensormap/internal/parallel"
	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/layout/encrypted"
)

// Signer signs the files that a Writer writes.
type Signer struct {
	Public ed25519.PublicKey
	Sign   func(message []byte) ([]byte, error)
	// ChunkBytes is the size of the chunks that have digests: a power of two from layout.MinChunk to
	// layout.MaxChunk, with at most layout.MaxChunks in a file. 0 means 4 MiB, and more for data beyond 128 GiB.
	ChunkBytes uint64
}

// EncryptedHead is everything before the data of a file that is signed or encrypted. Nothing in it has been
// verified.
type EncryptedHead struct {
	Bytes []byte // in memory of their own
	End   uint64 // of the data
	encrypted.Keys
}

// ReadEncryptedHead reads the head of a file with the flag Signed or Encrypted. Its sections have to lie as a
// Writer lays them: metadata at 32, the index right after it, fewer than 64 zero bytes, and the data. A nil lim
// means the defaults.
func ReadEncryptedHead(in layout.Input, flag Flags, lim *layout.Limits) (*EncryptedHead, error) {
	h, err := openHeader(in)
	if err != nil {
		return nil, err
	}
	if h.Minor < 1 || !h.Flags.Has(flag) {
		return nil, errorf(atFlags, "flags", layout.ErrInvalid, "%v in version %d.%d: not %v", h.Flags, h.Major, h.Minor, flag)
	}
	if err := h.checkOrder(in.Size(), lim.WithDefaults().HeaderBytes); err != nil {
		return nil, err
	}
	b, err := layout.Region(in, layout.APR2, atDataOffset, "data_offset", 0, uint64(h.DataOffset))
	if err != nil {
		return nil, err
	}
	b = bytes.Clone(b) // which nobody else can change
	if h != readHeader(b) {
		return nil, errorf(0, "header", layout.ErrInvalid, "it changes while it is read")
	}
	end := uint64(h.IndexOffset) + uint64(h.IndexSize)
	if len(bytes.Trim(b[end:], "\x00")) > 0 {
		return nil, errorf(end, "data_offset", layout.ErrInvalid, "padding before the data is not zero")
	}
	keys, err := encrypted.Parse(b[headerSize:h.IndexOffset], layout.APR2, headerSize, lim)
	switch {
	case err != nil:
		return nil, err
	case flag == Signed && keys.Signature == nil:
		return nil, errorf(headerSize, "signature", layout.ErrInvalid, "no such key, but the flag SIGNED")
	case flag == Encrypted:
		err = h.checkEncryption(keys.Encryption != nil)
	}
	if err != nil {
		return nil, err
	}
	return &EncryptedHead{Bytes: b, End: in.Size() - footerSize, Keys: keys}, nil
}

// checkOrder checks that the sections lie as they must in a file that is signed or encrypted. limit bounds the
// metadata.
func (h Header) checkOrder(size, limit uint64) error {
	end, data := uint64(h.IndexOffset)+uint64(h.IndexSize), uint64(h.DataOffset)
	if h.MetadataOffset != headerSize || uint64(h.IndexOffset) != headerSize+uint64(h.MetadataSize) || data < end || data-end >= 64 ||
		size < footerSize || data > size-footerSize {
		return errorf(atMetadataOffset, "metadata_offset", layout.ErrInvalid, "the sections of a file with the flags %v lie in another order, or apart", h.Flags&(Signed|Encrypted))
	}
	if uint64(h.MetadataSize) > limit || data > 2*limit {
		return errorf(atMetadataSize, "metadata_size", layout.ErrLimit, "%d bytes, more than %d", h.MetadataSize, limit)
	}
	return nil
}

// Verify reports whether key has signed the head.
func (h *EncryptedHead) Verify(key ed25519.PublicKey) bool {
	return h.Signature.Verify(key, h.Bytes, headerSize)
}

// Check reports whether c is the cipher of the file, and the head is as it was when the file was encrypted.
func (h *EncryptedHead) Check(c *encrypted.Cipher) bool { return h.Keys.Check(c, h.Bytes, headerSize) }

// HeadDigest returns the SHA-256 of everything before a file's data, which manifests of signed shards hold.
func HeadDigest(in layout.Input) (sum [sha256.Size]byte, err error) {
	b, err := layout.Region(in, layout.APR2, 0, "header", 0, headerSize)
	if err != nil {
		return sum, err
	}
	limit := 2 * (*layout.Limits)(nil).WithDefaults().HeaderBytes
	b, err = layout.LimitedRegion(in, layout.APR2, atDataOffset, "data_offset", 0, uint64(readHeader(b).DataOffset), limit)
	return sha256.Sum256(b), err
}

// SignatureBytes returns how much the metadata of a file of at most n bytes grows if it is signed.
func (s *Signer) SignatureBytes(n uint64) uint64 {
	md := layout.Metadata{{Key: "signature", Value: encrypted.Placeholder(s.Public, n, s.ChunkBytes)}}
	b, _ := md.MarshalJSON() // it has strings and a number only
	return uint64(len(b))
}

// addPlaceholder adds a signature of zeros to the metadata, as long as the signature of the file will be. It fails if chunks of the size asked for
// would be too many.
func (w *Writer) addPlaceholder() error {
	n, s := uint64(0), w.opts.Signer
	for i := range w.list {
		t := &w.list[i]
		raw, _ := t.DType.Size(t.Shape) // NewWriter will say what is wrong with it
		n = layout.AddOffset(alignUp(n, defaultAlign), w.encrypt.storedBytes(max(raw, t.Stored)))
	}
	if s.ChunkBytes != 0 && !layout.ChunkOK(s.ChunkBytes, n) {
		return errorf(atMetadataOffset, "signature", layout.ErrLimit, "%d bytes of data in chunks of %d", n, s.ChunkBytes)
	}
	w.opts.Metadata.Set("signature", encrypted.Placeholder(s.Public, n, s.ChunkBytes))
	return nil
}

// digestData returns the SHA-256 of each chunk of the n bytes of r. It works on all cores, and fails if r does.
func digestData(r io.ReaderAt, n, chunk uint64) (digests []byte, err error) {
	count := (n + chunk - 1) / chunk
	digests = make([]byte, count*sha256.Size)
	err = parallel.Each(parallel.Workers(count), parallel.Range(count), func(items iter.Seq[uint64]) error {
		buf := make([]byte, min(n, 1<<20))
		for i := range items {
			h := sha256.New()
			section := io.NewSectionReader(r, int64(i*chunk), int64(min(chunk, n-i*chunk)))
			if _, err := io.CopyBuffer(h, section, buf); err != nil {
				return err
			}
			h.Sum(digests[i*sha256.Size : i*sha256.Size])
		}
		return nil
	})
	return digests, err
}
