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
	"github.com/tensormap/tensormap/cmd/tensormap/internal/glob"
	"github.com/tensormap/tensormap/cmd/tensormap/internal/terminal"
	"github.com/tensormap/tensormap/convert"
	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/loader"
)

const convertLong = `Convert writes the tensors and the metadata of a model file to another one. The name of OUT
says the format: .apr for APR2, .safetensors for SafeTensors, .gguf for GGUF. Under a name that
says none, --format does; the two must not disagree. Elements are copied as they are, unless
--dtype says otherwise. OUT appears once it is complete; an old file of that name stays until then.
--dry-run says what would be written, and writes nothing.

--dtype re-encodes tensors of real numbers: floats, quantized blocks, integers with a scale.
i8 is int8 with one scale a tensor. Plain integers stay as they are, and so do tensors whose
rows are no multiple of the block. So do those that a --keep matches, which may be given more
than once: --keep 'lm_head.*' --keep '*embed*'. Case counts. Unless --all is given, quantizing
(q8_0, …, i8) leaves norms, biases and tensors of one dimension alone. f16 and bf16 in GGUF
leave those that are F32, as ggml wants them. The end tells which tensors stayed, how many
values were beyond the new type's range, and how many became 0. Blocks whose scale is beyond
float16, so that they would be NaN, are an error.

q4_k_m, q5_k_m and the like are llama.cpp's recipes: most matrices get one type, those that count
more get a better one, by their names (ggml's or Hugging Face's) and layers. In GGUF its names of types
are recipes too: with q4_0 the output matrix becomes Q6_K, and q4_k is q4_k_m. mxfp4_moe takes MXFP4 for experts. Rows that are no
multiple of 256 get the types of blocks of 32 that llama.cpp takes instead, and those that are none of 32 get F16. --type GLOB=TYPE says the
type of tensors whose names match, and may be given more than once; the first that matches counts.
--dry-run prints them all. --imatrix takes an importance matrix in llama.cpp's GGUF form, not the older .dat: errors then
count as much as a column matters. Its names are the tensors'. Blocks of columns without importance are weighed evenly.

A quantized checkpoint (FP8 with scales, compressed-tensors, MLX, AWQ, GPTQ, bitsandbytes, MXFP4,
NVFP4, HQQ, BitNet) stores a weight as codes, scales and more. --dtype writes the weight under its own name
instead, and the metadata no longer say how it was quantized. Where a type of blocks does not fit
it, or would spoil it, it becomes F32. Without --dtype, and for weights that a --keep matches, the
parts are copied bit for bit; GGUF, whose readers would take codes for numbers, gets the weight as F32.
A config.json beside OUT is not ours to change: a warning says if it claims the old method. Codes that are not decoded (Marlin, EXL2, EXL3, AQLM, VPTQ, QuIP#,
HIGGS, torchao, Quanto, SVDQuant, and others) or do not fit their scales are copied too; --dtype and GGUF
refuse them unless --keep names them. It also refuses F8, F6 and F4 tensors without a scale:
--plain-f8 says that these hold weights.

Tensors of a dtype that the new format lacks are written as another one, without loss. Numbers
become F32 if that holds them exactly, as it does those of quantized blocks and small floats. Otherwise their
bits become unsigned integers, with dtype and shape in the metadata. The end tells this too.

--compress stores tensors as LZ4 blocks where that makes them at least 3% smaller, which for
random weights it does not; --compress=hc tries harder and takes some ten times as long.
Compressed tensors are expanded when they are read, and cannot be used in place.

--shard-size divides a model that is larger among files of at most this size, as many tensors
in each as fit: model-00001-of-00004.apr and so on, beside OUT, which then is a manifest and
stands for all of them. For SafeTensors it is the index model.safetensors.index.json, and there
is no OUT: a single file of that name goes, as does an old index where a single file is written.
GGUF shards, each with the keys split.*, lead to each other and need no index. Old shards that
are none of the new ones stay, and are named. KB, MB and GB are powers of 1000;
KiB, MiB and GiB of 1024.

config.json, tokenizer_config.json and generation_config.json beside a SafeTensors file go
into the metadata; --no-side-files leaves them, but for how weights are quantized that stay so. --metadata FILE names another JSON object to
take instead of config.json. Its keys describe the architecture and go there, but for those that
the format itself gives a place at the top (model_type, vocab, tokenizer_config, …).
--metadata KEY=VALUE sets one key, and may be given more than once.

Metadata of a GGUF file keep their types. Other sources give general.architecture, a vocabulary and
what their model card says; all else is kept as JSON under apr2.KEY. --metadata KEY=TYPE:VALUE says
the type (u8 to u64, i8 to i64, f32, f64, bool, string) of a key that is new. Names of tensors stay as
they are: llama.cpp knows those of its own converter alone, and no mapping is guessed. It wants names of
at most 63 bytes. Integers without a sign, complex numbers and such keep their bits as I8 to I64, with
dtype and shape in the metadata; F8, F6 and F4 become F32, under --plain-f8 if they have no scale. --byte-order big
writes for machines of that order, as gguf-py's converter does; every verb reads such files.

--sign signs an APR2 file, or its shards and manifest. --encrypt KEYFILE encrypts its tensors with a key, which is
32 bytes or 64 hexadecimal digits; --passphrase-file with a passphrase. What is read is not carried over:
an encrypted model that --decrypt or --decrypt-passphrase-file opens is written plain without these.`

type convertOptions struct {
	writing
	align    choice
	order    choice
	dtype    choice
	keep     glob.Patterns
	filter   glob.Pattern
	compress choice
	metadata metadataFlag
	types    typeFlags
	imatrix  string
	source   layout.Format // the only one to be read, unless it is Unknown

	all, plainF8           bool
	noSideFiles, noAliases bool
}

// encodings are what --dtype allows.
var encodings = []layout.DType{
	layout.F32, layout.F16, layout.BF16, layout.Q8_0, layout.Q5_1, layout.Q5_0, layout.Q4_1, layout.Q4_0, layout.I8,
	layout.Q6_K, layout.Q5_K, layout.Q4_K, layout.Q3_K, layout.Q2_K, layout.IQ4_NL, layout.IQ4_XS, layout.MXFP4,
}

func newConvertOptions() *convertOptions {
	opts := &convertOptions{
		align:    choice{value: "64", allowed: []string{"32", "64"}},
		order:    choice{value: "little", allowed: []string{"little", "big"}},
		compress: choice{allowed: []string{"fast", "hc"}},
		writing:  writing{doing: "converting"},
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

func convertCommand() *cobra.Command {
	opts := newConvertOptions()
	cmd := verb("convert IN OUT [--dtype TYPE [--type GLOB=TYPE]... [--keep GLOB]... [--imatrix FILE] [--all] [--plain-f8]] [--compress[=hc]] [--shard-size SIZE] [--format FORMAT] [--align 32|64] [--byte-order little|big] [--metadata FILE|KEY=VALUE]... [--no-side-files] [--filter GLOB] [--no-aliases] [--dry-run [--json]] [-j N]",
		"Write a model as an APR2, SafeTensors or GGUF file", convertLong,
		opts.run, "IN", "OUT")
	opts.addFlags(cmd)
	opts.shards.addTo(cmd)
	cmd.Flags().Func("metadata", "merge the JSON object in `FILE` into the metadata, or set KEY=VALUE", opts.metadata.add)
	complete(cmd, "metadata", cobra.FixedCompletions([]string{"json"}, cobra.ShellCompDirectiveFilterFileExt))
	opts.format.addTo(cmd)
	opts.order.addTo(cmd, "byte-order", "write the numbers of a GGUF file in this order")
	cmd.Flags().BoolVar(&opts.plainF8, "plain-f8", false, "take F8, F6 and F4 tensors without a scale for weights")
	cmd.Flags().BoolVar(&opts.noSideFiles, "no-side-files", false, "leave config.json and others beside a SafeTensors file alone")
	cmd.Flags().Func("filter", "only tensors whose name matches `GLOB` (see tensormap help inspect)", opts.filter.Set)
	complete(cmd, "filter", completeFilter)
	cmd.Flags().BoolVar(&opts.noAliases, "no-aliases", false, "leave out tensors that are part of others (.april)")
	return cmd
}

// addFlags declares those that upgrade has as well.
func (opts *convertOptions) addFlags(cmd *cobra.Command) {
	opts.align.addTo(cmd, "align", "align every tensor of an APR2 file to so many bytes")
	opts.dtype.addTo(cmd, "dtype", "re-encode real numbers as `TYPE`: "+strings.Join(opts.dtype.allowed, ", "))
	cmd.Flags().Var(&opts.types, "type", "re-encode tensors whose name matches GLOB to TYPE")
	complete(cmd, "type", cobra.NoFileCompletions)
	cmd.Flags().StringVar(&opts.imatrix, "imatrix", "", "weigh errors by the importance matrix in `FILE`")
	complete(cmd, "imatrix", cobra.FixedCompletions([]string{"gguf"}, cobra.ShellCompDirectiveFilterFileExt))
	cmd.Flags().Func("keep", "leave tensors as they are whose name matches `GLOB`", opts.keep.Set)
	complete(cmd, "keep", completeFilter)
	cmd.Flags().BoolVar(&opts.all, "all", false, "quantize norms, biases and tensors of one dimension too")
	opts.compress.addTo(cmd, "compress", "compress tensors that become smaller")
	cmd.Flags().Lookup("compress").NoOptDefVal = "fast"
	cmd.Flags().BoolVar(&opts.dryRun, "dry-run", false, "say what would be written, and write nothing")
	cmd.Flags().BoolVar(&opts.json, "json", false, "with --dry-run: say it as JSON")
	opts.addTo(cmd)
}

func (opts *convertOptions) run(ctx context.Context, s terminal.Streams, args []string) error {
	in, out := args[0], args[1]
	format, err := opts.outFormat(out)
	if err != nil {
		return err
	}
	for _, read := range append([]string{opts.imatrix}, opts.metadata.files...) {
		if err := checkDiffers(out, read); err != nil {
			return err
		}
	}
	o, err := opts.convertOptions(format)
	if err != nil {
		return err
	}
	return opts.write(ctx, s, in, out, o, func(m *loader.Model) error {
		if f := m.Format(); opts.source != layout.Unknown && f != opts.source {
			return fmt.Errorf("%s: is %v, not %v; use convert", terminal.Printable(called(in)), f, opts.source)
		}
		notePart(s.Err, m)
		if err := matched(&opts.filter, in, m); err != nil {
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

func (opts *convertOptions) convertOptions(format layout.Format) (*convert.Options, error) {
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
		o.TypeOf = opts.types.of
	}
	encodes := opts.dtype.value != ""
	switch {
	case opts.json && !opts.dryRun:
		return nil, usageError{errors.New("--json is how --dry-run reports, and needs it")}
	case (len(opts.types) > 0 || opts.imatrix != "") && !encodes:
		return nil, usageError{errors.New("--type and --imatrix are about what --dtype re-encodes, and need it")}
	case len(opts.keep) > 0 && !encodes && format != layout.GGUF:
		return nil, usageError{errors.New("--keep says what --dtype leaves alone, and needs it")}
	case opts.all && !encodes:
		return nil, usageError{errors.New("--all says what --dtype re-encodes, and needs it")}
	case opts.plainF8 && !encodes && format != layout.GGUF:
		return nil, usageError{errors.New("--plain-f8 says what --dtype re-encodes, and needs it")}
	}
	var err error
	if opts.imatrix != "" {
		o.Importance, err = convert.ReadImportance(opts.imatrix)
	}
	return o, err
}

// compressions are what --compress allows.
var compressions = map[string]convert.Compression{"fast": convert.Fast, "hc": convert.High}

// outFormat returns the format of a new file called out, and checks that it has what other flags ask for.
func (opts *convertOptions) outFormat(out string) (layout.Format, error) {
	f, err := opts.format.of(out)
	if err != nil {
		return layout.Unknown, err
	}
	plain := slices.Contains([]string{"", "f32", "f16", "bf16"}, opts.dtype.value)
	switch {
	case opts.order.value == "big" && f != layout.GGUF:
		err = usageError{fmt.Errorf("--byte-order big: %v files have one order", f)}
	case f == layout.APR2:
	case f == layout.GGUF && opts.dtype.value == "i8":
		err = usageError{errors.New("--dtype i8: GGUF has no scales of integers; q8_0 has them in its blocks")}
	case f == layout.SafeTensors && !plain:
		err = usageError{fmt.Errorf("--dtype %s: SafeTensors has f32, f16 and bf16", opts.dtype.value)}
	case opts.compress.value != "":
		err = usageError{fmt.Errorf("--compress: files of format %v have no compression", f)}
	}
	return f, err
}

// addSideFiles adds to the metadata what --metadata names, and what is beside the model in.
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
			fmt.Fprintf(stderr, "metadata from %s\n", terminal.Printable(strings.Join(read, ", ")))
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

// metadataFlag is --metadata, which may be given more than once.
type metadataFlag struct {
	files []string
	set   layout.Metadata
}

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

// typeFlags are the --type flags.
type typeFlags []typeFlag

type typeFlag struct {
	match glob.Patterns
	dtype layout.DType
}

func (f *typeFlags) String() string { return "" }
func (f *typeFlags) Type() string   { return "GLOB=TYPE" }

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

// of returns the type for the tensor called name, Invalid if no flag says any.
func (f typeFlags) of(name string) layout.DType {
	for _, one := range f {
		if one.match.Match(name) {
			return one.dtype
		}
	}
	return layout.Invalid
}
