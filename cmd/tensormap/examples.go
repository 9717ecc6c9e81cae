package main

import "github.com/spf13/cobra"

// examples stand on top of each verb's help.
var examples = map[string]string{
	"tensormap": `
  tensormap inspect model.safetensors
  tensormap convert model.safetensors model.gguf --dtype q4_k_m
  tensormap verify hf://ORG/NAME`,
	"inspect": `
  tensormap inspect model.safetensors
  tensormap inspect hf://ORG/NAME --tree --sort size
  tensormap inspect --json a.gguf b.gguf | jq .metadata`,
	"verify": `
  tensormap verify model.apr
  tensormap verify model.safetensors --values
  tensormap verify DIR --signature DIR/model.sig --key signer.pub.pem`,
	"dump": `
  tensormap dump model.gguf 'blk.0.attn_q.weight[0:4, :8]'
  tensormap dump model.apr encoder.weight -o weight.npy`,
	"map": `
  tensormap map model.gguf
  tensormap map model.gguf -o model.html`,
	"convert": `
  tensormap convert model.safetensors model.apr
  tensormap convert hf://ORG/NAME model.gguf --dtype q4_k_m
  tensormap convert model.gguf model.safetensors --dtype bf16 --shard-size 5GB`,
	"upgrade": `
  tensormap upgrade old.apr new.apr`,
	"split": `
  tensormap split model.safetensors parts/model.safetensors --shard-size 2GB`,
	"merge": `
  tensormap merge model.safetensors.index.json whole.safetensors
  tensormap merge model-00001-of-00003.gguf whole.gguf`,
	"stats": `
  tensormap stats model.safetensors
  tensormap stats model.gguf --filter 'blk.0.*' --bins 0`,
	"hash": `
  tensormap hash model.safetensors
  tensormap hash --total model.safetensors`,
	"diff": `
  tensormap diff model.safetensors model.apr
  tensormap diff model.safetensors model.gguf --tolerance 0.01`,
	"keygen": `
  tensormap keygen -o signer.pem`,
	"sign": `
  tensormap sign DIR --key signer.pem`,
	"pull": `
  tensormap pull hf://ORG/NAME
  tensormap pull ollama://llama3.2 -o DIR`,
	"cache ls": `
  tensormap cache ls`,
	"cache verify": `
  tensormap cache verify`,
	"cache prune": `
  tensormap cache prune --max-size 50GB`,
}

// addExamples puts the examples of cmd and of its verbs before what they say.
func addExamples(cmd *cobra.Command) {
	if lines, ok := examples[verbPath(cmd)]; ok {
		cmd.Long = lines[1:] + "\n\n" + cmd.Long
	}
	for _, sub := range cmd.Commands() {
		addExamples(sub)
	}
}
