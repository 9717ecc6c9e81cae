package april

import (
	"strings"
	"unicode/utf8"

	"github.com/tensormap/tensormap/layout"
)

// Metadata is what the header and the parameters say, under the specification's names:
// language_tag, name, description and model, and under params the parameters, with tokens
// as a []string behind them. round_pow2 and snip_edges are the numbers of the file, of
// which any but 0 means true.
func (f *File) Metadata(in layout.Input) (layout.Metadata, error) {
	texts, err := f.texts(in)
	if err != nil {
		return nil, err
	}
	p, err := f.params(in)
	if err != nil {
		return nil, err
	}
	return append(texts,
		layout.Entry{Key: "model", Value: uint32(f.Header.Model)},
		layout.Entry{Key: "params", Value: p.metadata()},
	), nil
}

// texts reads the texts of the header.
func (f *File) texts(in layout.Input) (layout.Metadata, error) {
	md := make(layout.Metadata, 0, 5)
	for _, t := range []struct {
		field string
		at    Entry
	}{
		{"language_tag", Entry{atHeader, languageSize}},
		{"name", f.Header.name},
		{"description", f.Header.description},
	} {
		s, err := f.text(in, t.field, t.at)
		if err != nil {
			return nil, err
		}
		md = append(md, layout.Entry{Key: t.field, Value: s})
	}
	return md, nil
}

// text reads a text, which ends at its first NUL as the C strings of other readers do.
func (f *File) text(in layout.Input, field string, e Entry) (string, error) {
	if e.Size > f.lim.HeaderBytes {
		return "", errorf(e.Offset, field, layout.ErrLimit, "%d bytes, more than %d", e.Size, f.lim.HeaderBytes)
	}
	b, err := layout.Region(in, layout.April, e.Offset, field, e.Offset, e.Size)
	if err != nil {
		return "", err
	}
	s := string(b) // before it is looked at: b may be mapped, and change
	s, _, _ = strings.Cut(s, "\x00")
	if !utf8.ValidString(s) {
		return "", errorf(e.Offset, field, layout.ErrInvalid, "%s is not valid UTF-8", layout.Quote([]byte(s)))
	}
	return s, nil
}
