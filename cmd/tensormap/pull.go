package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"
	"github.com/tensormap/tensormap/cmd/tensormap/internal/terminal"
	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/loader"
	"github.com/tensormap/tensormap/remote"
)

type pullOptions struct {
	opener
	out string
}

// pullCommand returns the verb pull.
func pullCommand() *cobra.Command {
	var opts pullOptions
	cmd := verb("pull ADDRESS [-o DIR | --filter GLOB]", "Download a model to this machine", opts.run, "ADDRESS")
	opts.copies, opts.headOnly = true, true
	opts.addTo(cmd)
	cmd.Flags().StringVarP(&opts.out, "output", "o", "", "copy the files to the folder `DIR`")
	opts.addFilter(cmd)
	complete(cmd, "output", cobra.FixedCompletions(nil, cobra.ShellCompDirectiveFilterDirs))
	return cmd
}

// run downloads the model at the address args[0] into the cache, and copies its files to the folder of -o. It prints where the
// model is. It fails if a file is not as --digest or --signature says.
func (opts *pullOptions) run(ctx context.Context, s terminal.Streams, args []string) error {
	switch {
	case !isAddress(args[0]):
		return usageError{fmt.Errorf("%s: not an address, such as hf://ORG/NAME", args[0])}
	case opts.noCache:
		return usageError{errors.New("--no-cache leaves nowhere to pull to")}
	}
	if opts.filter.Pattern != "" {
		if opts.out != "" {
			return usageError{errors.New("-o copies whole files; convert --filter writes tensors to a file")}
		}
		return opts.pullTensors(ctx, s, args[0])
	}
	var lo loader.Options
	if err := opts.apply(&lo); err != nil {
		return err
	}
	ro, err := opts.remote(&lo)
	if err != nil {
		return err
	}
	bar := terminal.NewProgress(s.Err, "pulling")
	ro.Progress = func(have, total int64) { bar.Update(uint64(have), uint64(total)) }
	pulled, err := remote.Pull(ctx, args[0], ro)
	bar.Clear()
	if err != nil {
		return err
	}
	if err := verifyFiles(ctx, pulled.Files, pulled.Names, lo.Trust); err != nil {
		return err
	}
	if opts.out != "" {
		copies, err := copyTo(opts.out, pulled.Files, pulled.Names)
		if err != nil {
			return err
		}
		if err := verifyFiles(ctx, copies, pulled.Names, lo.Trust); err != nil { // somebody wrote to the cache meanwhile
			for _, path := range copies {
				os.Remove(path)
			}
			return err
		}
		pulled.Path = opts.out
	}
	_, err = fmt.Fprintln(s.Out, pulled.Path)
	return err
}

// pullTensors fetches the tensors that the filter matches into the cache, and prints the address.
func (opts *pullOptions) pullTensors(ctx context.Context, s terminal.Streams, address string) error {
	m, err := opts.openSelected(ctx, address, loader.Options{})
	if err != nil {
		return err
	}
	defer m.Close()
	var names []string
	for t := range m.Tensors() {
		if opts.filter.Match(t.Name()) {
			names = append(names, t.Name())
		}
	}
	bar := terminal.NewProgress(s.Err, "pulling")
	_, err = m.Warm(ctx, names, &loader.WarmOptions{Progress: bar.Update})
	bar.Clear()
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(s.Out, shownName(address))
	return err
}

// verifyFiles returns an error if a file has other bytes than by trusts under its name. The file at paths[i] has the name
// names[i]. If by is nil, every file is trusted.
func verifyFiles(ctx context.Context, paths, names []string, by loader.Trust) error {
	if by == nil {
		return nil
	}
	for i, path := range paths {
		if err := loader.VerifyFile(ctx, path, renamedTrust{by, names[i]}); err != nil {
			return err
		}
	}
	return nil
}

// renamedTrust is a Trust in one file, for a loader that asks for it by another name: it asks for names without folders.
type renamedTrust struct {
	loader.Trust
	name string
}

// Digests returns the digests of the one file, whatever name is asked for.
func (k renamedTrust) Digests(_ string, in layout.Input) (*layout.Digests, error) {
	return k.Trust.Digests(k.name, in)
}

// copyTo copies files to the folder dir under names, which may have folders. It makes the folders, and returns the paths
// of the copies. Copies that are complete when another fails stay.
func copyTo(dir string, files, names []string) (copies []string, err error) {
	for i, path := range files {
		out := filepath.Join(dir, filepath.FromSlash(names[i]))
		if err := os.MkdirAll(filepath.Dir(out), 0o777); err != nil {
			return nil, err
		}
		err = writeFile(out, func(w io.Writer) error {
			f, err := os.Open(path)
			if err != nil {
				return err
			}
			defer f.Close()
			_, err = io.Copy(w, f)
			return err
		})
		if err != nil {
			return nil, err
		}
		copies = append(copies, out)
	}
	return copies, nil
}
