package apr2

import (
	"bytes"
	"fmt"

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
	_ layout.Scaler     = (*File)(nil)
	_ layout.Configurer = (*File)(nil)
)

// Index describes the file's tensors.
func (f *File) Index() *layout.Index { return f.index }

// Decode reads header and index of a file of the draft. It reads the metadata too from minor version 1 on, which
// say how the file is encrypted. A nil lim means the defaults.
//
// Errors are *[layout.FormatError]s. Errors about a whole index entry have the offset of the entry, errors about a field the offset of the field.
func Decode(in layout.Input, lim *layout.Limits) (f *File, err error) {
	f = &File{lim: lim.WithDefaults()}
	if f.Header, err = openHeader(in); err != nil {
		return nil, err
	}
	if err = f.Header.check(in.Size()); err != nil {
		return nil, err
	}
	if f.Encryption, err = f.Header.encryption(in, &f.lim); err != nil {
		return nil, err
	}
	if f.index, err = f.readIndex(in); err != nil {
		return nil, err
	}
	return f, nil
}

// openHeader reads the header. It fails if the file has another magic or version.
func openHeader(in layout.Input) (h Header, err error) {
	head, err := layout.Region(in, layout.APR2, 0, "magic", 0, min(headerSize, in.Size()))
	switch {
	case err != nil:
		return h, err
	case len(head) < headerSize:
		return h, errorf(0, "magic", layout.ErrTruncated, "the file of %d bytes ends inside the header of %d", in.Size(), headerSize)
	case string(head[:4]) != magic:
		return h, errorf(0, "magic", layout.ErrFormat, "%q, not %q", head[:4], magic)
	}
	if h = readHeader(head); h.Major != major {
		return h, errorf(atMajor, "version_major", layout.ErrUnsupported, "%d, not %d", h.Major, major)
	}
	return h, nil
}

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
	if off, n := uint64(h.IndexOffset), uint64(h.IndexSize); !layout.Within(off, n, size) {
		return errorf(atIndexOffset, "index_offset", layout.ErrTruncated, "%d bytes at %d leave the file of %d bytes", n, off, size)
	}
	if off, footer := uint64(h.DataOffset), size-footerSize; off > footer {
		return errorf(atDataOffset, "data_offset", layout.ErrTruncated, "%d is past the footer at %d", off, footer)
	}
	return nil
}

// encryption reads how the file was encrypted, or nil if it lacks the flag ENCRYPTED. It fails if the metadata and the flag disagree.
// Other metadata that are malformed pass: they are an error when they are read.
func (h Header) encryption(in layout.Input, lim *layout.Limits) (*encrypted.Encryption, error) {
	off, n, flag := uint64(h.MetadataOffset), uint64(h.MetadataSize), h.Flags.Has(Encrypted)
	if flag {
		if err := h.checkOrder(in.Size(), lim.HeaderBytes); err != nil {
			return nil, err
		}
	} else if h.Minor == 0 || n > lim.HeaderBytes {
		return nil, nil
	}
	b, err := layout.Region(in, layout.APR2, atMetadataOffset, "metadata_offset", off, n)
	if err != nil || !flag && !bytes.Contains(b, []byte(`"`+encryptionKey+`"`)) {
		return nil, err
	}
	keys, err := encrypted.Parse(b, layout.APR2, off, lim)
	if err != nil && !flag {
		return nil, nil
	}
	if err == nil {
		err = h.checkEncryption(keys.Encryption != nil)
	}
	return keys.Encryption, err
}

// checkEncryption returns an error unless the metadata has the key encryption exactly if the flag ENCRYPTED is set.
func (h Header) checkEncryption(stated bool) error {
	switch flag := h.Flags.Has(Encrypted); {
	case stated && !flag && h.Minor >= 1:
		return errorf(uint64(h.MetadataOffset), encryptionKey, layout.ErrInvalid, "such a key, but not the flag ENCRYPTED")
	case flag && !stated:
		return errorf(uint64(h.MetadataOffset), encryptionKey, layout.ErrInvalid, "no such key, but the flag ENCRYPTED")
	}
	return nil
}

// readIndex reads the index. It fails if it has other entries than it says, or a field is invalid.
func (f *File) readIndex(in layout.Input) (*layout.Index, error) {
	h, at := &f.Header, uint64(f.Header.IndexOffset)
	c := layout.NewCursor(in, layout.APR2, at, uint64(h.IndexSize))
	c.Peek("index_offset", c.Left()) // reads it whole
	count := uint64(c.U32("tensor_count"))
	c.U32("reserved")
	if !c.Fits(at, "tensor_count", count, minEntrySize) {
		return nil, c.Err()
	}
	size := in.Size()
	b := layout.NewBuilder(layout.APR2, size, count, "offset", f.lim)
	ix, footer := b.Index(), size-footerSize
	ix.Version = fmt.Sprintf("%d.%d", h.Major, h.Minor)
	ix.Flags = h.Flags.Names()
	ix.Align = h.Flags.Align()
	b.Data(uint64(h.DataOffset), footer-uint64(h.DataOffset))
	ix.Sections = []layout.Section{ // which Header.check has found to be in the file
		{Name: "header", Offset: 0, Size: headerSize},
		{Name: "metadata", Offset: uint64(h.MetadataOffset), Size: uint64(h.MetadataSize)},
		{Name: "index", Offset: at, Size: uint64(h.IndexSize)},
		{Name: "footer", Offset: footer, Size: footerSize},
	}
	for range count {
		at := c.Offset()
		if err := f.readEntry(&c, b); err != nil {
			return nil, err
		}
		if err := b.Add(at); err != nil {
			return nil, err
		}
	}
	if n := c.Left(); n > 0 {
		return nil, errorf(c.Offset(), "index_size", layout.ErrInvalid, "%d bytes are left behind the last of %d entries", n, count)
	}
	return b.Finish()
}

// readEntry reads an index entry into b's next tensor. It ignores the entry's flags, because they could only repeat raw_size.
func (f *File) readEntry(c *layout.Cursor, b *layout.Builder) error {
	h, t, at := &f.Header, b.Next(), c.Offset()
	t.Name = c.Take("name", uint64(c.U16("name_len")))
	idAt := c.Offset()
	id, rank := c.U8("dtype"), int(c.U8("n_dims"))
	if rank < 1 || rank > MaxDims {
		c.Fail(idAt+1, "n_dims", layout.ErrInvalid, "tensor %s: %d, not 1 to %d", layout.Quote(t.Name), rank, MaxDims)
	}
	if t.DType = dtype(id, h.Minor); t.DType == layout.Invalid {
		c.Fail(idAt, "dtype", layout.ErrUnsupported, "tensor %s: %#02x is no dtype of version %s", layout.Quote(t.Name), id, b.Index().Version)
	}
	if c.Err() != nil {
		return c.Err()
	}
	t.Shape = b.Dims(rank)
	for i := range t.Shape {
		t.Shape[i] = layout.Dim(c.U64("dims"))
	}
	tail := c.Take("offset", 8+8+8+4) // offset, size, raw_size, flags
	if c.Err() != nil {
		return c.Err()
	}
	t.Offset = layout.AddOffset(uint64(h.DataOffset), le.Uint64(tail))
	t.Stored = le.Uint64(tail[8:])
	rawSize := le.Uint64(tail[16:])
	content, ok := t.Stored, true
	if f.Encryption != nil {
		content, ok = encrypted.ContentBytes(t.Stored, f.Encryption.BlockSize)
		t.Encoding, t.Raw = layout.Encrypted, content
	}
	if !ok {
		c.Fail(at, "size", layout.ErrInvalid, "tensor %s: %d bytes are no encrypted blocks of %d: the last would be empty",
			layout.Quote(t.Name), t.Stored, f.Encryption.BlockSize)
	}
	if rawSize != 0 {
		if t.Encoding, t.Raw = layout.LZ4, rawSize; f.Encryption != nil {
			t.Encoding = layout.EncryptedLZ4
		}
		if !layout.LZ4Holds(content, rawSize) {
			c.Fail(at, "raw_size", layout.ErrInvalid, "tensor %s: %d bytes are too few for LZ4 to make %d of them", layout.Quote(t.Name), content, rawSize)
		}
	}
	return c.Err()
}
