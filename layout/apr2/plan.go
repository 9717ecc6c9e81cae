package apr2

import (
	"math"
	"math/bits"

	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/layout/internal/tensorwriter"
	"github.com/tensormap/tensormap/layout/jsontext"
)

// headPlan makes the head of a file: everything before the tensors' data.
type headPlan struct {
	header   Header
	align    uint64
	metadata []byte // as JSON
	source   layout.Metadata
	encrypt  *encrypt // or nil
}

// newHeadPlan encodes the metadata and sets the header's fields that do not depend on the tensors. It fails for an alignment or flags that
// cannot be written, and for metadata that is too large or has no JSON.
func newHeadPlan(opts *Options, encrypt *encrypt) (*headPlan, error) {
	p := &headPlan{header: Header{Major: major, Flags: Aligned64}, align: defaultAlign, encrypt: encrypt, source: opts.Metadata}
	switch opts.Align {
	case 0, 64:
	case 32:
		p.align, p.header.Flags = 32, Aligned32
	default:
		return nil, errorf(atFlags, "flags", layout.ErrInvalid, "an alignment of %d, not 32 or 64", opts.Align)
	}
	if more := opts.Flags &^ (Sharded | Streaming); more != 0 {
		return nil, errorf(atFlags, "flags", layout.ErrInvalid, "%v cannot be asked for", more)
	}
	p.header.Flags |= opts.Flags
	if opts.Signer != nil {
		p.header.Flags, p.header.Minor = p.header.Flags|Signed, 1
	}
	if opts.Encrypter != nil {
		p.header.Flags, p.header.Minor = p.header.Flags|Encrypted, 1
	}
	var err error
	if p.metadata, err = layout.EncodeJSON(opts.Metadata); err != nil {
		return nil, err
	}
	n := len(p.metadata)
	if limit := (*layout.Limits)(nil).WithDefaults().HeaderBytes; uint64(n) > limit {
		return nil, errorf(atMetadataSize, "metadata_size", layout.ErrLimit, "%d bytes, more than %d", n, limit)
	}
	p.header.MetadataOffset, p.header.MetadataSize = headerSize, uint32(n)
	p.header.IndexOffset = headerSize + uint32(n)
	return p, nil
}

// encode returns the head of a file with these tensors, and the file as Decode returns it. It refuses what Decode refuses, and
// metadata that could not be read again. The size of the head does not depend on Stored and Encoding of the tensors.
func (p *headPlan) encode(tensors []layout.Tensor) (head []byte, f *File, err error) {
	p.header.Flags &^= Compressed
	end := uint64(p.header.IndexOffset) + indexHeaderSize
	for i := range tensors {
		t := &tensors[i]
		if err := p.admit(t, end); err != nil {
			return nil, nil, err
		}
		end += uint64(entrySize + len(t.Name) + 8*len(shapeOf(t)))
	}
	data := alignUp(end, defaultAlign)
	if limit := uint64(min(math.MaxUint32, math.MaxInt)); data > limit {
		return nil, nil, errorf(atDataOffset, "data_offset", layout.ErrLimit, "%d, more than %d", data, limit)
	}
	p.header.IndexSize, p.header.DataOffset = uint32(end)-p.header.IndexOffset, uint32(data)
	b := append(appendHeader(make([]byte, 0, data), p.header), p.metadata...)
	b = le.AppendUint32(le.AppendUint32(b, uint32(len(tensors))), 0)
	size := data
	for i := range tensors {
		t, err := p.place(&tensors[i], size, uint64(len(b)))
		if err != nil {
			return nil, nil, err
		}
		b = p.appendEntry(b, &t)
		size = t.Offset + t.Stored
	}
	size += footerSize
	b = b[:data] // the padding is zero
	in := tensorwriter.HeadOnly{Head: b, Len: size}
	if f, err = Decode(in, nil); err != nil {
		return nil, nil, err
	}
	return b, f, p.checkMetadata(f)
}

// checkMetadata returns the error that f's Metadata or Scales would. It does not make all values again, which may take a
// lot of memory.
func (p *headPlan) checkMetadata(f *File) error {
	if len(p.metadata) == 0 {
		return nil
	}
	if err := jsontext.Check(p.metadata, layout.APR2, headerSize, "metadata", f.lim); err != nil {
		return err
	}
	if err := f.checkEncryption(p.source); err != nil {
		return err
	}
	q, ok := p.source.Get("quantization")
	if !ok {
		return nil
	}
	text, err := layout.EncodeJSON(layout.Metadata{{Key: "quantization", Value: q}})
	if err != nil {
		return err
	}
	md, err := jsontext.Parse(text, layout.APR2, headerSize, "metadata", f.lim)
	if err == nil {
		_, err = f.Scales(md)
	}
	return err
}

// admit adds to the header the flags and the minor version that a file with t needs. It fails if the fields of an index entry, which would
// be at offset at, cannot hold t.
func (p *headPlan) admit(t *layout.Tensor, at uint64) error {
	id, ok := idOf[t.DType]
	switch {
	case len(t.Name) > math.MaxUint16:
		return errorf(at, "name", layout.ErrLimit, "tensor %s: %d bytes, more than %d", layout.Quote(t.Name), len(t.Name), math.MaxUint16)
	case len(t.Shape) > MaxDims:
		return errorf(at, "n_dims", layout.ErrLimit, "tensor %s: %d dimensions, more than %d", layout.Quote(t.Name), len(t.Shape), MaxDims)
	case !ok:
		return errorf(at, "dtype", layout.ErrUnsupported, "tensor %s: APR2 has no dtype for %v", layout.Quote(t.Name), t.DType)
	case t.Encoding != layout.Raw && t.Encoding != layout.LZ4:
		return errorf(at, "flags", layout.ErrUnsupported, "tensor %s: APR2 has no encoding %v", layout.Quote(t.Name), t.Encoding)
	}
	if id >= firstExtension {
		p.header.Minor = 1
	}
	if t.DType.Quantized() {
		p.header.Flags |= Quantized
	}
	if isCompressed(t) {
		p.header.Flags |= Compressed
	}
	return nil
}

// place returns t with its sizes and its offset in the file, the next aligned one from end on. at is where its index entry starts, for
// errors. It fails if the size of t is invalid or not known yet, or the file would be too large.
func (p *headPlan) place(t *layout.Tensor, end, at uint64) (layout.Tensor, error) {
	raw, err := t.DType.Size(shapeOf(t))
	if err != nil {
		return layout.Tensor{}, errorf(at, "dims", layout.ErrInvalid, "tensor %s: %v", layout.Quote(t.Name), err)
	}
	out := layout.Tensor{Name: t.Name, DType: t.DType, Shape: shapeOf(t), Stored: p.encrypt.storedBytes(raw), Raw: raw}
	switch {
	case isCompressed(t):
		if least := (raw + maxExpansion - 1) / maxExpansion; t.Stored < least {
			return out, errorf(at, "raw_size", layout.ErrInvalid, "tensor %s: %d bytes, more than %d times the %d stored",
				layout.Quote(t.Name), raw, maxExpansion, t.Stored)
		}
		if out.Stored = p.encrypt.storedBytes(t.Stored); raw > 0 { // else Decode refuses the tensor as one that is not compressed
			out.Encoding = layout.LZ4
		}
	case isUnsized(t) && raw > 0:
		return out, errorf(at, "size", layout.ErrUnsupported,
			"tensor %s: how many bytes it takes compressed is not known before it is written, but the index comes first, and only a file that can be written again has it last", layout.Quote(t.Name))
	}
	out.Offset = alignUp(end, p.align)
	// No operating system gives a file more bytes than int64 counts.
	if limit := uint64(math.MaxInt64) - footerSize - defaultAlign; out.Offset > limit || out.Stored > limit-out.Offset {
		return out, errorf(at, "offset", layout.ErrLimit, "tensor %s: %d bytes at %d make the file larger than 2^63 bytes", layout.Quote(t.Name), out.Stored, out.Offset)
	}
	return out, nil
}

// AppendIdentity appends to b the bytes of t's index entry from name_len to the last dimension. Encrypted blocks
// are bound to them.
func AppendIdentity(b []byte, t *layout.Tensor) []byte {
	shape := shapeOf(t)
	b = le.AppendUint16(b, uint16(len(t.Name)))
	b = append(b, t.Name...)
	b = append(b, idOf[t.DType], uint8(len(shape)))
	for _, dim := range shape {
		b = le.AppendUint64(b, uint64(dim))
	}
	return b
}

// appendEntry appends the index entry of t, as place returned it. A raw_size and a flag tell that it is compressed.
func (p *headPlan) appendEntry(b []byte, t *layout.Tensor) []byte {
	rawSize, flags := uint64(0), uint32(0)
	if t.Encoding.Decrypted() == layout.LZ4 {
		rawSize, flags = t.Raw, compressedTensor
	}
	b = AppendIdentity(b, t)
	b = le.AppendUint64(b, t.Offset-uint64(p.header.DataOffset))
	b = le.AppendUint64(b, t.Stored)
	b = le.AppendUint64(b, rawSize)
	return le.AppendUint32(b, flags)
}

// isCompressed reports whether t is stored as blocks. A tensor without elements has none.
func isCompressed(t *layout.Tensor) bool { return t.Encoding == layout.LZ4 && t.Stored > 0 }

// compressedTensor is the flag of an entry with a raw_size.
const compressedTensor = 1

var scalar = []int{1}

// shapeOf returns t's shape as the index can hold it: a scalar has one dimension.
func shapeOf(t *layout.Tensor) []int {
	if len(t.Shape) == 0 {
		return scalar
	}
	return t.Shape
}

// alignUp returns the next multiple of align, a power of two.
func alignUp(n, align uint64) uint64 { return (n + align - 1) &^ (align - 1) }

// isUnsized reports whether t is to be compressed, so that its size is known only once it is written.
func isUnsized(t *layout.Tensor) bool { return t.Encoding == layout.LZ4 && t.Stored == 0 }

// Sizer computes how large a file will be, without its tensors' data and its head. A model is divided
// among files with it before any is begun. NewSizer makes one.
type Sizer struct {
	head    uint64 // header, metadata and index
	data    uint64 // from data_offset to the end of the last tensor
	align   uint64
	encrypt *encrypt
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
	s.head = addSaturated(s.head, n)
	return s
}

// Encrypted returns s for a file that is encrypted by encrypter, or not if that is nil.
func (s Sizer) Encrypted(encrypter *Encrypter) Sizer {
	if encrypter != nil {
		s.encrypt = &encrypt{block: encrypter.blockSize()}
	}
	return s
}

// With returns s with one tensor more. Name, Shape, DType, Encoding and Stored count as
// they do for NewWriter; an LZ4 tensor of unknown size counts as raw.
func (s Sizer) With(t *layout.Tensor) Sizer {
	n := t.Stored
	if !isCompressed(t) {
		n, _ = t.DType.Size(shapeOf(t)) // NewWriter will say what is wrong with it
	}
	s.head = addSaturated(s.head, uint64(entrySize+len(t.Name)+8*len(shapeOf(t))))
	s.data = addSaturated(alignUpSaturated(s.data, s.align), s.encrypt.storedBytes(n))
	return s
}

// Size returns the size of the whole file in bytes. It is 2^64-1 if the file would be larger.
func (s Sizer) Size() uint64 {
	return addSaturated(addSaturated(alignUpSaturated(s.head, defaultAlign), s.data), footerSize)
}

// alignUpSaturated returns n rounded up to a multiple of align, or 2^64-1 if that is larger.
func alignUpSaturated(n, align uint64) uint64 { return addSaturated(n, -n%align) }

// addSaturated returns a+b, or 2^64-1 if the sum is larger.
func addSaturated(a, b uint64) uint64 {
	sum, carry := bits.Add64(a, b, 0)
	return sum | -carry
}
