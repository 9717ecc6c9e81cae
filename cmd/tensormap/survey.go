package main

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/loader"
	"github.com/tensormap/tensormap/loader/survey"
)

// surveyOptions are the flags that stats, hash and diff have in common.
type surveyOptions struct {
	opener
	json   bool
	filter glob
	jobs   jobs
}

func (o *surveyOptions) addTo(cmd *cobra.Command) {
	o.opener.addTo(cmd)
	cmd.Flags().BoolVar(&o.json, "json", false, "write JSON, for programs")
	cmd.Flags().Var(&o.filter, "filter", "only tensors whose name matches `GLOB` (see tensormap help inspect)")
	complete(cmd, "filter", completeFilter)
	o.jobs.addTo(cmd)
}

// openSelected opens a model, and refuses a filter that none of its tensors passes.
func (o *surveyOptions) openSelected(ctx context.Context, path string) (m *loader.Model, done func(), err error) {
	if m, done, err = o.open(ctx, path); err != nil {
		return nil, nil, err
	}
	if err := o.filter.matched(path, m); err != nil {
		done()
		return nil, nil, err
	}
	return m, done, nil
}

// pass is one way through all tensors: results are written as they come, and the rest is counted.
type pass struct {
	streams
	w       *bufio.Writer // results
	bar     *progress
	begun   time.Time
	tensors int
	bytes   uint64
	damaged bool
	codes   reasons
}

// begin begins a pass, and returns it with the options for package survey.
func (o *surveyOptions) begin(s streams, doing string) (*pass, survey.Options) {
	p := &pass{streams: s, bar: newProgress(s.err, doing), begun: time.Now()}
	p.w = bufio.NewWriter(p)
	opts := survey.Options{Workers: int(o.jobs), Progress: p.bar.update}
	if o.filter.pattern != "" {
		opts.Filter = o.filter.match
	}
	return p, opts
}

// Write writes results past the progress bar.
func (p *pass) Write(b []byte) (int, error) {
	p.bar.hide()
	return p.out.Write(b)
}

// saw counts a tensor, and reports its damage. The error is that of writing results.
func (p *pass) saw(err error, tensors ...*loader.Tensor) error {
	p.tensors++
	for _, t := range tensors {
		if t != nil {
			p.bytes += t.RawBytes()
		}
	}
	if damage(err) {
		p.damaged = true
		p.bar.hide()
		printError(p.err, err)
	}
	_, err = p.w.Write(nil)
	return err
}

// end writes the last results and the notes, and returns the error of the pass. If all went well,
// it says how long that took.
func (p *pass) end(err error) error {
	err = cmp.Or(err, p.w.Flush())
	p.bar.clear()
	if err == nil {
		p.codes.write(p.err)
	}
	if p.damaged && (err == nil || errors.As(err, new(readerGone))) {
		return errReported
	}
	if err == nil {
		fmt.Fprintf(p.err, "%s, %s\n", plural(p.tensors, "tensor"), p.took())
	}
	return err
}

func (p *pass) took() string {
	took := time.Since(p.begun)
	return fmt.Sprintf("%s in %s, %s", size(p.bytes), duration(took), speed(p.bytes, took))
}

// damage tells damaged tensors from those whose type has no values.
func damage(err error) bool { return err != nil && !errors.Is(err, loader.ErrUnsupported) }

// pageRows is the number of rows that a page of a long table has.
const pageRows = 4096

// pages writes a table whose rows come one by one. Columns are as wide as the rows of a page need,
// so a long table is several tables.
type pages[R any] struct {
	w     io.Writer
	draw  func(rows []R)
	rows  []R
	drawn int
}

func (p *pages[R]) add(row R) {
	if p.rows = append(p.rows, row); len(p.rows) == pageRows {
		p.flush()
	}
}

func (p *pages[R]) flush() {
	if p.drawn++; p.drawn > 1 {
		io.WriteString(p.w, "\n")
	}
	p.draw(p.rows)
	clear(p.rows)
	p.rows = p.rows[:0]
}

// tensorHead is what stats, hash and diff say in JSON of a tensor itself.
type tensorHead struct {
	Name     string       `json:"name"`
	DType    layout.DType `json:"dtype"`
	Shape    []uint64     `json:"shape"`
	Elements uint64       `json:"elements"`
}

func newTensorHead(t loader.Tensor) tensorHead {
	return tensorHead{t.Name(), t.DType(), orEmpty(t.Shape()), t.Elements()}
}
