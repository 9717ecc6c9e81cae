package main

import (
	"errors"

	"github.com/spf13/cobra"
)

const splitLong = `Split writes a model to files of at most the given size and a manifest, OUT, as convert
--shard-size does, with every tensor's bytes as they are: what is compressed stays compressed,
nothing else is. What config.json beside it says of quantized weights goes into the metadata. KB, MB and GB are powers of 1000; KiB, MiB and GiB of 1024. The name of OUT or
--format says the format, as for convert. For SafeTensors, OUT.index.json is what leads to the
files, and what the format has no dtype for is as convert writes it.

Tensors keep their order, and each file holds as many as fit. One that alone is larger gets a
file of its own. A model that fits into one file becomes one file. IN may have shards already.`

func splitCommand() *cobra.Command {
	v := &writing{doing: "splitting"}
	cmd := verb("split IN OUT --shard-size SIZE [--format FORMAT] [-j N]",
		"Divide a model among files of at most a given size", splitLong,
		v.run, "IN", "OUT")
	v.addTo(cmd)
	v.format.addTo(cmd)
	cmd.PreRunE = func(*cobra.Command, []string) error {
		if v.shards == 0 {
			return usageError{errors.New("missing --shard-size")}
		}
		return nil
	}
	v.shards.addTo(cmd)
	return cmd
}
