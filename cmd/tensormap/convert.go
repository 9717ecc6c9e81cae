package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/tensormap/tensormap/convert"
	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/layout/apr2"
	"github.com/tensormap/tensormap/loader"
)

const convertLong = `Convert writes the tensors and the metadata of a model file to an APR2 file. Elements are
copied as they are, unless --dtype says otherwise. OUT appears once it is complete; an old
file of that name stays until then.

--dtype re-encodes tensors of real numbers: floats, quantized blocks, integers with a scale.
i8 is int8 with one scale a tensor. Plain integers stay as they are, and so do tensors whose
rows are no multiple of the block, and those that a --keep matches, which may be given more
than once: --keep '*norm*' --keep '*.bias'. Case counts. What stayed is said at the end.

--compress stores tensors as LZ4 blocks where that makes them at least 3% smaller, which for
random weights it does not; --compress=hc tries harder and takes some ten times as long.
Compressed tensors are expanded when they are read, and cannot be used in place.

--shard-size divides a model that is larger among files of at most this size, as many tensors
in each as fit: model-00001-of-00004.apr and so on, beside OUT, which then is a manifest and
stands for all of them. KB, MB and GB are powers of 1000; KiB, MiB and GiB of 1024.

--metadata names a JSON object, such as the config.json beside a Hugging Face model. Its
keys describe the architecture and go there, but for those that the format itself gives
a place at the top (model_type, vocab, tokenizer_config, …).

APR2 has no id for some dtypes: complex numbers, 4- and 6-bit floats of the OCP (F4, F6_…),
F8_E8M0, F8_…FNUZ and more. A tensor of such a dtype fails the conversion as a whole. Nor can
a signature be carried over: it is not that of the new file.`

type convertOptions struct {
	opener
	align    choice
	dtype    choice
	keep     globs
	compress choice
	shards   byteSize
	metadata string
}

// encodings are what --dtype allows.
var encodings = []layout.DType{
	layout.F32, layout.F16, layout.BF16, layout.Q8_0, layout.Q5_1, layout.Q5_0, layout.Q4_1, layout.Q4_0, layout.I8,
}

func convertCommand() *cobra.Command {
	opts := convertOptions{
		align:    choice{value: "64", allowed: []string{"32", "64"}},
		compress: choice{allowed: []string{"fast", "hc"}},
	}
	for _, d := range encodings {
		opts.dtype.allowed = append(opts.dtype.allowed, strings.ToLower(d.String()))
	}
	cmd := &cobra.Command{
		Use:   "convert IN OUT [--dtype TYPE] [--keep GLOB]... [--compress[=hc]] [--shard-size SIZE] [--align 32|64] [--metadata config.json]",
		Short: "Write a model as an APR2 file",
		Long:  convertLong,
		Args:  operands("IN", "OUT"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return convertModel(cmd.Context(), cmd.ErrOrStderr(), args[0], args[1], &opts)
		},
		DisableFlagsInUseLine: true,
	}
	opts.addTo(cmd)
	opts.align.addTo(cmd, "align", "align every tensor to so many bytes")
	opts.dtype.addTo(cmd, "dtype", "re-encode real numbers")
	cmd.Flags().Var(&opts.keep, "keep", "leave tensors as they are whose name matches")
	opts.compress.addTo(cmd, "compress", "compress tensors that become smaller")
	cmd.Flags().Lookup("compress").NoOptDefVal = "fast"
	opts.shards.addTo(cmd)
	cmd.Flags().StringVar(&opts.metadata, "metadata", "", "merge the JSON object in `FILE` into the metadata")
	complete(cmd, "metadata", cobra.FixedCompletions([]string{"json"}, cobra.ShellCompDirectiveFilterFileExt))
	return cmd
}

func convertModel(ctx context.Context, stderr io.Writer, in, out string, opts *convertOptions) error {
	config, err := readConfig(opts.metadata)
	if err != nil {
		return err
	}
	options, err := opts.convertOptions(config)
	if err != nil {
		return err
	}
	m, done, err := opts.open(ctx, in)
	if err != nil {
		return err
	}
	defer done()
	if err := checkOutput(out, m); err != nil {
		return err
	}
	reportUnmatched(stderr, opts.keep, m)
	bar := newProgress(stderr, "converting")
	begun := time.Now()
	options.Progress = bar.update
	result, err := convert.ToAPR2(ctx, m, out, options)
	took := time.Since(begun)
	bar.clear()
	if err != nil {
		return err
	}
	reportWritten(stderr, out, result, opts.shards, took)
	if options.Compress != convert.NoCompression {
		reportCompressed(stderr, result)
	}
	reportKept(stderr, result.Kept)
	for _, l := range result.Lost {
		fmt.Fprintf(stderr, "warning: %s: tensor %q: %s did not survive %s: beyond float16, NaN or infinite; see --keep\n",
			printable(out), l.Name, plural(int(l.Values), "value"), options.DType)
	}
	if signed(m) {
		fmt.Fprintf(stderr, "%s: signature not carried over\n", printable(called(in)))
	}
	return nil
}

// signed reports whether a file of m says that it carries a signature.
func signed(m *loader.Model) bool {
	return slices.ContainsFunc(m.Files(), func(f loader.FileInfo) bool {
		return slices.Contains(f.Layout.Index().Flags, apr2.Signed.String())
	})
}

func (opts *convertOptions) convertOptions(config layout.Metadata) (*convert.Options, error) {
	align, err := strconv.Atoi(opts.align.value)
	if err != nil {
		return nil, err
	}
	o := &convert.Options{Align: align, Config: config, Keep: opts.keep.match,
		Compress: compressions[opts.compress.value], ShardBytes: uint64(opts.shards)}
	switch name := opts.dtype.value; {
	case name != "":
		o.DType, _ = layout.ParseDType(strings.ToUpper(name))
	case len(opts.keep) > 0:
		return nil, usageError{errors.New("--keep says what --dtype leaves alone, and needs it")}
	}
	return o, nil
}

// compressions are what --compress allows.
var compressions = map[string]convert.Compression{"fast": convert.Fast, "hc": convert.High}

// reportCompressed says what --compress has achieved.
func reportCompressed(stderr io.Writer, r convert.Result) {
	c := r.Compressed
	if c.Tensors == 0 {
		fmt.Fprintf(stderr, "compressed none of %s: none would be 3%% smaller\n", plural(r.Tensors, "tensor"))
		return
	}
	fmt.Fprintf(stderr, "compressed %s of %s: %s to %s, ratio %.2f\n", grouped(uint64(c.Tensors)), plural(r.Tensors, "tensor"),
		size(c.Raw), size(c.Stored), float64(c.Raw)/float64(c.Stored))
}

// reportUnmatched names the patterns of --keep that keep nothing: a wrong guess at how a
// model spells its norms would be noticed late.
func reportUnmatched(stderr io.Writer, keep globs, m *loader.Model) {
	for _, g := range keep {
		matched := false
		for t := range m.Tensors() {
			if matched = g.match(t.Name()); matched {
				break
			}
		}
		if !matched {
			fmt.Fprintf(stderr, "warning: --keep %s matches no tensor; case counts\n", printable(g.pattern))
		}
	}
}

// reportKept says which tensors --dtype did not touch, one line for every reason.
func reportKept(stderr io.Writer, kept []convert.Kept) {
	var reasons []string
	names := make(map[string][]string)
	for _, k := range kept {
		if names[k.Reason] == nil {
			reasons = append(reasons, k.Reason)
		}
		names[k.Reason] = append(names[k.Reason], printable(k.Name))
	}
	for _, reason := range reasons {
		const most = 3
		all := names[reason]
		list := strings.Join(all[:min(most, len(all))], ", ")
		if len(all) > most {
			list += ", …"
		}
		fmt.Fprintf(stderr, "kept as stored: %s (%s): %s\n", plural(len(all), "tensor"), printable(reason), list)
	}
}

func plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return grouped(uint64(n)) + " " + noun + "s"
}

// readConfig reads a JSON object; none where path is empty.
func readConfig(path string) (layout.Metadata, error) {
	if path == "" {
		return nil, nil
	}
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() { // of a pipe, even to open it may take forever
		return nil, fmt.Errorf("%s: is a %s, not a regular file", path, kind(info.Mode()))
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	limits := (*layout.Limits)(nil).WithDefaults()
	// One byte more, so that ParseJSON sees when there is too much.
	text, err := io.ReadAll(io.LimitReader(f, int64(limits.HeaderBytes)+1))
	if err != nil {
		return nil, err
	}
	config, err := layout.ParseJSON(text, layout.Unknown, 0, "config", limits)
	var fe *layout.FormatError
	if errors.As(err, &fe) {
		return nil, fmt.Errorf("%s: offset %d: %s", path, fe.Offset, fe.Reason)
	}
	return config, err
}

// kind is the sort of file that is no regular one.
func kind(mode fs.FileMode) string {
	switch {
	case mode.IsDir():
		return "directory"
	case mode&fs.ModeNamedPipe != 0:
		return "pipe"
	case mode&fs.ModeSocket != 0:
		return "socket"
	case mode&fs.ModeDevice != 0:
		return "device"
	}
	return "special file"
}
