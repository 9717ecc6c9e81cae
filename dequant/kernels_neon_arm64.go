//go:build !purego

package dequant

import (
	"encoding/binary"

	"github.com/tensormap/tensormap/dequant/internal/block"
	"github.com/tensormap/tensormap/layout"
)

// neon is the level of Advanced SIMD as ARMv8.0 has it. Each function does what the portable loop of that name does.
var neon = impl{
	name: "neon",
	expand: [numTypes]kernel{
		layout.F32:  {run: f32Copy},
		layout.F16:  {run: f16NEON, step: 8},
		layout.BF16: {run: bf16NEON, step: 32},
		layout.F64:  {run: f64NEON, step: 8},
		layout.I8:   {run: i8NEON, step: 32},
		layout.I16:  {run: i16NEON, step: 32},
		layout.I32:  {run: i32NEON, step: 32},
		layout.U8:   {run: u8NEON, step: 32},
		layout.U16:  {run: u16NEON, step: 32},
		layout.U32:  {run: u32NEON, step: 32},
		layout.BOOL: {run: boolNEON, step: 32},

		layout.F8_E4M3: {run: f8e4m3NEON, step: 8},
		layout.F8_E5M2: {run: f8e5m2NEON, step: 8},

		layout.Q4_0:   {run: q4_0NEON},
		layout.Q4_1:   {run: q4_1NEON},
		layout.Q5_0:   {run: q5_0NEON},
		layout.Q5_1:   {run: q5_1NEON},
		layout.Q8_0:   {run: q8_0NEON},
		layout.Q8_1:   {run: q8_1NEON},
		layout.Q2_K:   {run: q2_KNEON},
		layout.Q3_K:   {run: q3_KNEON},
		layout.Q4_K:   {run: q4_KNEON},
		layout.Q5_K:   {run: q5_KNEON},
		layout.Q6_K:   {run: q6_KNEON},
		layout.IQ4_NL: {run: iq4_NLNEON},
		layout.IQ4_XS: {run: iq4_XSNEON},
		layout.MXFP4:  {run: mxfp4NEON},
	},
	scaled: [numTypes]scaledKernel{
		layout.I8:  {run: i8ScaledNEON, step: 32},
		layout.I16: {run: i16ScaledNEON, step: 32},
	},
	encode: [numTypes]encoder{
		layout.F16:  {run: encodeF16NEON, step: 16},
		layout.BF16: {run: encodeBF16NEON, step: 16},
	},
	grouped: [numCodes]groupKernel{
		1:                    {run: uint1GroupsNEON, step: 32},
		2:                    {run: uint2GroupsNEON, step: 32},
		3:                    {run: uint3GroupsNEON, step: 32},
		4:                    {run: uint4GroupsNEON, step: 32},
		5:                    {run: uint5GroupsNEON, step: 32},
		6:                    {run: uint6GroupsNEON, step: 32},
		7:                    {run: uint7GroupsNEON, step: 32},
		8:                    {run: uint8GroupsNEON, step: 32},
		1 + biased:           {run: uint1BiasedGroupsNEON, step: 32},
		2 + biased:           {run: uint2BiasedGroupsNEON, step: 32},
		3 + biased:           {run: uint3BiasedGroupsNEON, step: 32},
		4 + biased:           {run: uint4BiasedGroupsNEON, step: 32},
		5 + biased:           {run: uint5BiasedGroupsNEON, step: 32},
		6 + biased:           {run: uint6BiasedGroupsNEON, step: 32},
		7 + biased:           {run: uint7BiasedGroupsNEON, step: 32},
		8 + biased:           {run: uint8BiasedGroupsNEON, step: 32},
		layout.CodeInt8:      {run: int8GroupsNEON, step: 32},
		layout.CodeInt8By127: {run: int8By127GroupsNEON, step: 32},
		layout.CodeE4M3:      {run: e4m3GroupsNEON, step: 32},
		layout.CodeE5M2:      {run: e5m2GroupsNEON, step: 32},
		layout.CodeE2M1:      {run: e2m1GroupsNEON, step: 32, pairs: true},
		layout.CodeE2M1Plus:  {run: e2m1PlusGroupsNEON, step: 32, pairs: true},
		layout.CodeNF4:       {run: nf4GroupsNEON, step: 32, pairs: true},
		layout.CodeFP4:       {run: fp4GroupsNEON, step: 32, pairs: true},
	},
	transpose: transposer{words: transposeWordsNEON, nibbles: transposeNibblesNEON},
	each:      rescaleEachNEON,
	permuted:  [9]permutedKernel{2: permuted2NEON, 3: permuted3NEON, 4: permuted4NEON, 8: permuted8NEON},
}

// neonPlaces says for codes of so many bits how 32 of them become lanes of 32 bits: eight vectors of the
// bytes of four codes, and the shifts of eight codes. Byte 16 is the first of the second register, which
// holds the last bytes.
var neonPlaces = func() (t [8][160]byte) {
	for bits := 1; bits < 8; bits++ {
		size, first := 4*bits, 16 // of all codes, and of the first register
		if bits == 3 {
			first = 8
		}
		for c := range 32 {
			for i := range 4 {
				at := c*bits/8 + i
				switch {
				case i > 1 || at >= size:
					at = 255 // makes a zero
				case at >= first:
					at += 16 + first - size
				}
				t[bits][4*c+i] = byte(at)
			}
		}
		for c := range 8 {
			binary.LittleEndian.PutUint32(t[bits][128+4*c:], uint32(-(c * bits % 8)))
		}
	}
	return t
}()

// neonSpread are the indices of four table lookups that move 16 bytes to the tops of 16
// lanes of 32 bits. Indices out of range give the zero below.
var neonSpread = func() (t [64]uint8) {
	for i := range t {
		t[i] = 0xff
		if i%4 == 3 {
			t[i] = uint8(i / 4)
		}
	}
	return t
}()

// neonRepeat are the indices of four table lookups that fill lanes of 32 bits with one of 16 bytes
// each.
var neonRepeat = func() (t [64]uint8) {
	for i := range t {
		t[i] = uint8(i / 4)
	}
	return t
}()

// The int8s that nibbles stand for, and the tables that spread bits.
var (
	neonQ4Codes                          = [16]int8{-8, -7, -6, -5, -4, -3, -2, -1, 0, 1, 2, 3, 4, 5, 6, 7}
	neonIQ4Codes, neonFP4Codes, neonBits = block.IQ4, block.FP4, block.NEONBits
)
