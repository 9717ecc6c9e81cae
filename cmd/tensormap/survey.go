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

// begin begins a reading whose results s.Out gets, and returns the options for package survey. doing describes the work beside its progress.
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
