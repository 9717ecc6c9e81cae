package main

import "github.com/spf13/cobra"

const mergeLong = `Merge writes a model that is divided among several files to a single file, with every tensor's
bytes as they are: what is compressed stays compressed, nothing else is. MANIFEST is an APR2
manifest, a SafeTensors index, or any file of a GGUF split. The name of OUT or --format says
the format, as for convert; what it has no dtype for is as convert writes it.`

func mergeCommand() *cobra.Command {
	var open opener
	var threads jobs
	format := newFormatFlag()
	cmd := &cobra.Command{
		Use:   "merge MANIFEST OUT [--format FORMAT] [-j N]",
		Short: "Write a model of several files as a single file",
		Long:  mergeLong,
		Args:  operands("MANIFEST", "OUT"),
		RunE: func(cmd *cobra.Command, args []string) error {
			defer threads.limit()()
			return rewrite(cmd.Context(), cmd.ErrOrStderr(), &open, "merging", args[0], args[1], &format, 0)
		},
		DisableFlagsInUseLine: true,
	}
	open.addTo(cmd)
	format.addTo(cmd)
	threads.addTo(cmd)
	return cmd
}
