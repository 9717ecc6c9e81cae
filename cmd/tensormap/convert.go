package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/tensormap/tensormap/convert"
	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/loader"
)

const convertLong = `Convert writes the tensors and the metadata of a model file to an APR2 file. Elements are
copied as they are. OUT appears once it is complete; an old file of that name stays until
then.

--metadata names a JSON object, such as the config.json beside a Hugging Face model. Its
keys describe the architecture and go there, but for those that the format itself gives
a place at the top (model_type, vocab, tokenizer_config, …).`

type convertOptions struct {
	align    choice
	metadata string
}

func convertCommand() *cobra.Command {
	opts := convertOptions{align: choice{value: "64", allowed: []string{"32", "64"}}}
	cmd := &cobra.Command{
		Use:   "convert IN OUT [--align 32|64] [--metadata config.json]",
		Short: "Write a model as an APR2 file",
		Long:  convertLong,
		Args:  operands("IN", "OUT"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return convertModel(cmd.Context(), cmd.ErrOrStderr(), args[0], args[1], &opts)
		},
		DisableFlagsInUseLine: true,
	}
	opts.align.addTo(cmd, "align", "align every tensor to so many bytes")
	cmd.Flags().StringVar(&opts.metadata, "metadata", "", "merge the JSON object in `FILE` into the metadata")
	complete(cmd, "metadata", cobra.FixedCompletions([]string{"json"}, cobra.ShellCompDirectiveFilterFileExt))
	return cmd
}

func convertModel(ctx context.Context, stderr io.Writer, in, out string, opts *convertOptions) error {
	config, err := readConfig(opts.metadata)
	if err != nil {
		return err
	}
	m, err := loader.Open(in, nil)
	if err != nil {
		return err
	}
	defer m.Close()
	if err := checkOutput(out, m); err != nil {
		return err
	}
	align, err := strconv.Atoi(opts.align.value)
	if err != nil {
		return err
	}
	bar := newProgress(stderr, "converting")
	begun := time.Now()
	result, err := convert.ToAPR2(ctx, m, out, &convert.Options{Align: align, Config: config, Progress: bar.update})
	took := time.Since(begun)
	bar.clear()
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(stderr, "%s: wrote %s tensors, %s in %s, %s\n", printable(out),
		grouped(uint64(result.Tensors)), size(result.Bytes), duration(took), speed(result.Bytes, took))
	return err
}

// readConfig reads a JSON object; none where path is empty.
func readConfig(path string) (layout.Metadata, error) {
	if path == "" {
		return nil, nil
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	limits := (*layout.Limits)(nil).WithDefaults()
	// One byte more, so that ParseJSON sees when there is too much.
	text, err := io.ReadAll(io.LimitReader(f, int64(limits.HeaderBytes)+1))
	if err != nil {
		return nil, err
	}
	config, err := layout.ParseJSON(text, layout.Unknown, 0, "config", limits)
	var fe *layout.FormatError
	if errors.As(err, &fe) {
		return nil, fmt.Errorf("%s: offset %d: %s", path, fe.Offset, fe.Reason)
	}
	return config, err
}
