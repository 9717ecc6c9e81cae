package main

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/tensormap/tensormap/cmd/tensormap/internal/terminal"
	"github.com/tensormap/tensormap/convert"
	"github.com/tensormap/tensormap/dequant"
	"github.com/tensormap/tensormap/internal/glob"
	"github.com/tensormap/tensormap/internal/report"
	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/loader"
	"github.com/tensormap/tensormap/loader/survey"
	"github.com/tensormap/tensormap/quantize"
)

// reportDecisions says which tensors are written in another way than they were or should have been, one line for every reason.
func reportDecisions(stderr io.Writer, p *convert.Plan) {
	var left, changed, others tensorReasons
	for i := range p.Tensors {
		t := &p.Tensors[i]
		if t.NotReencoded != "" {
			left.add("left as stored", t.NotReencoded, t.Name)
		}
		if t.Changed != "" {
			changed.add("written as "+t.To.String(), t.Changed, t.Name)
		}
		if t.Fallback != "" {
			others.add("written as "+t.To.String(), t.Fallback, t.Name)
		}
		if p.ByImportance() && t.Reencoded && t.To.Quantized() && !t.Weighted {
			others.add("quantized", "without importance", t.Name)
		}
	}
	for _, name := range p.LeftOut {
		others.add("left out", "part of other tensors", name)
	}
	for _, p := range p.Quantized {
		others.add("stays quantized", p.Scheme, p.Codes+" scaled by "+p.Scale)
	}
	slices.Concat(left, changed, others).write(stderr)
}

// write says on stderr what happened to which tensors, and why, in a line for each reason.
func (r tensorReasons) write(stderr io.Writer) {
	for _, one := range r {
		note(stderr, "%s: %s (%s): %s", one.what, report.Counted(one.tensors, "tensor"), one.why, strings.Join(one.names, ", "))
	}
}

// tensorReasons has what happened to tensors and why, with the number of tensors and the first names.
type tensorReasons []reason

type reason struct {
	what, why string
	tensors   int
	names     []string
}

// add counts the tensor called name.
func (r *tensorReasons) add(what, why, name string) {
	const most = 3
	one := report.FindOrAdd((*[]reason)(r), reason{what: what, why: why}, func(one *reason) bool { return one.what == what && one.why == why })
	switch one.tensors++; {
	case one.tensors <= most:
		one.names = append(one.names, name)
	case one.tensors == most+1:
		one.names = append(one.names, "…")
	}
}

// appendOnce returns types with the name of d at its end, or as it is if it has that name.
func appendOnce(types []string, d layout.DType) []string {
	if slices.Contains(types, d.String()) {
		return types
	}
	return append(types, d.String())
}

// overallErrors sums the errors of all tensors that were re-encoded, and returns these tensors.
func overallErrors(tensors []convert.Tensor) (all survey.Errors, some []*convert.Tensor) {
	for i := range tensors {
		if t := &tensors[i]; t.Errors != nil && t.Errors.Values > 0 {
			all.Add(*t.Errors)
			some = append(some, t)
		}
	}
	return all, some
}

// reportErrors says on stderr how far the values of re-encoded tensors are from the values of the source: over all of
// them together, and of the worst five. It says nothing if no value differs.
func reportErrors(stderr io.Writer, tensors []convert.Tensor) {
	const most = 5
	all, some := overallErrors(tensors)
	if all.DD == 0 {
		return
	}
	note(stderr, "re-encoded %s: %s; the worst:", report.Counted(len(some), "tensor"), errorsText(&all, " over all of their values"))
	slices.SortStableFunc(some, func(a, b *convert.Tensor) int { return cmp.Compare(-b.Errors.DB(), -a.Errors.DB()) }) // NaN comes last
	for _, t := range some[:min(most, len(some))] {
		keeps := ""
		if db := survey.GaussianDB(t.To); !math.IsNaN(db) { // I8 has no such figure: its one scale depends on the largest value
			keeps = fmt.Sprintf(", which keeps %s of Gaussian values", decibels(db))
		}
		note(stderr, "  %s dB as %v%s: %s", decibels(t.Errors.DB()), t.To, keeps, t.Name)
	}
}

// reportLost says on stderr which values the new types do not hold. A tensor with values that became NaN or infinite has a line, as has one
// whose values all became 0. Other values that became 0 are to be expected in blocks, and get one line for all tensors.
func reportLost(stderr io.Writer, out string, tensors []convert.Tensor) {
	var all quantize.Loss
	var zeroedAs, blocksAs []string
	var worst string              // the tensor that has lost the largest value
	var zeroedIn, elements uint64 // tensors that have lost values to 0, and how many elements they have
	var blocks, evenIn uint64     // blocks that became 0 as a whole, and tensors with blocks without importance
	for i := range tensors {
		t := &tensors[i]
		l := &t.Lost
		if l.NotFinite > 0 {
			note(stderr, "warning: %s: tensor %q: %s did not survive %s: beyond its range, NaN or infinite; see --keep", out, t.Name, report.Counted(l.NotFinite, "value"), t.To)
		}
		if l.AllZeroed() {
			note(stderr, "warning: %s: tensor %q: nothing but 0 is left as %s, of values up to %.3g; see --keep", out, t.Name, t.To, l.Largest)
		} else if l.ZeroBlocks > 0 {
			blocks += l.ZeroBlocks
			blocksAs = appendOnce(blocksAs, t.To)
		}
		if l.Even > 0 {
			evenIn++
		}
		if l.Zeroed > 0 {
			zeroedAs = appendOnce(zeroedAs, t.To)
			zeroedIn, elements = zeroedIn+1, elements+t.Elements()
			if worst == "" || l.Largest > all.Largest {
				worst = t.Name
			}
		}
		all.Add(*l)
	}
	if all.Even > 0 {
		note(stderr, "weighed evenly: %s in %s, whose columns have no importance, or none that float32 can add up",
			report.Counted(all.Even, "block"), report.Counted(evenIn, "tensor"))
	}
	if blocks > 0 {
		note(stderr, "warning: %s: %s became 0 as a whole, the scale being too small for %s; see --keep", out, report.Counted(blocks, "block"), strings.Join(blocksAs, ", "))
	}
	if all.Zeroed > 0 {
		note(stderr, "became 0 as %s: %s of %s (%.3g%%) in %s, the largest %.3g in %s", strings.Join(zeroedAs, ", "), report.Grouped(all.Zeroed),
			report.Counted(elements, "value"), 100*float64(all.Zeroed)/float64(elements), report.Counted(zeroedIn, "tensor"), all.Largest, worst)
	}
}

// withAdvice returns err, with the flags that help if it says that a tensor cannot be re-encoded.
func withAdvice(err error, o *convert.Options) error {
	var codes *convert.CodesError
	switch {
	case errors.Is(err, dequant.ErrNotFinite):
		return fmt.Errorf("%w; --keep GLOB leaves tensors as they are", err)
	case !errors.As(err, &codes):
		return err
	case codes.DType.Kind() == layout.KindFloat:
		return fmt.Errorf("%w; --plain-f8 takes %v for weights, --keep GLOB copies tensors as they are", err, codes.DType)
	case o.Format == layout.GGUF:
		return fmt.Errorf("%w; --keep GLOB copies tensors as they are", err)
	}
	return fmt.Errorf("%w; --keep GLOB copies tensors as they are, and all are without --dtype", err)
}

// reportWritten says on stderr what has been written in the time took, and what may surprise: no shards although
// --shard-size was given, shards that are larger, files that were removed, or that were left and mislead.
func reportWritten(stderr io.Writer, p *convert.Plan, shards uint64, took time.Duration) {
	divided := ""
	if p.Shards > 0 {
		divided = " in " + report.Counted(p.Shards, "shard")
	}
	note(stderr, "%s: wrote %s%s, %s", p.Path, report.Counted(len(p.Tensors), "tensor"), divided, report.Throughput(p.Bytes, took))
	if shards > 0 && p.Shards == 0 {
		note(stderr, "not divided: one file is not larger than --shard-size")
	}
	var alone []string
	for i := range p.Tensors {
		if p.Tensors[i].Oversized {
			alone = append(alone, p.Tensors[i].Name)
		}
	}
	suchAs := ""
	if len(alone) > 1 {
		suchAs = "such as "
	}
	if n := len(alone); n > 0 {
		note(stderr, "larger than --shard-size, with a shard of its own each: %s, %s%s", report.Counted(n, "tensor"), suchAs, alone[0])
	}
	if p.Removed != "" {
		note(stderr, "removed %s, which stood for the model that was there before", p.Removed)
	}
	for _, path := range p.Stale {
		note(stderr, "warning: %s says that the weights are quantized, which the weights of %s no longer are: readers would misread them", path, p.Path)
	}
	if n := len(p.Left); n > 0 {
		note(stderr, "left in place, though not part of this model: %s, such as %s", report.Counted(n, "file"), p.Left[0])
	}
}

// reportCompressed says what --compress has achieved.
func reportCompressed(stderr io.Writer, p *convert.Plan) {
	of := report.Counted(len(p.Tensors), "tensor")
	if n, raw, stored := p.Compressed(); n > 0 {
		note(stderr, "compressed %s of %s: %s to %s, ratio %.2f", report.Grouped(n), of, report.Size(raw), report.Size(stored), float64(raw)/float64(stored))
	} else {
		note(stderr, "compressed none of %s: none would be 3%% smaller", of)
	}
}

// reportUnmatched warns on stderr of each of the patterns of a flag that match no tensor of m, as a misspelt name does.
func reportUnmatched(stderr io.Writer, flag string, patterns glob.Patterns, m *loader.Model) {
	for _, g := range patterns {
		if !matchesAny(&g, m) {
			note(stderr, "warning: --%s %s matches no tensor; case counts", flag, g.Pattern)
		}
	}
}

// dryRun writes what a conversion would write: as JSON, or as tables.
func dryRun(s terminal.Streams, p *convert.Plan, asJSON bool, o *convert.Options) error {
	w := bufio.NewWriter(s.Out)
	var err error
	if asJSON {
		err = writePlanJSON(w, p)
	} else {
		writePreview(w, terminal.ScreenOf(s.Out), p, o)
	}
	if err = cmp.Or(err, w.Flush()); err == nil {
		reportDecisions(s.Err, p)
	}
	return err
}

// writePreview writes what a conversion would write as tables.
func writePreview(w io.Writer, s report.Screen, p *convert.Plan, o *convert.Options) {
	written := report.Exactly(report.Size(p.Bytes), p.Bytes, 1024, " bytes")
	if o.Compress != convert.NoCompression {
		written += " before compression"
	}
	f := report.Facts{{"would write", report.Printable(p.Path)}, {"format", p.Format.String()}, {"size", written}}
	if p.Shards > 0 {
		f.Add("shards", report.Grouped(p.Shards))
	}
	f.Add("tensors", report.Grouped(len(p.Tensors)))
	var keys []string
	for key := range p.Metadata.All() {
		keys = append(keys, report.Printable(key))
	}
	f.Add("metadata", strings.Join(keys, ", "))
	f.Write(w, s)
	if len(p.Tensors) == 0 {
		return
	}
	io.WriteString(w, "\n")
	g := &report.Grid{
		Heading: []string{"name", "dtype", ">shape", ">size", "from", ">size before"},
		Spare:   []string{"size before", "shape"},
		Rows: report.Rows(p.Tensors, func(t *convert.Tensor) []string {
			from := cmp.Or(t.Scheme, t.From.String())
			return []string{report.Name(t.Name), t.To.String(), report.ShapeText(t.Shape), report.Size(t.Bytes), from, report.Size(t.FromBytes())}
		}),
	}
	g.Write(w, s)
}

// writePlanJSON writes a plan, with a line for each tensor as inspect does. The names are a contract. A plan that was carried out has errors too.
func writePlanJSON(w io.Writer, p *convert.Plan) error {
	j := report.JSON{W: w}
	j.Field("path", p.Path)
	j.Field("format", p.Format)
	j.Field("bytes", p.Bytes)
	j.Field("shards", p.Shards)
	j.Field("metadata", p.Metadata)
	j.List("tensors")
	for i := range p.Tensors {
		t := &p.Tensors[i]
		row := report.Object("name", t.Name, "dtype", t.To.String(), "shape", report.OrEmpty(t.Shape), "bytes", t.Bytes)
		if t.From != layout.Invalid {
			row.Set("from_dtype", t.From.String())
		}
		if t.Scheme != "" { // of a quantized weight, which has no dtype
			row.Set("from_scheme", t.Scheme)
		}
		row = append(row, report.Object("from_shape", report.OrEmpty(t.FromShape()), "stored_bytes", t.FromBytes(), "reencoded", t.Reencoded)...)
		if why := cmp.Or(t.NotReencoded, t.Changed, t.Fallback); why != "" { // for another type than was asked for
			row.Set("reason", why)
		}
		if t.Errors != nil {
			row = append(row, newErrorsJSON(t.Errors, survey.GaussianDB(t.To))...)
		}
		j.Row(row)
	}
	if all, _ := overallErrors(p.Tensors); all.Values > 0 {
		j.Field("overall", newErrorsJSON(&all, math.NaN()))
	}
	j.Close()
	return j.Err
}
