package apr2

import (
	"crypto/ed25519"
	"crypto/sha256"
	"hash/crc32"
	"io"
	"iter"
	"runtime"
	"sync"

	"github.com/tensormap/tensormap/internal/crcmath"
	"github.com/tensormap/tensormap/internal/parallel"
	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/layout/sealed"
)

// Signer signs the files that a Writer writes.
type Signer struct {
	Public ed25519.PublicKey
	Sign   func(message []byte) ([]byte, error)
}

// SignedHead is everything before the data of a file that is signed. Nothing in it has been verified.
type SignedHead struct {
	Bytes     []byte // in memory of their own
	End       uint64 // of the data
	Signature *sealed.Signature
}

// ReadSignedHead reads the head of a file with the flag SIGNED. Its sections have to lie as a Writer lays
// them: metadata at 32, the index right after it, fewer than 64 zero bytes, and the data.
func ReadSignedHead(in layout.Input) (*SignedHead, error) {
	size := in.Size()
	b, err := layout.Region(in, layout.APR2, 0, "header", 0, headerSize)
	if err != nil {
		return nil, err
	}
	if string(b[:4]) != magic {
		return nil, errorf(0, "magic", layout.ErrFormat, "%q, not %q", b[:4], magic)
	}
	h := readHeader(b)
	if h.Major != major || h.Minor < 1 || !h.Flags.Has(Signed) {
		return nil, errorf(atFlags, "flags", layout.ErrInvalid, "%v in version %d.%d: not signed", h.Flags, h.Major, h.Minor)
	}
	end := uint64(h.IndexOffset) + uint64(h.IndexSize)
	data := uint64(h.DataOffset)
	if h.MetadataOffset != headerSize || uint64(h.IndexOffset) != headerSize+uint64(h.MetadataSize) || data < end || data-end >= 64 ||
		size < footerSize || data > size-footerSize {
		return nil, errorf(atMetadataOffset, "metadata_offset", layout.ErrInvalid, "the sections of a signed file lie in another order, or apart")
	}
	if most := (*layout.Limits)(nil).WithDefaults().HeaderBytes; uint64(h.MetadataSize) > most || data > 2*most {
		return nil, errorf(atMetadataSize, "metadata_size", layout.ErrLimit, "%d bytes, more than %d", h.MetadataSize, most)
	}
	if b, err = layout.Region(in, layout.APR2, atDataOffset, "data_offset", 0, data); err != nil {
		return nil, err
	}
	b = append([]byte(nil), b...) // which nobody else can change
	if h != readHeader(b) {
		return nil, errorf(0, "header", layout.ErrInvalid, "it changes while it is read")
	}
	for _, pad := range b[end:] {
		if pad != 0 {
			return nil, errorf(end, "data_offset", layout.ErrInvalid, "padding before the data is not zero")
		}
	}
	s, err := sealed.ParseSignature(b[headerSize:h.IndexOffset], layout.APR2, headerSize)
	if err != nil {
		return nil, err
	}
	if s == nil {
		return nil, errorf(headerSize, "signature", layout.ErrInvalid, "no such key, but the flag SIGNED")
	}
	return &SignedHead{Bytes: b, End: size - footerSize, Signature: s}, nil
}

// Verify reports whether key has signed the head.
func (h *SignedHead) Verify(key ed25519.PublicKey) bool {
	return h.Signature.Verify(key, h.Bytes, headerSize)
}

// HeadDigest returns the SHA-256 of everything before a file's data, which manifests of signed shards hold.
func HeadDigest(in layout.Input) (sum [sha256.Size]byte, err error) {
	b, err := layout.Region(in, layout.APR2, 0, "header", 0, headerSize)
	if err != nil {
		return sum, err
	}
	data, most := uint64(readHeader(b).DataOffset), 2*(*layout.Limits)(nil).WithDefaults().HeaderBytes
	if data > most {
		return sum, errorf(atDataOffset, "data_offset", layout.ErrLimit, "%d, more than %d", data, most)
	}
	b, err = layout.Region(in, layout.APR2, atDataOffset, "data_offset", 0, data)
	return sha256.Sum256(b), err
}

// SignatureBytes returns how much the metadata of a file of at most n bytes grows if it is signed.
func (s *Signer) SignatureBytes(n uint64) uint64 {
	md := layout.Metadata{{Key: "signature", Value: sealed.Placeholder(s.Public, n)}}
	b, _ := md.MarshalJSON() // it has strings and a number only
	return uint64(len(b))
}

// signable is a file that can be read and written again.
type signable interface {
	io.ReaderAt
	io.WriterAt
}

// placeholder adds room for a signature to the metadata of a file with these tensors.
func (s *Signer) placeholder(md layout.Metadata, tensors []layout.Tensor) layout.Metadata {
	n := uint64(0)
	for i := range tensors {
		raw, _ := tensors[i].DType.Size(dims(&tensors[i])) // NewWriter will say what is wrong with it
		n = add(up(n, defaultAlign), max(raw, tensors[i].Stored))
	}
	md = append(layout.Metadata{}, md...)
	md.Set("signature", sealed.Placeholder(s.Public, n))
	return md
}

// sign fills in the signature of a file that lacks its footer only, and makes the checksum anew.
func (w *Writer) sign() error {
	file, ok := w.dst.w.(signable)
	if !ok {
		return errorf(0, "signature", layout.ErrUnsupported, "a signed file must be one that can be read and written again")
	}
	h := &w.plan.header
	head := make([]byte, h.DataOffset)
	if _, err := file.ReadAt(head, 0); err != nil {
		return err
	}
	data := w.Written() - uint64(h.DataOffset)
	placed, err := sealed.ParseSignature(head[headerSize:h.IndexOffset], layout.APR2, headerSize)
	if err != nil {
		return err
	}
	digests, crc, err := digestData(io.NewSectionReader(file, int64(h.DataOffset), int64(data)), data, placed.ChunkSize)
	if err != nil {
		return err
	}
	if err := sealed.Sign(w.signer.Sign, head, headerSize, int(h.MetadataSize), digests); err != nil {
		return err
	}
	if _, err := file.WriteAt(head, 0); err != nil {
		return err
	}
	w.dst.sum.CRC32 = crcmath.Combine(crc32.ChecksumIEEE(head), crc, crcmath.XPow8(data))
	return nil
}

// digestData returns the digests of n bytes in chunks, and their checksum, on all cores.
func digestData(r io.ReaderAt, n, chunk uint64) (digests []byte, crc uint32, err error) {
	count := (n + chunk - 1) / chunk
	digests = make([]byte, count*sha256.Size)
	crcs := make([]uint32, count)
	err = parallel.Each(runtime.GOMAXPROCS(0), parallel.Range(count), func(items iter.Seq[uint64]) error {
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
