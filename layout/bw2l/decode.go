package bw2l

import (
	"math"
	"slices"
	"strconv"

	"github.com/tensormap/tensormap/layout"
)

// File is a decoded BW2L file.
type File struct {
	// Sections are in the order of the file.
	Sections []Section

	version uint8
	name    layout.Section
	layers  []layer // of all sections
	end     uint64  // of the last section
	index   *layout.Index
	lim     layout.Limits
}

var _ layout.Summarizer = (*File)(nil)

// Index describes the file's tensors, arrays in the order of the file.
func (f *File) Index() *layout.Index { return f.index }

// Decode reads the headers of sections, layers and arrays, and skips all else. A nil
// lim means the defaults. Errors are *[layout.FormatError]s.
func Decode(in layout.Input, lim *layout.Limits) (*File, error) {
	d := decoder{file: &File{lim: lim.WithDefaults()}, in: in}
	c := layout.NewCursor(in, layout.BW2L, 0, in.Size())
	if m := c.Take("magic", uint64(len(magic))); m != nil && string(m) != magic {
		c.Fail(0, "magic", layout.ErrInvalid, "%q, not %q", m, magic)
	}
	d.file.version = c.U8("version")
	if v := d.file.version; v != 1 && v != 2 {
		c.Fail(uint64(len(magic)), "version", layout.ErrUnsupported, "%d, but only 1 and 2 are known", v)
	}
	d.file.name = skipRange(&c, "name", uint64(c.U8("name")))
	n := d.readCount(&c, "section_count", 0, minSection)
	seen := make(map[string]bool) // grows with the sections that are there, not with n
	for range n {
		if err := d.readSection(&c, seen); err != nil {
			return nil, err
		}
	}
	d.file.end = c.Offset()
	if err := c.Err(); err != nil {
		return nil, err
	}
	if err := d.index(); err != nil {
		return nil, err
	}
	return d.file, nil
}

// decoder reads the file once and collects its arrays. Once their number is known, it builds the index.
type decoder struct {
	file    *File
	in      layout.Input
	arrays  []array // of all sections
	shapes  []int   // of arrays, one after another
	records uint64  // the fewest bytes that sections, layers and arrays take without their contents
	prefix  uint64  // bytes of names of sections in names of tensors
}

// readSection reads a section's header and the headers of the arrays in it. It fails if its name is in seen already.
func (d *decoder) readSection(c *layout.Cursor, seen map[string]bool) error {
	at := c.Offset()
	name := str8(c, "name")
	c.CheckText(at, "name", name)
	s := Section{Name: string(name)}
	if seen[s.Name] {
		c.Fail(at, "name", layout.ErrDuplicate, "two sections have the name %s", layout.Quote(name))
	}
	seen[s.Name] = true
	s.Type = string(str8(c, "type"))
	s.desc = skipRange(c, "desc", c.U64("desc"))
	sizeAt := c.Offset()
	s.Size = c.U64("data_length")
	if left := c.Left(); s.Size > left {
		c.Fail(sizeAt, "data_length", layout.ErrTruncated, "%d bytes, but only %d are left", s.Size, left)
	}
	s.Offset = c.Offset()
	c.Skip("data", s.Size)
	if err := c.Err(); err != nil {
		return err
	}
	err := d.readContents(&s, sizeAt)
	d.file.Sections = append(d.file.Sections, s)
	return err
}

// readContents reads the headers of the arrays in a section of type array or layers. It fails if bytes are left behind the last one.
// It also fails if names of tensors, which repeat the name of the section, would take too many bytes.
func (d *decoder) readContents(s *Section, sizeAt uint64) error {
	c := layout.NewCursor(d.in, layout.BW2L, s.Offset, s.Size)
	switch s.Type {
	case typeArray:
		d.readArray(&c, 0, 0)
	case typeLayers:
		before := len(d.arrays)
		s.firstLayer = len(d.file.layers)
		n := d.readCount(&c, "layer_count", s.firstLayer, minLayer[d.file.version])
		for i := uint64(0); i < n && c.Err() == nil; i++ {
			d.readLayer(&c, int(i))
		}
		s.layers = len(d.file.layers) - s.firstLayer
		d.prefix += uint64(len(d.arrays)-before) * uint64(len(s.Name))
	default:
		return nil
	}
	if left := c.Left(); left > 0 {
		c.Fail(sizeAt, "data_length", layout.ErrInvalid, "%d of %d bytes are left behind the last array", left, s.Size)
	}
	if limit := namesPerByte * d.in.Size(); d.prefix > limit {
		c.Fail(s.Offset, "layer_count", layout.ErrLimit, "tensors named after section %s would have more than %d bytes of names",
			layout.Quote(s.Name), limit)
	}
	return c.Err()
}

// readLayer reads layer i of a section and the headers of its arrays. It sets c's error if there are too many, or if the layer has integers
// and no usable scale.
func (d *decoder) readLayer(c *layout.Cursor, i int) {
	arch := skipRange(c, "arch", c.U64("arch"))
	l := layer{archOffset: arch.Offset, archSize: arch.Size}
	scaleAt := c.Offset()
	if d.file.version == 1 {
		l.quant = layout.Quant{Scale: math.Float32frombits(c.U32("scale")), Zero: int64(c.U64("offset"))}
	}
	paramsAt := c.Offset()
	n := d.readCount(c, "param_count", len(d.arrays), minArray[d.file.version])
	if all := uint64(len(d.arrays)) + n; all > layout.MaxRecords {
		c.Fail(paramsAt, "param_count", layout.ErrLimit, "%d arrays, more than %d", all, layout.MaxRecords)
	}
	integers := false
	for j := uint64(0); j < n && c.Err() == nil; j++ {
		integers = d.readArray(c, i, int(j)).Kind() == layout.KindInt || integers
	}
	if x := float64(l.quant.Scale); d.file.version == 1 && integers && (x == 0 || math.IsNaN(x) || math.IsInf(x, 0)) {
		c.Fail(scaleAt, "scale", layout.ErrInvalid, "%v, but the layer has integers", x)
	}
	l.params = int(n)
	d.file.layers = append(d.file.layers, l)
}

// readArray reads the header of an array of the section that is read, skips its elements, and returns their type. In a section of layers it
// is array param of a layer.
func (d *decoder) readArray(c *layout.Cursor, layer, param int) layout.DType {
	a := array{at: c.Offset(), section: int32(len(d.file.Sections)), layer: int32(layer), param: int32(param)}
	name := str8(c, "type")
	at := c.Offset()
	n := c.U64("array_len")
	if a.dtype = elementTypes[string(name)]; c.Err() == nil && a.dtype == layout.Invalid {
		c.Fail(a.at, "type", layout.ErrUnsupported, "%s is no type of elements", layout.Quote(name))
	}
	if c.Err() != nil {
		return layout.Invalid
	}
	width := uint64(a.dtype.BlockBytes())
	c.Fits(at, "array_len", n, width)
	a.rank = d.readShape(c, n)
	a.data = c.Offset()
	c.Skip("data", n*width) // Fits has compared the product with the file
	if c.Err() != nil {
		return layout.Invalid
	}
	d.arrays = append(d.arrays, a)
	return a.dtype
}

// readShape stores the shape of an array of n elements, and returns its rank. It sets c's error if the dimensions have another product.
func (d *decoder) readShape(c *layout.Cursor, n uint64) (rank uint8) {
	at := c.Offset()
	if d.file.version > 1 {
		rank = c.U8("ndim")
	}
	if rank == 0 {
		d.shapes = append(d.shapes, layout.Dim(n))
		return 1
	}
	if limit := d.file.lim.Rank; uint64(rank) > limit {
		c.Fail(at, "ndim", layout.ErrLimit, "%d dimensions, more than %d", rank, limit)
		return rank
	}
	first := len(d.shapes)
	for range rank {
		d.shapes = append(d.shapes, layout.Dim(c.U64("dims")))
	}
	shape := d.shapes[first:]
	slices.Reverse(shape)
	if product, ok := layout.Elements(shape); !ok || product != n {
		c.Fail(at+1, "dims", layout.ErrInvalid, "%v in reverse have another product than %d, the array_len", shape, n)
	}
	return rank
}

// namesPerByte bounds the bytes of names for each byte of the file. Tensors repeat the name of their
// section, which the file has only once.
const namesPerByte = 4

// readCount reads the number of records of at least size bytes that follow, and checks it against the limits. The file has
// had earlier records of the kind before. A file may be far longer than it is on disk: its holes read as zeros, and 16
// zeros are a layer.
func (d *decoder) readCount(c *layout.Cursor, field string, earlier int, size uint64) uint64 {
	at := c.Offset()
	n := c.U64(field)
	if !c.Fits(at, field, n, size) {
		return 0
	}
	d.records += n * size // Fits has compared the product with the file
	switch lim := &d.file.lim; {
	case uint64(earlier)+n > lim.Tensors:
		c.Fail(at, field, layout.ErrLimit, "%d, more than %d", uint64(earlier)+n, lim.Tensors)
	case d.records > lim.HeaderBytes:
		c.Fail(at, field, layout.ErrLimit, "with these %d records, sections, layers and arrays take more than %d bytes without what is in them", n, lim.HeaderBytes)
	default:
		return n
	}
	return 0
}

// skipRange skips n bytes of a field and returns where they are. It sets c's error if fewer are left.
func skipRange(c *layout.Cursor, field string, n uint64) layout.Section {
	s := layout.Section{Name: field, Offset: c.Offset(), Size: n}
	c.Skip(field, n)
	return s
}

// str8 reads a string behind its length of one byte.
func str8(c *layout.Cursor, field string) []byte {
	return c.Take(field, uint64(c.U8(field)))
}

// index names the arrays and builds the table of tensors: the sections of arrays, and the others as sections.
func (d *decoder) index() (err error) {
	f := d.file
	b := layout.NewBuilder(layout.BW2L, d.in.Size(), uint64(len(d.arrays)), "data", f.lim)
	b.Index().Version = strconv.Itoa(int(f.version))
	b.Index().Sections = make([]layout.Section, 0, len(f.Sections))
	for _, s := range f.Sections {
		if s.Type != typeArray && s.Type != typeLayers {
			b.Section(s.Name, s.Offset, s.Offset, s.Size)
		}
	}
	var name []byte
	for _, a := range d.arrays {
		s, t := &f.Sections[a.section], b.Next()
		name = append(name[:0], s.Name...)
		if s.Type == typeLayers {
			name = strconv.AppendInt(append(name, '.'), int64(a.layer), 10)
			name = strconv.AppendInt(append(name, '.'), int64(a.param), 10)
			if f.version == 1 && a.dtype.Kind() == layout.KindInt {
				t.Quant = &f.layers[s.firstLayer+int(a.layer)].quant
			}
		}
		t.Name, t.DType, t.Offset = name, a.dtype, a.data
		t.Shape = d.shapes[:a.rank:a.rank]
		t.Stored, _ = a.dtype.Size(t.Shape) // the file has been found to hold as many
		d.shapes = d.shapes[a.rank:]
		if err := b.Add(a.at); err != nil {
			return err
		}
	}
	f.index, err = b.Finish()
	return err
}
