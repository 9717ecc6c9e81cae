package aprender

import (
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

var _ layout.File = (*File)(nil)

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
	h := readHeader(head)
	if err := h.check(); err != nil {
		return nil, err
	}
	f, err := h.decode(in, lim.WithDefaults())
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

// check returns an error if the version or a flag of the header is not supported.
func (h *Header) check() error {
	switch {
	case h.Major != major:
		return errorf(atMajor, "version_major", layout.ErrUnsupported, "%d, not %d", h.Major, major)
	case h.Flags&refused != 0:
		return errorf(atFlags, "flags", layout.ErrUnsupported, "%v, of which %v is not supported", h.Flags, h.Flags&refused)
	}
	return nil
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

// decode reads the index of the file in, which has this header. It fails if a section leaves the file or an entry is invalid.
func (h *Header) decode(in layout.Input, lim layout.Limits) (*File, error) {
	size := in.Size()
	if err := h.checkBounds(size); err != nil {
		return nil, err
	}
	lim.NameBytes = min(lim.NameBytes, maxName)
	end := size
	if h.DataOffset > h.IndexOffset {
		end = h.DataOffset // so that reading ahead does not fetch tensors
	}
	d := decoder{
		header: h,
		cursor: layout.NewCursor(in, layout.APR2, h.IndexOffset, end-h.IndexOffset),
		enums:  resolver{left: allEnums},
		end:    h.DataOffset,
	}
	count := uint64(h.TensorCount)
	if !d.cursor.Fits(atCount, "tensor_count", count, minEntrySize) {
		return nil, d.cursor.Err()
	}
	var err error
	if d.builder, err = layout.NewBuilder(layout.APR2, size, count, "offset", lim); err != nil {
		return nil, err
	}
	d.builder.Data(h.DataOffset, size-h.DataOffset)
	for i := range int(count) {
		if err := d.readEntry(i); err != nil {
			return nil, err
		}
	}
	ix, err := d.finish(size)
	if err != nil {
		return nil, err
	}
	return &File{Header: *h, index: ix, lim: lim}, nil
}

// decoder reads the index.
type decoder struct {
	header  *Header
	cursor  layout.Cursor
	builder *layout.Builder
	enums   resolver
	end     uint64 // of the tensor that ends last, or data_offset
}

// readEntry reads entry i of the index and adds its tensor. It fails if the entry is cut or a field is invalid.
func (d *decoder) readEntry(i int) error {
	c, t := &d.cursor, d.builder.Next()
	at := c.Offset()
	t.Name = c.Take("name", uint64(c.U16("name_len")))
	idAt := c.Offset()
	id, rank := c.U8("dtype"), int(c.U8("n_dims"))
	if rank > maxDims {
		c.Fail(idAt+1, "n_dims", layout.ErrInvalid, "tensor %s: %d, more than %d", layout.Quote(t.Name), rank, maxDims)
	}
	if err := c.Err(); err != nil {
		return err
	}
	t.Shape = d.builder.Dims(rank)
	for i := range t.Shape {
		t.Shape[i] = layout.Dim(c.U64("dims"))
	}
	t.Offset = layout.AddOffset(d.header.DataOffset, c.U64("offset"))
	t.Stored = c.U64("size")
	if err := c.Err(); err != nil {
		return err
	}
	var err error
	if t.DType, err = d.enums.resolve(t, id, idAt, i); err != nil {
		return err
	}
	if err := d.builder.Add(at); err != nil {
		return err
	}
	d.end = max(d.end, t.Offset+t.Stored)
	return nil
}

// finish returns the index of the file of size bytes, once all entries are read. It fails if the dtypes remain ambiguous, or tensors
// overlap.
func (d *decoder) finish(size uint64) (*layout.Index, error) {
	h, ix := d.header, d.builder.Index()
	if err := d.enums.finish(ix.Tensors, h.Checksum != 0); err != nil {
		return nil, err
	}
	ix.Version = fmt.Sprintf("%d.%d (64-byte header)", h.Major, h.Minor) // the draft's files are "2.0" too
	ix.Flags = h.Flags.Names()
	ix.Align = align
	ix.Sections = []layout.Section{
		{Name: "header", Offset: 0, Size: headerSize},
		{Name: "metadata", Offset: h.MetadataOffset, Size: uint64(h.MetadataSize)},
		{Name: "index", Offset: h.IndexOffset, Size: d.cursor.Offset() - h.IndexOffset},
	}
	if !d.endsWithData(size) {
		ix.Sections = append(ix.Sections, layout.Section{Name: "footer", Offset: size - footerSize, Size: footerSize})
	}
	return d.builder.Finish()
}

// endsWithData reports whether the file ends with the padding of its last tensor, as realizar
// writes it. aprender adds a checksum, which makes the size 4 more than a multiple of 64.
func (d *decoder) endsWithData(size uint64) bool {
	return size%align == 0 && size-d.end < align
}
