package scheme

import "github.com/tensormap/tensormap/layout"

// intQuantized is integers of 8 bits with scales in any grid. The QuantState is ComfyUI's .comfy_quant. Source: compressed-tensors
// 0.20.0 compressors/naive_quantized; 0.12.2 for the index.
var intQuantized = scheme{IntQuantized, (*weight).setIntQuantized, []pattern{
	{codesEnd: "", codesTypes: i8, scaleEnds: []string{"_scale"}, scaleTypes: floats, companions: tensorCompanions},
	{codesEnd: ".weight", codesTypes: i8, scaleEnds: []string{".scale_weight"}, scaleTypes: floats, companions: companionsWithRole(InputScale, ".scale_input")},
}}

// setIntQuantized sets shape, groups of scales, zero points and group index of int8s. It fails if setByteCodes does.
func (w *weight) setIntQuantized() error { return w.setByteCodes(layout.CodeInt8, layout.I8) }
