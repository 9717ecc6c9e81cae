package shard_test

import (
	"fmt"

	"github.com/tensormap/tensormap/layout/manifest"
	"github.com/tensormap/tensormap/shard"
)

// Choose finds the model among the files of a folder: here an index, which names the shards beside it.
func ExampleChoose() {
	const index = "model.safetensors.index.json"
	files := []string{"config.json", "model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors", index}
	name, err := shard.Choose(files, func(string) *manifest.File {
		return &manifest.File{Shards: []manifest.Shard{{Name: files[1]}, {Name: files[2]}}}
	})
	fmt.Println(name, err)
	_, err = shard.Choose(files[:3], nil)
	fmt.Println(err)
	// Output:
	// model.safetensors.index.json <nil>
	// shards in it, but without the manifest or index that leads to all of them: model-00001-of-00002.safetensors, model-00002-of-00002.safetensors
}

// Whole tells what the model of a shard is called as one file.
func ExampleWhole() {
	fmt.Println(shard.Whole("llama-00002-of-00003.gguf"))
	fmt.Println(shard.Whole("model-00001-of-00004.safetensors"))
	// Output:
	// llama.gguf
	// model.safetensors
}
