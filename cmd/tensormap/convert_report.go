package main

import (
	"errors"
	"fmt"
	"io"
	"iter"
	"strings"

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

// reasons are the names of tensors by what happened to them and why.
type reasons struct {
	order [][2]string
	names map[[2]string][]string
}

func (r *reasons) add(what, why, name string) {
	if r.names == nil {
		r.names = make(map[[2]string][]string)
	}
	key := [2]string{what, why}
	if r.names[key] == nil {
		r.order = append(r.order, key)
	}
	r.names[key] = append(r.names[key], printable(name))
}

func (r *reasons) write(w io.Writer) {
	const most = 3
	for _, key := range r.order {
		all := r.names[key]
		list := strings.Join(all[:min(most, len(all))], ", ")
		if len(all) > most {
			list += ", …"
		}
		fmt.Fprintf(w, "%s: %s (%s): %s\n", key[0], plural(len(all), "tensor"), printable(key[1]), list)
	}
}

// noteCodes says which of the tensors that are shown hold codes: their numbers are not weights.
func noteCodes(stderr io.Writer, m *loader.Model, names iter.Seq[string]) {
	var by reasons
	for name := range names {
		p, ok := convert.PartOf(m, name)
		switch {
		case !ok || p.Codes != name:
		case p.Scale == "":
			by.add("perhaps codes, not weights", "F8 without a scale", name)
		default:
			by.add("codes, not weights", p.Scheme, scaledBy(p))
		}
	}
	by.write(stderr)
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
				printable(out), t.Name, counted(l.NotFinite, "value"), d)
		}
		if l.AllZeroed() {
			fmt.Fprintf(stderr, "warning: %s: tensor %q: nothing but 0 is left as %s, of values up to %.3g; see --keep\n", printable(out), t.Name, d, l.Largest)
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
		fmt.Fprintf(stderr, "warning: %s: %s became 0 as a whole, the scale being too small for %s; see --keep\n", printable(out), counted(blocks, "block"), d)
	}
	if zeroed.Zeroed == 0 {
		return
	}
	fmt.Fprintf(stderr, "became 0 as %s: %s of %s (%.3g%%) in %s, the largest %.3g in %s\n", d, grouped(zeroed.Zeroed), counted(elements, "value"),
		100*float64(zeroed.Zeroed)/float64(elements), counted(some, "tensor"), zeroed.Largest, printable(worst))
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
