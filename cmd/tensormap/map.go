package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"github.com/tensormap/tensormap/cmd/tensormap/internal/terminal"
	"github.com/tensormap/tensormap/explore"
	"github.com/tensormap/tensormap/loader"
)

type mapOptions struct {
	opener
	out      string
	resident bool
}

// mapCommand returns the verb map.
func mapCommand() *cobra.Command {
	var opts mapOptions
	cmd := verb("map FILE [-o OUT.svg]",
		"Draw where the bytes of a model are",
		opts.run, "FILE")
	cmd.Flags().StringVarP(&opts.out, "output", "o", "", "write to the file `OUT`, a picture")
	opts.addTo(cmd)
	cmd.Flags().BoolVar(&opts.resident, "resident", true, "show what is in memory now")
	completeFile(cmd, "output", "svg")
	return cmd
}

// run draws the model args[0] to the file of -o or to standard output. Another suffix than .svg, and a terminal, are a usageError.
func (opts *mapOptions) run(ctx context.Context, s terminal.Streams, args []string) error {
	path := args[0]
	switch suffix := strings.ToLower(filepath.Ext(opts.out)); {
	case suffix == ".html", suffix == ".htm":
		return usageError{fmt.Errorf("%s: map writes .svg; tensormap explore FILE -o OUT.html writes a page", opts.out)}
	case opts.out != "" && suffix != ".svg":
		return usageError{fmt.Errorf("%s: not .svg", opts.out)}
	case opts.out == "" && terminal.IsTerminal(s.Out):
		return usageError{errors.New("a terminal cannot show a picture: give -o OUT.svg, or redirect standard output")}
	}
	opts.headOnly = true
	m, err := opts.open(ctx, path, loader.Options{})
	if err != nil {
		return err
	}
	defer m.Close()
	l, err := m.Acquire()
	if err != nil {
		return err
	}
	defer l.Release()
	return writeOutput(ctx, s, opts.out, unknownSize, func(w io.Writer) error {
		err := explore.WriteMap(w, l, explore.MapOptions{Title: filepath.Base(shownName(path)), Resident: opts.resident})
		return cmp.Or(err, m.Changed())
	}, m)
}
