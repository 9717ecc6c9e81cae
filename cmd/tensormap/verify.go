package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/tensormap/tensormap/cmd/tensormap/internal/terminal"
	"github.com/tensormap/tensormap/internal/report"
	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/layout/formats"
	"github.com/tensormap/tensormap/loader"
	"github.com/tensormap/tensormap/loader/survey"
	"github.com/tensormap/tensormap/mmapio"
	"github.com/tensormap/tensormap/trust"
)

type verifyOptions struct {
	opener
	unsigned bool // files that the signature does not list are not wrong
	ignore   []string
	values   bool
	json     bool
	jobs     jobs
}

// verifyCommand returns the verb verify.
func verifyCommand() *cobra.Command {
	var opts verifyOptions
	cmd := verb("verify FILE [--signature BUNDLE --key KEY.pub.pem] [--values] [--json] [-j N]",
		"Check structure and checksums of a model file",
		opts.run, "FILE")
	cmd.Flags().BoolVar(&opts.values, "values", false, "look for NaN, infinities and tensors of zeros")
	cmd.Flags().BoolVar(&opts.json, "json", false, "write JSON, for programs")
	opts.jobs.addAs(cmd, "read with `N` threads (default: all cores; 8 of an address)")
	opts.addTo(cmd)
	cmd.Flags().BoolVar(&opts.unsigned, "ignore-unsigned-files", false, "let files pass that the bundle does not list")
	cmd.Flags().StringArrayVar(&opts.ignore, "ignore-paths", nil, "let `PATH`, which lies beside the model, and all below it pass unless the bundle lists it")
	return cmd
}

// run verifies the model args[0]: first the signature, then structure, checksums and values as flags say. It writes a verdict
// as text or JSON. Errors in the file are lines on standard error, and it returns errReported then.
func (opts *verifyOptions) run(ctx context.Context, s terminal.Streams, args []string) error {
	v := &verdict{File: shownName(args[0]), OK: true, Checked: []string{}, Findings: []finding{}}
	bar := terminal.NewProgress(s.Err, "verifying")
	begun := time.Now()
	err := opts.verify(ctx, args[0], v, bar)
	took := time.Since(begun)
	bar.Clear()
	for _, f := range v.Findings {
		if f.Severity == severityError && f.line != nil {
			printError(s.Err, f.line)
		}
	}
	var writing error
	switch {
	case opts.json && !errors.Is(err, context.Canceled):
		text, wrong := report.EncodeJSON(v)
		_, writing = s.Out.Write(append(text, '\n'))
		writing = cmp.Or(wrong, writing)
	case err == nil && !v.isUnsigned:
		_, writing = io.WriteString(s.Out, v.text(took))
	}
	if err == nil && !v.OK && (writing == nil || errors.As(writing, new(terminal.ReaderGone))) {
		return errReported
	}
	return cmp.Or(err, writing)
}

// verify adds to v what there is to say of the model at path. If it cannot be opened, or read to its end, it adds that, and returns the error.
func (opts *verifyOptions) verify(ctx context.Context, path string, v *verdict, bar *terminal.Progress) error {
	err := opts.checkSignature(ctx, path, v, bar)
	if v.isUnsigned {
		return nil
	}
	var checked *loader.Report
	if err == nil {
		if checked, err = verifyFile(ctx, path, opts, bar); opts.acceptsNoModel(path, err) {
			checked, err = &loader.Report{Checked: []string{"signature"}, BytesRead: v.hashed}, nil
		}
	}
	if err != nil {
		found := finding{File: v.File, Field: "file", Reason: explain(err)}
		if fe, ok := errors.AsType[*layout.FormatError](err); ok {
			found = findingOf(v.File, fe)
		} else if pe, ok := errors.AsType[*fs.PathError](err); ok {
			found.Reason = pe.Err.Error()
		}
		v.add(severityError, nil, found)
		return err
	}
	v.Checked, v.Bytes = append(v.Checked, checked.Checked...), checked.BytesRead
	for _, f := range checked.Findings {
		severity := severityError
		if f.Warning {
			severity = severityWarning
		}
		v.add(severity, f, findingOf(f.File, f.FormatError))
	}
	return nil
}

// verifyFile verifies the model at path as the flags say. bar shows the progress.
func verifyFile(ctx context.Context, path string, opts *verifyOptions, bar *terminal.Progress) (*loader.Report, error) {
	opts.headOnly = !opts.values
	m, err := opts.open(ctx, path, loader.Options{})
	if err != nil {
		return nil, err
	}
	defer m.Close()
	if err := m.VerifyTrust(ctx, bar.Update); err != nil {
		return nil, err
	}
	checked, err := m.Verify(ctx, &loader.VerifyOptions{Workers: int(opts.jobs), Progress: bar.Update})
	if err == nil && m.Granularity() != layout.Unverified {
		by := "signature"
		if len(opts.digests) > 0 {
			by = "digest"
		}
		checked.Checked = append([]string{by}, checked.Checked...)
	}
	if err == nil && opts.values {
		err = verifyValues(ctx, m, checked, &survey.Options{Workers: int(opts.jobs), Progress: bar.Update})
	}
	return checked, err
}

// checkSignature compares the files at path with the bundle of --signature, if that was given. It adds to v the files that are not as they
// were signed. It returns why they could not be compared.
func (o *verifyOptions) checkSignature(ctx context.Context, path string, v *verdict, bar *terminal.Progress) error {
	err := o.check()
	switch {
	case err != nil:
		return err
	case len(o.ignore) > 0 && (o.signature == "" || isAddress(path)):
		return usageError{errors.New("--ignore-paths needs --signature, and files of this machine")}
	case o.signature == "" || isAddress(path): // whose files nobody lists
		return nil
	}
	s, err := o.verifiedStatement()
	if err != nil {
		return err
	}
	root := signedRoot(path, s)
	ignored, err := trust.Within(root, o.ignore...)
	if err != nil {
		return usageError{fmt.Errorf("--ignore-paths %w", err)}
	}
	err = s.Verify(ctx, root, &trust.VerifyOptions{Bundle: o.signature, Ignore: ignored, IgnoreUnsigned: o.unsigned, Progress: func(done, total uint64) {
		v.hashed = done
		bar.Update(done, total)
	}})
	if joined, ok := err.(interface{ Unwrap() []error }); ok { // an error for each file
		v.isUnsigned, v.Checked = true, []string{"signature"}
		for _, err := range joined.Unwrap() {
			v.add(severityError, err, finding{File: v.File, Field: "signature", Reason: err.Error()})
		}
		return nil
	}
	snapshots := filepath.Join(path, "snapshots")
	if info, statErr := os.Stat(snapshots); errors.Is(err, errors.ErrUnsupported) && statErr == nil && info.IsDir() {
		err = fmt.Errorf("%w; of a model in a cache, one of the folders in %s is what was signed", err, snapshots)
	}
	return err
}

// acceptsNoModel reports whether err, of opening the files at path, is no failure: they were signed and are as they were signed, but are
// no model. It is a failure if the flags ask for a look at values, or for a decryption.
func (o *verifyOptions) acceptsNoModel(path string, err error) bool {
	if err == nil || o.signature == "" || isAddress(path) || o.values || o.decrypt.isGiven() {
		return false
	}
	info, statErr := os.Stat(path)
	plain := statErr == nil && !info.IsDir() && !slices.Contains(formats.Suffixes(), strings.ToLower(filepath.Ext(path)))
	return errors.Is(err, mmapio.ErrDirectory) || errors.Is(err, layout.ErrFormat) && plain
}

// verifyValues reads all values, and adds to the report what is wrong with them. A damaged tensor is left out if the report
// has an error of its file already.
func verifyValues(ctx context.Context, m *loader.Model, checked *loader.Report, opts *survey.Options) error {
	found := survey.NewFindings(m)
	err := survey.Stats(ctx, m, &survey.StatsOptions{Options: *opts}, found.Add)
	known := checked.Findings
	for _, f := range found.All() {
		wrong := func(k loader.Finding) bool { return k.File == f.File && !k.Warning }
		if f.Field == "values" || !slices.ContainsFunc(known, wrong) {
			checked.Findings = append(checked.Findings, f)
		}
	}
	checked.Checked = append(checked.Checked, "values")
	return err
}

// verdict is what verify --json writes. The names in JSON are a contract.
type verdict struct {
	File     string    `json:"file"`
	OK       bool      `json:"ok"`
	Checked  []string  `json:"checked"`
	Findings []finding `json:"findings"`
	Bytes    uint64    `json:"bytes"`

	hashed     uint64 // bytes that were compared with a signature
	isUnsigned bool   // files are not as they were signed: nothing else was checked
}

type finding struct {
	Severity string `json:"severity"`
	File     string `json:"file"`
	Offset   uint64 `json:"offset"` // from the start of the file
	Field    string `json:"field"`
	Reason   string `json:"reason"`

	line error // what text says of it; nil if the caller reports it
}

const severityError, severityWarning = "error", "warning"

// add adds a finding of this severity. line is what text says of it, nil if the caller reports it.
func (v *verdict) add(severity string, line error, found finding) {
	found.Severity, found.line = severity, line
	v.OK = v.OK && severity != severityError
	v.Findings = append(v.Findings, found)
}

// findingOf returns what err says of the file at path, without a severity.
func findingOf(path string, err *layout.FormatError) finding {
	return finding{File: path, Offset: err.Offset, Field: err.Field, Reason: err.Explanation()}
}

// text returns the verdict as text: warnings, then one line. took is how long the verification took.
func (v *verdict) text(took time.Duration) string {
	var b strings.Builder
	for _, f := range v.Findings {
		if f.Severity == severityWarning {
			fmt.Fprintf(&b, "warning: %s\n", report.Printable(f.line.Error()))
		}
	}
	word := "ok"
	if !v.OK {
		word = "failed, checked"
	}
	speeds := "no checksums, " + report.Duration(took)
	if v.Bytes > 0 && slices.Contains(v.Checked, "values") {
		speeds = fmt.Sprintf("%s of checksums and all values in %s", report.Size(v.Bytes), report.Duration(took))
	} else if v.Bytes > 0 {
		speeds = report.Throughput(v.Bytes, took)
	}
	fmt.Fprintf(&b, "%s: %s: %s (%s)\n", report.Printable(v.File), word, report.Printable(strings.Join(v.Checked, ", ")), speeds)
	return b.String()
}
