package tsm

import (
	"errors"

	"github.com/tensormap/tensormap/layout"
)

// Checksums is empty: the format has none.
func (f *File) Checksums(layout.Input) ([]layout.Checksum, error) { return nil, nil }

// Audit warns of what TenniS or the specification would not have: bytes behind the module,
// names of params past 31 bytes, nodes without a name or an operator, and a number of
// outputs other than 1.
func (f *File) Audit(in layout.Input) []layout.Finding {
	m, err := f.scan(in)
	if err != nil {
		if e, ok := errors.AsType[*layout.FormatError](err); ok { // as all errors of this package are
			return []layout.Finding{{FormatError: e}}
		}
		return nil
	}
	a := audit{m: m}
	a.nodes()
	a.names()
	if rest := in.Size() - m.end; rest > 0 {
		a.warn(m.end, "trailing", "%d bytes behind the module", rest)
	}
	return a.findings
}

type audit struct {
	m        *module
	findings []layout.Finding
}

func (a *audit) warn(at uint64, field, format string, args ...any) {
	e := layout.Errorf(layout.TSM, at, field, layout.ErrInvalid, format, args...)
	a.findings = append(a.findings, layout.Finding{FormatError: e, Warning: true})
}

func (a *audit) nodes() {
	a.count("#name", "without a name of its own", func(i int) bool { return !a.m.nodes[i].stated.has(nameParam) })
	a.count("#op", "without an operator", func(i int) bool { return !a.m.nodes[i].stated.has(opParam) })
	a.count("#output_count", "with a number of outputs that is not 1", func(i int) bool {
		return a.m.nodes[i].stated.has(outputCountParam) && a.m.notes[i].outputs != 1
	})
}

// count warns once of all nodes that are odd.
func (a *audit) count(field, what string, odd func(node int) bool) {
	found, first := 0, 0
	for i := range a.m.nodes {
		if odd(i) {
			if found++; found == 1 {
				first = i
			}
		}
	}
	if found > 0 {
		a.warn(a.m.notes[first].at, field, "%d of %d nodes are %s, the first is node %d", found, len(a.m.nodes), what, first)
	}
}

func (a *audit) names() {
	found, first := 0, 0
	for i := range a.m.params {
		if a.m.params[i].name.n > maxParamName {
			if found++; found == 1 {
				first = i
			}
		}
	}
	if found > 0 {
		x := a.m.params[first]
		a.warn(a.nodeOf(first), "name", "%d of %d params have names of more than %d bytes, the first is %s", found, len(a.m.params), maxParamName, layout.Quote(a.m.text(x.name)))
	}
}

// nodeOf is where the node of a param starts.
func (a *audit) nodeOf(p int) uint64 {
	i := 0
	for int(a.m.nodes[i].params) <= p {
		p -= int(a.m.nodes[i].params)
		i++
	}
	return a.m.notes[i].at
}
