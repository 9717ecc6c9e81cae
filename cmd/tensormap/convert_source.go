package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"github.com/tensormap/tensormap/convert"
	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/loader"
)

// writers are by the format that they write.
var writers = map[layout.Format]func(context.Context, *loader.Model, string, *convert.Options) (convert.Result, error){
	layout.APR2:        convert.ToAPR2,
	layout.SafeTensors: convert.ToSafeTensors,
}

// indexEnd is how the name of an index ends that leads to SafeTensors shards.
const indexEnd = ".safetensors.index.json"

// formatOf is what a new file called out is by its name.
func formatOf(out string) (layout.Format, error) {
	lower := strings.ToLower(out)
	if strings.HasSuffix(lower, indexEnd) {
		return 0, usageError{fmt.Errorf("%s: an index has its name from OUT: give %s, and --shard-size", out, out[:len(out)-len(".index.json")])}
	}
	for f := range layout.Formats() {
		if f.Suffix() != filepath.Ext(lower) {
			continue
		}
		if writers[f] == nil {
			return 0, usageError{fmt.Errorf("%s: only APR2 and SafeTensors are written; convert --to says which, whatever OUT is called", out)}
		}
		return f, nil // of the two that end in .apr, the first
	}
	return layout.APR2, nil
}

// formats are what --to allows.
var formats = map[string]layout.Format{"apr": layout.APR2, "safetensors": layout.SafeTensors}

// format is that of a new file called out.
func (opts *convertOptions) format(out string) (f layout.Format, err error) {
	if f = formats[opts.to.value]; f == layout.Unknown {
		if f, err = formatOf(out); err != nil {
			return 0, err
		}
	}
	if f == layout.APR2 {
		return f, nil
	}
	switch opts.dtype.value {
	case "", "f32", "f16", "bf16":
	default:
		return 0, usageError{fmt.Errorf("--dtype %s: SafeTensors has f32, f16 and bf16", opts.dtype.value)}
	}
	if opts.compress.value != "" {
		return 0, usageError{errors.New("--compress: SafeTensors has no compression")}
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
			fmt.Fprintf(stderr, "metadata from %s\n", printable(strings.Join(read, ", ")))
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

// reportDecisions says which tensors are written in another way than they were or should
// have been, one line for every reason.
func reportDecisions(stderr io.Writer, r *convert.Result) {
	var by reasons
	for _, k := range r.Kept {
		by.add("kept as stored", k.Reason, k.Name)
	}
	for _, c := range r.Changed {
		by.add("written as "+c.To.String(), c.Reason, c.Name)
	}
	for _, name := range r.LeftOut {
		by.add("left out", "part of other tensors", name)
	}
	by.write(stderr)
}

// reasons are the names of tensors by what happened to them and why.
type reasons struct {
	order [][2]string
	names map[[2]string][]string
}

func (r *reasons) add(what, why, name string) {
	if r.names == nil {
		r.names = make(map[[2]string][]string)
	}
	key := [2]string{what, why}
	if r.names[key] == nil {
		r.order = append(r.order, key)
	}
	r.names[key] = append(r.names[key], printable(name))
}

func (r *reasons) write(w io.Writer) {
	const most = 3
	for _, key := range r.order {
		all := r.names[key]
		list := strings.Join(all[:min(most, len(all))], ", ")
		if len(all) > most {
			list += ", …"
		}
		fmt.Fprintf(w, "%s: %s (%s): %s\n", key[0], plural(len(all), "tensor"), printable(key[1]), list)
	}
}
