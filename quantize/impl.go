package quantize

import (
	"github.com/tensormap/tensormap/internal/narrow"
	"github.com/tensormap/tensormap/internal/simd"
	"github.com/tensormap/tensormap/layout"
)

// An encoder makes whole blocks of one type from floats; plain numbers are blocks of one element. The contract of run:
//
//   - The number of blocks is a positive multiple of step: len(src) and len(dst) are that many
//     times the type's BlockElems and BlockBytes. Nothing else needs to be checked.
//   - dst has any alignment, src the alignment of a float32. They do not overlap.
//   - Not a byte outside dst and src is written, nor read: src may end with a mapping.
//   - The bytes equal the bytes of the portable loop, also for NaNs.
//   - The upper halves of vector registers are clear on return (VZEROUPPER). No control bit
//     (MXCSR, FPCR) has changed: subnormals count.
//   - Assembly has no frame and calls nothing: src may be lost memory, and its fault unwinds.
//   - A call takes at most simd.MaxCall elements.
type encoder struct {
	run  func(dst []byte, src []float32)
	step int // 0 means 1
}

// numTypes is one more than the greatest type that a table has an entry for.
const numTypes = int(layout.APR_Q8) + 1

// An impl has the kernels of one level. Types without an entry have the lower level's. Levels are generated with their
// assembly: <level>_<arch>.go. A kernel that is entered there is used, tested and benchmarked.
type impl struct {
	name   string
	encode [numTypes]encoder
	fit    fitters // of the encoders with a search
}

// levels are the implementations that this machine can run, the portable one first, the best last.
var levels = append([]*impl{&generic}, archLevels()...)

// active holds for each type the best kernel of all levels.
var active *impl

func init() { active = overlay(levels) } // encoders refer to active, and levels to encoders

// overlay returns a level with the best kernel that levels, the best one last, have for each type.
func overlay(levels []*impl) *impl {
	all := new(impl)
	for _, l := range levels {
		all.name = l.name
		simd.Replace(all.encode[:], l.encode[:], func(e encoder) bool { return e.run != nil })
		if l.fit.affine != nil {
			all.fit = l.fit
		}
	}
	return all
}

// generic is the portable level. It serves every type that the package supports, and is the definition.
var generic = impl{
	name: "generic",
	encode: [numTypes]encoder{
		layout.F32:  {run: encodeF32Generic},
		layout.F16:  {run: narrow.F16},
		layout.BF16: {run: narrow.BF16},
		layout.Q4_0: {run: encodeQ4_0Generic},
		layout.Q4_1: {run: encodeQ4_1Generic},
		layout.Q5_0: {run: encodeQ5_0Generic},
		layout.Q5_1: {run: encodeQ5_1Generic},
		layout.Q8_0: {run: encodeQ8_0Generic},

		layout.Q2_K:   {run: unweighted(layout.Q2_K)},
		layout.Q3_K:   {run: unweighted(layout.Q3_K)},
		layout.Q4_K:   {run: unweighted(layout.Q4_K)},
		layout.Q5_K:   {run: unweighted(layout.Q5_K)},
		layout.Q6_K:   {run: unweighted(layout.Q6_K)},
		layout.IQ4_NL: {run: unweighted(layout.IQ4_NL)},
		layout.IQ4_XS: {run: unweighted(layout.IQ4_XS)},
		layout.MXFP4:  {run: encodeMXFP4},
	},
}
