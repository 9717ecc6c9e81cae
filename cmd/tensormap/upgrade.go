package main

import (
	"github.com/spf13/cobra"
	"github.com/tensormap/tensormap/layout"
)

// upgradeCommand returns the verb upgrade, which is convert for one format.
func upgradeCommand() *cobra.Command {
	opts := newConvertOptions()
	opts.source = layout.APR1
	opts.format.value = layout.APR2.String()
	cmd := verb("upgrade V1.apr V2.apr [--dtype TYPE [--keep GLOB]... [--all]] [--compress[=hc]] [--align 32|64] [--dry-run] [--json] [-j N]",
		"Write an APR1 file as an APR2 file",
		opts.run, "V1.apr", "V2.apr")
	opts.addFlags(cmd)
	return cmd
}
