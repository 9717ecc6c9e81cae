package dequant

import (
	"encoding/binary"
	"math/bits"

	"github.com/tensormap/tensormap/internal/block"
)

// The IQ1, IQ2 and IQ3 types store eight elements as signs and an index into a codebook of
// combinations of levels (iq_grids.go). The codebook and the signs make a nibble for each element:
// its upper bit is the element's sign. The nibble indexes a table of levels. The value is that level
// times a scale. Kernels in assembly read the tables of combinations and of signs too.

var (
	iq2Levels    = [16]float32{8, 25, 43, 8: -8, -25, -43}
	iq3xxsLevels = [16]float32{4, 12, 20, 28, 36, 44, 52, 62, -4, -12, -20, -28, -36, -44, -52, -62}
	iq3sLevels   = [16]float32{1, 3, 5, 7, 9, 11, 13, 15, -1, -3, -5, -7, -9, -11, -13, -15}
	iq1Levels    = [16]float32{-0.875, 0.125, 1.125, 8: -1.125, -0.125, 0.875} // -1, 0, 1, and ⅛ more or less
)

// expandGroup sets y[i] to d·levels[n], where n is nibble i of w, counted from the lowest.
func expandGroup(y *[8]float32, w uint32, levels *[16]float32, d float32) {
	y[0] = levels[w&15] * d
	y[1] = levels[(w>>4)&15] * d
	y[2] = levels[(w>>8)&15] * d
	y[3] = levels[(w>>12)&15] * d
	y[4] = levels[(w>>16)&15] * d
	y[5] = levels[(w>>20)&15] * d
	y[6] = levels[(w>>24)&15] * d
	y[7] = levels[w>>28] * d
}

// signs[s] has bit j of s as the upper bit of nibble j, counted from the lowest. Nibble j is 8 if bit j is set, and else 0.
var signs = func() (t [256]uint32) {
	for s := range t {
		for j := range 8 {
			t[s] |= uint32((s>>j)&1) << (4*j + 3)
		}
	}
	return t
}()

// evenSigns[s] has the seven bits of s as signs of seven nibbles. The eighth sign makes the number of set signs even
// (ksigns_iq2xs in ggml-common.h).
var evenSigns = func() (t [128]uint32) {
	for s := range t {
		t[s] = signs[uint8(s|((bits.OnesCount8(uint8(s))&1)<<7))]
	}
	return t
}()

// iq2_XXSGeneric expands blocks of IQ2_XXS. It reads a scale d. Then every 32 elements have four indexes of a byte, each for
// eight elements, and a word of 32 bits. The lower 28 bits of the word are seven signs for each index, and evenSigns adds the
// eighth sign. The upper 4 bits are a scale. Values are level·d·(scale + ½)/4.
func iq2_XXSGeneric(dst []float32, src []byte) {
	for len(src) >= 66 && len(dst) >= 256 {
		d := block.FloatAt((*[2]byte)(src))
		y, b := dst[:256], src[2:66]
		for len(y) >= 32 && len(b) >= 8 {
			out, s := (*[32]float32)(y), binary.LittleEndian.Uint32(b[4:8])
			db := d * (float32(s>>28) + 0.5) * 0.25
			for l, q := range (*[4]byte)(b) {
				expandGroup((*[8]float32)(out[8*l:]), iq2xxsGrid[q]|evenSigns[s&127], &iq2Levels, db)
				s >>= 7
			}
			y, b = y[32:], b[8:]
		}
		dst, src = dst[256:], src[66:]
	}
}

// iq2_XSGeneric expands blocks of IQ2_XS. It reads a scale d, then 32 words of 16 bits for eight elements each. The lower 9
// bits of a word are an index, and the upper 7 bits are signs. evenSigns adds the eighth sign. Last come 16 scales of 4 bits
// for 16 elements each. Values are level·d·(scale + ½)/4.
func iq2_XSGeneric(dst []float32, src []byte) {
	for len(src) >= 74 && len(dst) >= 256 {
		d := block.FloatAt((*[2]byte)(src))
		y, qs, scales := dst[:256], src[2:66], (*[8]byte)(src[66:74])
		for k := 0; k < 16 && len(y) >= 16 && len(qs) >= 4; k++ {
			out, q := (*[16]float32)(y), binary.LittleEndian.Uint32(qs)
			db := d * (float32((scales[k>>1]>>((k&1)*4))&15) + 0.5) * 0.25
			expandGroup((*[8]float32)(out[:]), iq2xsGrid[q&511]|evenSigns[(q>>9)&127], &iq2Levels, db)
			expandGroup((*[8]float32)(out[8:]), iq2xsGrid[(q>>16)&511]|evenSigns[q>>25], &iq2Levels, db)
			y, qs = y[16:], qs[4:]
		}
		dst, src = dst[256:], src[74:]
	}
}

// iq2_SGeneric expands blocks of IQ2_S. It reads a scale d, then the lower 8 bits of 32 indexes for eight elements each. Then
// come a byte of signs for each index, and the upper 2 bits of each index. Last come 16 scales of 4 bits for 16 elements each.
// Values are level·d·(scale + ½)/4.
func iq2_SGeneric(dst []float32, src []byte) {
	for len(src) >= 82 && len(dst) >= 256 {
		d := block.FloatAt((*[2]byte)(src))
		y, qs, minus := dst[:256], src[2:34], src[34:66]
		high, scales := (*[8]byte)(src[66:74]), (*[8]byte)(src[74:82])
		for k := 0; k < 16 && len(y) >= 16 && len(qs) >= 2 && len(minus) >= 2; k++ {
			out, h := (*[16]float32)(y), uint(high[k>>1])>>((k&1)*4)
			db := d * (float32((scales[k>>1]>>((k&1)*4))&15) + 0.5) * 0.25
			expandGroup((*[8]float32)(out[:]), iq2sGrid[uint(qs[0])|((h&3)<<8)]|signs[minus[0]], &iq2Levels, db)
			expandGroup((*[8]float32)(out[8:]), iq2sGrid[uint(qs[1])|(((h>>2)&3)<<8)]|signs[minus[1]], &iq2Levels, db)
			y, qs, minus = y[16:], qs[2:], minus[2:]
		}
		dst, src = dst[256:], src[82:]
	}
}

// iq3_XXSGeneric expands blocks of IQ3_XXS. It reads a scale d and 64 indexes for four elements each. Then every 32 elements
// have a word of 32 bits. The lower 28 bits of the word are seven signs for every eight elements, and evenSigns adds the eighth
// sign. The upper 4 bits are a scale. Values are level·d·(scale + ½)/2.
func iq3_XXSGeneric(dst []float32, src []byte) {
	for len(src) >= 98 && len(dst) >= 256 {
		d := block.FloatAt((*[2]byte)(src))
		y, qs, b := dst[:256], src[2:66], src[66:98]
		for len(y) >= 32 && len(qs) >= 8 && len(b) >= 4 {
			out, q, s := (*[32]float32)(y), (*[8]byte)(qs), binary.LittleEndian.Uint32(b)
			db := d * (float32(s>>28) + 0.5) * 0.5
			for l := range 4 {
				w := uint32(iq3xxsGrid[q[2*l]]) | uint32(iq3xxsGrid[q[2*l+1]])<<16
				expandGroup((*[8]float32)(out[8*l:]), w|evenSigns[s&127], &iq3xxsLevels, db)
				s >>= 7
			}
			y, qs, b = y[32:], qs[8:], b[4:]
		}
		dst, src = dst[256:], src[98:]
	}
}

// iq3_SGeneric expands blocks of IQ3_S. It reads a scale d, then the lower 8 bits of 64 indexes for four elements each. Then
// come the upper bit of each index, a sign for each element, and 8 scales of 4 bits for 32 elements each. Values are
// level·d·(1 + 2·scale).
func iq3_SGeneric(dst []float32, src []byte) {
	for len(src) >= 110 && len(dst) >= 256 {
		d := block.FloatAt((*[2]byte)(src))
		y, qs, minus := dst[:256], src[2:66], src[74:106]
		high, scales := (*[8]byte)(src[66:74]), (*[4]byte)(src[106:110])
		for k := 0; k < 8 && len(y) >= 32 && len(qs) >= 8 && len(minus) >= 4; k++ {
			out, q, h := (*[32]float32)(y), (*[8]byte)(qs), uint(high[k])<<8
			db := d * float32(1+2*((scales[k>>1]>>((k&1)*4))&15))
			for l, s := range (*[4]byte)(minus) {
				w := uint32(iq3sGrid[uint(q[2*l])|(h&256)]) | uint32(iq3sGrid[uint(q[2*l+1])|((h>>1)&256)])<<16
				expandGroup((*[8]float32)(out[8*l:]), w|signs[s], &iq3sLevels, db)
				h >>= 2 // bits 8 and 9 are the upper bits of the next two indexes
			}
			y, qs, minus = y[32:], qs[8:], minus[4:]
		}
		dst, src = dst[256:], src[110:]
	}
}

// minusDelta has the upper bit of all eight nibbles set. iq1Levels has level − ⅛ for a nibble with that bit, and level + ⅛ for
// a nibble without it.
const minusDelta = 0x88888888

// iq1_SGeneric expands blocks of IQ1_S. It reads a scale d, then the lower 8 bits of 32 indexes for eight elements each. Then
// every 32 elements have a word of 16 bits. Its lower 12 bits are the upper 3 bits of four indexes. The next 3 bits are a scale,
// and the highest bit is set for −⅛. Values are (level ± ⅛)·d·(2·scale + 1).
func iq1_SGeneric(dst []float32, src []byte) {
	for len(src) >= 50 && len(dst) >= 256 {
		d := block.FloatAt((*[2]byte)(src))
		y, qs, b := dst[:256], src[2:34], src[34:50]
		for len(y) >= 32 && len(qs) >= 4 && len(b) >= 2 {
			out, h := (*[32]float32)(y), binary.LittleEndian.Uint16(b)
			delta := uint32(h>>15) * minusDelta
			dl := d * float32(2*((h>>12)&7)+1)
			for l, q := range (*[4]byte)(qs) {
				expandGroup((*[8]float32)(out[8*l:]), iq1sGrid[uint16(q)|((h&7)<<8)]|delta, &iq1Levels, dl)
				h >>= 3
			}
			y, qs, b = y[32:], qs[4:], b[2:]
		}
		dst, src = dst[256:], src[50:]
	}
}

// iq1_MGeneric expands blocks of IQ1_M. It reads the lower 8 bits of 32 indexes for eight elements each. Then every index has a
// nibble: the index's upper 3 bits, and a bit that is set for −⅛. Last come four words of 16 bits. A word has four scales of 3 bits for
// 16 elements each. The upper nibbles of the four words make the binary16 scale d. Values are (level ± ⅛)·d·(2·scale + 1).
func iq1_MGeneric(dst []float32, src []byte) {
	for len(src) >= 56 && len(dst) >= 256 {
		y, qs, high := dst[:256], src[:32], src[32:48]
		scales := binary.LittleEndian.Uint64(src[48:56])
		d := block.Float(uint16((scales>>12)&0xf | (scales>>24)&0xf0 | (scales>>36)&0xf00 | (scales>>48)&0xf000))
		for k := 0; k < 16 && len(y) >= 16 && len(qs) >= 2 && len(high) >= 1; k++ {
			out, h := (*[16]float32)(y), uint(high[0])
			dl := d * float32(2*((scales>>((k>>2)*16+(k&3)*3))&7)+1) // a word has four scales in its lower 12 bits
			expandGroup((*[8]float32)(out[:]), iq1sGrid[uint(qs[0])|((h&7)<<8)]|uint32((h>>3)&1)*minusDelta, &iq1Levels, dl)
			expandGroup((*[8]float32)(out[8:]), iq1sGrid[uint(qs[1])|(((h>>4)&7)<<8)]|uint32(h>>7)*minusDelta, &iq1Levels, dl)
			y, qs, high = y[16:], qs[2:], high[1:]
		}
		dst, src = dst[256:], src[56:]
	}
}
