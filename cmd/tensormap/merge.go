package main

import "github.com/spf13/cobra"

const mergeLong = `Merge writes a model that is divided among several files to a single APR2 file, with every
tensor's bytes as they are: what is compressed stays compressed, nothing else is. MANIFEST is an
APR2 manifest, a SafeTensors index, or any file of a GGUF split. Where OUT ends in .safetensors,
the file is of that format, and what it has no dtype for is as convert writes it.`

func mergeCommand() *cobra.Command {
	var open opener
	var threads jobs
	cmd := &cobra.Command{
		Use:   "merge MANIFEST OUT [-j N]",
		Short: "Write a model of several files as a single file",
		Long:  mergeLong,
		Args:  operands("MANIFEST", "OUT"),
		RunE: func(cmd *cobra.Command, args []string) error {
			defer threads.limit()()
			return rewrite(cmd.Context(), cmd.ErrOrStderr(), &open, "merging", args[0], args[1], 0)
		},
		DisableFlagsInUseLine: true,
	}
	open.addTo(cmd)
	threads.addTo(cmd)
	return cmd
}
