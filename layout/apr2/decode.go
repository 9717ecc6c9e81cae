package apr2

import (
	"strconv"

	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/layout/encrypted"
)

// File is a decoded APR2 file. It implements [layout.File] and [layout.Scaler].
type File struct {
	Header Header
	// Encryption is what an ENCRYPTED file says of how it was encrypted, else nil. Nothing of it has been verified.
	Encryption *encrypted.Encryption

	index *layout.Index
	lim   layout.Limits
}

var (
	_ layout.File       = (*File)(nil)
	_ layout.Scaler     = (*File)(nil)
	_ layout.Configurer = (*File)(nil)
)

// Decode reads header and index of a file of the draft. It reads the metadata too from minor version 1 on, which
// say how the file is encrypted. A nil lim means the defaults.
//
// Errors are *[layout.FormatError]s. Those about an index entry have the offset of the entry, but
// n_dims and dtype have their own.
func Decode(in layout.Input, lim *layout.Limits) (*File, error) {
	f, err := decode(in, lim)
	if err == nil && f.Encryption == nil {
		err = f.Header.checkNotEncrypted(in, &f.lim)
	}
	if err != nil {
		return nil, err
	}
	return f, nil
}

// decode does what Decode does, but leaves alone the metadata of a file without the flag ENCRYPTED.
func decode(in layout.Input, lim *layout.Limits) (*File, error) {
	head, err := layout.Region(in, layout.APR2, 0, "magic", 0, min(headerSize, in.Size()))
	switch {
	case err != nil:
		return nil, err
	case len(head) < headerSize:
		return nil, errorf(0, "magic", layout.ErrTruncated, "the file of %d bytes ends inside the header of %d", in.Size(), headerSize)
	case string(head[:4]) != magic:
		return nil, errorf(0, "magic", layout.ErrFormat, "%q, not %q", head[:4], magic)
	case le.Uint16(head[atMajor:]) != major:
		return nil, errorf(atMajor, "version_major", layout.ErrUnsupported, "%d, not %d", le.Uint16(head[atMajor:]), major)
	}
	h := readHeader(head)
	if err := h.check(in.Size()); err != nil {
		return nil, err
	}
	d := decoder{header: h, size: in.Size(), lim: lim.WithDefaults()}
	if h.Flags.Has(Encrypted) {
		if d.encryption, err = h.encryption(in, &d.lim); err != nil {
			return nil, err
		}
	}
	if err := d.readIndexHeader(in); err != nil {
		return nil, err
	}
	for range d.count {
		if err := d.readEntry(); err != nil {
			return nil, err
		}
	}
	return d.finish()
}

// Index describes the file's tensors.
func (f *File) Index() *layout.Index { return f.index }

// check returns an error if a section of the header leaves the file of size bytes, or its encryption has no layout.
func (h Header) check(size uint64) error {
	if size < headerSize+footerSize {
		return errorf(headerSize, "footer", layout.ErrTruncated, "the file of %d bytes is too short for header and footer", size)
	}
	if h.Flags.Has(Encrypted) && h.Minor == 0 {
		return errorf(atFlags, "flags", layout.ErrUnsupported, "%v in version %d.0: the draft gives encryption no layout", h.Flags, h.Major)
	}
	if off, n := uint64(h.MetadataOffset), uint64(h.MetadataSize); !layout.Within(off, n, size) {
		return errorf(atMetadataOffset, "metadata_offset", layout.ErrTruncated, "%d bytes at %d leave the file of %d bytes", n, off, size)
	}
	if off, footer := uint64(h.DataOffset), size-footerSize; off > footer {
		return errorf(atDataOffset, "data_offset", layout.ErrTruncated, "%d is past the footer at %d", off, footer)
	}
	return nil
}

// decoder reads the index.
type decoder struct {
	header  Header
	size    uint64
	lim     layout.Limits
	builder *layout.Builder
	count   uint64
	rest    []byte // what is left of the index
	at      uint64 // where rest starts in the file

	encryption *encrypted.Encryption // or nil
}

// readIndexHeader reads the header of the index, and makes the builder with everything but the tensors. It fails if the index is too short for its
// tensors, or they are too many.
func (d *decoder) readIndexHeader(in layout.Input) error {
	h := &d.header
	var err error
	d.at = uint64(h.IndexOffset)
	d.rest, err = layout.Region(in, layout.APR2, atIndexOffset, "index_offset", d.at, uint64(h.IndexSize))
	if err != nil {
		return err
	}
	if len(d.rest) < indexHeaderSize {
		return errorf(atIndexSize, "index_size", layout.ErrTruncated, "%d bytes, fewer than the %d of the index header", h.IndexSize, indexHeaderSize)
	}
	d.count = uint64(le.Uint32(d.rest))
	d.advance(indexHeaderSize)
	if left := uint64(len(d.rest)); d.count*minEntrySize > left {
		return errorf(d.at-indexHeaderSize, "tensor_count", layout.ErrTruncated,
			"%d entries of at least %d bytes do not fit the %d bytes of the index", d.count, minEntrySize, left)
	}
	d.builder, err = layout.NewBuilder(layout.APR2, d.size, d.count, "offset", d.lim)
	if err != nil {
		return err
	}
	ix := d.builder.Index()
	ix.Version = strconv.Itoa(int(h.Major)) + "." + strconv.Itoa(int(h.Minor))
	ix.Flags = h.Flags.Names()
	ix.Align = h.Flags.Align()
	footer := d.size - footerSize
	d.builder.Data(uint64(h.DataOffset), footer-uint64(h.DataOffset))
	ix.Sections = []layout.Section{ // which Header.check has found to be in the file
		{Name: "header", Offset: 0, Size: headerSize},
		{Name: "metadata", Offset: uint64(h.MetadataOffset), Size: uint64(h.MetadataSize)},
		{Name: "index", Offset: uint64(h.IndexOffset), Size: uint64(h.IndexSize)},
		{Name: "footer", Offset: footer, Size: footerSize},
	}
	return nil
}

// advance takes the first n bytes off d.rest.
func (d *decoder) advance(n int) {
	d.rest = d.rest[n:]
	d.at += uint64(n)
}

// readEntry reads the entry that d.rest starts with and adds its tensor to the index. It fails if the entry is cut or a field is invalid.
func (d *decoder) readEntry() error {
	b, at := d.rest, d.at
	if len(b) < minEntrySize {
		return d.errTooShort(minEntrySize)
	}
	name := int(le.Uint16(b))
	if len(b) < minEntrySize+name {
		return d.errTooShort(minEntrySize + name)
	}
	id, rank := b[2+name], int(b[3+name])
	if rank < 1 || rank > MaxDims {
		return errorf(at+uint64(3+name), "n_dims", layout.ErrInvalid, "tensor %s: %d, not 1 to %d", layout.Quote(b[2:2+name]), rank, MaxDims)
	}
	size := entrySize + name + 8*rank
	if len(b) < size {
		return d.errTooShort(size)
	}
	t := d.builder.Next()
	t.Name, t.DType = b[2:2+name:2+name], dtype(id, d.header.Minor)
	if t.DType == layout.Invalid {
		return errorf(at+uint64(2+name), "dtype", layout.ErrUnsupported, "tensor %s: %#02x is no dtype of version %s",
			layout.Quote(t.Name), id, d.builder.Index().Version)
	}
	t.Shape = d.builder.Dims(rank)
	dims := b[4+name:][:8*rank]
	for i := range t.Shape {
		t.Shape[i] = layout.Dim(le.Uint64(dims[8*i:]))
	}
	if err := d.locate(t, (*[entryTailSize]byte)(b[size-entryTailSize:])); err != nil {
		return err
	}
	d.advance(size)
	return d.builder.Add(at)
}

// errTooShort returns the error for an entry of at least size bytes with fewer left.
func (d *decoder) errTooShort(size int) error {
	return errorf(d.at, "index_size", layout.ErrTruncated, "tensor %d of %d: an entry of at least %d bytes in the last %d of the index",
		len(d.builder.Index().Tensors), d.count, size, len(d.rest))
}

// locate sets offset, sizes and encoding of t from the end of its entry. It fails if t begins behind the file, or if its sizes contradict
// each other. It ignores the flags there, because they could only repeat raw_size.
func (d *decoder) locate(t *layout.Tensor, tail *[entryTailSize]byte) error {
	offset, raw := le.Uint64(tail[0:]), le.Uint64(tail[16:])
	t.Stored = le.Uint64(tail[8:])
	if offset > d.size {
		// Also keeps the sum below from wrapping.
		return errorf(d.at, "offset", layout.ErrTruncated, "tensor %s: %d is past the end of the file of %d bytes", layout.Quote(t.Name), offset, d.size)
	}
	t.Offset = uint64(d.header.DataOffset) + offset
	content := t.Stored
	if d.encryption != nil {
		var ok bool
		if content, ok = encrypted.ContentBytes(t.Stored, d.encryption.BlockSize); !ok {
			return errorf(d.at, "size", layout.ErrInvalid, "tensor %s: %d bytes are no encrypted blocks of %d: the last would be empty",
				layout.Quote(t.Name), t.Stored, d.encryption.BlockSize)
		}
		t.Encoding, t.Raw = layout.Encrypted, content
	}
	if raw == 0 {
		return nil
	}
	if t.Encoding, t.Raw = layout.LZ4, raw; d.encryption != nil {
		t.Encoding = layout.EncryptedLZ4
	}
	if least := (raw-1)/maxExpansion + 1; content < least {
		return errorf(d.at, "raw_size", layout.ErrInvalid, "tensor %s: %d bytes, more than %d times the %d stored",
			layout.Quote(t.Name), raw, maxExpansion, content)
	}
	return nil
}

// finish returns the file. It fails if bytes of the index are left, or tensors overlap.
func (d *decoder) finish() (*File, error) {
	if len(d.rest) > 0 {
		return nil, errorf(d.at, "index_size", layout.ErrInvalid, "%d bytes are left behind the last of %d entries", len(d.rest), d.count)
	}
	ix, err := d.builder.Finish()
	if err != nil {
		return nil, err
	}
	return &File{Header: d.header, Encryption: d.encryption, index: ix, lim: d.lim}, nil
}
