package main

import (
	"bufio"
	"cmp"
	"errors"
	"io"
	"math"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"github.com/tensormap/tensormap/cmd/tensormap/internal/terminal"
	"github.com/tensormap/tensormap/internal/report"
	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/loader"
	"github.com/tensormap/tensormap/loader/survey"
)

// surveyOptions has the flags that stats, hash and diff have in common, and the state of their one reading of all tensors. It writes
// results as they come, and counts tensors and bytes.
type surveyOptions struct {
	opener
	asJSON bool // --json was given
	jobs   jobs

	terminal.Streams
	w       *bufio.Writer // results
	json    report.JSON   // writes results to w with --json
	bar     *terminal.Progress
	begun   time.Time
	tensors int
	bytes   uint64
	damaged bool // count has counted a damaged tensor
}

// addTo declares the flags.
func (o *surveyOptions) addTo(cmd *cobra.Command) {
	o.opener.addTo(cmd)
	cmd.Flags().BoolVar(&o.asJSON, "json", false, "write JSON, for programs")
	o.addFilter(cmd)
	o.jobs.addTo(cmd)
}

// begin begins a reading whose results s.Out gets, and returns the options for package survey. doing describes the work next to its progress.
func (o *surveyOptions) begin(s terminal.Streams, doing string) survey.Options {
	o.Streams, o.bar, o.begun = s, terminal.NewProgress(s.Err, doing), time.Now()
	o.w = bufio.NewWriter(o)
	o.json.W = o.w
	opts := survey.Options{Workers: int(o.jobs), Progress: o.bar.Update}
	if o.filter.Pattern != "" {
		opts.Filter = o.filter.Match
	}
	return opts
}

// Write writes results. It erases the progress bar first.
func (o *surveyOptions) Write(b []byte) (int, error) {
	o.bar.Clear()
	return o.Out.Write(b)
}

// count counts one result, and the bytes of the tensors that it is about; nil stands for one that a model lacks. If err says that a tensor
// is damaged, count reports that on standard error. It returns the first error of writing results, not err.
func (o *surveyOptions) count(err error, tensors ...*loader.Tensor) error {
	o.tensors++
	for _, t := range tensors {
		if t != nil {
			o.bytes += t.RawBytes()
		}
	}
	if isDamage(err) {
		o.damaged = true
		o.bar.Clear()
		printError(o.Err, err)
	}
	_, err = o.w.Write(nil) // writes nothing, but a bufio.Writer returns its first error again
	return err
}

// end ends a reading that has ended with err: it writes what is buffered and, unless something failed, says on standard error
// how long the reading took. It returns errReported if a tensor is damaged, else err or the error of writing.
func (o *surveyOptions) end(err error) error {
	err = cmp.Or(err, o.json.Err, o.w.Flush())
	o.bar.Clear()
	if o.damaged && (err == nil || errors.As(err, new(terminal.ReaderGone))) {
		return errReported
	}
	if err == nil {
		note(o.Err, "%s, %s", report.Counted(o.tensors, "tensor"), o.speed())
	}
	return err
}

// speed returns as text how many bytes were read, in what time, and how fast.
func (o *surveyOptions) speed() string {
	return report.Throughput(o.bytes, time.Since(o.begun))
}

// isDamage reports whether err says that a tensor is damaged, and not that its type has no values.
func isDamage(err error) bool { return err != nil && !errors.Is(err, loader.ErrUnsupported) }

// tensorObject describes a tensor in JSON, for stats and hash: name, how it is stored, shape and elements.
func tensorObject(t loader.Tensor) layout.Metadata {
	o := report.Object("name", t.Name())
	addStorage(&o, t)
	o.Set("elements", t.Elements())
	return o
}

// addStorage adds to o how t is stored, by its dtype or by the scheme of a quantized weight, and its shape.
func addStorage(o *layout.Metadata, t loader.Tensor) {
	if scheme := report.Scheme(t); scheme != "" {
		o.Set("scheme", scheme)
	} else {
		o.Set("dtype", t.DType().String())
	}
	o.Set("shape", report.OrEmpty(t.Shape()))
}

// sortKey is a value of --sort: score returns what rows are sorted by, the largest first. NaN comes last. Equal rows stay in their order.
type sortKey[R any] struct {
	name  string
	score func(*R) float64
}

// listing is a survey that lists tensors as rows: as they come or, with its flags --sort and --top, in that order at the end.
type listing[R any] struct {
	surveyOptions
	keys   []sortKey[R]           // the first is the key if --top comes alone; by name is another key
	name   func(*R) string        // of a row's tensor
	object func(*R) any           // a row in JSON
	grid   func([]R) *report.Grid // columns are as wide as its rows need, so that a long list is several tables

	by    choice
	top   uint
	rows  []R
	drawn int // tables that were written
}

// addTo declares the flags.
func (l *listing[R]) addTo(cmd *cobra.Command) {
	l.surveyOptions.addTo(cmd)
	for _, k := range l.keys {
		l.by.allowed = append(l.by.allowed, k.name)
	}
	l.by.allowed = append(l.by.allowed, "name")
	l.by.addTo(cmd, "sort", "order of the tensors, else the order of the file")
	cmd.Flags().UintVar(&l.top, "top", 0, "only the first `N` tensors, by "+l.keys[0].name+" without --sort; 0 shows all")
}

// isSorted reports whether --sort or --top was given, so that rows have to be collected before they are written.
func (l *listing[R]) isSorted() bool { return l.by.value != "" || l.top > 0 }

// add adds a row. In JSON the array of rows has begun.
func (l *listing[R]) add(row *R) {
	l.rows = append(l.rows, *row)
	if !l.isSorted() && (l.asJSON || len(l.rows) == tableRows) {
		l.flush()
	}
}

// tableRows is the maximum number of rows in a table.
const tableRows = 4096

// flush writes the rows that have been added.
func (l *listing[R]) flush() {
	for rows := range slices.Chunk(l.rows, tableRows) {
		if !l.asJSON {
			l.draw(rows)
			continue
		}
		for i := range rows {
			l.json.Row(l.object(&rows[i]))
		}
	}
	clear(l.rows)
	l.rows = l.rows[:0]
}

// draw writes rows as a table.
func (l *listing[R]) draw(rows []R) {
	if l.drawn++; l.drawn > 1 {
		io.WriteString(l.w, "\n")
	}
	l.grid(rows).Write(l.w, terminal.ScreenOf(l.Out))
}

// writeRest writes the rows that have not been written: with --sort or --top in that order, at most as many as --top says.
func (l *listing[R]) writeRest() {
	if l.isSorted() {
		key := cmp.Or(l.by.value, l.keys[0].name)
		at := slices.IndexFunc(l.keys, func(k sortKey[R]) bool { return k.name == key })
		slices.SortStableFunc(l.rows, func(a, b R) int {
			if at < 0 {
				return cmp.Compare(l.name(&a), l.name(&b))
			}
			return cmp.Compare(l.keys[at].score(&b), l.keys[at].score(&a)) // NaN is less than all
		})
	}
	if l.top > 0 {
		l.rows = l.rows[:min(uint64(len(l.rows)), uint64(l.top))]
	}
	l.flush()
}

// scoreIf returns score if isKnown is true, and else NaN, by which a row comes last.
func scoreIf(isKnown bool, score float64) float64 {
	if !isKnown {
		return math.NaN()
	}
	return score
}
