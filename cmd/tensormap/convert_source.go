package main

import (
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"github.com/tensormap/tensormap/cmd/tensormap/internal/terminal"
	"github.com/tensormap/tensormap/convert"
	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/layout/formats"
	"github.com/tensormap/tensormap/loader"
)

// indexEnd is how the name of an index ends that leads to SafeTensors shards.
const indexEnd = ".safetensors.index.json"

// formatFlag is --format, for new files whose names do not say what they are.
type formatFlag struct{ choice }

func newFormatFlag() formatFlag {
	var f formatFlag
	for _, format := range formats.Names() {
		if convert.CanWrite(format) {
			f.allowed = append(f.allowed, format.String())
		}
	}
	return f
}

func (f *formatFlag) addTo(cmd *cobra.Command) {
	f.choice.addTo(cmd, "format", "write this format, under a name whose suffix is of none")
}

// of returns the format of a new file called out. The flag must not contradict a suffix that formats have.
func (f *formatFlag) of(out string) (layout.Format, error) {
	if err := checkName(out); err != nil {
		return layout.Unknown, err
	}
	lower := strings.ToLower(out)
	if strings.HasSuffix(lower, indexEnd) {
		return layout.Unknown, usageError{fmt.Errorf("%s: an index has its name from OUT: give %s, and --shard-size", out, out[:len(out)-len(".index.json")])}
	}
	named := layout.Unknown
	for _, format := range formats.Names() {
		if formats.Suffix(format) == filepath.Ext(lower) {
			named = format // of the two that end in .apr, the first
			break
		}
	}
	switch {
	case named == layout.Unknown && f.value == "":
		return layout.Unknown, usageError{fmt.Errorf("%s: the name does not say which format to write: %s; or give --format %s", quotedIfEmpty(out), suffixes(), f.Type())}
	case !convert.CanWrite(named) && named != layout.Unknown:
		return layout.Unknown, usageError{fmt.Errorf("%s: files of format %v are not written, only %s", out, named, suffixes())}
	case named != layout.Unknown && f.value != "" && f.value != named.String():
		return layout.Unknown, usageError{fmt.Errorf("%s: is a name for %v, not for %s", out, named, f.value)}
	case named != layout.Unknown:
		return named, nil
	}
	for _, format := range formats.Names() {
		if convert.CanWrite(format) && format.String() == f.value {
			return format, nil
		}
	}
	panic("choice allows a format that is not written")
}

// suffixes lists the formats that are written, with how their names end.
func suffixes() string {
	var list []string
	for _, format := range formats.Names() {
		if convert.CanWrite(format) {
			list = append(list, fmt.Sprintf("%v (%s)", format, formats.Suffix(format)))
		}
	}
	return strings.Join(list, ", ")
}

func quotedIfEmpty(path string) string {
	if path == "" {
		return `""`
	}
	return path
}

// outFormat returns the format of a new file called out, and checks that it has what other flags ask for.
func (opts *convertOptions) outFormat(out string) (layout.Format, error) {
	f, err := opts.format.of(out)
	if err != nil {
		return layout.Unknown, err
	}
	if f == layout.APR2 {
		return f, nil
	}
	switch opts.dtype.value {
	case "", "f32", "f16", "bf16":
	default:
		return layout.Unknown, usageError{fmt.Errorf("--dtype %s: SafeTensors has f32, f16 and bf16", opts.dtype.value)}
	}
	if opts.compress.value != "" {
		return layout.Unknown, usageError{errors.New("--compress: SafeTensors has no compression")}
	}
	return f, nil
}

// addSideFiles adds to the metadata what --metadata names, and what is beside the model in.
func (opts *convertOptions) addSideFiles(stderr io.Writer, in string, m *loader.Model, o *convert.Options) error {
	var skip []string
	if opts.metadata != "" {
		skip = append(skip, "config.json")
	}
	if m.Format() == layout.SafeTensors && !opts.noSideFiles && !isAddress(in) {
		config, read, err := convert.SideFiles(m.Files()[0].Path, skip...)
		if err != nil {
			return fmt.Errorf("%w; --no-side-files does without", err)
		}
		if len(read) > 0 {
			fmt.Fprintf(stderr, "metadata from %s\n", terminal.Printable(strings.Join(read, ", ")))
		}
		o.Config = config
	}
	if opts.metadata == "" {
		return nil
	}
	config, err := convert.ReadConfig(opts.metadata)
	if err != nil {
		return err
	}
	o.Config.Merge(config)
	return nil
}
