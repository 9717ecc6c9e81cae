package bw2l

import (
	"cmp"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/tensormap/tensormap/layout"
)

// File is a decoded BW2L file.
type File struct {
	// Sections are in the order of the file.
	Sections []Section

	version uint8
	name    span
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

// decoder reads the file once and collects the arrays. Then their number is known and the index can be
// built.
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
	d.file.name = skip(&c, "name", uint64(c.U8("name")))
	n := d.count(&c, "section_count", 0, minSection)
	seen := make(map[string]struct{}) // grows with the sections that are there, not with n
	for range n {
		if err := d.section(&c, seen); err != nil {
			return err
		}
	}
	d.file.end = c.Offset()
	return c.Err()
}

// section reads a section's header and those of the arrays in it.
func (d *decoder) section(c *layout.Cursor, seen map[string]struct{}) error {
	s := Section{Name: sectionName(c, seen)}
	s.Type = string(str8(c, "type"))
	s.desc = skip(c, "desc", c.U64("desc"))
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
	err := d.contents(&s, sizeAt)
	d.file.Sections = append(d.file.Sections, s)
	return err
}

// sectionName reads a name that is not among those seen before.
func sectionName(c *layout.Cursor, seen map[string]struct{}) string {
	at := c.Offset()
	s := key(c, "name")
	if strings.Contains(s, "\x00") {
		c.Fail(at, "name", layout.ErrInvalid, "%s holds a NUL byte", layout.Quote([]byte(s)))
	}
	if _, twice := seen[s]; twice {
		c.Fail(at, "name", layout.ErrDuplicate, "two sections have the name %s", layout.Quote([]byte(s)))
	}
	seen[s] = struct{}{}
	return s
}

// contents reads the headers of the arrays in a section. They must fill it.
func (d *decoder) contents(s *Section, sizeAt uint64) error {
	c := layout.NewCursor(d.in, layout.BW2L, s.Offset, s.Size)
	switch s.Type {
	case typeArray:
		d.array(&c)
	case typeLayers:
		before := len(d.arrays)
		d.layers(&c, s)
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

// count reads the number of records of at least size bytes that follow, and checks it against the limits. The file has
// had earlier records of the kind before. A file may be far longer than it is on disk: its holes read as zeros, and 16
// zeros are a layer.
func (d *decoder) count(c *layout.Cursor, field string, earlier int, size uint64) uint64 {
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

// skip skips n bytes and returns their place.
func skip(c *layout.Cursor, field string, n uint64) span {
	s := span{c.Offset(), n}
	c.Skip(field, n)
	return s
}

// str8 reads a string behind its length of one byte.
func str8(c *layout.Cursor, field string) []byte {
	return c.Take(field, uint64(c.U8(field)))
}

// key reads a str8. It must be valid UTF-8.
func key(c *layout.Cursor, field string) string {
	at := c.Offset()
	s := string(str8(c, field))
	if !utf8.ValidString(s) {
		c.Fail(at, field, layout.ErrInvalid, "%s is not valid UTF-8", layout.Quote([]byte(s)))
	}
	return s
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

func (f *File) reader(in layout.Input) reader {
	return reader{file: f, in: in, left: f.lim.HeaderBytes}
}

// fail sets the reader's error, unless err is nil or there is one already.
func (r *reader) fail(err error) { r.err = cmp.Or(r.err, err) }

// afford reports whether the limits allow a piece of the file to be read.
func (r *reader) afford(field string, s span) bool {
	if s.size > r.left {
		r.fail(layout.Errorf(layout.BW2L, s.off, field, layout.ErrLimit, "with these %d bytes, metadata has more than %d",
			s.size, r.file.lim.HeaderBytes))
	}
	if r.err == nil {
		r.left -= s.size
	}
	return r.err == nil
}

// read returns bytes of the input.
func (r *reader) read(field string, s span) []byte {
	if !r.afford(field, s) {
		return nil
	}
	b, err := layout.Region(r.in, layout.BW2L, s.off, field, s.off, s.size)
	r.fail(err)
	return b
}

func (r *reader) text(field string, s span) any {
	return r.decoded(field, s.off, r.read(field, s))
}

// decoded returns a copy of b: a string, or a Blob if it is not valid UTF-8.
func (r *reader) decoded(field string, at uint64, b []byte) any {
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
		if err := d.enter(&d.file.Sections[i]); err != nil {
			return err
		}
	}
	d.file.index, err = b.Finish()
	return err
}

// enter adds the arrays of a section to the index. They are the first that are left in d.arrays.
func (d *decoder) enter(s *Section) error {
	switch s.Type {
	case typeArray:
		return d.tensor([]byte(s.Name), nil)
	case typeLayers:
		return d.enterLayers(s)
	}
	d.builder.Section(s.Name, s.Offset, s.Offset, s.Size)
	return nil
}

// enterLayers names the arrays of a section of layers, and adds them to the index.
func (d *decoder) enterLayers(s *Section) error {
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
			if err := d.tensor(strconv.AppendInt(prefix, int64(j), 10), quant); err != nil {
				return err
			}
		}
	}
	return nil
}

// tensor adds the first array that is left to the index. quant is the scale of integers.
func (d *decoder) tensor(name []byte, quant *layout.Quant) error {
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
