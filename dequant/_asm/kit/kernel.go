// Package kit holds the parts that the generators of package dequant's kernels share: the frame
// of a function, its loop, constants, codebooks, and lookups in Go's tables.
package kit

import (
	"fmt"

	"github.com/mmcloughlin/avo/attr"
	. "github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/gotypes"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// Signatures of functions that expand, that expand integers with a scale, and that encode.
const (
	Expands      = "func(dst []float32, src []byte)"
	ExpandsScale = "func(dst []float32, src []byte, scale float32, zero int32)"
	Encodes      = "func(dst []byte, src []float32)"
)

// A Kernel is the function being generated.
type Kernel struct {
	Stream         bool          // stores go past the caches
	Dst, Src, Left reg.GPVirtual // Left counts floats; iterations advance all three

	// An iteration reads In bytes and makes Elems elements in Out bytes. An Out of 0 leaves
	// Dst to the iteration.
	Elems, In, Out int

	rare []func()
}

// Begin opens a function. It is named after the type and the instruction set.
func Begin(name, level, signature string, stream bool) *Kernel {
	function, doc := name+level, ""
	if stream {
		function, doc = function+"Stream", ", with non-temporal stores to a dst aligned to 64 bytes"
	}
	TEXT(function, attr.NOSPLIT, signature)
	Doc(fmt.Sprintf("%s does what %sGeneric does%s.", function, name, doc))
	Pragma("noescape")
	floats := "dst"
	if signature == Encodes {
		floats = "src"
	}
	load := func(c gotypes.Component) reg.GPVirtual { return Load(c, GP64()).(reg.GPVirtual) }
	return &Kernel{
		Stream: stream,
		Dst:    load(Param("dst").Base()),
		Src:    load(Param("src").Base()),
		Left:   load(Param(floats).Len()),
	}
}

// Loop generates iterations until no float is left. The count is a positive multiple of Elems.
func (k *Kernel) Loop(iteration func()) {
	Label("loop")
	iteration()
	ADDQ(U32(k.In), k.Src)
	if k.Out > 0 {
		ADDQ(U32(k.Out), k.Dst)
	}
	SUBQ(U32(k.Elems), k.Left)
	JNE(LabelRef("loop"))
}

// End closes the function, and places rare code behind the return.
func (k *Kernel) End() {
	if k.Stream {
		SFENCE()
	}
	VZEROUPPER()
	RET()
	for _, f := range k.rare {
		f()
	}
}

// Rarely places code out of the loop's way. Calls may differ in number, and label code apart.
func (k *Kernel) Rarely(f func()) { k.rare = append(k.rare, f) }

// Rare returns how often Rarely was called.
func (k *Kernel) Rare() int { return len(k.rare) }

// Unless branches to code after the loop, and back, if the zero flag is clear.
func (k *Kernel) Unless(label string, f func()) {
	JNE(LabelRef(label))
	Label(label + "_done")
	k.Rarely(func() {
		Label(label)
		f()
		JMP(LabelRef(label + "_done"))
	})
}

// From returns byte at of the source.
func (k *Kernel) From(at int) Mem { return Mem{Base: k.Src, Disp: at} }

// To returns byte at of the destination.
func (k *Kernel) To(at int) Mem { return Mem{Base: k.Dst, Disp: at} }

// Store writes a vector of floats as elements from at on.
func (k *Kernel) Store(v Op, at int) {
	if k.Stream {
		VMOVNTPS(v, k.To(4*at))
	} else {
		VMOVUPS(v, k.To(4*at))
	}
}

// Both generates the function of a type that expands, and its variant that streams.
func Both(name, level string, body func(k *Kernel)) {
	for _, stream := range []bool{false, true} {
		k := Begin(name, level, Expands, stream)
		body(k)
		k.End()
	}
}

// Blocks generates both for a type of blocks. body generates constants, and returns the generator
// of an iteration over one block.
func Blocks(name, level string, body func(k *Kernel) (iteration func())) {
	size, ok := blockSizes[name]
	if !ok {
		panic("no type " + name)
	}
	Both(name, level, func(k *Kernel) {
		k.Elems, k.In, k.Out = size.elems, size.bytes, 4*size.elems
		k.Loop(body(k))
	})
}

// blockSizes has the sizes of blocks in elements and bytes.
var blockSizes = map[string]struct{ elems, bytes int }{
	"q4_0": {32, 18}, "q4_1": {32, 20}, "q5_0": {32, 22}, "q5_1": {32, 24}, "q8_0": {32, 34}, "q8_1": {32, 36},
	"q2_K": {256, 84}, "q3_K": {256, 110}, "q4_K": {256, 144}, "q5_K": {256, 176}, "q6_K": {256, 210}, "q8_K": {256, 292},
	"iq4_NL": {32, 18}, "iq4_XS": {256, 136}, "mxfp4": {32, 17}, "nvfp4": {64, 36}, "aprQ4": {32, 18},
	"iq2_XXS": {256, 66}, "iq2_XS": {256, 74}, "iq2_S": {256, 82}, "iq3_XXS": {256, 98}, "iq3_S": {256, 110},
	"iq1_S": {256, 50}, "iq1_M": {256, 56}, "tq1_0": {256, 54}, "tq2_0": {256, 66}, "q1_0": {128, 18}, "q2_0": {64, 18},
}
