package apr2

import (
	"bytes"
	"crypto/ed25519"
	"crypto/sha256"
	"hash/crc32"
	"io"
	"iter"
	"sync"

	"github.com/tensormap/tensormap/internal/crcmath"
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
	size := in.Size()
	b, err := layout.Region(in, layout.APR2, 0, "header", 0, headerSize)
	if err != nil {
		return nil, err
	}
	if string(b[:4]) != magic {
		return nil, errorf(0, "magic", layout.ErrFormat, "%q, not %q", b[:4], magic)
	}
	h := readHeader(b)
	if h.Major != major || h.Minor < 1 || !h.Flags.Has(flag) {
		return nil, errorf(atFlags, "flags", layout.ErrInvalid, "%v in version %d.%d: not %v", h.Flags, h.Major, h.Minor, flag)
	}
	end, data := uint64(h.IndexOffset)+uint64(h.IndexSize), uint64(h.DataOffset)
	if err := h.checkOrder(size, lim.WithDefaults().HeaderBytes); err != nil {
		return nil, err
	}
	if b, err = layout.Region(in, layout.APR2, atDataOffset, "data_offset", 0, data); err != nil {
		return nil, err
	}
	b = append([]byte(nil), b...) // which nobody else can change
	if h != readHeader(b) {
		return nil, errorf(0, "header", layout.ErrInvalid, "it changes while it is read")
	}
	if len(bytes.Trim(b[end:], "\x00")) > 0 {
		return nil, errorf(end, "data_offset", layout.ErrInvalid, "padding before the data is not zero")
	}
	keys, err := encrypted.Parse(b[headerSize:h.IndexOffset], layout.APR2, headerSize, lim)
	switch {
	case err != nil:
		return nil, err
	case flag == Signed && keys.Signature == nil:
		return nil, errorf(headerSize, "signature", layout.ErrInvalid, "no such key, but the flag SIGNED")
	case flag == Encrypted && keys.Encryption == nil:
		return nil, errorf(headerSize, "encryption", layout.ErrInvalid, "no such key, but the flag ENCRYPTED")
	}
	return &EncryptedHead{Bytes: b, End: size - footerSize, Keys: keys}, nil
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

// encryption reads how a file with the flag Encrypted was encrypted.
func (h Header) encryption(in layout.Input, lim *layout.Limits) (*encrypted.Encryption, error) {
	if err := h.checkOrder(in.Size(), lim.HeaderBytes); err != nil {
		return nil, err
	}
	b, err := layout.Region(in, layout.APR2, atMetadataOffset, "metadata_offset", headerSize, uint64(h.MetadataSize))
	if err != nil {
		return nil, err
	}
	keys, err := encrypted.Parse(b, layout.APR2, headerSize, lim)
	if err == nil && keys.Encryption == nil {
		err = errorf(headerSize, "encryption", layout.ErrInvalid, "no such key, but the flag ENCRYPTED")
	}
	return keys.Encryption, err
}

// checkNotEncrypted makes sure that a file without the flag ENCRYPTED does not say how it is encrypted. Metadata that are
// malformed pass: they are an error when they are read.
func (h Header) checkNotEncrypted(in layout.Input, lim *layout.Limits) error {
	off, n := uint64(h.MetadataOffset), uint64(h.MetadataSize)
	if h.Minor == 0 || n > lim.HeaderBytes {
		return nil
	}
	b, err := layout.Region(in, layout.APR2, atMetadataOffset, "metadata_offset", off, n)
	if err != nil {
		return err
	}
	if !bytes.Contains(b, []byte(`"`+encryptionKey+`"`)) {
		return nil
	}
	if keys, err := encrypted.Parse(b, layout.APR2, off, lim); err == nil && keys.Encryption != nil {
		return errorf(off, encryptionKey, layout.ErrInvalid, "such a key, but not the flag ENCRYPTED")
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
	data, limit := uint64(readHeader(b).DataOffset), 2*(*layout.Limits)(nil).WithDefaults().HeaderBytes
	if data > limit {
		return sum, errorf(atDataOffset, "data_offset", layout.ErrLimit, "%d, more than %d", data, limit)
	}
	b, err = layout.Region(in, layout.APR2, atDataOffset, "data_offset", 0, data)
	return sha256.Sum256(b), err
}

// SignatureBytes returns how much the metadata of a file of at most n bytes grows if it is signed.
func (s *Signer) SignatureBytes(n uint64) uint64 {
	md := layout.Metadata{{Key: "signature", Value: encrypted.Placeholder(s.Public, n, s.ChunkBytes)}}
	b, _ := md.MarshalJSON() // it has strings and a number only
	return uint64(len(b))
}

// signable is a file that can be read and written again.
type signable interface {
	io.ReaderAt
	io.WriterAt
}

// withPlaceholder returns md with a signature of zeros, as long as that of a file with these tensors will be. It fails if chunks of the size
// asked for would be too many.
func (s *Signer) withPlaceholder(md layout.Metadata, tensors []layout.Tensor, encrypt *encrypt) (layout.Metadata, error) {
	n := uint64(0)
	for i := range tensors {
		t := &tensors[i]
		raw, _ := t.DType.Size(shapeOf(t)) // NewWriter will say what is wrong with it
		n = addSaturated(alignUpSaturated(n, defaultAlign), encrypt.storedBytes(max(raw, t.Stored)))
	}
	if s.ChunkBytes != 0 && !layout.ChunkOK(s.ChunkBytes, n) {
		return nil, errorf(atMetadataOffset, "signature", layout.ErrLimit, "%d bytes of data in chunks of %d", n, s.ChunkBytes)
	}
	md = append(layout.Metadata{}, md...)
	md.Set("signature", encrypted.Placeholder(s.Public, n, s.ChunkBytes))
	return md, nil
}

// finalizeHead writes the key check and the signature over their placeholders in a file that lacks only its footer, and computes its checksum
// anew. It fails if the file cannot be read and written again, or the signer fails.
func (w *Writer) finalizeHead() error {
	file, ok := w.dst.w.(signable)
	if !ok {
		return errorf(0, "metadata", layout.ErrUnsupported, "a signed or encrypted file must be one that can be read and written again")
	}
	h := &w.plan.header
	head := make([]byte, h.DataOffset)
	if _, err := file.ReadAt(head, 0); err != nil {
		return err
	}
	data := w.Written() - uint64(h.DataOffset)
	shift := crcmath.XPow8(data)
	crc := w.dst.sum.CRC32 ^ crcmath.Combine(crc32.ChecksumIEEE(head), 0, shift) // of the data
	var finish encrypted.Finisher
	var digests []byte
	if w.encrypt != nil {
		finish.Cipher = w.encrypt.cipher
	}
	if w.signer != nil {
		finish.Sign = w.signer.Sign
		placed, err := encrypted.Parse(head[headerSize:h.IndexOffset], layout.APR2, headerSize, nil)
		if err != nil {
			return err
		}
		if digests, crc, err = digestData(io.NewSectionReader(file, int64(h.DataOffset), int64(data)), data, placed.Signature.ChunkSize); err != nil {
			return err
		}
	}
	if err := finish.Complete(head, headerSize, int(h.MetadataSize), digests); err != nil {
		return err
	}
	if _, err := file.WriteAt(head, 0); err != nil {
		return err
	}
	w.dst.sum.CRC32 = crcmath.Combine(crc32.ChecksumIEEE(head), crc, shift)
	return nil
}

// digestData returns the SHA-256 of each chunk of the n bytes of r, and the CRC32 of all. It works on all cores, and fails if r does.
func digestData(r io.ReaderAt, n, chunk uint64) (digests []byte, crc uint32, err error) {
	count := (n + chunk - 1) / chunk
	digests = make([]byte, count*sha256.Size)
	crcs := make([]uint32, count)
	err = parallel.Each(parallel.Workers(count), parallel.Range(count), func(items iter.Seq[uint64]) error {
		buf := sync.OnceValue(func() []byte { return make([]byte, min(n, 1<<20)) })
		for i := range items {
			h, off, end := sha256.New(), i*chunk, min(n, (i+1)*chunk)
			for off < end {
				b := buf()[:min(uint64(len(buf())), end-off)]
				if _, err := r.ReadAt(b, int64(off)); err != nil && err != io.EOF {
					return err
				}
				h.Write(b)
				crcs[i] = crc32.Update(crcs[i], crc32.IEEETable, b)
				off += uint64(len(b))
			}
			h.Sum(digests[i*sha256.Size : i*sha256.Size])
		}
		return nil
	})
	for i, c := range crcs {
		crc = crcmath.Combine(crc, c, crcmath.XPow8(min(chunk, n-uint64(i)*chunk)))
	}
	return digests, crc, err
}
