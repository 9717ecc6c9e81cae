package main

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"
	"github.com/tensormap/tensormap/cmd/tensormap/internal/inspection"
	"github.com/tensormap/tensormap/cmd/tensormap/internal/terminal"
	"github.com/tensormap/tensormap/loader"
)

type inspectOptions struct {
	opener
	inspection.Options
	sort   choice
	stored bool
}

func inspectCommand() *cobra.Command {
	opts := inspectOptions{sort: choice{allowed: inspection.OrderNames()}}
	cmd := verb("inspect FILE... [--json] [--filter GLOB] [--metadata] [--graph] [--tree] [--sort ORDER] [--stored]",
		"Show header, metadata and tensors of a model file",
		opts.run)
	cmd.Args = several("FILE")
	cmd.PreRunE = func(cmd *cobra.Command, _ []string) error { return opts.check(cmd) }
	cmd.Flags().BoolVar(&opts.Json, "json", false, "write JSON, for programs (metadata is always in it)")
	cmd.Flags().Func("filter", "only tensors whose name matches `GLOB`", opts.Filter.Set)
	complete(cmd, "filter", completeFilter)
	cmd.Flags().BoolVar(&opts.Metadata, "metadata", false, "show the metadata too")
	cmd.Flags().BoolVar(&opts.Graph, "graph", false, "show the computation graph too")
	cmd.Flags().BoolVar(&opts.stored, "stored", false, "show the tensors that the file stores, parts of quantized weights too")
	opts.addTo(cmd)
	cmd.Flags().BoolVar(&opts.Tree, "tree", false, "group tensors by the prefixes of their names")
	cmd.Flags().IntVar(&opts.Depth, "depth", 0, "levels of the tree to show (0: all)")
	opts.sort.addTo(cmd, "sort", "order of the tensors, else that of the file")
	return cmd
}

// check refuses flags that contradict one another.
func (opts *inspectOptions) check(cmd *cobra.Command) error {
	switch {
	case opts.Json && (opts.Tree || opts.sort.value != ""):
		return usageError{errors.New("--json has all tensors in the order of the file: it goes without --tree and --sort")}
	case cmd.Flags().Changed("depth") && !opts.Tree:
		return usageError{errors.New("--depth is that of a --tree")}
	case opts.Depth < 0:
		return usageError{fmt.Errorf("--depth %d is negative", opts.Depth)}
	}
	return nil
}

// run shows the models one after the other. Of several, one that fails does not end the rest.
func (opts *inspectOptions) run(ctx context.Context, s terminal.Streams, args []string) (failed error) {
	for i, path := range args {
		if i > 0 && !opts.Json {
			fmt.Fprintln(s.Out)
		}
		err := opts.show(ctx, s, path)
		switch {
		case err == nil:
		case len(args) == 1 || ctx.Err() != nil || errors.As(err, new(usageError)) || errors.As(err, new(terminal.ReaderGone)):
			return err
		default:
			printError(s.Err, err)
			failed = errReported
		}
	}
	return failed
}

// show shows the model at path.
func (opts *inspectOptions) show(ctx context.Context, s terminal.Streams, path string) error {
	opts.headOnly = true
	m, err := opts.openWith(ctx, path, loader.Options{Stored: opts.stored})
	if err != nil {
		return err
	}
	defer m.Close()
	if opts.Tree {
		collect() // what opening left: a tree has a node for each tensor
	}
	if err := matched(&opts.Filter, path, m); err != nil {
		return err
	}
	opts.Order, opts.Trusted, opts.Unlocked = opts.sort.value, opts.signer, opts.secret != nil
	l, err := m.AcquireContext(ctx)
	if err != nil {
		return err
	}
	defer l.Release()
	err = inspection.Write(bufio.NewWriter(s.Out), terminal.ScreenOf(s.Out), m, l, &opts.Options)
	return cmp.Or(err, l.Changed())
}
