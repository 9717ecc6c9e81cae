package convert

import (
	"slices"
	"strings"

	"github.com/tensormap/tensormap/layout"
)

// Names of formats as keys of APR2 metadata: what the source says in the format's own keys is under its name.
var (
	ggufKey        = layout.GGUF.String()
	safeTensorsKey = layout.SafeTensors.String()
)

// Keys of GGUF that say what the file is.
const (
	keyArchitecture = "general.architecture"
	keyFileType     = "general.file_type"
	keyQuantization = "general.quantization_version"
	keyAlignment    = "general.alignment"
	keyTokens       = "tokenizer.ggml.tokens"
	keyShape        = "comfy.gguf.orig_shape." // with the name of a tensor: its shape, for ComfyUI-GGUF and package gguf
)

// splitKeys returns md with the keys of a shard of a GGUF model: its number from 0 on, the number of shards, and the
// number of tensors in all of them. md is not changed.
func splitKeys(md layout.Metadata, shard, shards, tensors int) layout.Metadata {
	return append(md[:len(md):len(md)], // without spare capacity, so that append copies
		layout.Entry{Key: "split.no", Value: uint16(shard)},
		layout.Entry{Key: "split.count", Value: uint16(shards)},
		layout.Entry{Key: "split.tensors.count", Value: int32(tensors)})
}

// isSplit reports whether the key of e is about how a model is divided among files.
func isSplit(e layout.Entry) bool { return strings.HasPrefix(e.Key, "split.") }

// withoutSplit returns a copy of md without the keys that say how the source was divided: they are not true of a new file.
func withoutSplit(md layout.Metadata) layout.Metadata {
	return slices.DeleteFunc(slices.Clone(md), isSplit)
}

// comfyShapes returns the shapes that md, the keys of a GGUF file, has under keyShape, by name of tensor. It skips
// values that are no list of int32, or have negative numbers.
func comfyShapes(md layout.Metadata) map[string][]int {
	shapes := make(map[string][]int)
	for _, e := range md {
		name, ok := strings.CutPrefix(e.Key, keyShape)
		dims, isList := e.Value.([]int32)
		if !ok || !isList || slices.ContainsFunc(dims, func(n int32) bool { return n < 0 }) {
			continue
		}
		shapes[name], _ = layout.As[[]int](dims)
	}
	return shapes
}
