package apr2

import (
	"cmp"
	"math"

	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/layout/internal/tensorwriter"
	"github.com/tensormap/tensormap/layout/jsontext"
)

// planHead encodes the metadata and sets the header's fields that do not depend on the tensors. It fails for an alignment or flags that
// cannot be written, and for metadata that is too large or has no JSON.
func (w *Writer) planHead() (err error) {
	opts, h := &w.opts, &w.header
	*h = Header{Major: major, Flags: Aligned64 | opts.Flags, MetadataOffset: headerSize}
	switch opts.Align {
	case 0, 64:
	case 32:
		h.Flags = Aligned32 | opts.Flags
	default:
		return errorf(atFlags, "flags", layout.ErrInvalid, "an alignment of %d, not 32 or 64", opts.Align)
	}
	if more := opts.Flags &^ (Sharded | Streaming); more != 0 {
		return errorf(atFlags, "flags", layout.ErrInvalid, "%v cannot be asked for", more)
	}
	if opts.Signer != nil {
		h.Flags, h.Minor = h.Flags|Signed, 1
	}
	if opts.Encrypter != nil {
		h.Flags, h.Minor = h.Flags|Encrypted, 1
	}
	if w.metadata, err = layout.EncodeJSON(opts.Metadata); err != nil {
		return err
	}
	n := len(w.metadata)
	if limit := (*layout.Limits)(nil).WithDefaults().HeaderBytes; uint64(n) > limit {
		return errorf(atMetadataSize, "metadata_size", layout.ErrLimit, "%d bytes, more than %d", n, limit)
	}
	h.MetadataSize, h.IndexOffset = uint32(n), headerSize+uint32(n)
	return nil
}

// encodeHead sets w.head to the head of a file with w.list, and returns the file as Decode does. It refuses what Decode refuses, and
// metadata that could not be read again. The size of the head does not depend on Stored and Encoding of the tensors.
func (w *Writer) encodeHead() (f *File, err error) {
	h := &w.header
	h.Flags &^= Compressed
	end := uint64(h.IndexOffset) + indexHeaderSize
	for i := range w.list {
		end += entryBytes(&w.list[i])
	}
	size := alignUp(end, defaultAlign)
	if limit := uint64(min(math.MaxUint32, math.MaxInt)); size > limit {
		return nil, errorf(atDataOffset, "data_offset", layout.ErrLimit, "%d, more than %d", size, limit)
	}
	h.IndexSize, h.DataOffset = uint32(end)-h.IndexOffset, uint32(size)
	b := append(make([]byte, headerSize, size), w.metadata...)
	b = le.AppendUint32(le.AppendUint32(b, uint32(len(w.list))), 0)
	for i := range w.list {
		t, err := w.place(&w.list[i], size, uint64(len(b)))
		if err != nil {
			return nil, err
		}
		rawSize, flags := uint64(0), uint32(0) // of a tensor that is not compressed
		if t.Encoding == layout.LZ4 {
			rawSize, flags = t.Raw, 1
		}
		b = le.AppendUint64(AppendIdentity(b, &t), t.Offset-uint64(h.DataOffset))
		b = le.AppendUint64(le.AppendUint64(b, t.Stored), rawSize)
		b = le.AppendUint32(b, flags)
		size = t.Offset + t.Stored
	}
	appendHeader(b[:0], *h)   // now that its flags are known
	w.head = b[:h.DataOffset] // the padding is zero
	if f, err = Decode(tensorwriter.HeadOnly{Head: w.head, Len: size + footerSize}, nil); err != nil {
		return nil, err
	}
	return f, w.checkMetadata(f)
}

// checkMetadata returns the error that f's Metadata or Scales would. It does not make all values again, which may take a
// lot of memory.
func (w *Writer) checkMetadata(f *File) error {
	if len(w.metadata) == 0 {
		return nil
	}
	if err := jsontext.Check(w.metadata, layout.APR2, headerSize, "metadata", f.lim); err != nil {
		return err
	}
	_, stated := w.opts.Metadata.Get(encryptionKey)
	if err := w.header.checkEncryption(stated); err != nil {
		return err
	}
	q, ok := w.opts.Metadata.Get("quantization")
	if !ok {
		return nil
	}
	text, err := layout.EncodeJSON(layout.Metadata{{Key: "quantization", Value: q}}) // whose Go types may be others once they are read
	if err != nil {
		return err
	}
	md, err := jsontext.Parse(text, layout.APR2, headerSize, "metadata", f.lim)
	if err == nil {
		_, err = f.Scales(md)
	}
	return err
}

// place returns t as the file has it, at the next aligned offset from end on. It adds to the header the flags and the minor version that
// a file with t needs. at is where its index entry starts, for errors. It fails if the entry cannot hold t, or the file would be too
// large. It also fails if the size of t is invalid or not known yet.
func (w *Writer) place(t *layout.Tensor, end, at uint64) (out layout.Tensor, err error) {
	fail := func(field string, sentinel error, format string, args ...any) (layout.Tensor, error) {
		return out, errorf(at, field, sentinel, format, args...).OfTensor(t.Name)
	}
	id, ok := idOf[t.DType]
	switch {
	case len(t.Name) > math.MaxUint16:
		return fail("name", layout.ErrLimit, "%d bytes, more than %d", len(t.Name), math.MaxUint16)
	case len(t.Shape) > MaxDims:
		return fail("n_dims", layout.ErrLimit, "%d dimensions, more than %d", len(t.Shape), MaxDims)
	case !ok:
		return fail("dtype", layout.ErrUnsupported, "APR2 has no dtype for %v", t.DType)
	case t.Encoding != layout.Raw && t.Encoding != layout.LZ4:
		return fail("flags", layout.ErrUnsupported, "APR2 has no encoding %v", t.Encoding)
	}
	out = layout.Tensor{Name: t.Name, DType: t.DType, Shape: t.Shape, Offset: alignUp(end, w.header.Flags.Align())}
	if out.Raw, err = t.DType.Size(out.Shape); err != nil {
		return fail("dims", layout.ErrInvalid, "%v", err)
	}
	content := out.Raw
	if isCompressed(t) {
		w.header.Flags |= Compressed
		content = t.Stored
	}
	switch {
	case isUnsized(t) && out.Raw > 0:
		return fail("size", layout.ErrUnsupported, "how many bytes it takes compressed is not known before it is written, "+
			"but the index comes first, and only a file that can be written again has it last")
	case isCompressed(t) && !layout.LZ4Holds(content, out.Raw):
		return fail("raw_size", layout.ErrInvalid, "%d bytes are too few for LZ4 to make %d of them", content, out.Raw)
	case isCompressed(t) && out.Raw > 0: // else Decode refuses the tensor as one that is not compressed
		out.Encoding = layout.LZ4
	}
	out.Stored = w.encrypt.storedBytes(content)
	// No operating system gives a file more bytes than int64 counts.
	if limit := uint64(math.MaxInt64) - footerSize - defaultAlign; out.Offset > limit || out.Stored > limit-out.Offset {
		return fail("offset", layout.ErrLimit, "%d bytes at %d make the file larger than 2^63 bytes", out.Stored, out.Offset)
	}
	if id >= firstExtension {
		w.header.Minor = 1
	}
	if t.DType.Quantized() {
		w.header.Flags |= Quantized
	}
	return out, nil
}

// entryBytes returns how many bytes the index entry of t takes. It has a dimension even for a scalar.
func entryBytes(t *layout.Tensor) uint64 {
	return uint64(entrySize + len(t.Name) + 8*max(1, len(t.Shape)))
}

// AppendIdentity appends to b the bytes of t's index entry from name_len to the last dimension. Encrypted blocks
// are bound to them.
func AppendIdentity(b []byte, t *layout.Tensor) []byte {
	b = le.AppendUint16(b, uint16(len(t.Name)))
	b = append(b, t.Name...)
	b = append(b, idOf[t.DType], uint8(len(t.Shape)))
	for _, dim := range t.Shape {
		b = le.AppendUint64(b, uint64(dim))
	}
	return b
}

// isCompressed reports whether t is stored as blocks. A tensor without elements has none.
func isCompressed(t *layout.Tensor) bool { return t.Encoding == layout.LZ4 && t.Stored > 0 }

// isUnsized reports whether t is to be compressed, so that its size is known only once it is written.
func isUnsized(t *layout.Tensor) bool { return t.Encoding == layout.LZ4 && t.Stored == 0 }

// alignUp returns n rounded up to a multiple of align, a power of two. It is 2^64-1 if that is larger.
func alignUp(n, align uint64) uint64 { return layout.AddOffset(n, -n%align) }

// Sizer computes how large a file will be, without its tensors' data and its head. A model is divided
// among files with it before any is begun. NewSizer makes one.
type Sizer struct {
	head    uint64 // header, metadata and index
	data    uint64 // from data_offset to the end of the last tensor
	align   uint64
	encrypt *encrypt // or nil
}

// NewSizer returns the Sizer of a file without tensors. align is the one of Options, metadata the number of
// bytes that the metadata takes as JSON. encrypter is nil if the file is not encrypted.
func NewSizer(align int, metadata uint64, encrypter *Encrypter) Sizer {
	s := Sizer{head: layout.AddOffset(headerSize+indexHeaderSize, metadata), align: cmp.Or(uint64(align), defaultAlign)}
	if encrypter != nil {
		s.encrypt = &encrypt{block: encrypter.blockSize()}
	}
	return s
}

// With returns s with one tensor more, and metadata bytes more of metadata. Name, Shape, DType, Encoding and Stored count as
// they do for NewWriter; an LZ4 tensor of unknown size counts as raw.
func (s Sizer) With(t *layout.Tensor, metadata uint64) Sizer {
	n := t.Stored
	if !isCompressed(t) {
		n, _ = t.DType.Size(t.Shape) // NewWriter will say what is wrong with it
	}
	s.head = layout.AddOffset(s.head, layout.AddOffset(entryBytes(t), metadata))
	s.data = layout.AddOffset(alignUp(s.data, s.align), s.encrypt.storedBytes(n))
	return s
}

// Size returns the size of the whole file in bytes. It is 2^64-1 if the file would be larger.
func (s Sizer) Size() uint64 {
	return layout.AddOffset(layout.AddOffset(alignUp(s.head, defaultAlign), s.data), footerSize)
}
