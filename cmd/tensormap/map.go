package main

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"github.com/tensormap/tensormap/cmd/tensormap/internal/drawing"
	"github.com/tensormap/tensormap/cmd/tensormap/internal/terminal"
)

type mapOptions struct {
	opener
	out      string
	resident bool
}

// mapWriters are the kinds of output by the end of its name.
var mapWriters = map[string]func(*bufio.Writer, *drawing.Map){
	".svg":  drawing.WriteSVG,
	".html": drawing.WriteHTML,
	".htm":  drawing.WriteHTML,
}

func mapCommand() *cobra.Command {
	var opts mapOptions
	cmd := verb("map FILE [-o OUT.svg|OUT.html]",
		"Draw where the bytes of a model are",
		opts.run, "FILE")
	cmd.Flags().StringVarP(&opts.out, "output", "o", "", "write to the file `OUT`, by whose end it is a picture or a page")
	opts.addTo(cmd)
	cmd.Flags().BoolVar(&opts.resident, "resident", true, "show what is in memory now")
	complete(cmd, "output", func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
		return []string{"svg", "html"}, cobra.ShellCompDirectiveFilterFileExt
	})
	return cmd
}

func (opts *mapOptions) run(ctx context.Context, s terminal.Streams, args []string) error {
	path := args[0]
	draw := drawing.WriteSVG
	if opts.out != "" {
		if draw = mapWriters[strings.ToLower(filepath.Ext(opts.out))]; draw == nil {
			return usageError{fmt.Errorf("%s: neither .svg nor .html", opts.out)}
		}
	} else if terminal.IsTerminal(s.Out) {
		return usageError{errors.New("a terminal cannot show a picture: give -o OUT.svg or OUT.html, or redirect standard output")}
	}
	opts.headOnly = true
	m, err := opts.open(ctx, path)
	if err != nil {
		return err
	}
	defer m.Close()
	mm := drawing.New(m, filepath.Base(called(path)))
	if opts.resident {
		if err := mm.Measure(m); err != nil {
			return err
		}
	}
	write := func(w io.Writer) error {
		buf := bufio.NewWriter(w)
		draw(buf, mm)
		return cmp.Or(buf.Flush(), m.Changed())
	}
	if opts.out == "" {
		return write(s.Out)
	}
	if err := checkOutput(opts.out, m); err != nil {
		return err
	}
	return writeFile(opts.out, write)
}
