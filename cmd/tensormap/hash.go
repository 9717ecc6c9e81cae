package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"github.com/tensormap/tensormap/cmd/tensormap/internal/terminal"
	"github.com/tensormap/tensormap/internal/report"
	"github.com/tensormap/tensormap/loader"
	"github.com/tensormap/tensormap/loader/survey"
)

type hashOptions struct {
	surveyOptions
	values, stored, total, file bool
}

// hashCommand returns the verb hash.
func hashCommand() *cobra.Command {
	var opts hashOptions
	cmd := verb("hash FILE [--values] [--stored] [--total] [--filter GLOB] [--file] [--json] [-j N]",
		"Write SHA-256 digests of all tensors and of the model",
		opts.run, "FILE")
	opts.addTo(cmd)
	cmd.Flags().BoolVar(&opts.values, "values", false, "of the values in float32 (the default)")
	cmd.Flags().BoolVar(&opts.stored, "stored", false, "of the elements as they are stored, decompressed")
	cmd.Flags().BoolVar(&opts.total, "total", false, "write one line only, for the whole model")
	cmd.Flags().BoolVar(&opts.file, "file", false, "of the whole files, as sha256sum does")
	return cmd
}

// run writes a digest of each tensor of the model args[0], and one of the whole model, as lines or JSON. It reports damaged
// tensors on standard error, and returns errReported then.
func (opts *hashOptions) run(ctx context.Context, s terminal.Streams, args []string) error {
	path := args[0]
	if opts.file {
		return opts.runFiles(ctx, s, path)
	}
	opts.values = opts.values || !opts.stored
	m, err := opts.openSelected(ctx, path, loader.Options{})
	if err != nil {
		return err
	}
	defer m.Close()
	o := opts.begin(s, "hashing")
	opts.beginJSON(path, "tensors")
	var total survey.ModelDigest
	unvalued := 0
	err = survey.Hash(ctx, m, &survey.HashOptions{Options: o, Values: opts.values, Stored: opts.stored}, func(d *survey.TensorDigest) error {
		total.Add(d)
		if d.Err == nil && opts.values && d.Values == nil {
			unvalued++
		}
		switch {
		case opts.total:
		case opts.asJSON:
			row := tensorObject(d.Tensor)
			row.Set("values", d.Values)
			row.Set("stored", d.Stored)
			if d.Err != nil {
				row.Set("error", explain(d.Err))
			}
			opts.json.Row(row)
		case d.Err == nil:
			fmt.Fprintf(opts.w, "%s  %s\n", opts.columns(d.Values, d.Stored), report.Name(d.Tensor.Name()))
		}
		return opts.count(d.Err, &d.Tensor)
	})
	model := &digestsJSON{} // nil if it lacks the digest of a tensor, because the tensor is damaged
	if v, ok := total.Values(); opts.values && ok {
		model.Values = &v
	}
	if v, ok := total.Stored(); opts.stored && ok {
		model.Stored = &v
	}
	if opts.values && model.Values == nil || opts.stored && model.Stored == nil {
		model = nil
	}
	switch {
	case err != nil:
	case opts.asJSON:
		opts.json.Field("model", model)
		opts.json.Close()
	case model != nil:
		name := "(model)"
		if opts.total {
			name = report.Printable(shownName(path))
		}
		fmt.Fprintf(opts.w, "%s  %s\n", opts.columns(model.Values, model.Stored), name)
	}
	if unvalued > 0 && !opts.damaged && !opts.stored && err == nil {
		opts.bar.Clear()
		note(s.Err, "%s of values that are no float32s: digests of the stored elements", report.Counted(unvalued, "tensor"))
	}
	return opts.end(err)
}

// beginJSON writes the object of --json up to the array called rows.
func (opts *hashOptions) beginJSON(path, rows string) {
	if opts.asJSON {
		opts.json.Field("file", shownName(path))
		opts.json.Field("algorithm", "sha256")
		opts.json.List(rows)
	}
}

// runFiles writes the digests of whole files, for hash --file.
func (opts *hashOptions) runFiles(ctx context.Context, s terminal.Streams, path string) error {
	if opts.values || opts.stored || opts.total || opts.filter.Pattern != "" {
		return usageError{errors.New("--file is of whole files: it goes without --values, --stored, --total and --filter")}
	}
	opts.headOnly = true
	m, err := opts.open(ctx, path, toCopy)
	if err != nil {
		return err
	}
	defer m.Close()
	o := opts.begin(s, "hashing")
	opts.beginJSON(path, "files")
	err = survey.HashFiles(ctx, m, &o, func(d *survey.FileDigest) error {
		if opts.asJSON {
			opts.json.Row(report.Object("path", d.File.Path, "size", d.File.Size, "sha256", d.Digest))
		} else {
			writeFileHash(opts.w, d.Digest, d.File.Path)
		}
		return nil
	})
	if opts.asJSON && err == nil {
		opts.json.Close()
	}
	opts.bar.Clear()
	return cmp.Or(err, opts.json.Err, opts.w.Flush())
}

// writeFileHash writes a line as sha256sum does: one that begins with a backslash has escapes in its path.
func writeFileHash(w io.Writer, d survey.Digest, path string) {
	mark := ""
	if strings.ContainsAny(path, "\n\r") {
		mark, path = `\`, strings.NewReplacer(`\`, `\\`, "\n", `\n`, "\r", `\r`).Replace(path)
	}
	fmt.Fprintf(w, "%s%s  %s\n", mark, d, report.Printable(path))
}

// columns returns the digests that the flags ask for: one, or with --values and --stored both side by side, where
// dashes stand for values that are nil. A tensor that has no values has the digest of its stored elements.
func (opts *hashOptions) columns(values, stored *survey.Digest) string {
	switch {
	case !opts.values || !opts.stored:
		return cmp.Or(values, stored).String()
	case values == nil:
		return strings.Repeat("-", 2*len(survey.Digest{})) + "  " + stored.String()
	}
	return values.String() + "  " + stored.String()
}

// digestsJSON has digests in JSON, null for digests that were not asked for or that there are not.
type digestsJSON struct {
	Values *survey.Digest `json:"values"`
	Stored *survey.Digest `json:"stored"`
}
