package bw2l

import (
	"cmp"
	"strconv"
	"unicode/utf8"

	"github.com/tensormap/tensormap/layout"
)

// File is a decoded BW2L file.
type File struct {
	// Sections are in the order of the file.
	Sections []Section

	version uint8
	name    byteRange
	layers  []layer // of all sections
	end     uint64  // of the last section
	index   *layout.Index
	lim     layout.Limits
}

var (
	_ layout.File       = (*File)(nil)
	_ layout.Summarizer = (*File)(nil)
)

// Index describes the file's tensors, arrays in the order of the file.
func (f *File) Index() *layout.Index { return f.index }

// Decode reads the headers of sections, layers and arrays, and skips all else. A nil
// lim means the defaults. Errors are *[layout.FormatError]s.
func Decode(in layout.Input, lim *layout.Limits) (*File, error) {
	d := decoder{file: &File{lim: lim.WithDefaults()}, in: in}
	if err := d.walk(); err != nil {
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
	builder *layout.Builder
}

// walk reads the headers of the file, its sections, layers and arrays.
func (d *decoder) walk() error {
	c := layout.NewCursor(d.in, layout.BW2L, 0, d.in.Size())
	if m := c.Take("magic", uint64(len(magic))); m != nil && string(m) != magic {
		c.Fail(0, "magic", layout.ErrInvalid, "%q, not %q", m, magic)
	}
	d.file.version = c.U8("version")
	if v := d.file.version; v != 1 && v != 2 {
		c.Fail(uint64(len(magic)), "version", layout.ErrUnsupported, "%d, but only 1 and 2 are known", v)
	}
	d.file.name = skipRange(&c, "name", uint64(c.U8("name")))
	n := d.readCount(&c, "section_count", 0, minSection)
	seen := make(map[string]struct{}) // grows with the sections that are there, not with n
	for range n {
		if err := d.readSection(&c, seen); err != nil {
			return err
		}
	}
	d.file.end = c.Offset()
	return c.Err()
}

// readSection reads a section's header and those of the arrays in it.
func (d *decoder) readSection(c *layout.Cursor, seen map[string]struct{}) error {
	s := Section{Name: sectionName(c, seen)}
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

// sectionName reads a name that is not among those seen before.
func sectionName(c *layout.Cursor, seen map[string]struct{}) string {
	at := c.Offset()
	b := str8(c, "name")
	c.CheckText(at, "name", b)
	s := string(b)
	if _, twice := seen[s]; twice {
		c.Fail(at, "name", layout.ErrDuplicate, "two sections have the name %s", layout.Quote([]byte(s)))
	}
	seen[s] = struct{}{}
	return s
}

// readContents reads the headers of the arrays in a section of type array or layers. It fails if bytes are left behind the last one.
// It also fails if names of tensors, which repeat that of the section, would take too many bytes.
func (d *decoder) readContents(s *Section, sizeAt uint64) error {
	c := layout.NewCursor(d.in, layout.BW2L, s.Offset, s.Size)
	switch s.Type {
	case typeArray:
		d.readArray(&c)
	case typeLayers:
		before := len(d.arrays)
		d.readLayers(&c, s)
		d.prefix += uint64(len(d.arrays)-before) * uint64(len(s.Name))
	default:
		return nil
	}
	if left := c.Left(); left > 0 {
		c.Fail(sizeAt, "data_length", layout.ErrInvalid, "%d of %d bytes are left behind the last array", left, s.Size)
	}
	if limit := namesPerByte * d.in.Size(); d.prefix > limit {
		c.Fail(s.Offset, "layer_count", layout.ErrLimit, "tensors named after section %s would have more than %d bytes of names",
			layout.Quote([]byte(s.Name)), limit)
	}
	return c.Err()
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
		c.Fail(at, field, layout.ErrLimit, "with these %d, sections, layers and arrays take more than %d bytes without what is in them", n, lim.HeaderBytes)
	default:
		return n
	}
	return 0
}

// skipRange skips n bytes and returns where they are. It sets c's error if fewer are left.
func skipRange(c *layout.Cursor, field string, n uint64) byteRange {
	s := byteRange{c.Offset(), n}
	c.Skip(field, n)
	return s
}

// str8 reads a string behind its length of one byte.
func str8(c *layout.Cursor, field string) []byte {
	return c.Take(field, uint64(c.U8(field)))
}

// reader reads the contents that headers point to. After its first error it reads nothing.
type reader struct {
	file    *File
	in      layout.Input
	left    uint64 // of Limits.HeaderBytes
	err     error
	invalid struct { // texts that are not valid UTF-8
		n     int
		field string // of the first one
		at    uint64
	}
}

// reader returns a reader of in, the file that f was decoded from.
func (f *File) reader(in layout.Input) reader {
	return reader{file: f, in: in, left: f.lim.HeaderBytes}
}

// fail sets the reader's error, unless err is nil or there is one already.
func (r *reader) fail(err error) { r.err = cmp.Or(r.err, err) }

// spendLimit subtracts the number of bytes at s from what the limit of metadata still allows, and reports true. If it allows fewer, or
// there was an error before, spendLimit reports false, and r.err is set.
func (r *reader) spendLimit(field string, s byteRange) bool {
	if s.size > r.left {
		r.fail(layout.Errorf(layout.BW2L, s.off, field, layout.ErrLimit, "with these %d bytes, metadata has more than %d",
			s.size, r.file.lim.HeaderBytes))
	}
	if r.err == nil {
		r.left -= s.size
	}
	return r.err == nil
}

// read returns the bytes at s, or nil after an error.
func (r *reader) read(field string, s byteRange) []byte {
	if !r.spendLimit(field, s) {
		return nil
	}
	b, err := layout.Region(r.in, layout.BW2L, s.off, field, s.off, s.size)
	r.fail(err)
	return b
}

// text reads the text at s: a string, or a Blob if it is not valid UTF-8. Errors are left in r.
func (r *reader) text(field string, s byteRange) any {
	return r.textOrBlob(field, s.off, r.read(field, s))
}

// textOrBlob returns a copy of b: a string, or a Blob if it is not valid UTF-8.
func (r *reader) textOrBlob(field string, at uint64, b []byte) any {
	s := string(b) // first: b may be mapped, and change
	if utf8.ValidString(s) {
		return s
	}
	if r.invalid.n++; r.invalid.n == 1 {
		r.invalid.field, r.invalid.at = field, at
	}
	return layout.Blob(s)
}

// index names the arrays and builds the table of tensors.
func (d *decoder) index() error {
	b, err := layout.NewBuilder(layout.BW2L, d.in.Size(), uint64(len(d.arrays)), "data", d.file.lim)
	if err != nil {
		return err
	}
	b.Index().Version = strconv.Itoa(int(d.file.version))
	b.Index().Sections = make([]layout.Section, 0, len(d.file.Sections))
	d.builder = b
	for i := range d.file.Sections {
		if err := d.addSection(&d.file.Sections[i]); err != nil {
			return err
		}
	}
	d.file.index, err = b.Finish()
	return err
}

// addSection adds a section to the index: its arrays as tensors, or else its bytes as a section. The arrays are the first that are left in
// d.arrays. It fails if a name is taken or invalid.
func (d *decoder) addSection(s *Section) error {
	switch s.Type {
	case typeArray:
		return d.addTensor([]byte(s.Name), nil)
	case typeLayers:
		return d.addLayers(s)
	}
	d.builder.Section(s.Name, s.Offset, s.Offset, s.Size)
	return nil
}

// addLayers names the arrays of a section of layers, and adds them to the index.
func (d *decoder) addLayers(s *Section) error {
	const digits = 20 // the longest text of an int
	prefix := make([]byte, 0, len(s.Name)+1+digits+1+digits)
	for i := range s.layers {
		l, quant := &d.file.layers[s.firstLayer+i], (*layout.Quant)(nil)
		if d.file.version == 1 {
			quant = &l.quant
		}
		prefix = append(append(prefix[:0], s.Name...), '.')
		prefix = append(strconv.AppendInt(prefix, int64(i), 10), '.')
		for j := range l.params {
			if err := d.addTensor(strconv.AppendInt(prefix, int64(j), 10), quant); err != nil {
				return err
			}
		}
	}
	return nil
}

// addTensor adds the first array that is left to the index, under a name. quant is the scale of its elements if they are integers, or
// nil. It fails if the name is taken or invalid.
func (d *decoder) addTensor(name []byte, quant *layout.Quant) error {
	a := d.arrays[0]
	d.arrays = d.arrays[1:]
	t := d.builder.Next()
	t.Name, t.DType, t.Offset, t.Stored = name, a.dtype, a.data, a.size
	t.Shape = d.shapes[:a.rank:a.rank]
	d.shapes = d.shapes[a.rank:]
	if quant != nil && a.dtype.Kind() == layout.KindInt {
		t.Quant = quant
	}
	return d.builder.Add(a.at)
}
