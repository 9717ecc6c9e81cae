package dot

import (
	"encoding/binary"
	"sync"

	"github.com/tensormap/tensormap/internal/block"
)

// Products are converted to float32 before they are added: otherwise the compiler may fuse product and sum.

// partials are the eight partial sums of a row's product.
type partials [8]float32

// total returns the sum of p: the upper half of the sums is added to the lower half, until one sum is left.
func (p *partials) total() float32 {
	return ((p[0] + p[4]) + (p[2] + p[6])) + ((p[1] + p[5]) + (p[3] + p[7]))
}

// sum16 returns the sum of the products q[i]·y[i] of sixteen codes each.
func sum16(q, y *[16]int8) int32 {
	sum := int32(0)
	for i, c := range q {
		sum += int32(c) * int32(y[i])
	}
	return sum
}

// sums16 sets each of sums to a sum of the products of sixteen codes of q and y. sums[2k] is the sum of the first half of block
// k, and sums[2k+1] the sum of the second. The codes of block k are q[32k:32k+32]. In y, which are a group's codes, they lie
// where codeIndex says.
func sums16(sums *[16]int32, q, y *[groupElems]int8) {
	for i := range sums {
		sums[i] = sum16((*[16]int8)(q[16*i:]), (*[16]int8)(y[codeIndex(i>>1, i):]))
	}
}

// newSmallKernel returns the kernel of a type whose blocks have 32 elements in size bytes. The kernel sets dst to the products
// of rows with x. A row has the given number of blocks, and eight blocks are multiplied with one group of x. decode sets q to
// the codes of a block, and returns the block's scale d and offset m. The kernel adds offsets only if hasOffsets is set.
func newSmallKernel(size int, decode func(q *[32]int8, src []byte) (d, m float32), hasOffsets bool) quantizedKernel {
	return func(dst []float32, rows []byte, x []group, blocks int) {
		w := unpackedGroups.Get().(*unpackedGroup)
		defer unpackedGroups.Put(w)
		for r := range dst {
			var p partials
			for first := 0; first < blocks; first += 8 {
				n, g := min(8, blocks-first), &x[first>>3]
				for k := range n {
					w.blockScales[k], w.blockOffsets[k] = decode((*[32]int8)(w.codes[32*k:]), rows[:size])
					rows = rows[size:]
				}
				sums16(&w.sums, &w.codes, &g.codes)
				for k := range n {
					p[k] += float32(float32(w.blockScales[k]*g.scales[k]) * float32(w.sums[2*k]+w.sums[2*k+1]))
					if hasOffsets {
						p[k] += float32(w.blockOffsets[k] * g.scaledSums[k]) // m·e·Σy
					}
				}
			}
			dst[r] = p.total()
		}
	}
}

// nvfp4Generic sets dst to the products of rows of NVFP4 with x. A row has the given number of blocks. A block has four scales,
// then 8 bytes of nibbles for each scale, the low nibbles first. Four blocks of 64 elements fill a group of x. Each product
// takes half the scale, since the values of block.FP4 are doubled.
func nvfp4Generic(dst []float32, rows []byte, x []group, blocks int) {
	for r := range dst {
		var p partials
		for b := range blocks {
			src := (*[36]byte)(rows)
			rows = rows[36:]
			for j, scale := range (*[4]byte)(src[:]) {
				var q [16]int8
				for i, c := range (*[8]byte)(src[4+8*j:]) {
					q[i], q[i+8] = block.FP4[c&15], block.FP4[c>>4]
				}
				g, k := &x[b>>2], ((b<<1)&7)+(j>>1)                      // k is the block of 32 in the group: two in a block of NVFP4
				sum := sum16(&q, (*[16]int8)(g.codes[codeIndex(k, j):])) // j's lowest bit selects the half of block k
				p[k] += float32(float32(block.UE4M3Half(scale)*g.scales[k]) * float32(sum))
			}
		}
		dst[r] = p.total()
	}
}

// An unpackedGroup has the codes of 256 elements. Eight small blocks have a scale and an offset each.
type unpackedGroup struct {
	superblock
	blockScales, blockOffsets [8]float32
	sums                      [16]int32
}

var unpackedGroups = sync.Pool{New: func() any { return new(unpackedGroup) }}

// A superblock is an unpacked block of 256 codes. Every 16 codes have an integer scale and an integer offset. scale is a factor of all
// scales, and offsetScale a factor of all offsets.
type superblock struct {
	codes              [256]int8
	scales, offsets    [16]int32
	scale, offsetScale float32
}

// newSuperKernel returns the kernel of a type whose blocks have 256 elements in size bytes. The kernel sets dst to the
// products of rows with x. A row has the given number of blocks, and block i is multiplied with group i of x. decode unpacks
// a block into s, with its offsets if hasOffsets is set. Let y be the codes of 32 elements of x, and e their scale. For each
// such y the kernel adds scale·e·Σ(scales·codes·y). If hasOffsets is set, it then subtracts offsetScale·e·Σ(offsets·y).
func newSuperKernel(size int, decode func(s *superblock, src []byte), hasOffsets bool) quantizedKernel {
	return func(dst []float32, rows []byte, x []group, blocks int) {
		w := unpackedGroups.Get().(*unpackedGroup)
		defer unpackedGroups.Put(w)
		s := &w.superblock
		for r := range dst {
			var p partials
			for b := range blocks {
				decode(s, rows[:size])
				rows = rows[size:]
				g := &x[b]
				sums16(&w.sums, &s.codes, &g.codes)
				for k := range p {
					sum, offsets := int32(0), int32(0)
					for h := range 2 {
						sum += s.scales[2*k+h] * w.sums[2*k+h]
						offsets += s.offsets[2*k+h] * int32(g.sums16[2*k+h])
					}
					p[k] += float32(float32(s.scale*g.scales[k]) * float32(sum))
					if hasOffsets {
						p[k] -= float32(float32(s.offsetScale*g.scales[k]) * float32(offsets))
					}
				}
			}
			dst[r] = p.total()
		}
	}
}

// floatsGeneric sets dst to the products of consecutive rows of float32s with x. len(x) is a multiple of lanes. Each product is
// the sum of lanes partial sums. The upper half of the sums is added to the lower half, until one sum is left.
func floatsGeneric(dst, rows, x []float32) {
	for r := range dst {
		var p [lanes]float32
		row := rows[r*len(x):][:len(x)]
		for i := 0; i+lanes <= len(row); i += lanes {
			w, y := (*[lanes]float32)(row[i:]), (*[lanes]float32)(x[i:])
			for l := range p {
				p[l] += float32(w[l] * y[l])
			}
		}
		for h := lanes / 2; h > 0; h /= 2 {
			for l := range h {
				p[l] += p[l+h]
			}
		}
		dst[r] = p[0]
	}
}

// nibbles sets codes 0 to 15 of q to the lower nibbles of src, and codes 16 to 31 to the upper ones.
func nibbles(q *[32]int8, src *[16]byte) {
	for i, c := range src {
		q[i], q[i+16] = int8(c&15), int8(c>>4)
	}
}

// The decoders of newSmallKernel set q to the codes of a block, less what the type subtracts. They return scale and offset.

// decodeQ4_0 sets q to the codes of a block, which are its nibbles less 8. It returns the scale d of the block, and 0 for the offset m.
func decodeQ4_0(q *[32]int8, src []byte) (d, m float32) {
	for i, c := range (*[16]byte)(src[2:]) {
		q[i], q[i+16] = int8(c&15)-8, int8(c>>4)-8
	}
	return block.FloatAt((*[2]byte)(src)), 0
}

// decodeQ4_1 sets q to the nibbles of a block, and returns its scale d and its offset m.
func decodeQ4_1(q *[32]int8, src []byte) (d, m float32) {
	nibbles(q, (*[16]byte)(src[4:]))
	return block.FloatAt((*[2]byte)(src)), block.FloatAt((*[2]byte)(src[2:]))
}

// fiveBits sets q to 32 codes of 5 bits, each less zero. The upper bit of code i is bit i of high. Its lower 4 bits are a nibble
// of low: the lower nibbles of all bytes are codes 0 to 15, the upper nibbles codes 16 to 31.
func fiveBits(q *[32]int8, low *[16]byte, high uint32, zero int8) {
	for i, c := range low {
		q[i] = int8((c&15)|(byte((high>>i)&1)<<4)) - zero
		q[i+16] = int8(c>>4|byte(high>>(i+16)&1)<<4) - zero
	}
}

// decodeQ5_0 sets q to the codes of a block: numbers of 5 bits, less 16. It returns the scale d of the block, and 0 for the offset m.
func decodeQ5_0(q *[32]int8, src []byte) (d, m float32) {
	fiveBits(q, (*[16]byte)(src[6:]), binary.LittleEndian.Uint32(src[2:]), 16)
	return block.FloatAt((*[2]byte)(src)), 0
}

// decodeQ5_1 sets q to the codes of a block, numbers of 5 bits. It returns the scale d of the block, and its offset m.
func decodeQ5_1(q *[32]int8, src []byte) (d, m float32) {
	fiveBits(q, (*[16]byte)(src[8:]), binary.LittleEndian.Uint32(src[4:]), 0)
	return block.FloatAt((*[2]byte)(src)), block.FloatAt((*[2]byte)(src[2:]))
}

// decodeQ8_0 sets q to the int8s of a block. It returns the scale d of the block, and 0 for the offset m.
func decodeQ8_0(q *[32]int8, src []byte) (d, m float32) {
	for i, c := range (*[32]byte)(src[2:]) {
		q[i] = int8(c)
	}
	return block.FloatAt((*[2]byte)(src)), 0
}

// lookup sets q to the entries of values that the nibbles of src index: the lower nibbles first, then the upper ones.
func lookup(q *[32]int8, src *[16]byte, values *[16]int8) {
	for i, c := range src {
		q[i], q[i+16] = values[c&15], values[c>>4]
	}
}

// decodeIQ4_NL sets q to the codebook's entries for the nibbles of a block. It returns the scale d of the block, and 0 for the offset m.
func decodeIQ4_NL(q *[32]int8, src []byte) (d, m float32) {
	lookup(q, (*[16]byte)(src[2:]), &block.IQ4)
	return block.FloatAt((*[2]byte)(src)), 0
}

// decodeMXFP4 sets q to twice the E2M1 values of a block. It returns half the scale of the block as d, and 0 for the offset m.
func decodeMXFP4(q *[32]int8, src []byte) (d, m float32) {
	lookup(q, (*[16]byte)(src[1:]), &block.FP4)
	return block.E8M0Half(src[0]), 0
}

// The decoders of newSuperKernel unpack a block into s. They do not change s.offsets and s.offsetScale if the type has no offsets.

// decodeQ2_K unpacks a block into s. The block has 16 bytes with a scale and an offset of 4 bits each, 64 bytes of codes of 2 bits, scale
// and offsetScale. Code 128·h + 32·j + i has its bits in byte 32·h + i of the 64 bytes, from bit 2·j on.
func decodeQ2_K(s *superblock, src []byte) {
	b := (*[84]byte)(src)
	for k := range s.scales {
		s.scales[k], s.offsets[k] = int32(b[k]&15), int32(b[k]>>4)
		for i, c := range (*[16]byte)(b[16+32*(k>>3)+16*(k&1):]) {
			s.codes[16*k+i] = int8((c >> (k & 6)) & 3)
		}
	}
	s.scale, s.offsetScale = block.FloatAt((*[2]byte)(b[80:])), block.FloatAt((*[2]byte)(b[82:]))
}

// decodeQ3_K unpacks a block into s: 32 bytes of upper bits, 64 bytes of lower bits, 12 bytes of 16 scales (see block.Q3Scales), then
// scale. Code 32·j + i has its upper bit in byte i of the 32 bytes, as bit j. Code 128·h + 32·j + i has its lower 2 bits in byte 32·h + i of
// the 64 bytes, from bit 2·j on. decodeQ3_K subtracts 4 from each code of 3 bits.
func decodeQ3_K(s *superblock, src []byte) {
	b := (*[110]byte)(src)
	scales := block.Q3Scales((*[12]byte)(b[96:]))
	for k := range s.scales {
		s.scales[k] = int32(scales[k])
		high := (*[16]byte)(b[16*(k&1):])
		for i, c := range (*[16]byte)(b[32+32*(k>>3)+16*(k&1):]) {
			lowBits, highBit := (c>>(k&6))&3, (high[i]>>(k>>1))&1
			s.codes[16*k+i] = int8(lowBits|(highBit<<2)) - 4
		}
	}
	s.scale = block.FloatAt((*[2]byte)(b[108:]))
}

// setScales sets all fields of s but codes to the values in b, the head of a block of Q4_K or Q5_K. The head has scale and offsetScale
// as binary16, then 12 bytes of scales and offsets for 32 codes each. s has a scale and an offset for every 16 codes, so that each is
// set twice.
func (s *superblock) setScales(b *[16]byte) {
	scales, mins := block.K4Scales((*[12]byte)(b[4:]))
	for k := range scales {
		s.scales[2*k], s.scales[2*k+1] = int32(scales[k]), int32(scales[k])
		s.offsets[2*k], s.offsets[2*k+1] = int32(mins[k]), int32(mins[k])
	}
	s.scale, s.offsetScale = block.FloatAt((*[2]byte)(b[0:])), block.FloatAt((*[2]byte)(b[2:]))
}

// decodeQ4_K unpacks a block into s: scales and offsets, then 128 bytes of nibbles. Every 32 bytes hold 64 codes, the low
// nibbles first.
func decodeQ4_K(s *superblock, src []byte) {
	s.setScales((*[16]byte)(src))
	for i, c := range (*[128]byte)(src[16:]) {
		at := ((i >> 5) << 6) | (i & 31) // every 32 bytes have 64 codes
		s.codes[at], s.codes[at+32] = int8(c&15), int8(c>>4)
	}
}

// decodeQ5_K unpacks a block into s: scales and offsets, 32 bytes with the upper bits of the codes, then 128 bytes of nibbles. Every
// 32 bytes of nibbles hold 64 codes, the low nibbles first. Code 32·j + i has its upper bit in byte i of the 32 bytes, as bit j.
func decodeQ5_K(s *superblock, src []byte) {
	s.setScales((*[16]byte)(src))
	high := (*[32]byte)(src[16:])
	for i, c := range (*[128]byte)(src[48:]) {
		at := ((i >> 5) << 6) | (i & 31)     // every 32 bytes have 64 codes
		bits := high[i&31] >> ((i >> 5) * 2) // the lowest belongs to code at, the next to code at+32
		s.codes[at], s.codes[at+32] = int8((c&15)|((bits&1)<<4)), int8((c>>4)|((bits&2)<<3))
	}
}

// decodeQ6_K unpacks a block into s. The block has 128 bytes of nibbles, 64 bytes of upper bits, 16 int8 scales, then scale. Codes
// are numbers of 6 bits, less 32. 64 bytes of nibbles and 32 bytes of upper bits, 2 for each code, make one half of the codes.
func decodeQ6_K(s *superblock, src []byte) {
	b := (*[210]byte)(src)
	for h := range 2 {
		q, low, high := (*[128]int8)(s.codes[128*h:]), (*[64]byte)(b[64*h:]), (*[32]byte)(b[128+32*h:])
		for l, c := range high {
			q[l] = int8((low[l]&15)|((c&3)<<4)) - 32
			q[l+32] = int8((low[l+32]&15)|(((c>>2)&3)<<4)) - 32
			q[l+64] = int8((low[l]>>4)|(((c>>4)&3)<<4)) - 32
			q[l+96] = int8((low[l+32]>>4)|((c>>6)<<4)) - 32
		}
	}
	for k, c := range (*[16]byte)(b[192:]) {
		s.scales[k] = int32(int8(c))
	}
	s.scale = block.FloatAt((*[2]byte)(b[208:]))
}

// decodeIQ4_XS unpacks a block into s. The block has scale, the upper 2 bits of eight scales of 6 bits, and their lower 4 bits. Then come
// nibbles that index a codebook. Each scale, less 32, is set twice: the block has a scale for 32 codes, s one for 16.
func decodeIQ4_XS(s *superblock, src []byte) {
	b := (*[136]byte)(src)
	high := binary.LittleEndian.Uint16(b[2:])
	for k := range 8 {
		scale := int32((b[4+k>>1]>>((k&1)*4))&15) | int32(((high>>(2*k))&3)<<4)
		s.scales[2*k], s.scales[2*k+1] = scale-32, scale-32
		lookup((*[32]int8)(s.codes[32*k:]), (*[16]byte)(b[8+16*k:]), &block.IQ4)
	}
	s.scale = block.FloatAt((*[2]byte)(b[:]))
}

// setOneScale sets the scale of the block to the binary16 in d, and the scale of every 16 codes to 1.
func (s *superblock) setOneScale(d *[2]byte) {
	for k := range s.scales {
		s.scales[k] = 1
	}
	s.scale = block.FloatAt(d)
}

// decodeTQ2_0 unpacks a block into s: 64 bytes with four codes of 2 bits each, then the scale. It subtracts 1 from each code. Each half
// of 32 bytes has 128 codes. Bits 0 and 1 of its bytes are its first 32 codes, bits 2 and 3 the next 32, and so on.
func decodeTQ2_0(s *superblock, src []byte) {
	for i, c := range (*[64]byte)(src) {
		at := ((i >> 5) << 7) | (i & 31) // every 32 bytes have 128 codes
		for run := range 4 {
			s.codes[at+32*run] = int8((c>>(2*run))&3) - 1
		}
	}
	s.setOneScale((*[2]byte)(src[64:]))
}

// decodeTQ1_0 unpacks a block into s. The block has 32 bytes and then 16 bytes with five ternary codes a byte, 4 bytes with four codes a
// byte, and the scale. trits says how bytes hold codes.
func decodeTQ1_0(s *superblock, src []byte) {
	trits(s.codes[:160], src[:32])
	trits(s.codes[160:240], src[32:48])
	trits(s.codes[240:], src[48:52])
	s.setOneScale((*[2]byte)(src[52:]))
}

// trits sets q to the ternary codes in src, until q is full. Byte c stands for the fraction c/256. The first five digits of that
// fraction in base three are five codes, each plus 1. The first len(src) elements of q come from the first digits of all bytes,
// the next len(src) elements from the second digits, and so on. len(q) is a multiple of len(src).
func trits(q []int8, src []byte) {
	for power := byte(1); len(q) > 0; power *= 3 {
		for i, c := range src { // c*power wraps, which drops the digits of earlier turns; three times the rest has the next from bit 8 on
			q[i] = int8(uint(c*power)*3>>8) - 1
		}
		q = q[len(src):]
	}
}
