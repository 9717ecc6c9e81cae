package apr2

import (
	"bufio"
	"errors"
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
	metadata layout.Metadata
	tensors  uint32   // their number
	size     uint64   // of the file
	encrypt  *encrypt // or nil
}

// newPlan lays out the head of the file, and settles the header.
func newPlan(tensors iter.Seq[layout.Tensor], opts *Options, encrypt *encrypt) (*plan, error) {
	p := &plan{align: defaultAlign, encrypt: encrypt}
	if err := p.options(opts); err != nil {
		return nil, err
	}
	end := headerSize + uint64(p.header.MetadataSize)
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
	if opts.Encrypter != nil {
		p.header.Flags, p.header.Minor = p.header.Flags|Encrypted, 1
	}
	return p.setMetadata(opts.Metadata)
}

// setMetadata measures md. checkMetadata will check that it can be read again.
func (p *plan) setMetadata(md layout.Metadata) error {
	n, err := layout.WriteJSON(nil, md)
	if err != nil {
		return err
	}
	if most := (*layout.Limits)(nil).WithDefaults().HeaderBytes; uint64(n) > most {
		return errorf(atMetadataSize, "metadata_size", layout.ErrLimit, "%d bytes, more than %d", n, most)
	}
	p.metadata = md
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

// measure lays the tensors out, and finds all that would keep the index from being read again. The size of the head
// does not depend on theirs, so this can be done again once they are known.
func (p *plan) measure(tensors iter.Seq[layout.Tensor]) (err error) {
	p.header.Flags &^= Compressed
	if contains(tensors, compressed) {
		p.header.Flags |= Compressed
	}
	lim := (*layout.Limits)(nil).WithDefaults()
	add := func(b *layout.Builder) error {
		p.size, err = p.each(tensors, func(t *layout.Tensor, at uint64) error {
			*b.Next() = *t
			return b.Add(at)
		})
		return err
	}
	check := layout.NewChecker(layout.APR2, uint64(p.tensors), "offset", lim)
	if err := add(check); err != nil {
		return err
	}
	distinct, err := check.Check(p.size)
	if err != nil || distinct {
		return err
	}
	b, err := layout.NewBuilder(layout.APR2, p.size, uint64(p.tensors), "offset", lim)
	if err != nil {
		return err
	}
	return add(b) // which names the two
}

// each calls do with every tensor as Decode will describe it, and the offset of its entry. It returns the size of the file.
func (p *plan) each(tensors iter.Seq[layout.Tensor], do func(t *layout.Tensor, at uint64) error) (uint64, error) {
	end, at := uint64(p.header.DataOffset), uint64(p.header.IndexOffset)+indexHeaderSize
	t := new(layout.Tensor) // one for all
	for given := range tensors {
		var err error
		if *t, err = p.place(&given, end, at); err != nil {
			return 0, err
		}
		if err := do(t, at); err != nil {
			return 0, err
		}
		end = t.Offset + t.Stored
		at += uint64(entrySize + len(t.Name) + 8*len(t.Shape))
	}
	return end + footerSize, nil
}

// all yields the tensors in their places.
func (p *plan) all(tensors iter.Seq[layout.Tensor]) iter.Seq[layout.Tensor] {
	return func(yield func(layout.Tensor) bool) {
		enough := errors.New("enough")
		p.each(tensors, func(t *layout.Tensor, _ uint64) error {
			if !yield(*t) {
				return enough
			}
			return nil
		})
	}
}

// writeHead writes everything before the tensors.
func (p *plan) writeHead(w *bufio.Writer, tensors iter.Seq[layout.Tensor]) error {
	w.Write(appendHeader(nil, p.header)) // w keeps its errors
	if _, err := layout.WriteJSON(w, p.metadata); err != nil {
		return err
	}
	w.Write(le.AppendUint32(le.AppendUint32(nil, p.tensors), 0))
	_, err := p.each(tensors, func(t *layout.Tensor, _ uint64) error {
		_, err := w.Write(p.appendEntry(w.AvailableBuffer(), t))
		return err
	})
	if err == nil {
		_, err = w.Write(make([]byte, p.header.DataOffset-p.header.IndexOffset-p.header.IndexSize))
	}
	return err
}

// checkMetadata makes sure that the metadata can be read again once they are encoded.
func (p *plan) checkMetadata() error {
	md, lim := p.metadata, (*layout.Limits)(nil).WithDefaults()
	sure, err := jsontext.CheckKeys(md, layout.APR2, headerSize, "metadata")
	if err != nil {
		return err
	}
	if !sure {
		text, err := layout.EncodeJSON(md)
		if err != nil {
			return err
		}
		if err := jsontext.Check(text, layout.APR2, headerSize, "metadata", lim); err != nil {
			return err
		}
	}
	if _, ok := md.Get(encryptionKey); ok && p.encrypt == nil && p.header.Minor >= 1 {
		return errorf(headerSize, encryptionKey, layout.ErrInvalid, "such a key, but the file is not encrypted")
	}
	const key = "quantization"
	v, ok := md.Get(key)
	if !ok {
		return nil
	}
	f := &File{Header: p.header, lim: lim}
	if _, err := f.Scales(md); err == nil {
		return nil
	}
	text, err := layout.Metadata{{Key: key, Value: v}}.MarshalJSON()
	if err != nil {
		return err
	}
	if md, err = jsontext.Parse(text, layout.APR2, headerSize, "metadata", lim); err != nil {
		return err
	}
	_, err = f.Scales(md)
	return err
}

// place describes t, whose entry starts at, as Decode will. It gives t the next aligned place from end on.
func (p *plan) place(t *layout.Tensor, end, at uint64) (layout.Tensor, error) {
	raw, err := t.DType.Size(dims(t))
	if err != nil {
		return layout.Tensor{}, errorf(at, "dims", layout.ErrInvalid, "tensor %s: %v", layout.Quote(t.Name), err)
	}
	out := layout.Tensor{Name: t.Name, DType: t.DType, Shape: dims(t), Stored: p.encrypt.stored(raw), Raw: raw}
	switch {
	case t.Encoding.Encrypted(): // the index of a file that has been written
		out.Stored, out.Encoding = t.Stored, t.Encoding.Decrypted()
	case compressed(*t):
		if least := (raw + maxExpansion - 1) / maxExpansion; t.Stored < least {
			return out, errorf(at, "raw_size", layout.ErrInvalid, "tensor %s: %d bytes, more than %d times the %d stored",
				layout.Quote(t.Name), raw, maxExpansion, t.Stored)
		}
		if out.Stored = p.encrypt.stored(t.Stored); raw > 0 { // else it is refused as one that is not compressed
			out.Encoding = layout.LZ4
		}
	case t.Encoding == layout.LZ4 && raw > 0:
		return out, errorf(at, "size", layout.ErrUnsupported,
			"tensor %s: how many bytes it takes compressed is not known before it is written, but the index comes first, and only a file that can be written again has it last", layout.Quote(t.Name))
	}
	if p.encrypt != nil {
		out.Encoding = out.Encoding.WithEncryption()
	}
	out.Offset = alignUp(end, p.align)
	// No operating system gives a file more bytes than int64 counts.
	if most := uint64(math.MaxInt64) - footerSize - defaultAlign; out.Offset > most || out.Stored > most-out.Offset {
		return out, errorf(at, "offset", layout.ErrLimit, "tensor %s: %d bytes at %d make the file larger than 2^63 bytes", layout.Quote(t.Name), out.Stored, out.Offset)
	}
	return out, nil
}

// AppendIdentity appends to b the bytes of t's index entry from name_len to the last dimension. Encrypted blocks
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

// appendEntry appends the entry of t, which is in its place. A raw_size and a flag tell that it is compressed.
func (p *plan) appendEntry(b []byte, t *layout.Tensor) []byte {
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

// compressed reports whether t is stored as blocks. A tensor without elements has none.
func compressed(t layout.Tensor) bool { return t.Encoding.Decrypted() == layout.LZ4 && t.Stored > 0 }

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
	s.head = add(s.head, n)
	return s
}

// Encrypted returns s for a file that is encrypted by encrypter, or not if that is nil.
func (s Sizer) Encrypted(encrypter *Encrypter) Sizer {
	if encrypter != nil {
		s.encrypt = &encrypt{block: encrypter.block()}
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
	s.data = add(up(s.data, s.align), s.encrypt.stored(n))
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
