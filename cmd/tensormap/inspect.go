package main

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"slices"

	"github.com/spf13/cobra"

	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/loader"
)

const inspectLong = `Inspect shows what a model file holds: header, what its format has to say first, tensors,
with --metadata all that the file says about the model, and with --graph the operations
of a format that holds a computation graph (TSM). Tensor data is not read.

GLOB selects tensors by their whole name: * matches any characters, dots and slashes
too; ? matches one; [a-z] one of a set and [!a-z] one outside of it; {a,b} either; a
backslash makes the next character plain. Quote it, so that the shell leaves it alone:

  tensormap inspect model.apr --filter 'encoder.layer.[0-3].*.{weight,bias}'

--tree groups tensors by the prefixes of their names, which end at dots and slashes, with
sums; siblings that differ in their number only and hold the same names and shapes share a
line: blk.{0..31}. --depth N stops after N levels. --sort size lists the largest first;
numbers in names are sorted by value, and what is equal stays in the order of the file.
Lines are made to fit a terminal, and are whole everywhere else:

  tensormap inspect model.gguf --tree --sort size | less

--json writes one JSON object, the same for every format: format, version, files, flags,
metadata and tensors, these in the order of the file, and with --graph the graph. Fields
may be added, never renamed.`

type inspectOptions struct {
	opener
	json, metadata, graph bool
	filter                glob
	tree                  bool
	depth                 int // of the tree; 0 is all of it
	order                 choice
}

func inspectCommand() *cobra.Command {
	opts := inspectOptions{order: choice{allowed: orderNames()}}
	cmd := &cobra.Command{
		Use:     "inspect FILE [--json] [--filter GLOB] [--metadata] [--graph] [--tree] [--sort ORDER]",
		Short:   "Show header, metadata and tensors of a model file",
		Long:    inspectLong,
		Args:    operands("FILE"),
		PreRunE: func(cmd *cobra.Command, _ []string) error { return opts.check(cmd) },
		RunE: func(cmd *cobra.Command, args []string) error {
			return inspect(cmd.Context(), cmd.OutOrStdout(), args[0], &opts)
		},
		DisableFlagsInUseLine: true,
	}
	cmd.Flags().BoolVar(&opts.json, "json", false, "write JSON, for programs (metadata is always in it)")
	cmd.Flags().Var(&opts.filter, "filter", "only tensors whose name matches `GLOB`")
	complete(cmd, "filter", completeFilter)
	cmd.Flags().BoolVar(&opts.metadata, "metadata", false, "show the metadata too")
	cmd.Flags().BoolVar(&opts.graph, "graph", false, "show the computation graph too")
	opts.addTo(cmd)
	cmd.Flags().BoolVar(&opts.tree, "tree", false, "group tensors by the prefixes of their names")
	cmd.Flags().IntVar(&opts.depth, "depth", 0, "levels of the tree to show (0: all)")
	opts.order.addTo(cmd, "sort", "order of the tensors, else that of the file")
	return cmd
}

// check refuses flags that contradict one another.
func (opts *inspectOptions) check(cmd *cobra.Command) error {
	switch {
	case opts.json && (opts.tree || opts.order.value != ""):
		return usageError{errors.New("--json has all tensors in the order of the file: it goes without --tree and --sort")}
	case cmd.Flags().Changed("depth") && !opts.tree:
		return usageError{errors.New("--depth is that of a --tree")}
	case opts.depth < 0:
		return usageError{fmt.Errorf("--depth %d is negative", opts.depth)}
	}
	return nil
}

func inspect(ctx context.Context, stdout io.Writer, path string, opts *inspectOptions) error {
	m, done, err := opts.open(ctx, path)
	if err != nil {
		return err
	}
	defer done()
	if err := opts.filter.matched(path, m); err != nil {
		return err
	}
	in := newInspection(m, opts)
	if opts.graph {
		if in.Graph, err = m.Graph(); err != nil {
			return err
		}
	}
	if opts.json && in.err != nil {
		return in.err // half a JSON object is worse than none
	}
	w := bufio.NewWriter(stdout)
	if opts.json {
		err = writeJSON(w, in)
	} else {
		writeTables(w, in, screenOf(stdout), opts)
	}
	if err != nil {
		return err
	}
	return cmp.Or(in.err, w.Flush())
}

// inspection is all that inspect shows. The names in JSON are a contract.
type inspection struct {
	Format   layout.Format   `json:"format"`
	Version  string          `json:"version"`
	Files    []fileInfo      `json:"files"`
	Sharded  bool            `json:"sharded,omitempty"`
	Flags    []string        `json:"flags"`
	Metadata layout.Metadata `json:"metadata"`
	Graph    *layout.Graph   `json:"graph,omitempty"`

	summary []layout.Fact

	count  int                       // of tensors that the filter lets through
	inFile iter.Seq[*tensorInfo]     // these in the order of the file, each until the next, without scales
	list   func()                    // sets shown and info
	shown  []int32                   // these in an order of their own, or nil
	info   func(i int32) *tensorInfo // of tensor i of shown, until the next call

	total int   // tensors of the model, whether the filter lets them through or not
	err   error // why metadata or scales are not to be had, where that is so
}

type fileInfo struct {
	Path string `json:"path"`
	Size uint64 `json:"size"`
}

type tensorInfo struct {
	Name        string          `json:"name"`
	DType       layout.DType    `json:"dtype"`
	Shape       []uint64        `json:"shape"`
	Elements    uint64          `json:"elements"`
	File        int             `json:"file"`
	Offset      uint64          `json:"offset"`
	StoredBytes uint64          `json:"stored_bytes"`
	RawBytes    uint64          `json:"raw_bytes"`
	Encoding    layout.Encoding `json:"encoding"`
	ZeroCopy    bool            `json:"zero_copy"`
	Scale       *float32        `json:"scale,omitempty"` // both only where the file gives a scale
	ZeroPoint   *int64          `json:"zero_point,omitempty"`

	tensor          loader.Tensor
	scaleUnreadable bool
	unaligned       bool // in its file, whether that is mapped or not
}

func newInspection(m *loader.Model, opts *inspectOptions) *inspection {
	files := m.Files()
	index := files[0].Layout.Index()
	in := &inspection{
		Format:  m.Format(),
		Version: index.Version,
		Sharded: len(files) > 1,
		Flags:   append([]string{}, index.Flags...),
		total:   m.Len(),
	}
	for _, f := range files {
		in.Files = append(in.Files, fileInfo{f.Path, f.Size})
	}
	if opts.json || opts.metadata {
		in.Metadata, in.err = m.Metadata()
	}
	if !opts.json {
		var err error
		in.summary, err = m.Summary()
		in.err = cmp.Or(in.err, err)
	}
	matching := func(yield func(loader.Tensor) bool) {
		for t := range m.Tensors() {
			if opts.filter.match(t.Name()) && !yield(t) {
				return
			}
		}
	}
	for t := range matching {
		in.count++
		_, _, err := t.Scale()
		in.err = cmp.Or(in.err, err)
	}
	var info tensorInfo
	describe := func(t loader.Tensor) *tensorInfo {
		info.describe(t)
		index := files[t.File()].Layout.Index()
		info.unaligned = t.StoredBytes() > 0 && !index.Aligned(&layout.Tensor{DType: t.DType(), Offset: t.Offset()})
		return &info
	}
	in.inFile = func(yield func(*tensorInfo) bool) {
		for t := range matching {
			if !yield(describe(t)) {
				return
			}
		}
	}
	in.list = func() {
		tensors := slices.AppendSeq(make([]loader.Tensor, 0, in.count), matching)
		in.shown = make([]int32, in.count)
		for i := range in.shown {
			in.shown[i] = int32(i)
		}
		in.info = func(i int32) *tensorInfo { return describe(tensors[i]) }
	}
	return in
}

// tensors describes the tensors that are shown, each until the next.
func (in *inspection) tensors() iter.Seq[*tensorInfo] {
	return func(yield func(*tensorInfo) bool) {
		each := in.inFile
		if in.shown != nil {
			each = in.inOrder
		}
		for info := range each {
			info.readScale()
			if !yield(info) {
				return
			}
		}
	}
}

// inOrder describes the tensors of shown, each until the next.
func (in *inspection) inOrder(yield func(*tensorInfo) bool) {
	for _, i := range in.shown {
		if !yield(in.info(i)) {
			return
		}
	}
}

// describe makes info that of t, whose shape it shares, but for the scale.
func (info *tensorInfo) describe(t loader.Tensor) {
	*info = tensorInfo{
		tensor:      t,
		Name:        t.Name(),
		DType:       t.DType(),
		Shape:       t.Shape(),
		Elements:    t.Elements(),
		File:        t.File(),
		Offset:      t.Offset(),
		StoredBytes: t.StoredBytes(),
		RawBytes:    t.RawBytes(),
		Encoding:    t.Encoding(),
		ZeroCopy:    t.ZeroCopy(),
	}
	if info.Shape == nil {
		info.Shape = []uint64{} // [], not null, for a scalar
	}
}

func (info *tensorInfo) readScale() {
	q, scaled, err := info.tensor.Scale()
	if scaled {
		scale, zero := q.Scale, q.Zero
		info.Scale, info.ZeroPoint = &scale, &zero
	}
	info.scaleUnreadable = err != nil
}
