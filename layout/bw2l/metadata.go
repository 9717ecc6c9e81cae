package bw2l

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/tensormap/tensormap/layout"
)

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

// read returns the bytes at s, or nil after an error. All that it returns together is bounded by the limit of headers.
func (r *reader) read(s layout.Section) (b []byte) {
	if r.err == nil {
		b, r.err = layout.LimitedRegion(r.in, layout.BW2L, s.Offset, s.Name, s.Offset, s.Size, r.left)
	}
	r.left -= uint64(len(b))
	return b
}

// text reads the text at s. Errors are left in r.
func (r *reader) text(s layout.Section) any { return r.textOrBlob(s.Name, s.Offset, r.read(s)) }

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

// Metadata returns the model's name, the descriptions of sections, and the contents of sections that
// are not arrays; the package's documentation has the keys. More than Limits.HeaderBytes is an error.
func (f *File) Metadata(in layout.Input) (layout.Metadata, error) {
	r := f.reader(in)
	md := r.metadata()
	if r.err != nil {
		return nil, r.err
	}
	return md, nil
}

// ownKeys are the keys of Metadata that are not names of sections.
var ownKeys = []string{"name", "descriptions", "sections"}

// metadata returns what [File.Metadata] does. Errors are in r.
func (r *reader) metadata() layout.Metadata {
	md := layout.Metadata{{Key: "name", Value: r.text(r.file.name)}}
	var descriptions layout.Metadata
	for _, s := range r.file.Sections {
		if s.desc.Size > 0 {
			descriptions = append(descriptions, layout.Entry{Key: s.Name, Value: r.text(s.desc)})
		}
	}
	if len(descriptions) > 0 {
		md = append(md, layout.Entry{Key: "descriptions", Value: descriptions})
	}
	var hidden layout.Metadata // sections whose names are ownKeys
	for _, s := range r.file.Sections {
		to := &md
		if slices.Contains(ownKeys, s.Name) {
			to = &hidden
		}
		if s.Type != typeArray {
			*to = append(*to, layout.Entry{Key: s.Name, Value: r.value(&s)})
		}
	}
	if len(hidden) > 0 {
		md = append(md, layout.Entry{Key: "sections", Value: hidden})
	}
	return md
}

// value returns the contents of a section that is not an array.
func (r *reader) value(s *Section) any {
	data := layout.Section{Name: "data", Offset: s.Offset, Size: s.Size}
	switch s.Type {
	case typeUTF8:
		return r.text(data)
	case typeKeyval:
		return r.keyval(data)
	case typeLayers:
		return r.layers(s)
	}
	return append(layout.Blob{}, r.read(data)...)
}

// keyval reads an object of texts. The last of the values of a key wins.
func (r *reader) keyval(data layout.Section) layout.Metadata {
	if r.err == nil && data.Size > r.left {
		r.err = layout.Errorf(layout.BW2L, data.Offset, "data", layout.ErrLimit, "%d bytes, more than %d", data.Size, r.left)
	}
	if r.err != nil {
		return nil
	}
	r.left -= data.Size
	var all layout.Metadata
	c := layout.NewCursor(r.in, layout.BW2L, data.Offset, data.Size)
	for c.Left() > 0 && c.Err() == nil {
		at := c.Offset()
		key := string(str8(&c, "key"))
		if !utf8.ValidString(key) {
			c.Fail(at, "key", layout.ErrInvalid, "%s is not valid UTF-8", layout.Quote(key))
		}
		size := c.U64("value")
		at = c.Offset()
		all = append(all, layout.Entry{Key: key, Value: r.textOrBlob("value", at, c.Take("value", size))})
	}
	r.err = c.Err()
	md := make(layout.Metadata, 0, len(all))
	md.Merge(all)
	return md
}

// layers returns an object for every layer of a section.
func (r *reader) layers(s *Section) []any {
	all := make([]any, 0, s.layers)
	for _, l := range r.file.layers[s.firstLayer:][:s.layers] {
		md := layout.Metadata{{Key: "arch", Value: r.text(l.arch())}}
		if r.file.version == 1 {
			md = append(md, layout.Entry{Key: "scale", Value: l.quant.Scale}, layout.Entry{Key: "offset", Value: l.quant.Zero})
		}
		all = append(all, append(md, layout.Entry{Key: "param_count", Value: uint64(l.params)}))
	}
	return all
}

// Summary returns the model's name, its config section, its size, and the first lines of its
// architecture.
func (f *File) Summary(in layout.Input) ([]layout.Fact, error) {
	r := f.reader(in)
	var s layout.Facts
	s.Add("name", asText(r.text(f.name)))
	config, _ := r.sectionValue("config", typeKeyval).(layout.Metadata)
	for _, key := range []string{"name", "description", "criterion", "quantization", "feature"} {
		value, _ := config.Get(key)
		s.Add("config "+key, asText(value))
	}
	params := 0
	for _, l := range f.layers {
		params += l.params
	}
	if len(f.layers) > 0 {
		s.Add("layers", fmt.Sprintf("%d with %d parameters", len(f.layers), params))
	}
	if tokens, ok := r.sectionValue("tokens", typeUTF8).(string); ok {
		s.Add("tokens", strconv.Itoa(countTokens(tokens)))
	}
	s.Add("architecture", r.architecture())
	if r.err != nil {
		return nil, r.err
	}
	return s, nil
}

// sectionValue returns the value of the section of a name and type, or nil.
func (r *reader) sectionValue(name, kind string) any {
	for i := range r.file.Sections {
		if s := &r.file.Sections[i]; s.Name == name && s.Type == kind {
			return r.value(s)
		}
	}
	return nil
}

// asText returns v if it is a string, else "".
func asText(v any) string {
	s, _ := v.(string)
	return s
}

// countTokens counts lines that are not empty, as wav2letter's dictionary does.
func countTokens(text string) (n int) {
	for line := range strings.Lines(text) {
		if strings.TrimRight(line, "\r\n") != "" {
			n++
		}
	}
	return n
}

// architecture returns the text of the section arch or, without one, of the layers. It is cut if it is
// long.
func (r *reader) architecture() string {
	const limit = 16
	var lines []string
	n := len(r.file.layers)
	if text, ok := r.sectionValue("arch", typeUTF8).(string); ok {
		lines = strings.Split(strings.TrimRight(text, "\n"), "\n")
		n = len(lines)
	} else {
		for _, l := range r.file.layers[:min(n, limit)] {
			lines = append(lines, asText(r.text(l.arch())))
		}
	}
	if n > limit {
		lines = append(lines[:limit-1], fmt.Sprintf("… (%d lines)", n))
	}
	return strings.Join(lines, "\n")
}
