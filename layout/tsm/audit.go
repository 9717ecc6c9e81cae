package tsm

import (
	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/layout/findings"
)

// Checksums returns nothing: the format has none.
func (f *File) Checksums(layout.Input) ([]layout.Checksum, error) { return nil, nil }

// Audit warns of bytes behind the module and of names of params past 31 bytes. It warns of nodes without
// a name or an operator, and of a number of outputs other than 1. TenniS or the specification
// forbids such records.
func (f *File) Audit(in layout.Input) []layout.Finding {
	found := findings.New(layout.TSM)
	m, err := f.scan(in)
	if err != nil {
		found.Fail(err)
		return found.All()
	}
	for _, x := range []struct {
		field, what string
		isOdd       func(n *node) bool
	}{
		{"#name", "have no name", func(n *node) bool { return !n.stated[nameParam] }},
		{"#op", "have no operator", func(n *node) bool { return !n.stated[opParam] }},
		{"#output_count", "have a number of outputs that is not 1", func(n *node) bool { return n.stated[outputCountParam] && n.outputs != 1 }},
	} {
		if n, first := findings.Count(len(m.nodes), func(i int) bool { return x.isOdd(&m.nodes[i]) }); n > 0 {
			found.Warn(m.nodes[first].at, x.field, layout.ErrInvalid, "%d of %d nodes %s, the first is node %d", n, len(m.nodes), x.what, first)
		}
	}
	if n := len(m.long); n > 0 {
		found.Warn(m.long[0], "name", layout.ErrInvalid, "%d of %d params have names of more than %d bytes", n, m.params, maxParamName)
	}
	if rest := in.Size() - m.end; rest > 0 {
		found.Warn(m.end, "trailing", layout.ErrInvalid, "%d bytes behind the module", rest)
	}
	return found.All()
}
