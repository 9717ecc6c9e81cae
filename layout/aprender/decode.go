package aprender

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"github.com/tensormap/tensormap/layout"
)

// File is a decoded file.
type File struct {
	Header Header

	index *layout.Index
	lim   layout.Limits
}

// Index describes the file's tensors.
func (f *File) Index() *layout.Index { return f.index }

// Decode reads header and index of a file and no other byte of it. A nil lim means the defaults.
//
// Errors are *[layout.FormatError]s.
func Decode(in layout.Input, lim *layout.Limits) (*File, error) {
	head, err := layout.Region(in, layout.APR2, 0, "magic", 0, min(headerSize, in.Size()))
	if err != nil {
		return nil, err
	}
	if err := checkLayout(head); err != nil {
		return nil, err
	}
	f := &File{lim: lim.WithDefaults()}
	h := &f.Header
	binary.Decode(head[atMajor:atReserved], le, h) // which has that size
	switch {
	case h.Major != major:
		return nil, errorf(atMajor, "version_major", layout.ErrUnsupported, "%d, not %d", h.Major, major)
	case h.Flags&refused != 0:
		return nil, errorf(atFlags, "flags", layout.ErrUnsupported, "%v, of which %v is not supported", h.Flags, h.Flags&refused)
	}
	err = f.readIndex(in)
	if h.Flags&compressed != 0 {
		// aprender sets the flag and compresses nothing. Others compress all that follows
		// the header, and then nothing of it makes sense.
		if err == nil {
			_, err = f.Metadata(in)
		}
		if isDamage(err) {
			err = errorf(atFlags, "flags", layout.ErrUnsupported, "%v, and metadata and index make no sense as they are: compressed as a whole (%v)", h.Flags, err)
		}
	}
	if err != nil {
		return nil, err
	}
	return f, nil
}

// checkLayout returns an error that names the layout which head starts, unless that is a header of 64 bytes. realizar 0.6 wrote
// headers without a checksum.
func checkLayout(head []byte) error {
	is, other := string(head[:min(4, len(head))]), containerName(head)
	switch {
	case is != magicAPR2 && is != magicZero:
		return errorf(0, "magic", layout.ErrFormat, "%q, neither %q nor %q", is, magicZero, magicAPR2)
	case hasHeader(head):
		return nil
	case resemblesHeader(head):
		if sum := le.Uint32(head[atChecksum:]); sum != 0 {
			return errorf(atChecksum, "checksum", layout.ErrChecksum, "a 64-byte header with %#08x, but its bytes give %#08x", sum, checksum(head))
		}
		return nil
	case other != "":
		return errorf(0, "magic", layout.ErrUnsupported, "%s", other)
	case is == magicZero && len(head) > 5 && le.Uint16(head[atMajor:]) == major:
		return errorf(0, "magic", layout.ErrUnsupported, "aprender's late APR1, which is not decoded here")
	case len(head) < headerSize:
		return errorf(0, "magic", layout.ErrTruncated, "the file of %d bytes ends inside the header of %d", len(head), headerSize)
	}
	return errorf(0, "magic", layout.ErrFormat, "%q, which starts no layout that is known", is)
}

// isDamage reports whether err is about what the file holds, not about reading it.
func isDamage(err error) bool {
	return slices.ContainsFunc([]error{
		layout.ErrInvalid, layout.ErrTruncated, layout.ErrOverlap, layout.ErrDuplicate, layout.ErrLimit, layout.ErrUnsupported,
	}, func(sentinel error) bool { return errors.Is(err, sentinel) })
}

// checkBounds returns an error if a section of the header does not begin in the file of size bytes.
func (h *Header) checkBounds(size uint64) error {
	switch off, n := h.MetadataOffset, uint64(h.MetadataSize); {
	case !layout.Within(off, n, size):
		return errorf(atMetadataOffset, "metadata_offset", layout.ErrTruncated, "%d bytes at %d leave the file of %d bytes", n, off, size)
	case h.IndexOffset > size:
		return errorf(atIndexOffset, "tensor_index_offset", layout.ErrTruncated, "%d is past the end of the file of %d bytes", h.IndexOffset, size)
	case h.DataOffset > size:
		return errorf(atDataOffset, "data_offset", layout.ErrTruncated, "%d is past the end of the file of %d bytes", h.DataOffset, size)
	}
	return nil
}

// readIndex reads the index. It fails if a section leaves the file, an entry is invalid, tensors overlap, or their dtypes remain ambiguous.
func (f *File) readIndex(in layout.Input) (err error) {
	h, size := &f.Header, in.Size()
	if err := h.checkBounds(size); err != nil {
		return err
	}
	f.lim.NameBytes = min(f.lim.NameBytes, maxName)
	end := size
	if h.DataOffset > h.IndexOffset {
		end = h.DataOffset // so that reading ahead does not fetch tensors
	}
	c := layout.NewCursor(in, layout.APR2, h.IndexOffset, end-h.IndexOffset)
	count := uint64(h.TensorCount)
	if !c.Fits(atCount, "tensor_count", count, minEntrySize) {
		return c.Err()
	}
	b := layout.NewBuilder(layout.APR2, size, count, "offset", f.lim)
	b.Data(h.DataOffset, size-h.DataOffset)
	enums := resolver{left: allEnums}
	for i := range int(count) {
		at := c.Offset()
		if err := h.readEntry(&c, b, &enums, i); err != nil {
			return err
		}
		if err := b.Add(at); err != nil {
			return err
		}
	}
	ix := b.Index()
	if err := enums.finish(ix.Tensors, h.Checksum != 0); err != nil {
		return err
	}
	ix.Version = fmt.Sprintf("%d.%d (64-byte header)", h.Major, h.Minor) // the draft's files are "2.0" too
	ix.Flags = h.Flags.Names()
	ix.Align = align
	ix.Sections = []layout.Section{
		{Name: "header", Offset: 0, Size: headerSize},
		{Name: "metadata", Offset: h.MetadataOffset, Size: uint64(h.MetadataSize)},
		{Name: "index", Offset: h.IndexOffset, Size: c.Offset() - h.IndexOffset},
	}
	last := h.DataOffset // where the tensor ends that ends last
	for i := range ix.Tensors {
		last = max(last, ix.Tensors[i].Offset+ix.Tensors[i].Stored)
	}
	// realizar's files end with the padding of the last tensor. aprender adds a checksum, which makes the size 4 more than a multiple of 64.
	if size%align != 0 || size-last >= align {
		ix.Sections = append(ix.Sections, layout.Section{Name: "footer", Offset: size - footerSize, Size: footerSize})
	}
	f.index, err = b.Finish()
	return err
}

// readEntry reads entry i of the index into b's next tensor. It fails if the entry is cut or a field is invalid.
func (h *Header) readEntry(c *layout.Cursor, b *layout.Builder, enums *resolver, i int) (err error) {
	t := b.Next()
	t.Name = c.Take("name", uint64(c.U16("name_len")))
	idAt := c.Offset()
	id, rank := c.U8("dtype"), int(c.U8("n_dims"))
	if rank > maxDims {
		c.Fail(idAt+1, "n_dims", layout.ErrInvalid, "tensor %s: %d, more than %d", layout.Quote(t.Name), rank, maxDims)
	}
	if err := c.Err(); err != nil {
		return err
	}
	t.Shape = b.Dims(rank)
	for i := range t.Shape {
		t.Shape[i] = layout.Dim(c.U64("dims"))
	}
	t.Offset = layout.AddOffset(h.DataOffset, c.U64("offset"))
	t.Stored = c.U64("size")
	if err := c.Err(); err != nil {
		return err
	}
	t.DType, err = enums.resolve(t, id, idAt, i)
	return err
}
