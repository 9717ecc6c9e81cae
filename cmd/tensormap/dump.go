package main

import (
	"cmp"
	"context"
	"errors"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/tensormap/tensormap/cmd/tensormap/internal/slice"
	"github.com/tensormap/tensormap/cmd/tensormap/internal/terminal"
	"github.com/tensormap/tensormap/internal/report"
	"github.com/tensormap/tensormap/loader"
)

type dumpOptions struct {
	opener
	as      choice
	asGiven bool // --as was given
	out     string
}

// dumpCommand returns the verb dump.
func dumpCommand() *cobra.Command {
	var opts dumpOptions
	opts.as.allowed = slice.Formats
	opts.as.value = opts.as.allowed[0]
	cmd := verb("dump FILE TENSOR[SLICE] [--as f32|raw|npy|text] [-o OUT]",
		"Write one tensor, or a slice of it, as float32, raw bytes, a NumPy file or text",
		opts.run, "FILE", "TENSOR")
	cmd.PreRun = func(cmd *cobra.Command, _ []string) { opts.asGiven = cmd.Flags().Changed("as") }
	cmd.ValidArgsFunction = completeTensor
	opts.as.addTo(cmd, "as", "how to write it")
	cmd.Flags().StringVarP(&opts.out, "output", "o", "", "write to the file `OUT`; - is standard output")
	opts.addTo(cmd)
	return cmd
}

// run writes the tensor args[1] of the model args[0], or a slice of it, to standard output or to the file of -o. On a terminal
// it writes text only: what is not text is a usageError there.
func (opts *dumpOptions) run(ctx context.Context, s terminal.Streams, args []string) error {
	path, name := args[0], args[1]
	if opts.out == "-" {
		opts.out = ""
	}
	if !opts.asGiven && strings.EqualFold(filepath.Ext(opts.out), ".npy") {
		opts.as.value = "npy"
	}
	onScreen := opts.out == "" && terminal.IsTerminal(s.Out)
	if _, _, slice := slice.Cut(name); onScreen && !opts.isShowable(slice) {
		return errNotShowable
	}
	m, err := opts.open(ctx, path, loader.Options{})
	if err != nil {
		return err
	}
	defer m.Close()
	l, err := m.AcquireContext(ctx) // so that what a slice has unpacked stays until all of it is taken
	if err != nil {
		return err
	}
	defer l.Release()
	r, err := findRegion(m, l, name)
	switch {
	case err != nil:
		return err
	case onScreen && !opts.isShowable(!r.Whole):
		return errNotShowable
	case onScreen:
		opts.as.value, r.Width = "text", terminal.ScreenOf(s.Out).Width
	}
	if isAddress(path) && r.Whole && !onScreen { // in parallel, unless it is too large to be held
		if _, err := m.Warm(ctx, []string{r.Tensor.Name()}, nil); err != nil && !errors.Is(err, loader.ErrTooLarge) {
			return err
		}
	}
	return writeOutput(ctx, s, opts.out, slice.Bytes(opts.as.value, r), func(w io.Writer) error {
		err := slice.Write(w, opts.as.value, r)
		return cmp.Or(err, l.Changed()) // what has been read may be of no file that ever was
	}, m)
}

var errNotShowable = usageError{errors.New("a terminal cannot show binary data: " +
	"give -o OUT, --as text or a slice such as 'NAME[:4]', or redirect standard output")}

// isShowable reports whether a terminal can show the output: text, which a slice becomes unless --as says otherwise.
func (opts *dumpOptions) isShowable(isSlice bool) bool {
	return opts.as.value == "text" || isSlice && !opts.asGiven
}

// findRegion returns all of the tensor called name. If there is none, and name is like "NAME[0:4]", it returns that slice of the tensor NAME. It
// fails if there is no such tensor, or with a usageError if it has no such slice.
func findRegion(m *loader.Model, l *loader.Lease, name string) (*slice.Region, error) {
	t, err := tensorNamed(m, l, name)
	if err == nil {
		return slice.All(t), nil
	}
	base, spec, sliced := slice.Cut(name)
	if sliced && errors.Is(err, loader.ErrNotFound) {
		if t, err = tensorNamed(m, l, base); err == nil {
			p, err := slice.New(t, spec)
			if err != nil {
				err = usageError{err}
			}
			return p, err
		}
	}
	return nil, err
}

// tensorNamed returns the tensor called name. If there is none, it returns the tensor whose name, with the escapes that inspect shows, is
// name. It fails with loader.ErrNotFound if there is no such tensor, or there are several.
func tensorNamed(m *loader.Model, l *loader.Lease, name string) (loader.Tensor, error) {
	t, err := l.Tensor(name)
	if !errors.Is(err, loader.ErrNotFound) || !strings.ContainsAny(name, "\\\"") {
		return t, err
	}
	var names []string
	for t := range m.Tensors() {
		if report.Name(t.Name()) == name {
			names = append(names, t.Name())
		}
	}
	if len(names) != 1 {
		return t, err
	}
	return l.Tensor(names[0])
}

// completeTensor completes the second argument: the names of tensors of the file that is the first.
func completeTensor(cmd *cobra.Command, args []string, prefix string) ([]string, cobra.ShellCompDirective) {
	switch len(args) {
	case 0:
		return nil, cobra.ShellCompDirectiveDefault
	case 1:
		return completeFilter(cmd, args, prefix)
	}
	return nil, cobra.ShellCompDirectiveNoFileComp
}

// completeFilter completes a flag that takes a pattern with the names of tensors of the file args[0] that begin with prefix, sorted.
// It returns none for a file that cannot be opened: a completion has nowhere to complain. It returns none for an address: nobody
// has asked to fetch anything. Names that do not fit on a line as they are, as shells take them, are left out.
func completeFilter(_ *cobra.Command, args []string, prefix string) (names []string, rule cobra.ShellCompDirective) {
	rule = cobra.ShellCompDirectiveNoFileComp
	if len(args) == 0 || isAddress(args[0]) {
		return nil, rule
	}
	m, err := loader.Open(args[0], nil)
	if err != nil {
		return nil, rule
	}
	defer m.Close()
	for t := range m.Tensors() {
		if name := t.Name(); strings.HasPrefix(name, prefix) && report.Printable(name) == name {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names, rule
}
