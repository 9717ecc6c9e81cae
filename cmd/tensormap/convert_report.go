package main

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/tensormap/tensormap/cmd/tensormap/internal/report"
	"github.com/tensormap/tensormap/cmd/tensormap/internal/terminal"
	"github.com/tensormap/tensormap/convert"
	"github.com/tensormap/tensormap/dequant"
	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/layout/scheme"
	"github.com/tensormap/tensormap/loader"
)

// reportDecisions says which tensors are written in another way than they were or should
// have been, one line for every reason.
func reportDecisions(stderr io.Writer, p *convert.Plan) {
	var by reasons
	for i := range p.Tensors {
		if t := &p.Tensors[i]; t.Kept != "" {
			by.add("kept as stored", t.Kept, t.Name)
		}
	}
	for i := range p.Tensors {
		if t := &p.Tensors[i]; t.Changed != "" {
			by.add("written as "+t.To.String(), t.Changed, t.Name)
		}
	}
	for _, name := range p.LeftOut {
		by.add("left out", "part of other tensors", name)
	}
	for _, p := range p.Quantized {
		by.add("stays quantized", p.Scheme, scaledBy(p))
	}
	by.write(stderr)
}

// reasons counts tensors by what happened to them and why, and keeps the first names.
type reasons []reason

type reason struct {
	what, why string
	tensors   int
	names     []string
}

func (r *reasons) add(what, why, name string) {
	const most = 3
	i := slices.IndexFunc(*r, func(one reason) bool { return one.what == what && one.why == why })
	if i < 0 {
		i = len(*r)
		*r = append(*r, reason{what: what, why: why})
	}
	one := &(*r)[i]
	switch one.tensors++; {
	case one.tensors <= most:
		one.names = append(one.names, terminal.Printable(name))
	case one.tensors == most+1:
		one.names = append(one.names, "…")
	}
}

// addCodes adds tensor name if it holds codes: its numbers are not weights.
func (r *reasons) addCodes(m *loader.Model, name string) {
	p, ok := convert.PartOf(m, name)
	switch {
	case !ok || p.Codes != name:
	case p.Scale == "":
		r.add("perhaps codes, not weights", "F8 without a scale", name)
	default:
		r.add("codes, not weights", p.Scheme, scaledBy(p))
	}
}

func (r reasons) write(w io.Writer) {
	for _, one := range r {
		fmt.Fprintf(w, "%s: %s (%s): %s\n", one.what, report.Plural(one.tensors, "tensor"), terminal.Printable(one.why), strings.Join(one.names, ", "))
	}
}

func scaledBy(p scheme.Part) string { return p.Codes + " scaled by " + p.Scale }

// reportLost says which values the new encoding does not hold. Values that become 0 are to be
// expected in blocks, and get one line for all tensors, unless nothing is left of a tensor.
func reportLost(stderr io.Writer, out string, d layout.DType, tensors []convert.Tensor) {
	var zeroed dequant.Loss
	var worst string // the tensor that has lost the largest value
	var some, elements, blocks uint64
	for i := range tensors {
		t := &tensors[i]
		l := &t.Lost
		if l.NotFinite > 0 {
			fmt.Fprintf(stderr, "warning: %s: tensor %q: %s did not survive %s: beyond its range, NaN or infinite; see --keep\n",
				terminal.Printable(out), t.Name, report.Counted(l.NotFinite, "value"), d)
		}
		if l.AllZeroed() {
			fmt.Fprintf(stderr, "warning: %s: tensor %q: nothing but 0 is left as %s, of values up to %.3g; see --keep\n", terminal.Printable(out), t.Name, d, l.Largest)
		} else {
			blocks += l.ZeroBlocks
		}
		if l.Zeroed > 0 {
			some, elements = some+1, elements+t.Elements
			if worst == "" || l.Largest > zeroed.Largest {
				worst = t.Name
			}
			zeroed.Add(*l)
		}
	}
	if blocks > 0 {
		fmt.Fprintf(stderr, "warning: %s: %s became 0 as a whole, the scale being too small for %s; see --keep\n", terminal.Printable(out), report.Counted(blocks, "block"), d)
	}
	if zeroed.Zeroed == 0 {
		return
	}
	fmt.Fprintf(stderr, "became 0 as %s: %s of %s (%.3g%%) in %s, the largest %.3g in %s\n", d, report.Grouped(zeroed.Zeroed), report.Counted(elements, "value"),
		100*float64(zeroed.Zeroed)/float64(elements), report.Counted(some, "tensor"), zeroed.Largest, terminal.Printable(worst))
}

// wayOut adds to the refusal of a quantized checkpoint what can be done.
func wayOut(err error, o *convert.Options) error {
	var part *convert.PartError
	switch {
	case !errors.As(err, &part) || o.DType == layout.Invalid:
		return err
	case part.Scale == "":
		return fmt.Errorf("%w; --plain-f8 takes F8 for weights, --keep GLOB copies tensors as they are", err)
	}
	return fmt.Errorf("%w; --keep GLOB copies tensors as they are, and all are without --dtype", err)
}
