package scheme

import (
	"cmp"
	"slices"

	"github.com/tensormap/tensormap/layout"
)

// A pattern is one way to name and type the parts of a weight. All names begin with the same stem.
type pattern struct {
	scheme string     // its name, unless form finds another
	codes  string     // the end of the codes' name
	name   string     // the end of the weight's name
	kinds  kind       // of the codes
	scales []string   // the ends of the names that make it this pattern
	by     scaleTypes // of that tensor, which is otherwise taken for missing; 0 for any
	role   Role       // of that tensor, if it is not the scale
	others []companion
	// contents are the roles of parts whose contents tell the shape.
	contents []Role
	// fits reports whether the weight is this scheme's, where another has the same names. It may be nil.
	fits func(c *Config, codes, scale *layout.Tensor) bool
	sure bool // the codes' name alone decides: without their scale they are refused, not taken for a plain tensor
	// inward says that the search begins at the tensor with the role, and finds the codes.
	inward bool
	way    uint8 // which of its scheme's ways to store weights it is, for form
	// refused says why weights of the pattern are not decoded.
	refused error
	// floats says how a pattern is recognized whose codes are floats, as those of plain models are. It may be nil.
	floats *floatCodes

	of     uint8  // position of the scheme in the registry
	wanted uint16 // a bit for each role in contents
}

// floatCodes tells weights whose codes are floats. They are looked for when no other pattern claims their scale.
type floatCodes struct {
	// isUsed reports whether the configuration says that weights are stored so.
	isUsed func(c *Config) bool
	// needScale reports whether a matrix that has no scale ought to have one.
	needScale func(c *Config, t *layout.Tensor) bool
}

// companion is a part that may be there.
type companion struct {
	end   string
	role  Role
	layer bool // the name begins with the stem less ".weight"
}

// companions lists parts of one role.
func companions(role Role, ends ...string) (list []companion) {
	for _, end := range ends {
		list = append(list, companion{end, role, false})
	}
	return list
}

// ofTensors are companions of compressed-tensors' weights, and of those of writers with the same names.
var ofTensors = []companion{
	{"_zero_point", ZeroPoint, false},
	{"_g_idx", GroupIndex, false},
	{".input_scale", InputScale, true},
	{".input_zero_point", InputScale, true},
	{".input_global_scale", InputScale, true},
	{".comfy_quant", QuantState, true},
}

// ofPacked are companions of compressed-tensors' packed weights.
var ofPacked = append([]companion{{"_shape", Shape, false}, {"_global_scale", GlobalScale, false}}, ofTensors...)

// registry lists the schemes.
var registry []scheme

// patterns lists those of all schemes, longer ends of codes' names first: X.weight_packed is not a weight called X.weight.
var patterns []pattern

// register adds schemes to registry, and their patterns to patterns, sorted. Within the same length of the codes'
// end, the order is that of the calls.
func register(schemes ...scheme) {
	for _, s := range schemes {
		for _, p := range s.names() {
			if p.role == Codes { // names left it out
				p.role = Scale
			}
			for _, r := range p.contents {
				p.wanted |= 1 << r
			}
			p.of = uint8(len(registry))
			p.addBesides()
			patterns = append(patterns, p)
		}
		registry = append(registry, s)
	}
	slices.SortStableFunc(patterns, func(a, b pattern) int { return cmp.Compare(len(b.codes), len(a.codes)) })
}

// wants reports whether the content of a part tells the shape.
func (p *pattern) wants(part Part) bool { return p.wanted>>part.Role&1 != 0 }

// kind is a set of types that codes have.
type kind uint16

const (
	float8 kind = 1 << iota
	bytes8      // U8
	ints8       // I8
	words       // I32
	uwords      // U32
	shorts      // I16
	longs       // I64
	blocks      // NVFP4
	float4      // F4, whose shape counts codes
	float6      // F6_E2M3, F6_E3M2

	kindBits = iota

	// needsScale are types whose values mean nothing without a scale.
	needsScale = float4 | float6 | float8
)

var kinds = [256]kind{
	layout.F8_E4M3: float8, layout.F8_E5M2: float8, layout.F8_E4M3FNUZ: float8, layout.F8_E5M2FNUZ: float8,
	layout.U8: bytes8, layout.I8: ints8, layout.I32: words, layout.U32: uwords, layout.I16: shorts, layout.I64: longs, layout.NVFP4: blocks,
	layout.F4: float4, layout.F6_E2M3: float6, layout.F6_E3M2: float6,
}

// scaleTypes is a set of types that scales have.
type scaleTypes uint8

const (
	floats scaleTypes = 1 << iota // F32, F16, BF16
	e4m3
	e8m0
	u8
)

var scaleKinds = [256]scaleTypes{layout.F32: floats, layout.F16: floats, layout.BF16: floats, layout.F8_E4M3: e4m3, layout.F8_E8M0: e8m0, layout.U8: u8}

// isFloat reports whether a type is one of floats that scales have.
func isFloat(d layout.DType) bool { return scaleKinds[d]&floats != 0 }
