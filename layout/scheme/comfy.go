package scheme

import (
	"slices"

	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/layout/jsontext"
)

// layer is ComfyUI's description of a layer: a tensor X.comfy_quant, or an entry of _quantization_metadata in
// the header. Its names of parts are those of other programs, but their order may not be.
type layer struct {
	format string
	group  uint64
	turned bool // by a Hadamard matrix
}

// comfyFormats are the formats whose parts are what their names say. The scales of nvfp4 and mxfp8 are in the
// order of a kernel.
var comfyFormats = []string{
	"float8_e4m3fn", "float8_e4m3fn_rowwise", "float8_e4m3fn_blockwise", "float8_e5m2", "int8_tensorwise", "int8_blockwise",
}

func readLayer(md layout.Metadata) layer {
	group, _ := integer(md, "group_size")
	turned, _ := md.Get("convrot")
	return layer{text(md, "format"), uint64(max(group, 0)), turned != nil && turned != false}
}

// Layers is the key of ComfyUI's descriptions of layers in the header of a SafeTensors file.
const Layers = "_quantization_metadata"

// readLayers reads the descriptions of layers. Err tells if they are no JSON.
func (c *Config) readLayers(o layout.Metadata) {
	s := text(o, Layers)
	if s == "" {
		return
	}
	md, err := jsontext.Parse([]byte(s), layout.SafeTensors, 0, Layers, (*layout.Limits)(nil).WithDefaults())
	if err != nil {
		c.Err = err
		return
	}
	c.layers = make(map[string]layer)
	list, _ := object(md, "layers")
	for path, v := range list.All() {
		one, _ := v.(layout.Metadata)
		c.layers[path] = readLayer(one)
	}
}

// takeDescription takes the parameters of ComfyUI's description, if there is one, and refuses what is stored in another
// way than others store it.
func (s *shaping) takeDescription() error {
	d, ok := s.conf.layers[string(s.layer)]
	if t := s.part(QuantState); t != nil && hasSuffix(t.Name, ".comfy_quant") {
		lim := s.limits
		lim.Depth = min(lim.Depth, 8)
		md, err := jsontext.Parse(s.content(QuantState), layout.Unknown, 0, "comfy_quant", lim)
		if err != nil {
			return err
		}
		d, ok = readLayer(md), true
	}
	switch {
	case !ok:
		return nil
	case d.turned:
		return unsupported("ComfyUI's codes of weights turned by a Hadamard matrix (convrot)")
	case !slices.Contains(comfyFormats, d.format):
		return unsupported("ComfyUI's format %s, whose scales are in another order", layout.Quote([]byte(d.format)))
	case d.group > 0:
		s.block = [2]uint64{d.group, d.group}
	}
	return nil
}
