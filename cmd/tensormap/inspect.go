package main

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"strings"

	"github.com/spf13/cobra"
	"github.com/tensormap/tensormap/cmd/tensormap/internal/inspection"
	"github.com/tensormap/tensormap/cmd/tensormap/internal/terminal"
	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/loader"
)

type inspectOptions struct {
	opener
	inspection.Options
	sort   choice
	stored bool
	all    bool // a line for each tensor, on a terminal too
	fit    bool
	memory inspection.Fit
	size   byteSize
	kv     choice
}

// inspectCommand returns the verb inspect.
func inspectCommand() *cobra.Command {
	opts := inspectOptions{sort: choice{allowed: inspection.OrderNames()}, kv: choice{allowed: []string{"f16", "bf16", "f32", "q8_0", "q4_0", "f8_e4m3"}}}
	cmd := verb("inspect FILE... [--json] [--filter GLOB] [--metadata] [--graph] [--tree [--depth N] | --all] [--sort ORDER] [--stored] [--fit [--context N] [--sequences N] [--kv TYPE] [--memory SIZE]]",
		"Show header, metadata and tensors of a model file",
		opts.run)
	cmd.Args = arguments(math.MaxInt, "FILE")
	cmd.PreRunE = func(cmd *cobra.Command, _ []string) error { return opts.check(cmd) }
	cmd.Flags().BoolVar(&opts.Json, "json", false, "write JSON, for programs (metadata is always in it)")
	cmd.Flags().Func("filter", "only tensors whose name matches `GLOB`", opts.filter.Set)
	complete(cmd, "filter", completeFilter)
	cmd.Flags().BoolVar(&opts.Metadata, "metadata", false, "show the metadata too")
	cmd.Flags().BoolVar(&opts.Graph, "graph", false, "show the computation graph too")
	cmd.Flags().BoolVar(&opts.stored, "stored", false, "show the tensors that the file stores, parts of quantized weights too")
	opts.addTo(cmd)
	cmd.Flags().BoolVar(&opts.Tree, "tree", false, "group tensors by the prefixes of their names")
	cmd.Flags().BoolVar(&opts.all, "all", false, "list every tensor on a terminal too, where many are grouped as by --tree")
	cmd.Flags().IntVar(&opts.Depth, "depth", 0, "show `N` levels of the tree (0: all)")
	opts.sort.addTo(cmd, "sort", "order of the tensors, else the order of the file")
	cmd.Flags().BoolVar(&opts.fit, "fit", false, "show what the model takes while it runs, in place of the tensors")
	cmd.Flags().IntVar(&opts.memory.Context, "context", 0, "with --fit, for sequences of `N` tokens (default: as many as the model is made for)")
	cmd.Flags().IntVar(&opts.memory.Sequences, "sequences", 1, "with --fit, for `N` sequences at once")
	opts.kv.addTo(cmd, "kv", "with --fit, the type of cached keys and values, else f16")
	cmd.Flags().Var(&opts.size, "memory", "with --fit, say whether it fits into `SIZE`, such as 24GB")
	complete(cmd, "memory", cobra.NoFileCompletions)
	return cmd
}

// check refuses flags that contradict one another, and sets what is estimated.
func (opts *inspectOptions) check(cmd *cobra.Command) error {
	given := cmd.Flags().Changed
	for _, name := range []string{"context", "sequences", "kv", "memory"} {
		if given(name) && !opts.fit {
			return usageError{fmt.Errorf("--%s is a flag of --fit", name)}
		}
	}
	if opts.fit {
		opts.memory.KV, _ = layout.ParseDType(strings.ToUpper(opts.kv.value)) // else Invalid, which stands for F16
		opts.memory.Memory, opts.memory.MemoryText = opts.size.bytes, opts.size.text
		opts.Fit = &opts.memory
	}
	return firstMisuse([]misuse{
		{opts.Json && (opts.Tree || opts.sort.value != ""), "--json has all tensors in the order of the file: it goes without --tree and --sort"},
		{opts.all && opts.Tree, "--tree groups tensors and --all lists each: they exclude each other"},
		{given("depth") && !opts.Tree, "--depth is a flag of a --tree"},
		{opts.Depth < 0, fmt.Sprintf("--depth %d is negative", opts.Depth)},
		{opts.fit && (opts.Tree || opts.all || opts.sort.value != "" || opts.filter.Pattern != "" && !opts.Json),
			"--fit is of all tensors: it goes without --tree, --all, --sort and --filter"},
		{opts.memory.Context < 1 && given("context"), fmt.Sprintf("--context %d is not positive", opts.memory.Context)},
		{opts.memory.Sequences < 1, fmt.Sprintf("--sequences %d is not positive", opts.memory.Sequences)},
	})
}

// run shows the models at the paths or addresses args, one after the other. If one of several fails, run reports that on
// standard error, shows the others and returns errReported.
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

// show shows the model at path as the flags say. It fails if --filter matches no tensor, or if the model changes meanwhile.
func (opts *inspectOptions) show(ctx context.Context, s terminal.Streams, path string) error {
	opts.headOnly = true
	m, err := opts.openSelected(ctx, path, loader.Options{Stored: opts.stored})
	if err != nil {
		return err
	}
	defer m.Close()
	if opts.Tree {
		freeMemory() // what opening left: a tree has a node for each tensor
	}
	opts.GroupMany = terminal.IsTerminal(s.Out) && !opts.all
	opts.Filter = opts.filter
	// Opening has set signer and secret.
	opts.Order, opts.Trusted, opts.Unlocked = opts.sort.value, opts.signer, opts.secret != nil
	l, err := m.AcquireContext(ctx)
	if err != nil {
		return err
	}
	defer l.Release()
	err = inspection.Write(bufio.NewWriter(s.Out), terminal.ScreenOf(s.Out), m, l, &opts.Options)
	return cmp.Or(err, l.Changed())
}
