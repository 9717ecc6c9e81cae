package scheme

import (
	"cmp"
	"strconv"
	"strings"

	"github.com/tensormap/tensormap/layout"
)

// ollamaTypes are Ollama's names of MLX's modes. A file says quant_type and group_size for all of its tensors, or NAME.quant_type and
// NAME.group_size for one. Source: ollama, x/create/client/quantize.go and docs on its blobs.
var ollamaTypes = map[string]params{
	"int2": {bits: 2}, "int3": {bits: 3}, "int4": {bits: 4}, "int6": {bits: 6}, "int8": {bits: 8},
	"nvfp4": {bits: 4, format: "nvfp4"}, "mxfp4": {bits: 4, format: "mxfp4"}, "mxfp8": {bits: 8, format: "mxfp8"},
}

// The ends of Ollama's keys.
const (
	QuantType = "quant_type"
	GroupSize = "group_size"
)

// readOllama adds the types and group sizes in Ollama's metadata to c. The key quant_type is for all tensors: it sets bits,
// group size and format, unless c has a description already. A key such as model.layers.0.mlp.up_proj.weight.quant_type adds
// an override for one layer. Both set the method to mlx if there is none. It skips types that are not in ollamaTypes, and types
// whose group size is missing or no positive decimal number of 32 bits.
func (c *Config) readOllama(o layout.Metadata) {
	groupSizes := make(map[string]string)
	for key, v := range o.All() {
		if name, ok := strings.CutSuffix(key, GroupSize); ok {
			groupSizes[name], _ = v.(string)
		}
	}
	for key, v := range o.All() {
		name, ok := strings.CutSuffix(key, QuantType)
		if !ok || name != "" && name[len(name)-1] != '.' {
			continue
		}
		quantType, _ := v.(string)
		p, isKnown := ollamaTypes[strings.ToLower(quantType)]
		size, err := strconv.ParseUint(groupSizes[name], 10, 32)
		p.groupSize = size
		switch {
		case !isKnown || err != nil || size == 0:
			continue
		case name != "":
			c.pathOverrides = append(c.pathOverrides, override{strings.TrimSuffix(name[:len(name)-1], ".weight"), p})
		case c.quantization == nil && c.params.bits == 0: // the first description of all tensors counts
			c.params.bits, c.params.groupSize, c.params.format = p.bits, p.groupSize, p.format
		}
		c.quantMethod = cmp.Or(c.quantMethod, "mlx")
	}
}

// IsOllamaKey reports whether a key of a SafeTensors file is one of Ollama's: quant_type or group_size, alone or behind a name and a dot.
func IsOllamaKey(key string) bool {
	lastWord := key[strings.LastIndexByte(key, '.')+1:]
	return lastWord == QuantType || lastWord == GroupSize
}
