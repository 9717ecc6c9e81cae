package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/tensormap/tensormap/cmd/tensormap/internal/report"
	"github.com/tensormap/tensormap/cmd/tensormap/internal/terminal"
	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/loader"
	"github.com/tensormap/tensormap/loader/survey"
)

type diffOptions struct {
	surveyOptions
	metadata  bool
	tolerance *float64 // nil if it is not given
}

// setTolerance parses --tolerance: a number that is not negative.
func (opts *diffOptions) setTolerance(s string) error {
	x, err := strconv.ParseFloat(s, 64)
	if err != nil || !(x >= 0) {
		return errors.New("must be a number, not negative")
	}
	opts.tolerance = &x
	return nil
}

func diffCommand() *cobra.Command {
	var opts diffOptions
	cmd := verb("diff A B [--tolerance X] [--metadata] [--filter GLOB] [--json] [-j N]",
		"Show what differs between two models",
		opts.run, "A", "B")
	opts.addTo(cmd)
	cmd.Flags().Func("tolerance", "only values that differ by more than `X` count", opts.setTolerance)
	cmd.Flags().BoolVar(&opts.metadata, "metadata", false, "compare the metadata too")
	return cmd
}

func (opts *diffOptions) run(ctx context.Context, s terminal.Streams, args []string) error {
	pathA, pathB := args[0], args[1]
	opts.either = true
	a, err := opts.side(pathA, pathB).open(ctx, pathA)
	if err != nil {
		return err
	}
	defer a.Close()
	b, err := opts.side(pathB, pathA).open(ctx, pathB)
	if err != nil {
		return err
	}
	defer b.Close()
	if opts.secret != nil && encryptionOf(a) == nil && encryptionOf(b) == nil {
		return fmt.Errorf("%s: %w: neither model is encrypted", opts.from, loader.ErrKey)
	}
	if err := matched(&opts.filter, pathA, a, b); err != nil {
		return err
	}
	c := &comparison{pathA: called(pathA), pathB: called(pathB), opts: opts}
	if opts.metadata {
		if c.metadata, err = compareMetadata(ctx, a, b); err != nil {
			return err
		}
	}
	var o survey.Options
	c.pass, o = opts.begin(s, "comparing")
	write, j := c.tables(terminal.ScreenOf(s.Out)), report.JSON{W: c.w}
	if opts.json {
		write = c.json(&j)
	}
	err = survey.Compare(ctx, a, b, &o, func(p *survey.Pair) error {
		c.count(p)
		write(p)
		return c.add(p.Err, p.A, p.B)
	})
	if err == nil {
		write(nil)
	}
	return c.verdict(cmp.Or(err, j.Err, c.w.Flush()))
}

// side returns what opens the model at path, whose counterpart is at other. Flags for addresses are left out for a path
// beside an address.
func (o *diffOptions) side(path, other string) *opener {
	if !isAddress(path) && isAddress(other) {
		return &opener{trusting: o.trusting, unlocking: o.unlocking, maxHead: o.maxHead, ignore: o.ignore, stderr: o.stderr}
	}
	return &o.opener
}

// comparison compares the tensors of two models, and counts how they differ.
type comparison struct {
	*pass
	pathA, pathB string
	opts         *diffOptions
	metadata     []metadataChange
	counts       diffCounts
}

// diffCounts has numbers of tensors. The names in JSON are a contract.
type diffCounts struct {
	Tensors   int `json:"tensors"`
	Identical int `json:"identical"`
	Within    int `json:"within_tolerance"` // and not identical
	Differ    int `json:"differ"`
	OnlyA     int `json:"only_a"`
	OnlyB     int `json:"only_b"`
	Damaged   int `json:"damaged"`
}

// count adds one pair of tensors to the counts.
func (c *comparison) count(p *survey.Pair) {
	n := &c.counts
	n.Tensors++
	switch {
	case p.Err != nil:
		n.Damaged++
	case p.A == nil:
		n.OnlyB++
	case p.B == nil:
		n.OnlyA++
	case p.Identical():
		n.Identical++
	case c.differs(p):
		n.Differ++
	default:
		n.Within++
	}
}

// differs reports whether two tensors differ: in any bit or, with --tolerance, by more than that.
func (c *comparison) differs(p *survey.Pair) bool {
	if c.opts.tolerance != nil {
		return !p.Within(*c.opts.tolerance)
	}
	return !p.Identical()
}

// differ reports whether the models differ: then the exit status is 1.
func (c *comparison) differ() bool {
	n := &c.counts
	return n.Differ+n.OnlyA+n.OnlyB+n.Damaged+len(c.metadata) > 0
}

// verdict returns an error if the models differ, which says on standard error what the exit status means. err is
// that of comparing.
func (c *comparison) verdict(err error) error {
	if err != nil && !errors.As(err, new(terminal.ReaderGone)) || !c.differ() || c.damaged {
		return c.end(err)
	}
	c.bar.Clear()
	return fmt.Errorf("%s and %s differ: %s (%s)", c.pathA, c.pathB, c.summary(), c.took())
}

// summary returns the counts as text: "3 tensors: 2 identical, 1 differ".
func (c *comparison) summary() string {
	n := &c.counts
	parts := []string{}
	add := func(n int, what string) {
		if n > 0 {
			parts = append(parts, fmt.Sprintf("%s %s", report.Grouped(uint64(n)), what))
		}
	}
	add(n.Identical, "identical")
	if n.Within > 0 {
		add(n.Within, fmt.Sprintf("within %v", *c.opts.tolerance))
	}
	add(n.Differ, "differ")
	add(n.OnlyA, "only in A")
	add(n.OnlyB, "only in B")
	add(n.Damaged, "damaged")
	if len(parts) == 1 && n.Identical == n.Tensors {
		parts[0] = "identical"
	}
	s := report.Plural(n.Tensors, "tensor")
	if len(parts) > 0 {
		s += ": " + strings.Join(parts, ", ")
	}
	if c.opts.metadata {
		s += "; " + report.Plural(len(c.metadata), "difference") + " in metadata"
	}
	return s
}

// tables returns a function that writes a table of the pairs that differ. Called with nil after the last pair, the
// function writes the summary.
func (c *comparison) tables(s terminal.Screen) func(*survey.Pair) {
	if len(c.metadata) > 0 {
		g := &report.Grid{Heading: []string{"metadata", "a", "b"}, Rows: report.Rows(c.metadata, (*metadataChange).cells)}
		g.Write(c.w, s)
		io.WriteString(c.w, "\n")
	}
	table := report.Pages[survey.Pair]{W: c.w, Draw: func(list []survey.Pair) { c.grid(list).Write(c.w, s) }}
	return func(p *survey.Pair) {
		switch {
		case p != nil && (p.Err != nil || c.differs(p)):
			table.Add(*p)
		case p == nil:
			if len(table.Rows) > 0 {
				table.Flush()
			}
			if table.Drawn > 0 {
				io.WriteString(c.w, "\n")
			}
			fmt.Fprintln(c.w, c.summary())
		}
	}
}

// grid returns a table of pairs that differ.
func (c *comparison) grid(list []survey.Pair) *report.Grid {
	g := &report.Grid{
		Heading: []string{"name", "difference", ">max abs", "at", ">max rel", ">rmse", ">cosine", ">differing"},
		Spare:   []string{"max rel", "rmse", "at"},
	}
	if slices.ContainsFunc(list, func(p survey.Pair) bool { return p.Unmatched > 0 }) {
		g.Heading = append(g.Heading, ">lost")
	}
	g.Rows = report.Rows(list, func(p *survey.Pair) []string {
		compared, at := p.Compared && !p.SameElements, "–"
		if compared && p.MaxAbs > 0 {
			at = strings.ReplaceAll(fmt.Sprint(indexOf(p.MaxAbsAt, p.A.Shape())), " ", ", ") // as dump takes it
		}
		row := []string{terminal.Name(p.Name), difference(p)}
		for _, cell := range []string{real4(p.MaxAbs), at, real4(p.MaxRel), real4(p.RMSE),
			known(!math.IsNaN(p.Cosine), strconv.FormatFloat(p.Cosine, 'f', 6, 64)), // enough digits to tell it from 1
			report.Grouped(p.Differing), report.Grouped(p.Unmatched)} {
			row = append(row, known(compared, cell))
		}
		return row[:len(g.Heading)] // the last may not be shown
	})
	return g
}

// indexOf returns the index in every dimension of element number at in row-major order.
func indexOf(at uint64, shape []int) []uint64 {
	index := make([]uint64, len(shape))
	for d := len(shape) - 1; d >= 0; d-- {
		index[d] = at % uint64(shape[d])
		at /= uint64(shape[d])
	}
	return index
}

// undecoded reports whether one of the tensors holds codes that are not decoded.
func undecoded(tensors ...*loader.Tensor) bool {
	return slices.ContainsFunc(tensors, func(t *loader.Tensor) bool { return t != nil && t.Problem() != nil })
}

// difference returns the cell that says how two tensors differ, such as "F32 → F16, values".
func difference(p *survey.Pair) string {
	switch {
	case p.Err != nil && undecoded(p.A, p.B):
		return "not decoded"
	case p.Err != nil:
		return "damaged"
	case p.B == nil:
		return "only in A"
	case p.A == nil:
		return "only in B"
	}
	var parts []string
	add := func(what, a, b string) {
		if a != b {
			parts = append(parts, strings.TrimPrefix(what+" ", " ")+a+" → "+b)
		}
	}
	add("", report.Kind(*p.A), report.Kind(*p.B))
	add("", report.ShapeText(p.A.Shape()), report.ShapeText(p.B.Shape()))
	add("scale", scaleCell(*p.A), scaleCell(*p.B))
	switch {
	case !p.SameShape || p.SameElements:
	case p.Differing > 0:
		parts = append(parts, "values")
	case p.Compared && len(parts) > 0:
		parts = append(parts, "equal values")
	case p.Compared:
		parts = append(parts, "equal values, other bits")
	default:
		parts = append(parts, "bytes")
	}
	return strings.Join(parts, ", ")
}

// scaleCell returns the scale of a tensor of integers, "none" for others.
func scaleCell(t loader.Tensor) string {
	q, scaled, err := t.Scale()
	switch {
	case err != nil || !scaled:
		return "none"
	case q.Zero != 0:
		return fmt.Sprintf("%g, zero point %d", q.Scale, q.Zero)
	}
	return fmt.Sprintf("%g", q.Scale)
}

// diffJSON is a tensor of diff --json. The names are a contract.
type diffJSON struct {
	Name    string        `json:"name"`
	Differs bool          `json:"differs"`
	A       *sideJSON     `json:"a"`
	B       *sideJSON     `json:"b"`
	Same    bool          `json:"same_elements"`
	Values  *distanceJSON `json:"values"`
	Error   string        `json:"error,omitempty"`
}

type sideJSON struct {
	DType     layout.DType `json:"dtype,omitzero"`   // of a tensor as it is stored
	Scheme    string       `json:"scheme,omitempty"` // of a quantized weight
	Shape     []int        `json:"shape"`
	Scale     *float32     `json:"scale,omitempty"`
	ZeroPoint *int64       `json:"zero_point,omitempty"`
}

type distanceJSON struct {
	Differing uint64   `json:"differing"`
	Lost      uint64   `json:"lost"`
	LostAt    []uint64 `json:"lost_at,omitempty"`
	MaxAbs    real     `json:"max_abs"`
	MaxAbsAt  []uint64 `json:"max_abs_at,omitempty"`
	MaxRel    real     `json:"max_rel"`
	MaxRelAt  []uint64 `json:"max_rel_at,omitempty"`
	RMSE      real     `json:"rmse"`
	Cosine    real     `json:"cosine"`
}

// newSideJSON describes one of two tensors; t is nil if the model lacks it.
func newSideJSON(t *loader.Tensor) *sideJSON {
	if t == nil {
		return nil
	}
	s := &sideJSON{DType: t.DType(), Scheme: report.Scheme(*t), Shape: append([]int{}, t.Shape()...)}
	if q, scaled, err := t.Scale(); scaled && err == nil {
		s.Scale, s.ZeroPoint = &q.Scale, &q.Zero
	}
	return s
}

// pairJSON describes a pair for diff --json.
func (c *comparison) pairJSON(p *survey.Pair) *diffJSON {
	j := &diffJSON{Name: p.Name, Differs: c.differs(p), A: newSideJSON(p.A), B: newSideJSON(p.B), Same: p.SameElements}
	if p.Err != nil {
		j.Error = explain(p.Err)
		return j
	}
	if !p.Compared {
		return j
	}
	d := &distanceJSON{Differing: p.Differing, Lost: p.Unmatched, MaxAbs: real(p.MaxAbs), MaxRel: real(p.MaxRel),
		RMSE: real(p.RMSE), Cosine: real(p.Cosine)}
	shape := p.A.Shape()
	if p.Unmatched > 0 {
		d.LostAt = indexOf(p.UnmatchedAt, shape)
	}
	if p.MaxAbs > 0 {
		d.MaxAbsAt, d.MaxRelAt = indexOf(p.MaxAbsAt, shape), indexOf(p.MaxRelAt, shape)
	}
	j.Values = d
	return j
}

// json begins the object of --json, and returns a function that writes a pair. Called with nil after the last pair, the
// function ends the object.
func (c *comparison) json(j *report.JSON) func(*survey.Pair) {
	j.Field("a", c.pathA)
	j.Field("b", c.pathB)
	if c.opts.tolerance != nil {
		j.Field("tolerance", real(*c.opts.tolerance))
	}
	if c.opts.metadata {
		j.Field("metadata", c.metadata)
	}
	j.List("tensors")
	return func(p *survey.Pair) {
		if p != nil {
			j.Row(c.pairJSON(p))
			return
		}
		j.Field("differ", c.differ())
		j.Field("counts", c.counts)
		j.Close()
	}
}

// metadataChange is a key of two models' metadata that has not the same value in both. Keys
// of nested objects are joined by dots. The names in JSON are a contract.
type metadataChange struct {
	Key string          `json:"key"`
	A   json.RawMessage `json:"a,omitempty"` // absent if there is none
	B   json.RawMessage `json:"b,omitempty"`
}

// cells returns key and values as they stand in a table.
func (c *metadataChange) cells() []string {
	const width = 40
	cell := func(value json.RawMessage) string {
		return known(value != nil, terminal.Shorten(terminal.Printable(string(value)), width))
	}
	return []string{terminal.Printable(c.Key), cell(c.A), cell(c.B)}
}

// compareMetadata returns the changes in the order of a's keys, then of b's other keys.
func compareMetadata(ctx context.Context, a, b *loader.Model) ([]metadataChange, error) {
	all, at := []metadataChange{}, make(map[string]int)
	for _, m := range []*loader.Model{a, b} {
		l, err := m.AcquireContext(ctx)
		if err != nil {
			return nil, err
		}
		defer l.Release()
		md, err := l.Metadata()
		if err == nil {
			err = flatten(md, "", func(key string, value json.RawMessage) {
				i, ok := at[key]
				if !ok {
					i, at[key] = len(all), len(all)
					all = append(all, metadataChange{Key: key})
				}
				if m == a {
					all[i].A = value
				}
				if m == b {
					all[i].B = value
				}
			})
		}
		if err != nil {
			return nil, err
		}
	}
	return slices.DeleteFunc(all, func(c metadataChange) bool { return bytes.Equal(c.A, c.B) }), nil
}

// flatten calls each with the JSON of every value that is no object with members, and its key: keys joined by dots.
func flatten(md layout.Metadata, prefix string, each func(key string, value json.RawMessage)) error {
	for _, e := range md {
		key := prefix + e.Key
		if nested, ok := e.Value.(layout.Metadata); ok && len(nested) > 0 {
			if err := flatten(nested, key+".", each); err != nil {
				return err
			}
			continue
		}
		text, err := report.EncodeJSON(e.Value)
		if err != nil {
			return err
		}
		each(key, text)
	}
	return nil
}
