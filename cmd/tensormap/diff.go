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
	"github.com/tensormap/tensormap/cmd/tensormap/internal/terminal"
	"github.com/tensormap/tensormap/explore"
	"github.com/tensormap/tensormap/internal/report"
	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/loader"
	"github.com/tensormap/tensormap/loader/survey"
)

// diffOptions has the flags of diff, and counts how the tensors of two models differ.
type diffOptions struct {
	listing[survey.Pair]
	out       string // a page, or ""
	metadata  bool
	tolerance *report.Real // nil if it is not given

	pathA, pathB string           // as messages show them
	changes      []metadataChange // of metadata; nil if it is not compared
	counts       [numOutcomes]int
	overall      survey.Overall
}

// diffKeys are the values of --sort. The worst comes first.
var diffKeys = []sortKey[survey.Pair]{
	{"db", func(p *survey.Pair) float64 { return scoreIf(p.Compared, -p.DB()) }},
	{"cosine", func(p *survey.Pair) float64 { return scoreIf(p.Compared, -p.Cosine()) }},
	{"relative_rms", func(p *survey.Pair) float64 { return scoreIf(p.Compared, p.RelativeRMS()) }},
	{"rmse", func(p *survey.Pair) float64 { return scoreIf(p.Compared, p.RMSE()) }},
	{"max_abs", func(p *survey.Pair) float64 { return scoreIf(p.Compared, p.MaxAbs) }},
	{"differing", func(p *survey.Pair) float64 { return scoreIf(p.Compared, float64(p.Differing)) }},
}

// setTolerance parses --tolerance: a number that is not negative.
func (opts *diffOptions) setTolerance(s string) error {
	x, err := strconv.ParseFloat(s, 64)
	if err != nil || !(x >= 0) {
		return errors.New("must be a number, not negative")
	}
	opts.tolerance = new(report.Real(x))
	return nil
}

// diffCommand returns the verb diff.
func diffCommand() *cobra.Command {
	opts := diffOptions{listing: listing[survey.Pair]{keys: diffKeys, grid: pairGrid, name: func(p *survey.Pair) string { return p.Name }}}
	cmd := verb("diff A B [-o OUT.html] [--sort KEY] [--top N] [--tolerance X] [--metadata] [--filter GLOB] [--json] [-j N]",
		"Show what differs between two models",
		opts.run, "A", "B")
	opts.listing.addTo(cmd)
	addPage(cmd, &opts.out, "write the comparison as a page to the file `OUT` too")
	cmd.Flags().Func("tolerance", "only values that differ by more than `X` count", opts.setTolerance)
	cmd.Flags().BoolVar(&opts.metadata, "metadata", false, "compare the metadata too")
	return cmd
}

// run compares the models args[0] and args[1], and writes how they differ as a table or JSON. It returns an error if they do.
func (opts *diffOptions) run(ctx context.Context, s terminal.Streams, args []string) error {
	opts.pathA, opts.pathB = shownName(args[0]), shownName(args[1])
	a, b, err := opts.openTwo(ctx, args[0], args[1])
	if err != nil {
		return err
	}
	defer a.Close()
	defer b.Close()
	if opts.out != "" {
		eo := explore.Options{From: opts.pathA, ComparedFrom: opts.pathB, Compared: b.Acquire, Workers: opts.jobs.count() + 1, Signature: opts.signer}
		if err := writePage(ctx, s, opts.out, &eo, a, b); err != nil {
			return err
		}
	}
	if opts.metadata {
		if opts.changes, err = compareMetadata(ctx, a, b); err != nil {
			return err
		}
	}
	o := opts.begin(s, "comparing")
	opts.object = opts.pairJSON
	if opts.asJSON {
		opts.json.Field("a", opts.pathA)
		opts.json.Field("b", opts.pathB)
		opts.json.Optional("tolerance", opts.tolerance)
		opts.json.Optional("metadata", opts.changes)
		opts.json.List("tensors")
	} else if len(opts.changes) > 0 {
		g := &report.Grid{Heading: []string{"metadata", "a", "b"}, Rows: report.Rows(opts.changes, (*metadataChange).cells)}
		g.Write(opts.w, terminal.ScreenOf(s.Out))
		io.WriteString(opts.w, "\n")
	}
	err = survey.Compare(ctx, a, b, &o, func(p *survey.Pair) error {
		p = p.Shown()
		what := opts.outcomeOf(p)
		opts.counts[what]++
		opts.overall.Add(p)
		if opts.asJSON || what > within {
			opts.add(p)
		}
		return opts.count(p.Err, p.A, p.B)
	})
	if err == nil {
		opts.writeRest()
		o.Progress = nil // the bar has come to its end
		err = opts.overall.Complete(ctx, a, o)
	}
	switch {
	case err != nil:
	case opts.asJSON:
		opts.endJSON()
	default:
		if opts.drawn > 0 {
			io.WriteString(opts.w, "\n")
		}
		if o := &opts.overall; opts.counts[differ] > 0 && o.DD > 0 && o.AA <= math.MaxFloat64 {
			fmt.Fprintf(opts.w, "overall %s\n", errorsText(&o.Errors, ""))
		}
		fmt.Fprintln(opts.w, opts.summary())
	}
	return opts.verdict(cmp.Or(err, opts.json.Err, opts.w.Flush()))
}

// outcome is what a comparison of two tensors comes to.
type outcome int

const (
	identical outcome = iota
	within            // the tolerance, and not identical
	differ
	onlyA
	onlyB
	damaged
	numOutcomes
)

// outcomes has the name of each in JSON, which is a contract, and what text says of several tensors.
var outcomes = [numOutcomes]struct{ json, text string }{
	{"identical", "identical"}, {"within_tolerance", "within %v"}, {"differ", "differ"}, {"only_a", "only in A"}, {"only_b", "only in B"}, {"damaged", "damaged"},
}

// outcomeOf returns what the comparison of p comes to. With --tolerance, tensors differ if values do by more than that.
func (opts *diffOptions) outcomeOf(p *survey.Pair) outcome {
	switch {
	case p.Err != nil:
		return damaged
	case p.A == nil:
		return onlyB
	case p.B == nil:
		return onlyA
	case p.Identical():
		return identical
	case opts.tolerance != nil && p.Within(float64(*opts.tolerance)):
		return within
	}
	return differ
}

// modelsDiffer reports whether a tensor differs, is missing in one model or damaged, or a key of metadata differs.
func (opts *diffOptions) modelsDiffer() bool {
	return opts.tensors > opts.counts[identical]+opts.counts[within] || len(opts.changes) > 0
}

// verdict ends a comparison that has ended with err. It returns an error that says so if the models differ. If they could not be
// compared, it returns err, or errReported for a damaged tensor.
func (opts *diffOptions) verdict(err error) error {
	if err != nil && !errors.As(err, new(terminal.ReaderGone)) || !opts.modelsDiffer() || opts.damaged {
		return opts.end(err)
	}
	opts.bar.Clear()
	if a, b := opts.counts[onlyA], opts.counts[onlyB]; a > 0 && b > 0 && a+b == opts.tensors {
		note(opts.Err, "no tensor has the same name in both; llama.cpp renames tensors in GGUF files: "+
			"compare with what tensormap convert wrote")
	}
	return fmt.Errorf("%s and %s differ (%s)", opts.pathA, opts.pathB, opts.speed())
}

// summary returns the counts as text: "3 tensors: 2 identical, 1 differs".
func (opts *diffOptions) summary() string {
	var texts []string
	for o, n := range opts.counts {
		text := outcomes[o].text
		switch {
		case n == 0:
			continue
		case n == opts.tensors && outcome(o) == identical:
			texts = append(texts, text)
			continue
		case outcome(o) == within:
			text = fmt.Sprintf(text, *opts.tolerance)
		case outcome(o) == differ && n == 1:
			text = "differs"
		}
		texts = append(texts, report.Grouped(n)+" "+text)
	}
	s := report.Counted(opts.tensors, "tensor")
	if len(texts) > 0 {
		s += ": " + strings.Join(texts, ", ")
	}
	if opts.metadata {
		s += "; " + report.Counted(len(opts.changes), "difference") + " in metadata"
	}
	return s
}

// pairGrid returns a table of pairs that differ.
func pairGrid(list []survey.Pair) *report.Grid {
	g := &report.Grid{
		Heading: []string{"name", "difference", ">dB", ">type dB", ">cosine", ">rel rms", ">max abs", "at", ">differing", ">lost"},
		Spare:   []string{"at", "max abs", "rel rms", "type dB"},
		Last:    []string{"differing", "cosine"},
	}
	if !slices.ContainsFunc(list, func(p survey.Pair) bool { return p.Unmatched > 0 }) {
		g.Hidden = []string{"lost"}
	}
	g.Rows = report.Rows(list, func(p *survey.Pair) []string {
		compared, at := p.Compared && !p.SameElements, "–"
		if compared && p.MaxAbs > 0 {
			at = indexCell(p.MaxAbsAt, p.A.Shape())
		}
		row := []string{report.Name(p.Name), differenceCell(p), decibels(p.DB()), decibels(p.TypeDB()), figure("%.5f", p.Cosine()), percent(p.RelativeRMS()),
			figure("%.4g", p.MaxAbs), at, report.Grouped(p.Differing), report.Grouped(p.Unmatched)}
		if !compared {
			row = append(row[:2], dashes(len(row)-2)...)
		}
		return row
	})
	return g
}

// figure formats x as package fmt does. NaN stands for no value, and becomes a dash.
func figure(format string, x float64) string { return orDash(!math.IsNaN(x), fmt.Sprintf(format, x)) }

// ratio formats x as figure does, and an infinite one as ∞.
func ratio(format string, x float64) string {
	if math.IsInf(x, 1) {
		return "∞"
	}
	return figure(format, x)
}

// decibels formats a ratio of signal to error.
func decibels(db float64) string { return ratio("%.1f", db) }

// percent formats a relative RMS with three digits.
func percent(x float64) string { return ratio("%.3g%%", 100*x) }

// errorsText says what e comes to: "29.4 dB, cosine 0.99943, relative RMS 3.37%". over follows the dB.
func errorsText(e *survey.Errors, over string) string {
	return fmt.Sprintf("%s dB%s, cosine %s, relative RMS %s", decibels(e.DB()), over, figure("%.5f", e.Cosine()), percent(e.RelativeRMS()))
}

// differenceCell returns the cell that says how two tensors differ, such as "F32 → F16, values".
func differenceCell(p *survey.Pair) string {
	switch {
	case p.Err != nil && (p.A != nil && p.A.Problem() != nil || p.B != nil && p.B.Problem() != nil):
		return "not decoded"
	case p.Err != nil:
		return outcomes[damaged].text
	case p.B == nil:
		return outcomes[onlyA].text
	case p.A == nil:
		return outcomes[onlyB].text
	}
	var texts []string
	add := func(what, a, b string) {
		if a != b {
			texts = append(texts, strings.TrimPrefix(what+" ", " ")+a+" → "+b)
		}
	}
	add("", report.Kind(*p.A), report.Kind(*p.B))
	add("", report.ShapeText(p.A.Shape()), report.ShapeText(p.B.Shape()))
	add("scale", scaleCell(*p.A), scaleCell(*p.B))
	switch {
	case !p.SameShape || p.SameElements:
	case p.Differing > 0:
		texts = append(texts, "values")
	case p.Compared && len(texts) > 0:
		texts = append(texts, "equal values")
	case p.Compared:
		texts = append(texts, "equal values, other bits")
	default:
		texts = append(texts, "bytes")
	}
	return strings.Join(texts, ", ")
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

// newErrorsJSON describes errors e of a type that keeps typeDB of Gaussian values, for diff and convert.
func newErrorsJSON(e *survey.Errors, typeDB float64) layout.Metadata {
	return report.Object("db", report.Real(e.DB()), "type_db", report.Real(typeDB), "relative_rms", report.Real(e.RelativeRMS()), "cosine", report.Real(e.Cosine()))
}

// newSideJSON describes one of two tensors for diff --json. If the model lacks it, t is nil, and so is the result.
func newSideJSON(t *loader.Tensor) any {
	if t == nil {
		return nil
	}
	var o layout.Metadata
	addStorage(&o, *t)
	if q, scaled, err := t.Scale(); scaled && err == nil {
		o.Set("scale", &q.Scale)
		o.Set("zero_point", q.Zero)
	}
	return o
}

// pairJSON describes a pair for diff --json. The names are a contract.
func (opts *diffOptions) pairJSON(p *survey.Pair) any {
	o := report.Object("name", p.Name, "differs", opts.outcomeOf(p) > within, "a", newSideJSON(p.A), "b", newSideJSON(p.B), "same_elements", p.SameElements, "values", nil)
	if p.Err != nil {
		o.Set("error", explain(p.Err))
	} else if p.Compared {
		o.Set("values", newDistanceJSON(p))
	}
	return o
}

// newDistanceJSON describes how far the values of a pair, which were compared, are from each other.
func newDistanceJSON(p *survey.Pair) layout.Metadata {
	o, shape := report.Object("differing", p.Differing, "lost", p.Unmatched), p.A.Shape()
	if p.Unmatched > 0 {
		addPlace(&o, "lost_at", p.UnmatchedAt, shape)
	}
	o.Set("max_abs", report.Real(p.MaxAbs))
	if p.MaxAbs > 0 {
		addPlace(&o, "max_abs_at", p.MaxAbsAt, shape)
	}
	o.Set("max_rel", report.Real(p.MaxRel))
	if p.MaxAbs > 0 {
		addPlace(&o, "max_rel_at", p.MaxRelAt, shape)
	}
	o = append(o, report.Object("rmse", report.Real(p.RMSE()), "cosine", report.Real(p.Cosine()))...)
	return append(o, newErrorsJSON(&p.Errors, p.TypeDB())[:3]...) // all but its cosine
}

// endJSON writes the fields of --json behind the tensors.
func (opts *diffOptions) endJSON() {
	j := &opts.json
	j.Field("differ", opts.modelsDiffer())
	counts := layout.Metadata{{Key: "tensors", Value: opts.tensors}}
	for o, n := range opts.counts {
		counts = append(counts, layout.Entry{Key: outcomes[o].json, Value: n})
	}
	j.Field("counts", counts)
	if o := &opts.overall; o.DD > 0 {
		j.Field("overall", map[string]report.Real{"db": report.Real(o.DB()), "cosine": report.Real(o.Cosine()), "relative_rms": report.Real(o.RelativeRMS()), "rmse": report.Real(o.RMSE())})
	}
	j.Close()
}

// metadataChange is a key of two models' metadata that has not the same value in both. Keys
// of nested objects are joined by dots. The names in JSON are a contract.
type metadataChange struct {
	Key string          `json:"key"`
	A   json.RawMessage `json:"a,omitempty"` // absent if there is none
	B   json.RawMessage `json:"b,omitempty"`
}

// cells returns the row of a table for c: the key and both values, shortened, and a dash for a missing one.
func (c *metadataChange) cells() []string {
	const width = 40
	cell := func(value json.RawMessage) string {
		return orDash(value != nil, report.Shorten(report.Printable(string(value)), width))
	}
	return []string{report.Printable(c.Key), cell(c.A), cell(c.B)}
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
				side := &all[i].A
				if m == b {
					side = &all[i].B
				}
				*side = value
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
