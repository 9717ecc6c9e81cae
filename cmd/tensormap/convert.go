package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/tensormap/tensormap/cmd/tensormap/internal/terminal"
	"github.com/tensormap/tensormap/convert"
	"github.com/tensormap/tensormap/internal/glob"
	"github.com/tensormap/tensormap/internal/report"
	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/loader"
)

type convertOptions struct {
	writeFlags
	align    choice
	order    choice
	dtype    choice
	keep     glob.Patterns
	compress choice
	metadata metadataFlag
	types    typeFlags
	imatrix  string
	source   layout.Format // the only format that may be read, or Unknown for any

	all, plainF8           bool
	noSideFiles, noAliases bool
}

// encodings are the dtypes that --dtype and --type allow.
var encodings = []layout.DType{
	layout.F32, layout.F16, layout.BF16, layout.Q8_0, layout.Q5_1, layout.Q5_0, layout.Q4_1, layout.Q4_0, layout.I8,
	layout.Q6_K, layout.Q5_K, layout.Q4_K, layout.Q3_K, layout.Q2_K, layout.IQ4_NL, layout.IQ4_XS, layout.MXFP4,
}

// newConvertOptions returns the options with their defaults, and what their choices allow.
func newConvertOptions() *convertOptions {
	opts := &convertOptions{
		align:      choice{value: "64", allowed: []string{"32", "64"}},
		order:      choice{value: "little", allowed: []string{"little", "big"}},
		compress:   choice{allowed: []string{"fast", "hc"}},
		writeFlags: writeFlags{doing: "converting"},
	}
	for _, d := range encodings {
		opts.dtype.allowed = append(opts.dtype.allowed, strings.ToLower(d.String()))
	}
	for _, r := range convert.Recipes() {
		if !slices.Contains(opts.dtype.allowed, r) {
			opts.dtype.allowed = append(opts.dtype.allowed, r)
		}
	}
	return opts
}

// convertCommand returns the verb convert.
func convertCommand() *cobra.Command {
	opts := newConvertOptions()
	cmd := verb("convert IN OUT [--dtype TYPE [--type GLOB=TYPE]... [--keep GLOB]... [--imatrix FILE] [--all] [--plain-f8]] [--compress[=hc]] [--shard-size SIZE] [--format FORMAT] [--align 32|64] [--byte-order little|big] [--metadata FILE|KEY=VALUE]... [--no-side-files] [--filter GLOB] [--no-aliases] [--dry-run] [--json] [-j N]",
		"Write a model as an APR2, SafeTensors or GGUF file",
		opts.run, "IN", "OUT")
	opts.addFlags(cmd)
	opts.shards.addTo(cmd)
	cmd.Flags().Func("metadata", "merge the JSON object in `FILE` into the metadata, or set KEY=VALUE", opts.metadata.add)
	completeFile(cmd, "metadata", "json")
	opts.format.addTo(cmd)
	opts.order.addTo(cmd, "byte-order", "write the numbers of a GGUF file in this order")
	cmd.Flags().BoolVar(&opts.plainF8, "plain-f8", false, "take F8, F6 and F4 tensors without a scale for weights")
	cmd.Flags().BoolVar(&opts.noSideFiles, "no-side-files", false, "leave config.json and others beside a SafeTensors file alone")
	opts.addFilter(cmd)
	cmd.Flags().BoolVar(&opts.noAliases, "no-aliases", false, "leave out tensors that are part of others (.april)")
	return cmd
}

// addFlags declares the flags that convert and upgrade have.
func (opts *convertOptions) addFlags(cmd *cobra.Command) {
	opts.align.addTo(cmd, "align", "align every tensor of an APR2 file to this number of bytes")
	opts.dtype.addTo(cmd, "dtype", "re-encode real numbers as `TYPE`: "+strings.Join(opts.dtype.allowed, ", "))
	cmd.Flags().Var(&opts.types, "type", "re-encode tensors whose name matches GLOB to TYPE")
	complete(cmd, "type", cobra.NoFileCompletions)
	cmd.Flags().StringVar(&opts.imatrix, "imatrix", "", "weigh errors by the importance matrix in `FILE`")
	completeFile(cmd, "imatrix", "gguf")
	cmd.Flags().Func("keep", "leave tensors as they are whose name matches `GLOB`", opts.keep.Set)
	complete(cmd, "keep", completeFilter)
	cmd.Flags().BoolVar(&opts.all, "all", false, "quantize norms, biases and tensors of one dimension too")
	opts.compress.addTo(cmd, "compress", "compress tensors that become smaller")
	cmd.Flags().Lookup("compress").NoOptDefVal = "fast"
	cmd.Flags().BoolVar(&opts.dryRun, "dry-run", false, "say what would be written, and write nothing")
	cmd.Flags().BoolVar(&opts.json, "json", false, "write JSON, for programs: tensors as they would be written or were")
	opts.addTo(cmd)
}

// run runs convert and upgrade: it writes the model args[0] as args[1]. It fails if flags contradict one another, if the output
// is a file that is read, or if --filter matches no tensor.
func (opts *convertOptions) run(ctx context.Context, s terminal.Streams, args []string) error {
	in, out := args[0], args[1]
	o, err := opts.options(out)
	if err != nil {
		return err
	}
	for _, read := range append([]string{opts.imatrix}, opts.metadata.files...) {
		if err := checkDiffers(out, read); err != nil {
			return err
		}
	}
	if opts.imatrix != "" {
		if o.Importance, err = convert.ReadImportance(opts.imatrix); err != nil {
			return err
		}
	}
	return opts.write(ctx, s, in, out, o, func(m *loader.Model) error {
		if f := m.Format(); opts.source != layout.Unknown && f != opts.source {
			return fmt.Errorf("%s: is %v, not %v; use convert", report.Printable(shownName(in)), f, opts.source)
		}
		warnIfShard(s.Err, m)
		if err := opts.requireMatch(in, m); err != nil {
			return err
		}
		if err := opts.addSideFiles(ctx, s.Err, m, o); err != nil {
			return err
		}
		reportUnmatched(s.Err, "keep", opts.keep, m)
		for _, one := range opts.types {
			reportUnmatched(s.Err, "type", one.match, m)
		}
		return nil
	})
}

// options returns what the flags say as options of package convert for a new file called out, but for what files say. Flags that
// contradict one another, or that the format of out does not support, are a usageError.
func (opts *convertOptions) options(out string) (*convert.Options, error) {
	format, err := opts.format.formatOf(out)
	if err != nil {
		return nil, err
	}
	align, _ := strconv.Atoi(opts.align.value) // 32 or 64
	d, isType := layout.ParseDType(strings.ToUpper(opts.dtype.value))
	o := &convert.Options{Format: format, Set: opts.metadata.set, Align: align, BigEndian: opts.order.value == "big", DType: d, NoAliases: opts.noAliases,
		Keep: opts.keep.Match, All: opts.all, PlainF8: opts.plainF8, Compress: compressions[opts.compress.value]}
	if opts.filter.Pattern != "" {
		o.Only = opts.filter.Match
	}
	if slices.Contains(convert.Recipes(), opts.dtype.value) && (!isType || format == layout.GGUF) {
		o.Recipe = opts.dtype.value
	}
	if len(opts.types) > 0 {
		o.TypeOf = opts.types.typeOf
	}
	dtype, isCopy := opts.dtype.value, opts.dtype.value == ""
	return o, firstMisuse([]misuse{
		{o.BigEndian && format != layout.GGUF, fmt.Sprintf("--byte-order big: %v files have one order", format)},
		{dtype == "i8" && format == layout.GGUF, "--dtype i8: GGUF has no scales of integers; q8_0 has them in its blocks"},
		{format == layout.SafeTensors && !slices.Contains([]string{"", "f32", "f16", "bf16"}, dtype), "--dtype " + dtype + ": SafeTensors has f32, f16 and bf16"},
		{opts.compress.value != "" && format != layout.APR2, fmt.Sprintf("--compress: files of format %v have no compression", format)},
		{isCopy && (len(opts.types) > 0 || opts.imatrix != ""), "--type and --imatrix are about what --dtype re-encodes, and need it"},
		{isCopy && len(opts.keep) > 0 && format != layout.GGUF, "--keep says what --dtype leaves alone, and needs it"},
		{isCopy && opts.all, "--all says what --dtype re-encodes, and needs it"},
		{isCopy && opts.plainF8 && format != layout.GGUF, "--plain-f8 says what --dtype re-encodes, and needs it"},
	})
}

// compressions are the values that --compress allows.
var compressions = map[string]convert.Compression{"fast": convert.Fast, "hc": convert.High}

// addSideFiles sets o.Config to the metadata of the files beside a SafeTensors model and the files that --metadata names, merged in
// this order. It says on stderr which it read. A file of --metadata takes the place of config.json.
func (opts *convertOptions) addSideFiles(ctx context.Context, stderr io.Writer, m *loader.Model, o *convert.Options) error {
	var skip []string
	if len(opts.metadata.files) > 0 {
		skip = append(skip, "config.json")
	}
	if m.Format() == layout.SafeTensors && !opts.noSideFiles {
		config, read, err := convert.SideFiles(ctx, m, skip...)
		if err != nil && ctx.Err() == nil {
			err = fmt.Errorf("%w; --no-side-files does without", err)
		}
		if err != nil {
			return err
		}
		if len(read) > 0 {
			note(stderr, "metadata from %s", strings.Join(read, ", "))
		}
		o.Config = config
	}
	for _, file := range opts.metadata.files {
		config, err := convert.ReadConfig(file)
		if err != nil {
			return err
		}
		o.Config.Merge(config)
	}
	return nil
}

// metadataFlag has the values of --metadata, which may be given more than once: files, and keys with values.
type metadataFlag struct {
	files []string
	set   layout.Metadata
}

// add adds a value of the flag: a file, if there is one of this name, or KEY=VALUE.
func (f *metadataFlag) add(s string) error {
	key, value, isKey := strings.Cut(s, "=")
	if _, err := os.Stat(s); !isKey || err == nil {
		f.files = append(f.files, s)
		return nil
	}
	if key == "" {
		return errors.New("must be a file or KEY=VALUE")
	}
	f.set.Set(key, value)
	return nil
}

// typeFlags has the values of --type: globs and the types of matching tensors.
type typeFlags []typeFlag

type typeFlag struct {
	match glob.Patterns
	dtype layout.DType
}

func (f *typeFlags) String() string { return "" }
func (f *typeFlags) Type() string   { return "GLOB=TYPE" }

// Set adds a value of the flag: GLOB=TYPE, with a type of encodings. It fails for any other text.
func (f *typeFlags) Set(s string) error {
	at := strings.LastIndexByte(s, '=')
	d, known := layout.ParseDType(strings.ToUpper(s[at+1:]))
	if at < 0 || !known || !slices.Contains(encodings, d) {
		return errors.New("must be GLOB=TYPE, with a type that --dtype takes")
	}
	one := typeFlag{dtype: d}
	if err := one.match.Set(s[:at]); err != nil {
		return err
	}
	*f = append(*f, one)
	return nil
}

// typeOf returns the type of the first glob that matches the tensor called name, or Invalid if none does.
func (f typeFlags) typeOf(name string) layout.DType {
	for _, one := range f {
		if one.match.Match(name) {
			return one.dtype
		}
	}
	return layout.Invalid
}
