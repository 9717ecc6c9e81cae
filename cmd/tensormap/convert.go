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
	"github.com/tensormap/tensormap/convert"
	"github.com/tensormap/tensormap/internal/glob"
	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/loader"
)

// encodings are the dtypes that --dtype and --type allow.
var encodings = []layout.DType{
	layout.F32, layout.F16, layout.BF16, layout.Q8_0, layout.Q5_1, layout.Q5_0, layout.Q4_1, layout.Q4_0, layout.I8,
	layout.Q6_K, layout.Q5_K, layout.Q4_K, layout.Q3_K, layout.Q2_K, layout.IQ4_NL, layout.IQ4_XS, layout.MXFP4,
}

// newConvertOptions returns the options of convert and upgrade with their defaults, and what their choices allow.
func newConvertOptions() *writeOptions {
	opts := &writeOptions{
		doing:    "converting",
		align:    choice{value: "64", allowed: []string{"32", "64"}},
		order:    choice{value: "little", allowed: []string{"little", "big"}},
		compress: choice{allowed: []string{"fast", "hc"}},
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

// upgradeCommand returns the verb upgrade, which is convert for one format.
func upgradeCommand() *cobra.Command {
	opts := newConvertOptions()
	opts.source = layout.APR1
	opts.format.value = layout.APR2.String()
	cmd := verb("upgrade V1.apr V2.apr [--dtype TYPE [--keep GLOB]... [--all]] [--compress[=hc]] [--align 32|64] [--dry-run] [--json] [-j N]",
		"Write an APR1 file as an APR2 file",
		opts.run, "V1.apr", "V2.apr")
	opts.addFlags(cmd)
	return cmd
}

// splitCommand returns the verb split.
func splitCommand() *cobra.Command {
	v := &writeOptions{doing: "splitting", asStored: true, noSideFiles: true}
	cmd := verb("split IN OUT --shard-size SIZE [--format FORMAT] [-j N]",
		"Divide a model among files of at most a given size",
		v.run, "IN", "OUT")
	v.addTo(cmd)
	v.format.addTo(cmd)
	cmd.PreRunE = func(*cobra.Command, []string) error {
		if v.shards.bytes == 0 {
			return usageError{errors.New("missing --shard-size")}
		}
		return nil
	}
	v.shards.addTo(cmd)
	return cmd
}

// mergeCommand returns the verb merge.
func mergeCommand() *cobra.Command {
	v := &writeOptions{doing: "merging", asStored: true, noSideFiles: true}
	cmd := verb("merge MANIFEST OUT [--format FORMAT] [-j N]",
		"Write a model of several files as a single file",
		v.run, "MANIFEST", "OUT")
	v.addTo(cmd)
	v.format.addTo(cmd)
	return cmd
}

// addFlags declares the flags that convert and upgrade have.
func (v *writeOptions) addFlags(cmd *cobra.Command) {
	v.align.addTo(cmd, "align", "align every tensor of an APR2 file to this number of bytes")
	v.dtype.addTo(cmd, "dtype", "re-encode real numbers as `TYPE`: "+strings.Join(v.dtype.allowed, ", "))
	cmd.Flags().Var(&v.types, "type", "re-encode tensors whose name matches GLOB to TYPE")
	complete(cmd, "type", cobra.NoFileCompletions)
	cmd.Flags().StringVar(&v.imatrix, "imatrix", "", "weigh errors by the importance matrix in `FILE`")
	completeFile(cmd, "imatrix", "gguf")
	cmd.Flags().Func("keep", "leave tensors as they are whose name matches `GLOB`", v.keep.Set)
	complete(cmd, "keep", completeFilter)
	cmd.Flags().BoolVar(&v.all, "all", false, "quantize norms, biases and tensors of one dimension too")
	v.compress.addTo(cmd, "compress", "compress tensors that become smaller")
	cmd.Flags().Lookup("compress").NoOptDefVal = "fast"
	cmd.Flags().BoolVar(&v.dryRun, "dry-run", false, "say what would be written, and write nothing")
	cmd.Flags().BoolVar(&v.json, "json", false, "write JSON, for programs: tensors as they would be written or were")
	v.addTo(cmd)
}

// options returns what the flags say as options of package convert for a new file called out, but for what files say. Flags that
// contradict one another, or that the format of out does not support, are a usageError.
func (v *writeOptions) options(out string) (*convert.Options, error) {
	format, err := v.format.formatOf(out)
	if err != nil {
		return nil, err
	}
	align, _ := strconv.Atoi(v.align.value) // 32 or 64
	d, isType := layout.ParseDType(strings.ToUpper(v.dtype.value))
	o := &convert.Options{Format: format, Set: v.metadata.set, Align: align, BigEndian: v.order.value == "big", DType: d, NoAliases: v.noAliases,
		Keep: v.keep.Match, All: v.all, PlainF8: v.plainF8, Compress: compressions[v.compress.value], ShardBytes: v.shards.bytes}
	if v.asStored {
		o.Compress = convert.AsStored
	}
	if v.filter.Pattern != "" {
		o.Only = v.filter.Match
	}
	if slices.Contains(convert.Recipes(), v.dtype.value) && (!isType || format == layout.GGUF) {
		o.Recipe = v.dtype.value
	}
	if len(v.types) > 0 {
		o.TypeOf = v.types.typeOf
	}
	dtype, isCopy := v.dtype.value, v.dtype.value == ""
	return o, firstMisuse([]misuse{
		{o.BigEndian && format != layout.GGUF, fmt.Sprintf("--byte-order big: %v files have one order", format)},
		{dtype == "i8" && format == layout.GGUF, "--dtype i8: GGUF has no scales of integers; q8_0 has them in its blocks"},
		{format == layout.SafeTensors && !slices.Contains([]string{"", "f32", "f16", "bf16"}, dtype), "--dtype " + dtype + ": SafeTensors has f32, f16 and bf16"},
		{v.compress.value != "" && format != layout.APR2, fmt.Sprintf("--compress: files of format %v have no compression", format)},
		{isCopy && (len(v.types) > 0 || v.imatrix != ""), "--type and --imatrix are about what --dtype re-encodes, and need it"},
		{isCopy && len(v.keep) > 0 && format != layout.GGUF, "--keep says what --dtype leaves alone, and needs it"},
		{isCopy && v.all, "--all says what --dtype re-encodes, and needs it"},
		{isCopy && v.plainF8 && format != layout.GGUF, "--plain-f8 says what --dtype re-encodes, and needs it"},
	})
}

// compressions are the values that --compress allows.
var compressions = map[string]convert.Compression{"fast": convert.Fast, "hc": convert.High}

// addSideFiles sets o.Config to the metadata of the files beside a SafeTensors model and the files that --metadata names, merged in
// this order. It says on stderr which it read. A file of --metadata takes the place of config.json.
func (v *writeOptions) addSideFiles(ctx context.Context, stderr io.Writer, m *loader.Model, o *convert.Options) error {
	var skip []string
	if len(v.metadata.files) > 0 {
		skip = append(skip, "config.json")
	}
	if m.Format() == layout.SafeTensors && !v.noSideFiles {
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
	for _, file := range v.metadata.files {
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
