package bw2l

import (
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

// Index describes the file's tensors, arrays in the order of the file.
func (f *File) Index() *layout.Index { return f.index }

// Decode reads the headers of sections, layers and arrays, and steps over all else. A nil
// lim means the defaults. Errors are *[layout.FormatError].
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

// decoder goes over the file once and notes what is there. Only then is it known how many
// tensors there are, and the index can be built.
type decoder struct {
	file    *File
	in      layout.Input
	arrays  arrayList // of all sections
	shapes  []uint64  // of arrays, one after another
	records uint64    // bytes that sections, layers and arrays take at least without what is in them
	prefix  uint64    // bytes that names of tensors repeat of names of sections
}

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
	seen := make(map[string]struct{}) // which grows with what is there, not with n
	for range n {
		if err := d.section(&c, seen); err != nil {
			return err
		}
	}
	d.file.end = c.Offset()
	return c.Err()
}

// section reads a section's header and, where there are arrays in the section, theirs.
func (d *decoder) section(c *layout.Cursor, seen map[string]struct{}) error {
	s := Section{Name: sectionName(c, seen)}
	s.Type = sectionType(str8(c, "type"))
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
	d.file.Sections = append(grown(d.file.Sections), s)
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

// contents reads the headers of the arrays in a section, which must fill it.
func (d *decoder) contents(s *Section, sizeAt uint64) error {
	c := layout.NewCursor(d.in, layout.BW2L, s.Offset, s.Size)
	switch s.Type {
	case typeArray:
		d.array(&c)
	case typeLayers:
		before := d.arrays.n
		d.layers(&c, s)
		d.prefix += uint64(d.arrays.n-before) * uint64(len(s.Name))
	default:
		return nil
	}
	if left := c.Left(); left > 0 {
		c.Fail(sizeAt, "data_length", layout.ErrInvalid, "%d of %d bytes are left behind the last array", left, s.Size)
	}
	if most := namesPerByte * d.in.Size(); d.prefix > most {
		c.Fail(s.Offset, "layer_count", layout.ErrLimit, "tensors named after section %s would have more than %d bytes of names",
			layout.Quote([]byte(s.Name)), most)
	}
	return c.Err()
}

// namesPerByte bounds how long names may get that repeat the name of their section, which
// the file has but once.
const namesPerByte = 4

// count reads how many records of at least size bytes follow, of which the file has had so
// many. They are limited because a file may be far longer than what it takes on disk: its holes
// read as zeros, and 16 of these are a layer.
func (d *decoder) count(c *layout.Cursor, field string, had int, size uint64) uint64 {
	at := c.Offset()
	n := c.U64(field)
	if !c.Fits(at, field, n, size) {
		return 0
	}
	d.records += n * size // Fits has compared that with the file
	switch lim := &d.file.lim; {
	case uint64(had)+n > lim.Tensors:
		c.Fail(at, field, layout.ErrLimit, "%d, more than %d", uint64(had)+n, lim.Tensors)
	case d.records > lim.HeaderBytes:
		c.Fail(at, field, layout.ErrLimit, "with these %d, sections, layers and arrays take more than %d bytes without what is in them", n, lim.HeaderBytes)
	default:
		return n
	}
	return 0
}

// skip steps over n bytes and says where they are.
func skip(c *layout.Cursor, field string, n uint64) span {
	s := span{c.Offset(), n}
	c.Skip(field, n)
	return s
}

func str8(c *layout.Cursor, field string) []byte {
	return c.Take(field, uint64(c.U8(field)))
}

// key reads a str8 that must be valid UTF-8.
func key(c *layout.Cursor, field string) string {
	at := c.Offset()
	s := string(str8(c, field))
	if !utf8.ValidString(s) {
		c.Fail(at, field, layout.ErrInvalid, "%s is not valid UTF-8", layout.Quote([]byte(s)))
	}
	return s
}
