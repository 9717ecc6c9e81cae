package scheme

import (
	"bytes"
	"context"
	"maps"
	"slices"

	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/layout/jsontext"
)

// comfyLayer is ComfyUI's description of a layer: a tensor X.comfy_quant, or an entry of _quantization_metadata in
// the header. ComfyUI names parts as other programs do, but may store them in another order.
type comfyLayer struct {
	format    string
	group     uint64
	isRotated bool // by a Hadamard matrix
}

// comfyFormats maps formats to the type of their codes. In these formats parts are stored as their names say. nvfp4 and mxfp8
// are missing here, since their scales are in the order of a kernel.
var comfyFormats = map[string]layout.DType{
	"float8_e4m3fn": layout.F8_E4M3, "float8_e4m3fn_rowwise": layout.F8_E4M3, "float8_e4m3fn_blockwise": layout.F8_E4M3,
	"float8_e5m2": layout.F8_E5M2, "int8_tensorwise": layout.I8, "int8_blockwise": layout.I8,
}

// comfyPrefixes begin the names of a diffusion model's tensors inside a checkpoint. ComfyUI strips the one that a file has
// before it looks for descriptions. Source: its comfy/model_detection.py, unet_prefix_from_state_dict.
var comfyPrefixes = []string{"", "model.diffusion_model.", "model.model.", "net.", "model."}

// readComfyLayer returns what one description in JSON says of a layer.
func readComfyLayer(md layout.Metadata) comfyLayer {
	group, _ := integer(md, "group_size")
	rotated, _ := md.Get("convrot") // any value but false counts
	return comfyLayer{text(md, "format"), uint64(max(group, 0)), rotated != nil && rotated != false}
}

// ComfyLayersKey is the key of ComfyUI's descriptions of layers in the header of a SafeTensors file.
const ComfyLayersKey = "_quantization_metadata"

// readComfyLayers sets c.comfyLayers to ComfyUI's descriptions of layers in o, by path, if there are any. Descriptions that were read
// before are dropped. It sets c.Err if the descriptions are no JSON.
func (c *Config) readComfyLayers(o layout.Metadata) {
	s := text(o, ComfyLayersKey)
	if s == "" {
		return
	}
	md, err := jsontext.Parse([]byte(s), layout.SafeTensors, 0, ComfyLayersKey, (*layout.Limits)(nil).WithDefaults())
	if err != nil {
		c.Err = err
		return
	}
	c.comfyLayers = make(map[string]comfyLayer)
	list, _ := object(md, "layers")
	for path, v := range list.All() {
		one, _ := v.(layout.Metadata)
		c.comfyLayers[path] = readComfyLayer(one)
	}
}

// comfyDescription returns ComfyUI's description of the layer at a path. Descriptions may lack a prefix that the path has. So
// comfyDescription tries the path without each of comfyPrefixes, in order. ok is false if there is no description.
func (c *Config) comfyDescription(path []byte) (d comfyLayer, ok bool) {
	for _, prefix := range comfyPrefixes {
		if rest, cut := bytes.CutPrefix(path, []byte(prefix)); cut && !ok {
			d, ok = c.comfyLayers[string(rest)]
		}
	}
	return d, ok
}

// checkComfyDescriptions compares the layers in ComfyUI's key _quantization_metadata with the weights that were found. It
// refuses a tensor that the key describes as quantized and that is no part of a weight. If a described layer does not exist,
// it refuses all weights, and names the first such layer. It skips layers that the source ignores. It does nothing for a
// checkpoint without weights.
func (f *finder) checkComfyDescriptions(ctx context.Context) {
	if len(f.weights) == 0 {
		return
	}
	var missing error
	for _, path := range slices.Sorted(maps.Keys(f.loadConfig(ctx).comfyLayers)) { // so that a table always has the same order
		var tensor uint32
		exists := slices.ContainsFunc(comfyPrefixes, func(prefix string) (ok bool) {
			tensor, ok = f.lookupEnd([]byte(prefix+path), weightEnd)
			return ok
		})
		switch {
		case f.source.Ignored([]byte(path)):
		case !exists && missing == nil:
			missing = invalidf("_quantization_metadata describes layer %s, which the file does not have (--ignore-part or Options.IgnorePart decodes without it)", layout.Quote(path))
		case exists && !f.isPart(tensor):
			f.addRefused(tensor, invalidf("%v, and _quantization_metadata describes it as quantized", f.tensors[tensor].DType))
		}
	}
	for i := range f.weights {
		f.refuseWeight(i, missing)
	}
}

// applyComfyDescription sets both of w.blockSides to the group size in ComfyUI's description of the layer. The description is
// in the tensor comfy_quant or in the file's header. It does nothing if no layer is described. It fails if the two places
// contradict each other, if they contradict the codes, or if only other layers are described. It returns ErrUnsupported for
// rotated weights, and for formats that comfyFormats lacks.
func (w *weight) applyComfyDescription() error {
	d, ok := w.config.comfyDescription(w.layerPath)
	if t := w.part(QuantState); t != nil && hasSuffix(t.Name, ".comfy_quant") {
		md, err := w.parseContent(QuantState, "comfy_quant")
		if err != nil {
			return err
		}
		besideCodes := readComfyLayer(md)
		if ok && besideCodes != d {
			return invalidf("comfy_quant %s and _quantization_metadata describe the layer differently", w.quotedName(QuantState))
		}
		d, ok = besideCodes, true
	}
	codesType := w.part(Codes).DType
	schemeFits := w.pattern.schemeName == FP8 || w.pattern.schemeName == IntQuantized
	switch {
	case !ok && len(w.config.comfyLayers) > 0:
		return invalidf("_quantization_metadata describes other layers, and not this one")
	case !ok:
		return nil
	case d.isRotated:
		return unsupportedf("ComfyUI's codes of weights turned by a Hadamard matrix (convrot)")
	case comfyFormats[d.format] == layout.Invalid:
		return unsupportedf("ComfyUI's format %s, whose scales are in another order", layout.Quote(d.format))
	case comfyFormats[d.format] != codesType || !schemeFits:
		return invalidf("codes of %v, which ComfyUI's description calls %s", codesType, d.format)
	case d.group > 0:
		w.blockSides = [2]uint64{d.group, d.group}
	}
	return nil
}
