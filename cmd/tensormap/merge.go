package main

import "github.com/spf13/cobra"

// mergeCommand returns the verb merge.
func mergeCommand() *cobra.Command {
	v := &writeOptions{doing: "merging", asStored: true, noSideFiles: true}
	cmd := verb("merge MANIFEST OUT [--format FORMAT] [-j N]",
		"Write a model of several files as a single file",
		v.run, "MANIFEST", "OUT")
	v.addTo(cmd)
	v.format.addTo(cmd)
	return cmd
}
