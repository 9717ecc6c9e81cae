package april

import (
	"fmt"
	"strings"

	"github.com/tensormap/tensormap/layout"
)

// Summary is what the model is called, what it understands, and what it is made of.
func (f *File) Summary(in layout.Input) ([]layout.Fact, error) {
	texts, err := f.texts(in)
	if err != nil {
		return nil, err
	}
	p, err := f.params(in)
	if err != nil {
		return nil, err
	}
	fact := func(label, format string, args ...any) layout.Fact {
		return layout.Fact{Label: label, Value: fmt.Sprintf(format, args...)}
	}
	n := &p.numbers
	return []layout.Fact{
		fact("name", "%s", texts[1].Value),
		fact("description", "%s", texts[2].Value),
		fact("language", "%s", texts[0].Value),
		fact("model type", "%v", f.Header.Model),
		fact("sample rate", "%d Hz", n[sampleRate]),
		fact("features", "%d mel bands, frames of %d ms every %d ms", n[melFeatures], n[frameLength], n[frameShift]),
		fact("tokens", "%d, the blank is %d", n[tokenCount], n[blankToken]),
		fact("networks", "%s", f.networkLines()),
	}, nil
}

// networkLines has a line for each network.
func (f *File) networkLines() string {
	var lines []string
	for _, n := range f.Networks {
		line := fmt.Sprintf("%s: %d bytes, %d initializers", n.Role, n.Size, n.Initializers)
		if n.Err != nil {
			line = fmt.Sprintf("%s: %d bytes, not an ONNX model", n.Role, n.Size)
		}
		lines = append(lines, line)
	}
	return strings.Join(lines, "\n")
}
