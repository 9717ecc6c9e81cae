package main

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"github.com/tensormap/tensormap/cmd/tensormap/internal/glob"
	"github.com/tensormap/tensormap/cmd/tensormap/internal/report"
	"github.com/tensormap/tensormap/cmd/tensormap/internal/terminal"
	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/loader"
	"github.com/tensormap/tensormap/loader/survey"
)

// surveyOptions has the flags that stats, hash and diff have in common.
type surveyOptions struct {
	opener
	json   bool
	filter glob.Pattern
	jobs   jobs
}

// addTo declares the flags.
func (o *surveyOptions) addTo(cmd *cobra.Command) {
	o.opener.addTo(cmd)
	cmd.Flags().BoolVar(&o.json, "json", false, "write JSON, for programs")
	cmd.Flags().Func("filter", "only tensors whose name matches `GLOB` (see tensormap help inspect)", o.filter.Set)
	complete(cmd, "filter", completeFilter)
	o.jobs.addTo(cmd)
}

// openSelected opens a model. It is an error if --filter matches none of its tensors.
func (o *surveyOptions) openSelected(ctx context.Context, path string) (*loader.Model, error) {
	m, err := o.open(ctx, path)
	if err != nil {
		return nil, err
	}
	if err := matched(&o.filter, path, m); err != nil {
		m.Close()
		return nil, err
	}
	return m, nil
}

// pass is one pass of a verb over all tensors of models: it writes results as they come, and counts tensors and bytes.
type pass struct {
	terminal.Streams
	w       *bufio.Writer // results
	bar     *terminal.Progress
	begun   time.Time
	tensors int
	bytes   uint64
	damaged bool
}

// begin returns a new pass, and the options for package survey. doing describes the work beside its progress.
func (o *surveyOptions) begin(s terminal.Streams, doing string) (*pass, survey.Options) {
	p := &pass{Streams: s, bar: terminal.NewProgress(s.Err, doing), begun: time.Now()}
	p.w = bufio.NewWriter(p)
	opts := survey.Options{Workers: int(o.jobs), Progress: p.bar.Update}
	if o.filter.Pattern != "" {
		opts.Filter = o.filter.Match
	}
	return p, opts
}

// Write writes results. It erases the progress bar first.
func (p *pass) Write(b []byte) (int, error) {
	p.bar.Hide()
	return p.Out.Write(b)
}

// add counts tensors, and reports their damage err on standard error. The error it returns is that of writing results.
func (p *pass) add(err error, tensors ...*loader.Tensor) error {
	p.tensors++
	for _, t := range tensors {
		if t != nil {
			p.bytes += t.RawBytes()
		}
	}
	if damage(err) {
		p.damaged = true
		p.bar.Hide()
		printError(p.Err, err)
	}
	_, err = p.w.Write(nil)
	return err
}

// end writes the last results, and says how long the pass took unless it failed. It returns err, the error of
// writing, or errReported if a tensor is damaged.
func (p *pass) end(err error) error {
	err = cmp.Or(err, p.w.Flush())
	p.bar.Clear()
	if p.damaged && (err == nil || errors.As(err, new(terminal.ReaderGone))) {
		return errReported
	}
	if err == nil {
		fmt.Fprintf(p.Err, "%s, %s\n", report.Plural(p.tensors, "tensor"), p.took())
	}
	return err
}

// took returns how many bytes the pass read, in which time.
func (p *pass) took() string {
	took := time.Since(p.begun)
	return fmt.Sprintf("%s in %s, %s", report.Size(p.bytes), report.Duration(took), report.Speed(p.bytes, took))
}

// damage reports whether err says that a tensor is damaged, and not that its type has no values.
func damage(err error) bool { return err != nil && !errors.Is(err, loader.ErrUnsupported) }

// tensorHead has the fields by which stats and hash describe a tensor in JSON.
type tensorHead struct {
	Name     string       `json:"name"`
	DType    layout.DType `json:"dtype,omitzero"`   // of a tensor as it is stored
	Scheme   string       `json:"scheme,omitempty"` // of a quantized weight
	Shape    []int        `json:"shape"`
	Elements uint64       `json:"elements"`
}

// newTensorHead describes t.
func newTensorHead(t loader.Tensor) tensorHead {
	return tensorHead{t.Name(), t.DType(), report.Scheme(t), report.OrEmpty(t.Shape()), t.Elements()}
}
