package main

import "github.com/spf13/cobra"

const mergeLong = `Merge writes a model that is divided among several files to a single file, with every tensor's
bytes as they are: what is compressed stays compressed, nothing else is. What config.json beside it says of
quantized weights goes into the metadata. MANIFEST is an APR2
manifest, a SafeTensors index, or any file of a GGUF split. The name of OUT or --format says
the format, as for convert; what it has no dtype for is as convert writes it.`

func mergeCommand() *cobra.Command {
	v := &writing{doing: "merging"}
	cmd := verb("merge MANIFEST OUT [--format FORMAT] [-j N]",
		"Write a model of several files as a single file", mergeLong,
		v.run, "MANIFEST", "OUT")
	v.addTo(cmd)
	v.format.addTo(cmd)
	return cmd
}
