package kit

import (
	"github.com/mmcloughlin/avo/attr"
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// GroupStep is the number of elements of one iteration over a group.
const GroupStep = 32

// A Body loads the constants of codes, and returns the generator of what a group needs. There scale and
// offset give the scale and offset of an element. It returns the generator of GroupStep elements.
type Body func(k *Kernel) func(scale, offset func(at int) Mem) (body func())

// Groups generates both variants of a function that expands codes with a scale and an offset for
// each group. If pairs is true, groups of 16 elements are expanded in twos.
func Groups(name, level string, bits int, pairs bool, body Body) {
	for _, stream := range []bool{false, true} {
		groups(name, level, bits, pairs, stream, body)
	}
}

func groups(name, level string, bits int, pairs, stream bool, body Body) {
	function, doc := name+level, ""
	if stream {
		function, doc = function+"Stream", ", with non-temporal stores to a dst aligned to 64 bytes"
	}
	TEXT(function, attr.NOSPLIT, "func(dst []float32, codes []byte, scales, offsets []float32, group int)")
	Doc(function + " does what the portable loop of its code does" + doc + ".")
	Pragma("noescape")
	load := func(name string) reg.GPVirtual { return Load(Param(name).Base(), GP64()).(reg.GPVirtual) }
	k := &Kernel{
		Stream: stream, Elems: GroupStep, In: GroupStep * bits / 8, Out: 4 * GroupStep,
		Dst: load("dst"), Src: load("codes"),
		Left: Load(Param("dst").Len(), GP64()).(reg.GPVirtual),
	}
	scales, offsets := load("scales"), load("offsets")
	// The one value for all groups is met again and again.
	scaleStep, offsetStep := stepOf("scales"), stepOf("offsets")
	group := Load(Param("group"), GP64()).(reg.GPVirtual)
	begin := body(k)
	if pairs {
		CMPQ(group, U8(GroupStep/2))
		JE(LabelRef("pairs"))
	}
	Label("group")
	left := GP64()
	MOVQ(group, left)
	expand := begin(func(int) Mem { return Mem{Base: scales} }, func(int) Mem { return Mem{Base: offsets} })
	Label("part")
	expand()
	k.advance()
	SUBQ(U8(GroupStep), left)
	JNE(LabelRef("part"))
	ADDQ(scaleStep, scales)
	ADDQ(offsetStep, offsets)
	SUBQ(group, k.Left)
	JNE(LabelRef("group"))
	if pairs {
		JMP(LabelRef("done"))
		Label("pairs")
		step := func(base, step reg.GPVirtual) func(at int) Mem {
			return func(at int) Mem {
				if at < GroupStep/2 {
					return Mem{Base: base}
				}
				return Mem{Base: base, Index: step, Scale: 1}
			}
		}
		begin(step(scales, scaleStep), step(offsets, offsetStep))()
		k.advance()
		LEAQ(Mem{Base: scales, Index: scaleStep, Scale: 2}, scales)
		LEAQ(Mem{Base: offsets, Index: offsetStep, Scale: 2}, offsets)
		SUBQ(U8(GroupStep), k.Left)
		JNE(LabelRef("pairs"))
		Label("done")
	}
	k.End()
}

// advance moves to the next GroupStep elements.
func (k *Kernel) advance() {
	ADDQ(U32(k.In), k.Src)
	ADDQ(U32(k.Out), k.Dst)
}

// stepOf returns the bytes from one value of a parameter to the next, 0 if it has one.
func stepOf(parameter string) reg.GPVirtual {
	n, step := Load(Param(parameter).Len(), GP64()).(reg.GPVirtual), GP64()
	XORL(step.As32(), step.As32())
	CMPQ(n, U8(1))
	SETNE(step.As8())
	SHLQ(U8(2), step)
	return step
}
