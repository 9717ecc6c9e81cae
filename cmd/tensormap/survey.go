package main

import (
	"bufio"
	"cmp"
	"errors"
	"time"

	"github.com/spf13/cobra"
	"github.com/tensormap/tensormap/cmd/tensormap/internal/terminal"
	"github.com/tensormap/tensormap/internal/report"
	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/loader"
	"github.com/tensormap/tensormap/loader/survey"
)

// surveyOptions has the flags that stats, hash and diff have in common.
type surveyOptions struct {
	opener
	json bool
	jobs jobs
}

// addTo declares the flags.
func (o *surveyOptions) addTo(cmd *cobra.Command) {
	o.opener.addTo(cmd)
	cmd.Flags().BoolVar(&o.json, "json", false, "write JSON, for programs")
	o.addFilter(cmd)
	o.jobs.addTo(cmd)
}

// pass is one reading of all tensors of a model, or of two. It writes results as they come, and counts tensors and bytes.
type pass struct {
	terminal.Streams
	w       *bufio.Writer // results
	asJSON  bool          // --json was given
	json    report.JSON   // writes results to w then
	bar     *terminal.Progress
	begun   time.Time
	tensors int
	bytes   uint64
	damaged bool // add has counted a damaged tensor
}

// begin returns a new pass, and the options for package survey. doing describes the work beside its progress.
func (o *surveyOptions) begin(s terminal.Streams, doing string) (*pass, survey.Options) {
	p := &pass{Streams: s, asJSON: o.json, bar: terminal.NewProgress(s.Err, doing), begun: time.Now()}
	p.w = bufio.NewWriter(p)
	p.json.W = p.w
	opts := survey.Options{Workers: int(o.jobs), Progress: p.bar.Update}
	if o.filter.Pattern != "" {
		opts.Filter = o.filter.Match
	}
	return p, opts
}

// Write writes results. It erases the progress bar first.
func (p *pass) Write(b []byte) (int, error) {
	p.bar.Clear()
	return p.Out.Write(b)
}

// add counts one result, and the bytes of the tensors that it is about; nil stands for one that a model lacks. If err says that a tensor
// is damaged, add reports that on standard error. It returns the first error of writing results, not err.
func (p *pass) add(err error, tensors ...*loader.Tensor) error {
	p.tensors++
	for _, t := range tensors {
		if t != nil {
			p.bytes += t.RawBytes()
		}
	}
	if isDamage(err) {
		p.damaged = true
		p.bar.Clear()
		printError(p.Err, err)
	}
	_, err = p.w.Write(nil) // writes nothing, but a bufio.Writer returns its first error again
	return err
}

// end ends a pass that has ended with err: it writes what is buffered and, unless something failed, says on standard error
// how long the pass took. It returns errReported if a tensor is damaged, else err or the error of writing.
func (p *pass) end(err error) error {
	err = cmp.Or(err, p.json.Err, p.w.Flush())
	p.bar.Clear()
	if p.damaged && (err == nil || errors.As(err, new(terminal.ReaderGone))) {
		return errReported
	}
	if err == nil {
		note(p.Err, "%s, %s", report.Counted(p.tensors, "tensor"), p.speed())
	}
	return err
}

// speed returns as text how many bytes the pass read, in what time, and how fast.
func (p *pass) speed() string {
	return report.Throughput(p.bytes, time.Since(p.begun))
}

// isDamage reports whether err says that a tensor is damaged, and not that its type has no values.
func isDamage(err error) bool { return err != nil && !errors.Is(err, loader.ErrUnsupported) }

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
