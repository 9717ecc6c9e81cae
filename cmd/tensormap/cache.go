package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"github.com/tensormap/tensormap/cmd/tensormap/internal/terminal"
	"github.com/tensormap/tensormap/internal/report"
	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/remote"
)

// cacheCommand returns the verb cache, which has verbs of its own.
func cacheCommand() *cobra.Command {
	group := &cobra.Command{
		Use:                   "cache VERB",
		Short:                 "List, check and prune what addresses have left on this machine",
		DisableFlagsInUseLine: true,
	}
	group.AddCommand(cacheListCommand(), cacheVerifyCommand(), cachePruneCommand())
	return group
}

// cacheListCommand returns the verb cache ls.
func cacheListCommand() *cobra.Command {
	var asJSON bool
	cmd := verb("ls [--json]", "List the files in the cache", func(_ context.Context, s terminal.Streams, _ []string) error {
		list, err := remote.Cache(nil)
		if err != nil {
			return err
		}
		var own int64 // bytes on disk that no other program shares
		entries := []layout.Metadata{}
		for _, e := range list {
			if !e.Shared {
				own += e.Disk
			}
			entries = append(entries, report.Object("path", e.Path, "names", report.OrEmpty(e.Names), "size", e.Size, "have", e.Have, "disk", e.Disk,
				"used", e.Used.UTC().Truncate(time.Second), "complete", e.Complete(), "shared", e.Shared))
		}
		if asJSON {
			return json.NewEncoder(s.Out).Encode(report.Object("entries", entries, "bytes", own))
		}
		return writeCache(s, list, own)
	})
	cmd.Flags().BoolVar(&asJSON, "json", false, "write JSON")
	return cmd
}

// writeCache writes a line for each entry, and the sums. own is the number of bytes on disk that no other program shares.
func writeCache(s terminal.Streams, list []remote.CacheEntry, own int64) error {
	w := tabwriter.NewWriter(s.Out, 0, 0, 2, ' ', 0)
	for _, e := range list {
		state := "complete"
		switch {
		case e.Shared:
			state = "hub"
		case !e.Complete():
			state = fmt.Sprintf("%d %%", e.Have*100/max(e.Size, 1))
		}
		name := e.Path
		if len(e.Names) > 0 {
			name = strings.Join(e.Names, ", ")
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", state, report.Size(uint64(e.Size)), e.Used.Format(time.DateTime), report.Printable(name))
	}
	if err := w.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintf(s.Out, "%s, %s besides the files of the hub\n", report.Counted(len(list), "file"), report.Size(uint64(own)))
	return err
}

// cacheVerifyCommand returns the verb cache verify.
func cacheVerifyCommand() *cobra.Command {
	return verb("verify", "Compare the files in the cache with their digests", func(ctx context.Context, s terminal.Streams, _ []string) error {
		list, err := remote.Cache(nil)
		if err != nil {
			return err
		}
		bar := terminal.NewProgress(s.Err, "verifying")
		defer bar.Clear()
		var total, done uint64
		for _, e := range list {
			total += uint64(e.Size)
		}
		unknown := 0
		var wrong []error
		for _, e := range list {
			bar.Update(done, total)
			done += uint64(e.Size)
			switch err := e.Check(ctx); {
			case err == nil:
			case errors.Is(err, errors.ErrUnsupported):
				unknown++
			case errors.Is(err, layout.ErrChecksum):
				wrong = append(wrong, err)
			default:
				return err
			}
		}
		bar.Clear()
		for _, err := range wrong {
			note(s.Out, "%v", err)
		}
		note(s.Out, "%s right, %d without a digest", report.Counted(len(list)-unknown-len(wrong), "file"), unknown)
		if len(wrong) > 0 {
			return fmt.Errorf("%s in the cache with other bytes than their digests", report.Counted(len(wrong), "file"))
		}
		return nil
	})
}

// cachePruneCommand returns the verb cache prune.
func cachePruneCommand() *cobra.Command {
	most := byteSize{mayBe0: true}
	cmd := verb("prune --max-size SIZE", "Remove what was not used for long", nil)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if !cmd.Flags().Changed("max-size") {
			return usageError{errors.New("missing --max-size")}
		}
		p, err := remote.PruneCache(int64(most.bytes), nil)
		if err != nil {
			return err
		}
		for _, e := range p.Held {
			note(cmd.ErrOrStderr(), "in use: %s", e.Path)
		}
		var freed int64
		for _, e := range p.Removed {
			freed += e.Disk
		}
		_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s removed, %s freed, %s left\n", report.Counted(len(p.Removed), "file"), report.Size(uint64(freed)), report.Size(uint64(p.Left)))
		return err
	}
	cmd.Flags().Var(&most, "max-size", "the most that the cache may take, such as 50GB")
	complete(cmd, "max-size", cobra.NoFileCompletions)
	return cmd
}
