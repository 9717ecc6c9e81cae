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
	m, err := opts.openSelected(ctx, path)
	if err != nil {
		return err
	}
	defer m.Close()
	p, o := opts.begin(s, "hashing")
	j := opts.beginJSON(p, path, "tensors")
	var total survey.ModelDigest
	unvalued := 0
	err = survey.Hash(ctx, m, &survey.HashOptions{Options: o, Values: opts.values, Stored: opts.stored}, func(d *survey.TensorDigest) error {
		total.Add(d)
		if d.Err == nil && opts.values && d.Values == nil {
			unvalued++
		}
		switch {
		case opts.total:
		case opts.json:
			j.Row(newHashJSON(d))
		case d.Err == nil:
			fmt.Fprintf(p.w, "%s  %s\n", digestColumns(opts, d.Values, d.Stored), report.Name(d.Tensor.Name()))
		}
		return p.add(d.Err, &d.Tensor)
	})
	model := opts.modelDigests(&total)
	switch {
	case err != nil:
	case opts.json:
		j.Field("model", model)
		j.Close()
	case model != nil:
		name := "(model)"
		if opts.total {
			name = report.Printable(shownName(path))
		}
		fmt.Fprintf(p.w, "%s  %s\n", digestColumns(opts, model.Values, model.Stored), name)
	}
	if unvalued > 0 && !p.damaged && !opts.stored && err == nil {
		p.bar.Hide()
		fmt.Fprintf(s.Err, "%s of values that are no float32s: digests of the stored elements\n", report.Plural(unvalued, "tensor"))
	}
	return p.end(cmp.Or(err, j.Err))
}

// beginJSON returns the writer of the object of --json, which it has written up to the array called rows. Without --json
// it has written nothing, and the caller does not use the writer.
func (opts *hashOptions) beginJSON(p *pass, path, rows string) *report.JSON {
	j := &report.JSON{W: p.w}
	if opts.json {
		j.Field("file", shownName(path))
		j.Field("algorithm", "sha256")
		j.List(rows)
	}
	return j
}

// runFiles writes the digests of whole files, for hash --file.
func (opts *hashOptions) runFiles(ctx context.Context, s terminal.Streams, path string) error {
	if opts.values || opts.stored || opts.total || opts.filter.Pattern != "" {
		return usageError{errors.New("--file is of whole files: it goes without --values, --stored, --total and --filter")}
	}
	opts.headOnly = true
	m, err := opts.openToCopy(ctx, path)
	if err != nil {
		return err
	}
	defer m.Close()
	p, o := opts.begin(s, "hashing")
	j := opts.beginJSON(p, path, "files")
	err = survey.HashFiles(ctx, m, &o, func(d *survey.FileDigest) error {
		if opts.json {
			j.Row(fileHashJSON{d.File.Path, d.File.Size, d.Digest})
		} else {
			writeFileHash(p.w, d.Digest, d.File.Path)
		}
		return nil
	})
	if opts.json && err == nil {
		j.Close()
	}
	p.bar.Clear()
	return cmp.Or(err, j.Err, p.w.Flush())
}

// writeFileHash writes a line as sha256sum does: one that begins with a backslash has escapes in its path.
func writeFileHash(w io.Writer, d survey.Digest, path string) {
	mark := ""
	if strings.ContainsAny(path, "\n\r") {
		mark, path = `\`, strings.NewReplacer(`\`, `\\`, "\n", `\n`, "\r", `\r`).Replace(path)
	}
	fmt.Fprintf(w, "%s%s  %s\n", mark, d, report.Printable(path))
}

// fileHashJSON is a file of hash --file --json. The names are a contract.
type fileHashJSON struct {
	Path   string        `json:"path"`
	Size   uint64        `json:"size"`
	SHA256 survey.Digest `json:"sha256"`
}

// digestColumns returns the digests that the flags ask for: one, or with --values and --stored both side by side, where
// dashes stand for one that is nil. A tensor that has no values has the digest of its stored elements.
func digestColumns(opts *hashOptions, values, stored *survey.Digest) string {
	none := strings.Repeat("-", 2*len(survey.Digest{}))
	text := func(d *survey.Digest) string {
		if d == nil {
			return none
		}
		return d.String()
	}
	switch {
	case opts.values && opts.stored:
		return text(values) + "  " + text(stored)
	case opts.values && values != nil:
		return text(values)
	}
	return text(stored)
}

// modelDigests returns the digests of the whole model that the flags ask for. It returns nil if one of them lacks the digest
// of a tensor, because the tensor is damaged.
func (opts *hashOptions) modelDigests(total *survey.ModelDigest) *digestsJSON {
	var d digestsJSON
	v, vok := total.Values()
	if opts.values {
		d.Values = &v
	}
	s, sok := total.Stored()
	if opts.stored {
		d.Stored = &s
	}
	if opts.values && !vok || opts.stored && !sok {
		return nil
	}
	return &d
}

// hashJSON is a tensor of hash --json. The names are a contract.
type hashJSON struct {
	tensorHead
	digestsJSON
	Error string `json:"error,omitempty"`
}

type digestsJSON struct {
	Values *survey.Digest `json:"values"`
	Stored *survey.Digest `json:"stored"`
}

// newHashJSON describes a tensor for hash --json.
func newHashJSON(d *survey.TensorDigest) *hashJSON {
	j := &hashJSON{tensorHead: newTensorHead(d.Tensor), digestsJSON: digestsJSON{d.Values, d.Stored}}
	if d.Err != nil {
		j.Error = explain(d.Err)
	}
	return j
}
