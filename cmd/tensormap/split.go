package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/spf13/cobra"
	"github.com/tensormap/tensormap/cmd/tensormap/internal/report"
	"github.com/tensormap/tensormap/cmd/tensormap/internal/terminal"
	"github.com/tensormap/tensormap/convert"
)

const splitLong = `Split writes a model to files of at most the given size and a manifest, OUT, as convert
--shard-size does, with every tensor's bytes as they are: what is compressed stays compressed,
nothing else is. KB, MB and GB are powers of 1000; KiB, MiB and GiB of 1024. The name of OUT or
--format says the format, as for convert. For SafeTensors, OUT.index.json is what leads to the
files, and what the format has no dtype for is as convert writes it.

Tensors keep their order, and each file holds as many as fit. One that alone is larger gets a
file of its own. A model that fits into one file becomes one file. IN may have shards already.`

func splitCommand() *cobra.Command {
	var open opener
	var shards byteSize
	var threads jobs
	format := newFormatFlag()
	cmd := &cobra.Command{
		Use:   "split IN OUT --shard-size SIZE [--format FORMAT] [-j N]",
		Short: "Divide a model among files of at most a given size",
		Long:  splitLong,
		Args:  operands("IN", "OUT"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if shards == 0 {
				return usageError{errors.New("missing --shard-size")}
			}
			defer threads.limit()()
			return rewrite(cmd.Context(), cmd.ErrOrStderr(), &open, "splitting", args[0], args[1], &format, shards)
		},
		DisableFlagsInUseLine: true,
	}
	open.addTo(cmd)
	shards.addTo(cmd)
	format.addTo(cmd)
	threads.addTo(cmd)
	return cmd
}

// rewrite writes the same bytes to other files, for split and merge. Without shards it writes one
// file.
func rewrite(ctx context.Context, stderr io.Writer, o *opener, doing, in, out string, flag *formatFlag, shards byteSize) error {
	format, err := flag.of(out)
	if err != nil {
		return err
	}
	m, done, err := o.openToCopy(ctx, in)
	if err != nil {
		return err
	}
	defer done()
	if err := checkOutput(out, m); err != nil {
		return err
	}
	if shards == 0 && isPart(m) {
		return fmt.Errorf("%s: is one shard of a model; merge takes the manifest or index that leads to all", called(in))
	}
	notePart(stderr, m)
	bar := terminal.NewProgress(stderr, doing)
	begun := time.Now()
	result, err := convert.Write(ctx, m, out, &convert.Options{
		Format: format, Compress: convert.AsStored, ShardBytes: uint64(shards), Progress: bar.Update,
	})
	bar.Clear()
	if err != nil {
		return err
	}
	reportWritten(stderr, result, shards, time.Since(begun))
	reportDecisions(stderr, result)
	if signed(m) {
		fmt.Fprintf(stderr, "%s: signature not carried over\n", terminal.Printable(called(in)))
	}
	return nil
}

// byteSize is a flag that takes a number of bytes; 0 is none.
type byteSize uint64

func (b *byteSize) Type() string { return "SIZE" }

func (b *byteSize) String() string {
	if *b == 0 {
		return ""
	}
	return strconv.FormatUint(uint64(*b), 10)
}

func (b *byteSize) Set(s string) error {
	n, err := humanize.ParseBytes(s)
	if err != nil || n == 0 {
		return errors.New("must be a size, such as 2GB or 500MiB")
	}
	*b = byteSize(n)
	return nil
}

// addTo declares the flag.
func (b *byteSize) addTo(cmd *cobra.Command) {
	cmd.Flags().Var(b, "shard-size", "divide a larger model among files of at most this size, such as 2GB")
	complete(cmd, "shard-size", cobra.NoFileCompletions)
}

// reportWritten says what has been written, and where that is not what shards may have led to
// expect.
func reportWritten(stderr io.Writer, p *convert.Plan, shards byteSize, took time.Duration) {
	divided := ""
	if p.Shards > 0 {
		divided = " in " + report.Plural(p.Shards, "shard")
	}
	fmt.Fprintf(stderr, "%s: wrote %s%s, %s in %s, %s\n", terminal.Printable(p.Path),
		report.Plural(len(p.Tensors), "tensor"), divided, report.Size(p.Bytes), report.Duration(took), report.Speed(p.Bytes, took))
	if shards > 0 && p.Shards == 0 {
		fmt.Fprintln(stderr, "not divided: one file is not larger than --shard-size")
	}
	var alone []string
	for i := range p.Tensors {
		if p.Tensors[i].Oversized {
			alone = append(alone, p.Tensors[i].Name)
		}
	}
	if n := len(alone); n > 0 {
		fmt.Fprintf(stderr, "larger than --shard-size, with a shard of its own each: %s, such as %s\n", report.Plural(n, "tensor"), terminal.Printable(alone[0]))
	}
	if p.Removed != "" {
		fmt.Fprintf(stderr, "removed %s, which stood for the model that was there before\n", terminal.Printable(p.Removed))
	}
	if n := len(p.Left); n > 0 {
		fmt.Fprintf(stderr, "left in place, though not part of this model: %s, such as %s\n", report.Plural(n, "file"), terminal.Printable(p.Left[0]))
	}
}
