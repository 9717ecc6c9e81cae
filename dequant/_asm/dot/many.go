package main

import (
	"fmt"

	"github.com/mmcloughlin/avo/attr"
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// Kernels for several activations unpack a group of a row once, and multiply it with one activation after the other. The 32
// registers of AVX-512 have space for its codes. AVX2 with sixteen spills them to memory.

// spillBytes is the size of that memory, which follows the partial sums.
const spillBytes = 512

// manyRows generates the kernel of a type for several activations. body multiplies a group of size bytes.
func manyRows(name string, size int, body func(k *kernel)) {
	if level == avxVNNI {
		return
	}
	TEXT(name+"Many"+level, attr.NOSPLIT, "func(dst []float32, rows []byte, xs []*int8, acc []float32, groups int)")
	Doc(fmt.Sprintf("%s multiplies rows with activations, whose first codes are in xs. groups is the number of groups in a row. The products", name+"Many"+level),
		"of a row follow each other in dst. acc has eight floats an activation, and for 128 more.")
	Pragma("noescape")
	k := &kernel{many: true, left: GP64(), offset: GP64()}
	k.dst = Load(Param("dst").Base(), GP64()).(GPVirtual)
	k.src = Load(Param("rows").Base(), GP64()).(GPVirtual)
	if level == avx2 {
		k.spill = Load(Param("xs").Len(), GP64()).(GPVirtual)
		first := Load(Param("acc").Base(), GP64()).(GPVirtual)
		SHLQ(Imm(5), k.spill)
		ADDQ(first, k.spill)
	}
	Label("row")
	k.eachSum("clear", func(sum Mem) {
		zero := YMM()
		VXORPS(zero, zero, zero)
		VMOVUPS(zero, sum)
	})
	XORQ(k.offset, k.offset)
	Load(Param("groups"), k.left)
	Label("group")
	k.spilled = 0
	body(k)
	ADDQ(U32(uint32(size)), k.src)
	ADDQ(U32(groupBytes), k.offset)
	DECQ(k.left)
	JNZ(LabelRef("group"))
	k.eachSum("totals", func(sum Mem) {
		k.acc = YMM()
		VMOVUPS(sum, k.acc)
		k.total()
	})
	end := Load(Param("rows").Base(), GP64()).(GPVirtual)
	size64 := Load(Param("rows").Len(), GP64()).(GPVirtual)
	ADDQ(size64, end)
	CMPQ(k.src, end)
	JNE(LabelRef("row"))
	VZEROUPPER()
	RET()
}

// eachSum generates a loop over the partial sums of all activations.
func (k *kernel) eachSum(label string, f func(sum Mem)) {
	at := Load(Param("acc").Base(), GP64()).(GPVirtual)
	left := Load(Param("xs").Len(), GP64()).(GPVirtual)
	Label(label)
	f(Mem{Base: at})
	ADDQ(Imm(32), at)
	DECQ(left)
	JNZ(LabelRef(label))
}

// vectors generates what multiplies a group that is unpacked with an activation, or with each of several.
func (k *kernel) vectors(multiply func()) {
	if !k.many {
		multiply()
		return
	}
	xs := Load(Param("xs").Base(), GP64()).(GPVirtual)
	k.eachSum("vector", func(sum Mem) {
		k.group, k.acc = GP64(), YMM()
		MOVQ(Mem{Base: xs}, k.group)
		ADDQ(k.offset, k.group)
		VMOVUPS(sum, k.acc)
		multiply()
		VMOVUPS(k.acc, sum)
		ADDQ(Imm(8), xs)
	})
}

// reusable returns an operand that holds v for all activations: a register, or spill memory.
func (k *kernel) reusable(v VecVirtual) Op {
	if k.spill == nil {
		return v
	}
	if 32*k.spilled == spillBytes {
		panic("spill memory is full")
	}
	m := Mem{Base: k.spill, Disp: 32 * k.spilled}
	k.spilled++
	VMOVDQU(v, m)
	return m
}

// shared returns code. For several activations it makes all vectors now, so that each activation reuses them.
func (k *kernel) shared(code func(p, second int) VecVirtual) func(p, second int) Op {
	if !k.many {
		return func(p, second int) Op { return code(p, second) }
	}
	var v [4][2]Op
	for p := range v {
		for second := range v[p] {
			v[p][second] = k.reusable(code(p, second))
		}
	}
	return func(p, second int) Op { return v[p][second] }
}

// sharedPairs does what shared does, for pairs of vectors.
func (k *kernel) sharedPairs(c codes) codes {
	if !k.many {
		return c
	}
	var v [4][2]Op
	for p := range v {
		first, second := c(p)
		v[p][0], v[p][1] = k.reusable(first.(VecVirtual)), k.reusable(second.(VecVirtual))
	}
	return func(p int) (first, second Op) { return v[p][0], v[p][1] }
}

// first returns vectors by number, each made when it is first asked for. For several activations all n are made here and now.
func (k *kernel) first(n int, vector func(i int) VecVirtual) func(i int) VecVirtual {
	made := loadedOnce(vector)
	for i := 0; i < n && k.many; i++ {
		made(i)
	}
	return made
}

// scaled returns what adds integers to the partial sums, times a block's binary16 and the activation's scale.
func (k *kernel) scaled(at int) func(total VecVirtual) {
	d := YMM()
	load := func() {
		VPBROADCASTW(k.from(at), d.AsX())
		VCVTPH2PS(d.AsX(), d)
	}
	switch {
	case k.many:
		load()
		return func(total VecVirtual) { k.add(k.times(d), total) }
	case k.late:
		k.lateUsed = true
		return func(total VecVirtual) {
			k.addLate()
			VMOVAPS(total, k.lateTotal)
			d = k.lateScales
			load()
			VMULPS(k.act(scales), d, d)
		}
	}
	return func(total VecVirtual) {
		load()
		VMULPS(k.act(scales), d, d)
		k.add(d, total)
	}
}

// scaledPair returns what adds integers times the first of two binary16s. It subtracts the second times the products of mins and sums of codes.
func (k *kernel) scaledPair(at int) func(total, mins VecVirtual) {
	both, m := YMM(), YMM()
	load := func() {
		x := XMM()
		VPBROADCASTD(k.from(at), x)
		VCVTPH2PS(x, both)
	}
	switch {
	case k.many:
		load()
		VMOVSHDUP(both, m)
		VMOVSLDUP(both, both)
		return func(total, mins VecVirtual) {
			k.add(k.times(both), total)
			products := YMM()
			VPMADDWD(k.act(halves), mins, products)
			k.subtract(k.times(m), products)
		}
	case k.late:
		k.lateUsed, k.lateMins = true, k.lateMinsRegister
		return func(total, mins VecVirtual) {
			k.addLate()
			VMOVAPS(total, k.lateTotal)
			VPMADDWD(k.act(halves), mins, k.lateMins)
			both = k.lateScales
			load()
			VMULPS(k.act(scales), both, both)
		}
	}
	return func(total, mins VecVirtual) {
		d := YMM()
		load()
		VMULPS(k.act(scales), both, both)
		VMOVSLDUP(both, d)
		VMOVSHDUP(both, m)
		k.add(d, total)
		VPMADDWD(k.act(halves), mins, mins)
		k.subtract(m, mins)
	}
}

// times multiplies d with the activation's scale.
func (k *kernel) times(d VecVirtual) VecVirtual {
	y := YMM()
	VMULPS(k.act(scales), d, y)
	return y
}
