package apr2

import (
	"iter"
	"math"
	"math/bits"

	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/layout/jsontext"
)

// plan holds the positions of everything in a file to be written.
type plan struct {
	header   Header
	align    uint64
	metadata []byte // nil once it is written
	tensors  uint32 // their number
	size     uint64 // of the file
	seal     *seal  // or nil
}

// newPlan lays out the head of the file, and settles the header.
func newPlan(tensors iter.Seq[layout.Tensor], opts *Options, seal *seal) (*plan, error) {
	p := &plan{align: defaultAlign, seal: seal}
	if err := p.options(opts); err != nil {
		return nil, err
	}
	end := headerSize + uint64(len(p.metadata))
	p.header.IndexOffset = uint32(end) // less than Limits.HeaderBytes, hence of 32 bits
	end += indexHeaderSize
	for t := range tensors {
		n, err := p.entry(&t, end)
		if err != nil {
			return nil, err
		}
		end += n
		p.tensors++
	}
	data := alignUp(end, defaultAlign)
	if most := uint64(min(math.MaxUint32, math.MaxInt)); data > most {
		return nil, errorf(atDataOffset, "data_offset", layout.ErrLimit, "%d, more than %d", data, most)
	}
	p.header.IndexSize = uint32(end - uint64(p.header.IndexOffset))
	p.header.DataOffset = uint32(data)
	return p, nil
}

func (p *plan) options(opts *Options) error {
	p.header.Major = major
	p.header.Flags = Aligned64
	switch opts.Align {
	case 0, 64:
	case 32:
		p.align, p.header.Flags = 32, Aligned32
	default:
		return errorf(atFlags, "flags", layout.ErrInvalid, "an alignment of %d, not 32 or 64", opts.Align)
	}
	if more := opts.Flags &^ (Sharded | Streaming); more != 0 {
		return errorf(atFlags, "flags", layout.ErrInvalid, "%v cannot be asked for", more)
	}
	p.header.Flags |= opts.Flags
	if opts.Signer != nil {
		p.header.Flags, p.header.Minor = p.header.Flags|Signed, 1
	}
	if opts.Sealer != nil {
		p.header.Flags, p.header.Minor = p.header.Flags|Encrypted, 1
	}
	return p.setMetadata(opts.Metadata)
}

// setMetadata encodes md. checkMetadata will check that it can be read again.
func (p *plan) setMetadata(md layout.Metadata) error {
	b, err := md.MarshalJSON()
	if err != nil {
		return err
	}
	n, most := uint64(len(b)), (*layout.Limits)(nil).WithDefaults().HeaderBytes
	if n > most {
		return errorf(atMetadataSize, "metadata_size", layout.ErrLimit, "%d bytes, more than %d", n, most)
	}
	p.metadata = b
	p.header.MetadataOffset, p.header.MetadataSize = headerSize, uint32(n)
	return nil
}

// entry returns the number of bytes of t's index entry, which starts at offset at. It refuses what the
// fields cannot hold, and sets the flags and version that t calls for.
func (p *plan) entry(t *layout.Tensor, at uint64) (uint64, error) {
	id, ok := idOf[t.DType]
	switch {
	case len(t.Name) > math.MaxUint16:
		return 0, errorf(at, "name", layout.ErrLimit, "tensor %s: %d bytes, more than %d", layout.Quote(t.Name), len(t.Name), math.MaxUint16)
	case len(t.Shape) > MaxDims:
		return 0, errorf(at, "n_dims", layout.ErrLimit, "tensor %s: %d dimensions, more than %d", layout.Quote(t.Name), len(t.Shape), MaxDims)
	case !ok:
		return 0, errorf(at, "dtype", layout.ErrUnsupported, "tensor %s: APR2 has no dtype for %v", layout.Quote(t.Name), t.DType)
	case t.Encoding != layout.Raw && t.Encoding != layout.LZ4:
		return 0, errorf(at, "flags", layout.ErrUnsupported, "tensor %s: APR2 has no encoding %v", layout.Quote(t.Name), t.Encoding)
	}
	if id >= firstExtension {
		p.header.Minor = 1
	}
	if t.DType.Quantized() {
		p.header.Flags |= Quantized
	}
	return uint64(entrySize + len(t.Name) + 8*len(dims(t))), nil
}

// encode returns header and index, up to the tensors, and gives these their places. Its size does not
// depend on theirs, so it can be made again once they are known.
func (p *plan) encode(tensors iter.Seq[layout.Tensor]) (*head, error) {
	data, index := p.header.DataOffset, p.header.IndexOffset
	p.header.Flags &^= Compressed
	if contains(tensors, compressed) {
		p.header.Flags |= Compressed
	}
	p.size = uint64(data)
	b := make([]byte, 0, data-index)
	b = le.AppendUint32(b, p.tensors)
	b = le.AppendUint32(b, 0)
	for t := range tensors {
		e, err := p.reserve(&t, uint64(index)+uint64(len(b)))
		if err != nil {
			return nil, err
		}
		b = appendEntry(b, &t, e)
	}
	p.size += footerSize
	b = append(b, make([]byte, cap(b)-len(b))...)
	return &head{header: appendHeader(nil, p.header), metadata: p.metadata, index: b, at: uint64(index), size: p.size}, nil
}

// head is everything before the tensors, but the metadata once they are written. It stands for the planned
// file, which Decode reads no other byte of.
type head struct {
	header, metadata, index []byte
	at                      uint64 // of index
	size                    uint64 // of the file
}

// Size returns the size of the planned file.
func (h *head) Size() uint64 { return h.size }

// Slice returns bytes of the header, of the metadata, or of the index.
func (h *head) Slice(off, n uint64) ([]byte, error) {
	switch {
	case off >= h.at:
		return layout.Bytes(h.index).Slice(off-h.at, n)
	case off >= headerSize:
		return layout.Bytes(h.metadata).Slice(off-headerSize, n)
	}
	return layout.Bytes(h.header).Slice(off, n)
}

// checkMetadata makes sure that the metadata, which md was encoded to, can be read again.
func (p *plan) checkMetadata(f *File, md layout.Metadata) error {
	s := jsontext.New(p.metadata, layout.APR2, headerSize, "metadata", (*layout.Limits)(nil).WithDefaults())
	s.Skip()
	s.End()
	if err := s.Err(); err != nil {
		return err
	}
	if _, ok := md.Get(encryptionKey); ok && p.seal == nil && p.header.Minor >= 1 {
		return errorf(headerSize, encryptionKey, layout.ErrInvalid, "such a key, but the file is not encrypted")
	}
	const key = "quantization"
	v, ok := md.Get(key)
	if !ok {
		return nil
	}
	text, err := layout.Metadata{{Key: key, Value: v}}.MarshalJSON()
	if err != nil {
		return err
	}
	if md, err = jsontext.Parse(text, layout.APR2, headerSize, "metadata", f.lim); err != nil {
		return err
	}
	_, err = f.Scales(md)
	return err
}

// place is the end of an index entry.
type place struct {
	offset  uint64 // from data_offset
	size    uint64
	rawSize uint64 // 0 if the tensor is not compressed
	flags   uint32
}

// reserve gives t, whose entry starts at, the next aligned place in the file.
func (p *plan) reserve(t *layout.Tensor, at uint64) (place, error) {
	raw, err := t.DType.Size(dims(t))
	if err != nil {
		return place{}, errorf(at, "dims", layout.ErrInvalid, "tensor %s: %v", layout.Quote(t.Name), err)
	}
	e := place{size: p.seal.stored(raw)}
	switch {
	case t.Encoding.Encrypted(): // the index of a file that has been written
		if e.size = t.Stored; t.Encoding == layout.EncryptedLZ4 {
			e.rawSize, e.flags = raw, compressedTensor
		}
	case compressed(*t):
		e = place{size: p.seal.stored(t.Stored), rawSize: raw, flags: compressedTensor}
	case t.Encoding == layout.LZ4 && raw > 0:
		return place{}, errorf(at, "size", layout.ErrUnsupported,
			"tensor %s: how many bytes it takes compressed is not known before it is written, but the index comes first, and only a file that can be written again has it last", layout.Quote(t.Name))
	}
	off := alignUp(p.size, p.align)
	// No operating system gives a file more bytes than int64 counts.
	if most := uint64(math.MaxInt64) - footerSize - defaultAlign; off > most || e.size > most-off {
		return place{}, errorf(at, "offset", layout.ErrLimit, "tensor %s: %d bytes at %d make the file larger than 2^63 bytes", layout.Quote(t.Name), e.size, off)
	}
	p.size = off + e.size
	e.offset = off - uint64(p.header.DataOffset)
	return e, nil
}

// AppendIdentity appends to b the bytes of t's index entry from name_len to the last dimension. Sealed blocks
// are bound to them.
func AppendIdentity(b []byte, t *layout.Tensor) []byte {
	shape := dims(t)
	b = le.AppendUint16(b, uint16(len(t.Name)))
	b = append(b, t.Name...)
	b = append(b, idOf[t.DType], uint8(len(shape)))
	for _, dim := range shape {
		b = le.AppendUint64(b, uint64(dim))
	}
	return b
}

func appendEntry(b []byte, t *layout.Tensor, e place) []byte {
	b = AppendIdentity(b, t)
	b = le.AppendUint64(b, e.offset)
	b = le.AppendUint64(b, e.size)
	b = le.AppendUint64(b, e.rawSize)
	return le.AppendUint32(b, e.flags)
}

// compressed reports whether t is stored as blocks. A tensor without elements has none.
func compressed(t layout.Tensor) bool { return t.Encoding.Unsealed() == layout.LZ4 && t.Stored > 0 }

// compressedTensor is the flag of an entry with a raw_size.
const compressedTensor = 1

var scalar = []int{1}

// dims returns t's shape as the index can hold it: a scalar has one dimension.
func dims(t *layout.Tensor) []int {
	if len(t.Shape) == 0 {
		return scalar
	}
	return t.Shape
}

// alignUp returns the next multiple of align, a power of two.
func alignUp(n, align uint64) uint64 { return (n + align - 1) &^ (align - 1) }

// contains reports whether is holds for a tensor.
func contains(tensors iter.Seq[layout.Tensor], is func(layout.Tensor) bool) bool {
	for t := range tensors {
		if is(t) {
			return true
		}
	}
	return false
}

// unsized reports whether t's size shows only once it is written.
func unsized(t layout.Tensor) bool { return t.Encoding == layout.LZ4 && t.Stored == 0 }

// provisional counts tensors of unknown size as raw.
func provisional(tensors iter.Seq[layout.Tensor]) iter.Seq[layout.Tensor] {
	return func(yield func(layout.Tensor) bool) {
		for t := range tensors {
			if unsized(t) {
				t.Encoding = layout.Raw
			}
			if !yield(t) {
				return
			}
		}
	}
}

// Sizer computes how large a file will be, without its tensors' data and its head. A model is divided
// among files with it before any is begun. NewSizer makes one.
type Sizer struct {
	head  uint64 // header, metadata and index
	data  uint64 // from data_offset to the end of the last tensor
	align uint64
	seal  *seal
}

// NewSizer returns the Sizer of a file without tensors. align is that of Options, metadata the number of
// bytes that the metadata takes as JSON.
func NewSizer(align int, metadata uint64) Sizer {
	s := Sizer{head: headerSize + indexHeaderSize, align: defaultAlign}
	if align == 32 {
		s.align = 32
	}
	return s.WithMetadata(metadata)
}

// WithMetadata returns s with n bytes more of metadata.
func (s Sizer) WithMetadata(n uint64) Sizer {
	s.head = add(s.head, n)
	return s
}

// Sealed returns s for a file that is encrypted by sealer, or not if that is nil.
func (s Sizer) Sealed(sealer *Sealer) Sizer {
	if sealer != nil {
		s.seal = &seal{block: sealer.block()}
	}
	return s
}

// With returns s with one tensor more. Name, Shape, DType, Encoding and Stored count as
// they do for NewWriter; an LZ4 tensor of unknown size counts as raw.
func (s Sizer) With(t *layout.Tensor) Sizer {
	n := t.Stored
	if !compressed(*t) {
		n, _ = t.DType.Size(dims(t)) // NewWriter will say what is wrong with it
	}
	s.head = add(s.head, uint64(entrySize+len(t.Name)+8*len(dims(t))))
	s.data = add(up(s.data, s.align), s.seal.stored(n))
	return s
}

// Size returns the size of the whole file in bytes. It is 2^64-1 if the file would be larger.
func (s Sizer) Size() uint64 { return add(add(up(s.head, defaultAlign), s.data), footerSize) }

// up returns alignUp for sums of any size.
func up(n, align uint64) uint64 { return add(n, -n%align) }

// add stops at the largest number.
func add(a, b uint64) uint64 {
	sum, carry := bits.Add64(a, b, 0)
	return sum | -carry
}
