package main

import (
	"context"
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"github.com/tensormap/tensormap/cmd/tensormap/internal/loopback"
	"github.com/tensormap/tensormap/cmd/tensormap/internal/terminal"
	"github.com/tensormap/tensormap/explore"
	"github.com/tensormap/tensormap/loader"
)

type exploreOptions struct {
	opener
	out       string
	noBrowser bool
	port      uint16
	jobs      jobs
}

// exploreCommand returns the verb explore.
func exploreCommand() *cobra.Command {
	var opts exploreOptions
	cmd := verb("explore MODEL [MODEL] [-o OUT.html | --no-browser] [--port N] [-j N]",
		"Look at a model, or at two side by side, in a browser",
		opts.run)
	cmd.Args = arguments(2, "MODEL")
	opts.addTo(cmd)
	addPage(cmd, &opts.out, "write the page to the file `OUT`, which needs no server, in place of serving it")
	cmd.Flags().BoolVar(&opts.noBrowser, "no-browser", false, "print the address, and open no browser")
	cmd.Flags().Uint16Var(&opts.port, "port", 0, "serve at port `N` of this machine (default: any free one)")
	complete(cmd, "port", cobra.NoFileCompletions)
	opts.jobs.addTo(cmd)
	return cmd
}

// addPage declares the flag for a page in one file.
func addPage(cmd *cobra.Command, out *string, usage string) {
	cmd.Flags().StringVarP(out, "output", "o", "", usage)
	completeFile(cmd, "output", "html")
}

// writePage writes the page that eo describes, of one model or two, to the file called out. It says so on standard error.
// It fails if out has not the suffix of a page, or is a file of the models.
func writePage(ctx context.Context, s terminal.Streams, out string, eo *explore.Options, models ...*loader.Model) error {
	if suffix := strings.ToLower(filepath.Ext(out)); suffix != ".html" && suffix != ".htm" {
		return usageError{fmt.Errorf("%s: not .html", out)}
	}
	return writeOutput(ctx, s, out, unknownSize, func(w io.Writer) error { return explore.WriteFile(ctx, w, models[0].Acquire, eo) }, models...)
}

// run serves a page about the models at the paths or addresses args until ctx ends, or writes it to the file of -o.
func (opts *exploreOptions) run(ctx context.Context, s terminal.Streams, args []string) error {
	eo := explore.Options{From: shownName(args[0]), Workers: opts.jobs.count() + 1}
	models, err := make([]*loader.Model, len(args)), error(nil)
	if len(args) == 1 {
		models[0], err = opts.open(ctx, args[0], loader.Options{})
	} else if models[0], models[1], err = opts.openTwo(ctx, args[0], args[1]); err == nil {
		eo.Compared, eo.ComparedFrom = models[1].Acquire, shownName(args[1])
	}
	if err != nil {
		return err
	}
	for _, m := range models {
		defer m.Close()
	}
	eo.Signature = opts.signer
	if opts.out != "" {
		return writePage(ctx, s, opts.out, &eo, models...)
	}
	server, err := loopback.Listen(ctx, int(opts.port), explore.Handler(models[0].Acquire, &eo))
	if err != nil {
		return err
	}
	defer server.Close()
	if _, err := fmt.Fprintln(s.Out, server.Address()); err != nil {
		return err
	}
	if !opts.noBrowser {
		if err := loopback.OpenBrowser(server.Address()); err != nil {
			note(s.Err, "no browser could be opened (%s): open the address above", err.Error())
		}
	}
	note(s.Err, "Ctrl-C ends it")
	return server.Serve(ctx)
}
