package main

import (
	"errors"

	"github.com/spf13/cobra"
)

// splitCommand returns the verb split.
func splitCommand() *cobra.Command {
	v := &writeOptions{doing: "splitting", asStored: true, noSideFiles: true}
	cmd := verb("split IN OUT --shard-size SIZE [--format FORMAT] [-j N]",
		"Divide a model among files of at most a given size",
		v.run, "IN", "OUT")
	v.addTo(cmd)
	v.format.addTo(cmd)
	cmd.PreRunE = func(*cobra.Command, []string) error {
		if v.shards.bytes == 0 {
			return usageError{errors.New("missing --shard-size")}
		}
		return nil
	}
	v.shards.addTo(cmd)
	return cmd
}
