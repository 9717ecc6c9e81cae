package bw2l

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/tensormap/tensormap/layout"
)

// Summary says what the model is called, what its config section says of it, what it
// consists of, and how it is built: the first lines of its architecture.
func (f *File) Summary(in layout.Input) ([]layout.Fact, error) {
	r := f.reader(in)
	var s summary
	s.add("name", asText(r.text("name", f.name)))
	config, _ := r.named("config", typeKeyval).(layout.Metadata)
	for _, key := range []string{"name", "description", "criterion", "quantization", "feature"} {
		value, _ := config.Get(key)
		s.add("config "+key, asText(value))
	}
	if len(f.layers) > 0 {
		s.add("layers", fmt.Sprintf("%d with %d parameters", len(f.layers), f.params()))
	}
	if tokens, ok := r.named("tokens", typeUTF8).(string); ok {
		s.add("tokens", strconv.Itoa(countTokens(tokens)))
	}
	s.add("architecture", r.arch())
	if r.err != nil {
		return nil, r.err
	}
	return s, nil
}

type summary []layout.Fact

// add leaves out what is not there.
func (s *summary) add(label, value string) {
	if value != "" {
		*s = append(*s, layout.Fact{Label: label, Value: value})
	}
}

// named is the value of the section of a name and type, nil where there is none.
func (r *reader) named(name, kind string) any {
	for i := range r.file.Sections {
		if s := &r.file.Sections[i]; s.Name == name && s.Type == kind {
			return r.value(s)
		}
	}
	return nil
}

// params is the number of arrays of all layers.
func (f *File) params() (n int) {
	for _, l := range f.layers {
		n += l.params
	}
	return n
}

// asText is empty for what is not a string.
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

// arch is the text of the section arch or, where there is none, of the layers, cut if it is
// long.
func (r *reader) arch() string {
	const most = 16
	var lines []string
	n := len(r.file.layers)
	if text, ok := r.named("arch", typeUTF8).(string); ok {
		lines = strings.Split(strings.TrimRight(text, "\n"), "\n")
		n = len(lines)
	} else {
		for _, l := range r.file.layers[:min(n, most)] {
			lines = append(lines, asText(r.text("arch", l.arch)))
		}
	}
	if n > most {
		lines = append(lines[:most-1], fmt.Sprintf("… (%d lines)", n))
	}
	return strings.Join(lines, "\n")
}
