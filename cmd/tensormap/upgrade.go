package main

import (
	"github.com/spf13/cobra"
	"github.com/tensormap/tensormap/layout"
)

const upgradeLong = `Upgrade writes an APR1 file as an APR2 file with all that it has: tensors, int8 with their
scales, and as metadata model_type, the dimensions under architecture, vocab, mel_filterbank
and mel_filterbank_shape, and under apr1 what APR2 has no key for. A vocabulary with tokens
that are not UTF-8 is there as it was in the file, too (apr1.vocab_bytes, in base64).

The other flags are those of convert, which also reads APR1 files.`

func upgradeCommand() *cobra.Command {
	opts := newConvertOptions()
	opts.source = layout.APR1
	opts.format.value = layout.APR2.String()
	cmd := verb("upgrade V1.apr V2.apr [--dtype TYPE [--keep GLOB]... [--all]] [--compress[=hc]] [--align 32|64] [--dry-run [--json]] [-j N]",
		"Write an APR1 file as an APR2 file", upgradeLong,
		opts.run, "V1.apr", "V2.apr")
	opts.addFlags(cmd)
	return cmd
}
