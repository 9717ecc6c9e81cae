package apr2

import (
	"errors"
	"fmt"
	"slices"

	"github.com/tensormap/tensormap/layout"
)

// version64 tells files with the 64-byte header from the draft's, which are "2.0" too.
const version64 = "%d.%d (64-byte header)"

// decode64 reads a file whose first 64 bytes are head.
func decode64(in layout.Input, head []byte, lim layout.Limits) (layout.File, error) {
	h := readHeader64(head)
	if err := h.check(); err != nil {
		return nil, err
	}
	f, err := h.decode(in, lim)
	if h.Flags&compressed64 != 0 {
		// aprender sets the flag and compresses nothing. Others compress all that follows
		// the header, and then nothing of it makes sense.
		if err == nil {
			_, err = f.Metadata(in)
		}
		if isDamage(err) {
			err = errorf(at64Flags, "flags", layout.ErrUnsupported, "%v, and metadata and index make no sense as they are: compressed as a whole (%v)", h.Flags, err)
		}
	}
	if err != nil {
		return nil, err
	}
	return f, nil
}

// isDamage tells an error about what the file holds from one of reading it.
func isDamage(err error) bool {
	return slices.ContainsFunc([]error{
		layout.ErrInvalid, layout.ErrTruncated, layout.ErrOverlap, layout.ErrDuplicate, layout.ErrLimit, layout.ErrUnsupported,
	}, func(sentinel error) bool { return errors.Is(err, sentinel) })
}

func (h *Header64) decode(in layout.Input, lim layout.Limits) (*File64, error) {
	size := in.Size()
	if err := h.checkBounds(size); err != nil {
		return nil, err
	}
	lim.NameBytes = min(lim.NameBytes, maxName64)
	end := size
	if h.DataOffset > h.IndexOffset {
		end = h.DataOffset // so that reading ahead does not fetch tensors
	}
	d := decoder64{
		header: h,
		cursor: layout.NewCursor(in, layout.APR2, h.IndexOffset, end-h.IndexOffset),
		choice: chooser{left: allNumberings},
		end:    h.DataOffset,
	}
	count := uint64(h.TensorCount)
	if !d.cursor.Fits(at64Count, "tensor_count", count, minEntry64Size) {
		return nil, d.cursor.Err()
	}
	var err error
	if d.builder, err = layout.NewBuilder(layout.APR2, size, count, "offset", lim); err != nil {
		return nil, err
	}
	d.builder.Data(h.DataOffset, size-h.DataOffset)
	for i := range int(count) {
		if err := d.entry(i); err != nil {
			return nil, err
		}
	}
	ix, err := d.finish(size)
	if err != nil {
		return nil, err
	}
	return &File64{Header: *h, index: ix, lim: lim}, nil
}

type decoder64 struct {
	header  *Header64
	cursor  layout.Cursor
	builder *layout.Builder
	choice  chooser
	end     uint64 // of the tensor that ends last, or where data would begin
}

// entry reads entry i of the index.
func (d *decoder64) entry(i int) error {
	c, t := &d.cursor, d.builder.Next()
	at := c.Offset()
	t.Name = c.Take("name", uint64(c.U16("name_len")))
	idAt := c.Offset()
	id, rank := c.U8("dtype"), int(c.U8("n_dims"))
	if rank > maxDims {
		c.Fail(idAt+1, "n_dims", layout.ErrInvalid, "tensor %s: %d, more than %d", layout.Quote(t.Name), rank, maxDims)
	}
	dims := c.Take("dims", 8*uint64(rank))
	offset := c.U64("offset")
	t.Stored = c.U64("size")
	if err := c.Err(); err != nil {
		return err
	}
	t.Shape = readDims(d.builder, dims)
	if offset > d.builder.Index().Size {
		// Also keeps the sum below from wrapping.
		return errorf(at, "offset", layout.ErrTruncated, "tensor %s: %d is past the end of the file of %d bytes", layout.Quote(t.Name), offset, d.builder.Index().Size)
	}
	t.Offset = d.header.DataOffset + offset
	var err error
	if t.DType, err = d.choice.dtype(t, id, idAt, i); err != nil {
		return err
	}
	if err := d.builder.Add(at); err != nil {
		return err
	}
	d.end = max(d.end, t.Offset+t.Stored)
	return nil
}

func (d *decoder64) finish(size uint64) (*layout.Index, error) {
	h, ix := d.header, d.builder.Index()
	if err := d.choice.finish(ix.Tensors, h.Checksum == 0); err != nil {
		return nil, err
	}
	ix.Version = fmt.Sprintf(version64, h.Major, h.Minor)
	ix.Flags = h.Flags.Names()
	ix.Align = align64
	ix.Sections = []layout.Section{
		{Name: "header", Offset: 0, Size: header64Size},
		{Name: "metadata", Offset: h.MetadataOffset, Size: uint64(h.MetadataSize)},
		{Name: "index", Offset: h.IndexOffset, Size: d.cursor.Offset() - h.IndexOffset},
	}
	if !d.endsUnsummed(size) {
		ix.Sections = append(ix.Sections, layout.Section{Name: "footer", Offset: size - footer64Size, Size: footer64Size})
	}
	return d.builder.Finish()
}

// endsUnsummed reports whether the file ends with the padding of its last tensor, as realizar
// writes it. aprender adds a checksum, which makes the size 4 more than a multiple of 64.
func (d *decoder64) endsUnsummed(size uint64) bool {
	return size%align64 == 0 && size-d.end < align64
}
