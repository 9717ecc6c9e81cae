package tsm

import (
	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/layout/findings"
)

// Checksums returns nothing: the format has none.
func (f *File) Checksums(layout.Input) ([]layout.Checksum, error) { return nil, nil }

// Audit warns of bytes behind the module and of names of params past 31 bytes. It warns of nodes without
// a name or an operator, and of a number of outputs other than 1. TenniS or the specification
// forbids these.
func (f *File) Audit(in layout.Input) []layout.Finding {
	a := audit{List: findings.New(layout.TSM)}
	var err error
	if a.m, err = f.scan(in); err != nil {
		a.Fail(err)
		return a.All()
	}
	a.warnNodes("#name", "have no name", func(i int) bool { return !a.m.nodes[i].stated.has(nameParam) })
	a.warnNodes("#op", "have no operator", func(i int) bool { return !a.m.nodes[i].stated.has(opParam) })
	a.warnNodes("#output_count", "have a number of outputs that is not 1", func(i int) bool {
		return a.m.nodes[i].stated.has(outputCountParam) && a.m.nodes[i].outputs != 1
	})
	if n := len(a.m.long); n > 0 {
		a.warn(a.m.long[0], "name", "%d of %d params have names of more than %d bytes", n, a.m.params, maxParamName)
	}
	if rest := in.Size() - a.m.end; rest > 0 {
		a.warn(a.m.end, "trailing", "%d bytes behind the module", rest)
	}
	return a.All()
}

type audit struct {
	findings.List
	m *module
}

// warn adds a warning about a field at an offset of the file.
func (a *audit) warn(at uint64, field, format string, args ...any) {
	a.Warn(at, field, layout.ErrInvalid, format, args...)
}

// warnNodes adds one warning about all nodes for which isOdd returns true. what says what is wrong with them, such as "have no name".
func (a *audit) warnNodes(field, what string, isOdd func(node int) bool) {
	found, first := findings.Count(len(a.m.nodes), isOdd)
	if found > 0 {
		a.warn(a.m.nodes[first].at, field, "%d of %d nodes %s, the first is node %d", found, len(a.m.nodes), what, first)
	}
}
