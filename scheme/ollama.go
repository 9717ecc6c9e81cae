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

// ollamaValues are the values of quant_type and group_size.
type ollamaValues struct{ quantType, group string }

// toParams returns the parameters that o says, if Ollama knows its type.
func (o ollamaValues) toParams() (params, bool) {
	p, known := ollamaTypes[strings.ToLower(o.quantType)]
	group, err := strconv.ParseUint(o.group, 10, 32)
	p.groupSize = group
	return p, known && err == nil && group != 0
}

// readOllama adds the types and group sizes in Ollama's metadata: for all tensors, or overrides for one by its name.
// Without another method they mean mlx. It skips types that Ollama does not know.
func (c *Config) readOllama(o layout.Metadata) {
	groups := make(map[string]string)
	for key, v := range o.All() {
		if name, ok := strings.CutSuffix(key, GroupSize); ok {
			groups[name], _ = v.(string)
		}
	}
	for key, v := range o.All() {
		name, ok := strings.CutSuffix(key, QuantType)
		if !ok || name != "" && name[len(name)-1] != '.' {
			continue
		}
		kind, _ := v.(string)
		says := ollamaValues{kind, groups[name]}
		p, ok := says.toParams()
		if !ok {
			continue
		}
		switch {
		case name != "":
			c.pathOverrides = append(c.pathOverrides, override{strings.TrimSuffix(name[:len(name)-1], ".weight"), says})
		case !c.hasMethod():
			c.params.bits, c.params.groupSize, c.params.format = p.bits, p.groupSize, p.format
		}
		c.quantMethod = cmp.Or(c.quantMethod, "mlx")
	}
}

// IsOllamaKey reports whether a key of a SafeTensors file is one of Ollama's, which say how tensors are quantized.
func IsOllamaKey(key string) bool {
	at := strings.LastIndexByte(key, '.') + 1
	return key[at:] == QuantType || key[at:] == GroupSize
}
