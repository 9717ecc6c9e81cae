//go:build !purego

package dequant

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

// The int8s that nibbles stand for.
var (
	neonQ4Codes  = int8Codes(&nibbleFloats)
	neonIQ4Codes = int8Codes(&iq4Floats)
	neonFP4Codes = int8Codes(&fp4Floats)
)

func int8Codes(values *[16]float32) (codes [16]int8) {
	for n, v := range values {
		codes[n] = int8(v)
	}
	return codes
}

// neonBits turns 32 bits into 32 bytes: the indices of two table lookups that repeat each
// of four bytes eight times, then the bit to test in each byte.
var neonBits = func() (t [48]uint8) {
	for i := range 32 {
		t[i] = uint8(i / 8)
	}
	for i := range 16 {
		t[32+i] = 1 << (i % 8)
	}
	return t
}()

// Each function does what the portable loop of that name does, in assembly.

//go:noescape
func f16NEON(dst []float32, src []byte)

//go:noescape
func bf16NEON(dst []float32, src []byte)

//go:noescape
func i8NEON(dst []float32, src []byte)

//go:noescape
func u8NEON(dst []float32, src []byte)

//go:noescape
func boolNEON(dst []float32, src []byte)

//go:noescape
func i16NEON(dst []float32, src []byte)

//go:noescape
func u16NEON(dst []float32, src []byte)

//go:noescape
func i32NEON(dst []float32, src []byte)

//go:noescape
func u32NEON(dst []float32, src []byte)

//go:noescape
func i8ScaledNEON(dst []float32, src []byte, scale float32, zero int32)

//go:noescape
func i16ScaledNEON(dst []float32, src []byte, scale float32, zero int32)

//go:noescape
func q8_0NEON(dst []float32, src []byte)

//go:noescape
func q8_1NEON(dst []float32, src []byte)

//go:noescape
func q4_0NEON(dst []float32, src []byte)

//go:noescape
func q4_1NEON(dst []float32, src []byte)

//go:noescape
func q5_0NEON(dst []float32, src []byte)

//go:noescape
func q5_1NEON(dst []float32, src []byte)

//go:noescape
func iq4_NLNEON(dst []float32, src []byte)

//go:noescape
func mxfp4NEON(dst []float32, src []byte)

//go:noescape
func q2_KNEON(dst []float32, src []byte)

//go:noescape
func q3_KNEON(dst []float32, src []byte)

//go:noescape
func q4_KNEON(dst []float32, src []byte)

//go:noescape
func q5_KNEON(dst []float32, src []byte)

//go:noescape
func q6_KNEON(dst []float32, src []byte)

//go:noescape
func iq4_XSNEON(dst []float32, src []byte)

//go:noescape
func f64NEON(dst []float32, src []byte)

//go:noescape
func f8e4m3NEON(dst []float32, src []byte)

//go:noescape
func f8e5m2NEON(dst []float32, src []byte)

//go:noescape
func encodeF16NEON(dst []byte, src []float32)

//go:noescape
func encodeBF16NEON(dst []byte, src []float32)

//go:noescape
func uint4GroupsNEON(dst []float32, codes []byte, scales, offsets []float32, group int)

//go:noescape
func uint4BiasedGroupsNEON(dst []float32, codes []byte, scales, offsets []float32, group int)

//go:noescape
func uint8GroupsNEON(dst []float32, codes []byte, scales, offsets []float32, group int)

//go:noescape
func uint8BiasedGroupsNEON(dst []float32, codes []byte, scales, offsets []float32, group int)

//go:noescape
func int8GroupsNEON(dst []float32, codes []byte, scales, offsets []float32, group int)

//go:noescape
func int8By127GroupsNEON(dst []float32, codes []byte, scales, offsets []float32, group int)

//go:noescape
func e4m3GroupsNEON(dst []float32, codes []byte, scales, offsets []float32, group int)

//go:noescape
func e5m2GroupsNEON(dst []float32, codes []byte, scales, offsets []float32, group int)

//go:noescape
func e2m1GroupsNEON(dst []float32, codes []byte, scales, offsets []float32, group int)

//go:noescape
func e2m1PlusGroupsNEON(dst []float32, codes []byte, scales, offsets []float32, group int)

//go:noescape
func nf4GroupsNEON(dst []float32, codes []byte, scales, offsets []float32, group int)

//go:noescape
func fp4GroupsNEON(dst []float32, codes []byte, scales, offsets []float32, group int)

//go:noescape
func transposeWordsNEON(dst []byte, dstStride int, src []byte, srcStride, rows, columns int)

//go:noescape
func transposeNibblesNEON(dst []byte, dstStride, plane int, src []byte, srcStride, rows, columns int)

//go:noescape
func rescaleEachNEON(dst, scales, offsets []float32)

//go:noescape
func permuted2NEON(dst []float32, stride int, words []byte, columns int, groups []int32, scales, offsets []float32)

//go:noescape
func permuted3NEON(dst []float32, stride int, words []byte, columns int, groups []int32, scales, offsets []float32)

//go:noescape
func permuted4NEON(dst []float32, stride int, words []byte, columns int, groups []int32, scales, offsets []float32)

//go:noescape
func permuted8NEON(dst []float32, stride int, words []byte, columns int, groups []int32, scales, offsets []float32)

//go:noescape
func uint1GroupsNEON(dst []float32, codes []byte, scales, offsets []float32, group int)

//go:noescape
func uint1BiasedGroupsNEON(dst []float32, codes []byte, scales, offsets []float32, group int)

//go:noescape
func uint2GroupsNEON(dst []float32, codes []byte, scales, offsets []float32, group int)

//go:noescape
func uint2BiasedGroupsNEON(dst []float32, codes []byte, scales, offsets []float32, group int)

//go:noescape
func uint3GroupsNEON(dst []float32, codes []byte, scales, offsets []float32, group int)

//go:noescape
func uint3BiasedGroupsNEON(dst []float32, codes []byte, scales, offsets []float32, group int)

//go:noescape
func uint5GroupsNEON(dst []float32, codes []byte, scales, offsets []float32, group int)

//go:noescape
func uint5BiasedGroupsNEON(dst []float32, codes []byte, scales, offsets []float32, group int)

//go:noescape
func uint6GroupsNEON(dst []float32, codes []byte, scales, offsets []float32, group int)

//go:noescape
func uint6BiasedGroupsNEON(dst []float32, codes []byte, scales, offsets []float32, group int)

//go:noescape
func uint7GroupsNEON(dst []float32, codes []byte, scales, offsets []float32, group int)

//go:noescape
func uint7BiasedGroupsNEON(dst []float32, codes []byte, scales, offsets []float32, group int)
