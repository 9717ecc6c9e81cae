package scheme

import (
	"slices"
	"strings"

	"github.com/tensormap/tensormap/layout"
)

// Said returns the object that says how weights are quantized, as config.json has it under quantization_config. It is
// nil if there is none.
func (c *Config) Said() layout.Metadata {
	const key = "quant_method"
	if _, ok := c.said.Get(key); ok || c.said == nil || c.method == ReadConfig(layout.Metadata{{Key: quantizationKeys[0], Value: c.said}}).method {
		return c.said
	}
	return append(slices.Clip(layout.Metadata{{Key: key, Value: c.method}}), c.said...) // which its place has told
}

// IsOllamas reports whether a key of a SafeTensors file is one of Ollama's, which say how tensors are quantized.
func IsOllamas(key string) bool {
	at := strings.LastIndexByte(key, '.') + 1
	return key[at:] == QuantType || key[at:] == GroupSize
}
