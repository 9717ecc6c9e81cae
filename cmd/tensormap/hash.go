package main

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/tensormap/tensormap/loader/survey"
)

const hashLong = `Hash writes the SHA-256 of every tensor, by ascending name, and last one of the whole model.
Neither the format, nor compression, nor the order of tensors, nor how they are spread
over shards changes them, so two models can be compared by their last lines:

  tensormap hash --total model.safetensors
  tensormap hash --total model.apr

--values (the default) makes digests of the values: little-endian float32s in row-major
order, every NaN as 0x7fc00000. F16 has the same as what it is in F32. Where a value is no
float32 (of F64, and integers of 32 and 64 bits), and for types without values, the
digest is that of the stored elements; how many there are is on standard error.
--stored makes digests of the elements as they are stored, decompressed. With both there
are two columns, values first, of dashes where a tensor has none.

--file makes digests of the model's files instead, of all their bytes, in lines as sha256sum
writes them: what a hub shows of a file, and what sha256sum --check takes.

The model's digest is the SHA-256 of a line for each tensor, by ascending name,

  DIGEST KIND SHAPE LENGTH:NAME

with DIGEST as above, KIND the word values, or for stored elements the type, such as Q8_0
(with a scale: I8,scale=3f000000,zero=0, the scale as the bits of a float32), SHAPE as in
[2,3], for values without dimensions of 1, and NAME with its length in bytes. With
--filter it is that of the tensors selected.

--json writes one JSON object: file, algorithm, model (values, stored) and tensors, each
with name, dtype, shape, elements, values and stored; null is a digest that is not there
or was not asked for. With --file it has files, each with path, size and sha256, in place
of model and tensors. A damaged tensor has error, there is no digest of the model then,
and the exit status is 1.`

type hashOptions struct {
	surveyOptions
	values, stored, total, file bool
}

func hashCommand() *cobra.Command {
	var opts hashOptions
	cmd := &cobra.Command{
		Use:   "hash FILE [--values] [--stored] [--total] [--filter GLOB] [--file] [--json] [-j N]",
		Short: "Write SHA-256 digests of all tensors and of the model",
		Long:  hashLong,
		Args:  operands("FILE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if opts.file {
				return hashFiles(cmd.Context(), cmd.OutOrStdout(), cmd.ErrOrStderr(), args[0], &opts)
			}
			opts.values = opts.values || !opts.stored
			return hash(cmd.Context(), cmd.OutOrStdout(), cmd.ErrOrStderr(), args[0], &opts)
		},
		DisableFlagsInUseLine: true,
	}
	opts.addTo(cmd)
	cmd.Flags().BoolVar(&opts.values, "values", false, "of the values in float32 (the default)")
	cmd.Flags().BoolVar(&opts.stored, "stored", false, "of the elements as they are stored, decompressed")
	cmd.Flags().BoolVar(&opts.total, "total", false, "write one line only, for the whole model")
	cmd.Flags().BoolVar(&opts.file, "file", false, "of the whole files, as sha256sum does")
	return cmd
}

func hash(ctx context.Context, stdout, stderr io.Writer, path string, opts *hashOptions) error {
	m, done, err := opts.open(ctx, path)
	if err != nil {
		return err
	}
	defer done()
	bar := newProgress(stderr, "hashing")
	begun := time.Now()
	list, err := survey.Hash(ctx, m, &survey.HashOptions{Options: opts.with(bar), Values: opts.values, Stored: opts.stored})
	took := time.Since(begun)
	bar.clear()
	if err := cmp.Or(err, opts.filter.matched(path, len(list))); err != nil {
		return err
	}
	slices.SortFunc(list, func(a, b survey.TensorDigest) int { return cmp.Compare(a.Tensor.Name(), b.Tensor.Name()) })
	w := bufio.NewWriter(stdout)
	if opts.json {
		err = writeHashJSON(w, path, list, opts)
	} else {
		writeHashes(w, path, list, opts)
	}
	err = cmp.Or(err, w.Flush())
	damaged, unvalued, bytes := false, 0, uint64(0)
	for i := range list {
		d := &list[i]
		if d.Err != nil {
			damaged = true
			printError(stderr, d.Err)
		} else if opts.values && d.Values == nil {
			unvalued++
		}
		bytes += d.Tensor.RawBytes()
	}
	if unvalued > 0 && !damaged && !opts.stored {
		fmt.Fprintf(stderr, "%s of values that are no float32s: digests of the stored elements\n", plural(unvalued, "tensor"))
	}
	return closing(stderr, damaged, err, len(list), bytes, took)
}

// hashFiles runs hash --file.
func hashFiles(ctx context.Context, stdout, stderr io.Writer, path string, opts *hashOptions) error {
	if opts.values || opts.stored || opts.total || opts.filter.pattern != "" {
		return usageError{errors.New("--file is of whole files: it goes without --values, --stored, --total and --filter")}
	}
	m, done, err := opts.openToCopy(ctx, path)
	if err != nil {
		return err
	}
	defer done()
	bar := newProgress(stderr, "hashing")
	o := opts.with(bar)
	list, err := survey.HashFiles(ctx, m, &o)
	bar.clear()
	if err != nil {
		return err
	}
	w := bufio.NewWriter(stdout)
	if opts.json {
		j := jsonLines{w: w}
		j.field("{\n", "file", called(path))
		j.field(",\n", "algorithm", "sha256")
		writeRows(&j, "files", len(list), func(i int) any {
			return fileHashJSON{list[i].File.Path, list[i].File.Size, list[i].Digest}
		})
		err = j.err
	} else {
		for i := range list {
			writeFileHash(w, list[i].Digest, list[i].File.Path)
		}
	}
	return cmp.Or(err, w.Flush())
}

// writeFileHash writes a line as sha256sum does: one that begins with a backslash has escapes in its path.
func writeFileHash(w io.Writer, d survey.Digest, path string) {
	mark := ""
	if strings.ContainsAny(path, "\n\r") {
		mark, path = `\`, strings.NewReplacer(`\`, `\\`, "\n", `\n`, "\r", `\r`).Replace(path)
	}
	fmt.Fprintf(w, "%s%s  %s\n", mark, d, printable(path))
}

// fileHashJSON is a file of hash --file --json. The names are a contract.
type fileHashJSON struct {
	Path   string        `json:"path"`
	Size   uint64        `json:"size"`
	SHA256 survey.Digest `json:"sha256"`
}

// writeHashes writes lines as sha256sum does.
func writeHashes(w io.Writer, path string, list []survey.TensorDigest, opts *hashOptions) {
	if !opts.total {
		for i := range list {
			if d := &list[i]; d.Err == nil {
				fmt.Fprintf(w, "%s  %s\n", columns(opts, d.Values, d.Stored), shownName(d.Tensor.Name()))
			}
		}
	}
	values, stored, ok := totals(list, opts)
	switch {
	case !ok:
	case opts.total:
		fmt.Fprintf(w, "%s  %s\n", columns(opts, values, stored), printable(called(path)))
	default:
		fmt.Fprintf(w, "%s  (model)\n", columns(opts, values, stored))
	}
}

// columns are the digests that were asked for.
func columns(opts *hashOptions, values, stored *survey.Digest) string {
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

// totals are the digests of the model that were asked for; ok is false where a tensor has none.
func totals(list []survey.TensorDigest, opts *hashOptions) (values, stored *survey.Digest, ok bool) {
	ok = true
	if opts.values {
		var d survey.Digest
		d, ok = survey.ValuesDigest(list)
		values = &d
	}
	if opts.stored && ok {
		var d survey.Digest
		d, ok = survey.StoredDigest(list)
		stored = &d
	}
	if !ok {
		return nil, nil, false
	}
	return values, stored, true
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

func writeHashJSON(w io.Writer, path string, list []survey.TensorDigest, opts *hashOptions) error {
	values, stored, ok := totals(list, opts)
	var model *digestsJSON
	if ok {
		model = &digestsJSON{values, stored}
	}
	if opts.total {
		list = list[:0]
	}
	j := jsonLines{w: w}
	j.field("{\n", "file", called(path))
	j.field(",\n", "algorithm", "sha256")
	j.field(",\n", "model", model)
	writeRows(&j, "tensors", len(list), func(i int) any {
		d := &list[i]
		row := &hashJSON{tensorHead: newTensorHead(d.Tensor), digestsJSON: digestsJSON{d.Values, d.Stored}}
		if d.Err != nil {
			row.Error = explain(d.Err)
		}
		return row
	})
	return j.err
}
