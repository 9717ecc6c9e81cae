package dequant

import (
	"encoding/binary"
	"math"
	"math/big"

	"github.com/tensormap/tensormap/layout"
	"github.com/x448/float16"
)

// An oracle gives the value of element i of one block, slowly: straight from the table of
// formulas, element by element, sharing nothing with the loops it judges.
type oracle func(b []byte, i int) float32

var oracles = map[layout.DType]oracle{
	layout.F32:  func(b []byte, _ int) float32 { return math.Float32frombits(binary.LittleEndian.Uint32(b)) },
	layout.F16:  func(b []byte, _ int) float32 { return half(b) },
	layout.BF16: func(b []byte, _ int) float32 { return math.Float32frombits(uint32(b[0])<<16 | uint32(b[1])<<24) },
	layout.F64: func(b []byte, _ int) float32 {
		return roundBig(math.Float64frombits(binary.LittleEndian.Uint64(b)))
	},
	layout.I8:  func(b []byte, _ int) float32 { return bigInt(int64(int8(b[0]))) },
	layout.I16: func(b []byte, _ int) float32 { return bigInt(int64(int16(binary.LittleEndian.Uint16(b)))) },
	layout.I32: func(b []byte, _ int) float32 { return bigInt(int64(int32(binary.LittleEndian.Uint32(b)))) },
	layout.I64: func(b []byte, _ int) float32 { return bigInt(int64(binary.LittleEndian.Uint64(b))) },
	layout.U8:  func(b []byte, _ int) float32 { return bigUint(uint64(b[0])) },
	layout.U16: func(b []byte, _ int) float32 { return bigUint(uint64(binary.LittleEndian.Uint16(b))) },
	layout.U32: func(b []byte, _ int) float32 { return bigUint(uint64(binary.LittleEndian.Uint32(b))) },
	layout.U64: func(b []byte, _ int) float32 { return bigUint(binary.LittleEndian.Uint64(b)) },
	layout.BOOL: func(b []byte, _ int) float32 {
		if b[0] == 0 {
			return 0
		}
		return 1
	},

	layout.F8_E4M3: func(b []byte, _ int) float32 { return e4m3(b[0]) },
	layout.F8_E5M2: func(b []byte, _ int) float32 { return half([]byte{0, b[0]}) },
	layout.F8_E8M0: func(b []byte, _ int) float32 {
		if b[0] == 255 {
			return float32(math.NaN())
		}
		return float32(math.Ldexp(1, int(b[0])-127))
	},

	layout.F8_E4M3FNUZ: func(b []byte, _ int) float32 { return fnuz(b[0], 3, 8) },
	layout.F8_E5M2FNUZ: func(b []byte, _ int) float32 { return fnuz(b[0], 2, 16) },
	layout.F6_E2M3:     func(b []byte, i int) float32 { return small(sixBits(b, i), 3, 1) },
	layout.F6_E3M2:     func(b []byte, i int) float32 { return small(sixBits(b, i), 2, 3) },
	layout.F4:          func(b []byte, i int) float32 { return small(int(b[0])>>(4*i)&15<<2, 3, 1) }, // E2M1 is E2M3 with two bits less

	layout.Q4_0: func(b []byte, i int) float32 { return mul(float32(nibble(b[2:], i)-8), half(b)) },
	layout.Q4_1: func(b []byte, i int) float32 {
		return add(mul(float32(nibble(b[4:], i)), half(b)), half(b[2:]))
	},
	layout.Q5_0: func(b []byte, i int) float32 {
		q := nibble(b[6:], i) + 16*bit(b[2:], i)
		return mul(float32(q-16), half(b))
	},
	layout.Q5_1: func(b []byte, i int) float32 {
		q := nibble(b[8:], i) + 16*bit(b[4:], i)
		return add(mul(float32(q), half(b)), half(b[2:]))
	},
	layout.Q8_0:   func(b []byte, i int) float32 { return mul(float32(int8(b[2+i])), half(b)) },
	layout.Q8_1:   func(b []byte, i int) float32 { return mul(float32(int8(b[4+i])), half(b)) },
	layout.IQ4_NL: func(b []byte, i int) float32 { return mul(half(b), nonLinear[nibble(b[2:], i)]) },
	layout.APR_Q4: func(b []byte, i int) float32 {
		d := half(b)
		if !(math.Abs(float64(d)) >= 0x1p-14 && !math.IsInf(float64(d), 0)) {
			d = 0
		}
		return mul(float32(int(b[2+i/2]>>(i%2*4)&15)-8), d)
	},
	layout.MXFP4: func(b []byte, i int) float32 {
		values := []float64{0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12}
		return float32(math.Ldexp(values[nibble(b[1:], i)], int(b[0])-128))
	},
	layout.NVFP4: func(b []byte, i int) float32 {
		values := []float64{0, .5, 1, 1.5, 2, 3, 4, 6, 0, -.5, -1, -1.5, -2, -3, -4, -6}
		k, j := i/16, i%16
		return float32(values[b[4+8*k+j%8]>>(j/8*4)&15] * ue4m3(b[k]))
	},
	layout.Q8_K: func(b []byte, i int) float32 {
		return mul(math.Float32frombits(binary.LittleEndian.Uint32(b)), float32(int8(b[4+i])))
	},
	layout.Q1_0: func(b []byte, i int) float32 { return mul(half(b), float32(2*bit(b[2:], i)-1)) },
	layout.Q2_0: func(b []byte, i int) float32 { return mul(float32(int(b[2+i/4]>>(i%4*2)&3)-1), half(b)) },
	layout.TQ2_0: func(b []byte, i int) float32 {
		return mul(float32(int(b[i/128*32+i%32]>>(i/32%4*2)&3)-1), half(b[64:]))
	},
	layout.TQ1_0: tq1,

	layout.IQ2_XXS: iq2XXS,
	layout.IQ2_XS:  iq2XS,
	layout.IQ2_S:   iq2S,
	layout.IQ3_XXS: iq3XXS,
	layout.IQ3_S:   iq3S,
	layout.IQ1_S:   iq1S,
	layout.IQ1_M:   iq1M,

	layout.Q2_K: func(b []byte, i int) float32 {
		h, j, l := i/128, i/32%4, i%32
		s := b[8*h+2*j+l/16]
		q := b[16+32*h+l] >> (2 * j) & 3
		x := mul(mul(half(b[80:]), float32(s&15)), float32(q))
		return add(x, -mul(half(b[82:]), float32(s>>4)))
	},
	layout.Q3_K: func(b []byte, i int) float32 {
		h, j, l := i/128, i/32%4, i%32
		k := 8*h + 2*j + l/16
		sc := b[96:]
		s := int(sc[k%8])
		if k < 8 {
			s &= 15
		} else {
			s >>= 4
		}
		s += int(sc[8+k%4]>>(2*(k/4))&3) * 16
		q := int(b[32+32*h+l] >> (2 * j) & 3)
		if b[l]>>(4*h+j)&1 == 0 {
			q -= 4
		}
		return mul(mul(half(b[108:]), float32(s-32)), float32(q))
	},
	layout.Q4_K: func(b []byte, i int) float32 {
		k := i / 32
		q := b[16+32*(k/2)+i%32] >> (4 * (k % 2)) & 15
		return affineK(b, k, float32(q))
	},
	layout.Q5_K: func(b []byte, i int) float32 {
		k := i / 32
		q := b[48+32*(k/2)+i%32]>>(4*(k%2))&15 + 16*(b[16+i%32]>>k&1)
		return affineK(b, k, float32(q))
	},
	layout.Q6_K: func(b []byte, i int) float32 {
		h, g, l := i/128, i/32%4, i%32
		low := b[64*h+l+32*(g&1)]
		if g < 2 {
			low &= 15
		} else {
			low >>= 4
		}
		q := int(low) + 16*int(b[128+32*h+l]>>(2*g)&3) - 32
		return mul(mul(half(b[208:]), float32(int8(b[192+8*h+2*g+l/16]))), float32(q))
	},
	layout.IQ4_XS: func(b []byte, i int) float32 {
		k := i / 32
		low := int(b[4+k/2]) >> (4 * (k % 2)) & 15
		high := int(binary.LittleEndian.Uint16(b[2:])) >> (2 * k) & 3
		return mul(mul(half(b), float32(low+16*high-32)), nonLinear[nibble(b[8+16*k:], i%32)])
	},
}

var nonLinear = []float32{-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113}

// affineK is what Q4_K and Q5_K share: the packed scale and min of run k.
func affineK(b []byte, k int, q float32) float32 {
	s := b[4:]
	sc, m := s[k]&63, s[(k+4)%12]&63
	if k >= 4 {
		sc = s[k+4]&15 | s[k-4]>>6<<4
		m = s[k+4]>>4 | s[k]>>6<<4
	}
	return add(mul(mul(half(b), float32(sc)), q), -mul(half(b[2:]), float32(m)))
}

// nibble is element i of 32 in Q4_0's order.
func nibble(qs []byte, i int) int {
	if i < 16 {
		return int(qs[i] & 15)
	}
	return int(qs[i-16] >> 4)
}

func bit(b []byte, i int) int { return int(b[i/8] >> (i % 8) & 1) }

// mul and add are kept from the compiler's fusing by not being inlined.
//
//go:noinline
func mul(x, y float32) float32 { return x * y }

//go:noinline
func add(x, y float32) float32 { return x + y }

// half is x448/float16's value, except that a NaN's bits move unchanged: it would quiet them.
func half(b []byte) float32 {
	h := binary.LittleEndian.Uint16(b)
	f := float16.Frombits(h)
	if f.IsNaN() {
		return math.Float32frombits(uint32(h&0x8000)<<16 | 0x7f800000 | uint32(h&0x3ff)<<13)
	}
	return f.Float32()
}

// e4m3 is OFP8 v1.0, table 1: bias 7, S.1111.111 a NaN.
func e4m3(b byte) float32 {
	sign, exp, frac := b>>7, int(b>>3&15), float64(b&7)
	if b&0x7f == 0x7f {
		return math.Float32frombits(uint32(sign)<<31 | 0x7ff00000)
	}
	v := math.Ldexp(1+frac/8, exp-7)
	if exp == 0 {
		v = math.Ldexp(frac/8, -6)
	}
	return float32(math.Copysign(v, float64(int(0)-int(sign))+0.5))
}

// small is the value of a code of six bits: a sign, an exponent, and a mantissa of so many bits. None is special.
func small(code, mantissa, bias int) float32 {
	exp, frac := code&31>>mantissa, math.Ldexp(float64(code&(1<<mantissa-1)), -mantissa)
	v := math.Ldexp(1+frac, exp-bias)
	if exp == 0 {
		v = math.Ldexp(frac, 1-bias)
	}
	if code&32 != 0 {
		v = math.Copysign(v, -1)
	}
	return float32(v)
}

func sixBits(b []byte, i int) (code int) {
	for k := range 6 {
		code |= bit(b, 6*i+k) << k
	}
	return code
}

// fnuz is the value of a float of 8 bits that has one NaN in the place of −0 (arXiv 2206.02915).
func fnuz(b byte, mantissa, bias int) float32 {
	exp, frac := int(b&0x7f)>>mantissa, math.Ldexp(float64(int(b)&(1<<mantissa-1)), -mantissa)
	v := math.Ldexp(1+frac, exp-bias)
	if exp == 0 {
		v = math.Ldexp(frac, 1-bias)
	}
	switch {
	case b == 0x80:
		v = math.NaN()
	case b > 0x80:
		v = -v
	}
	return float32(v)
}

func bigInt(v int64) float32 {
	f, _ := new(big.Float).SetInt64(v).Float32()
	return f
}

func bigUint(v uint64) float32 {
	f, _ := new(big.Float).SetUint64(v).Float32()
	return f
}

func roundBig(v float64) float32 {
	if math.IsNaN(v) || math.IsInf(v, 0) || v == 0 {
		return float32(v)
	}
	f, _ := big.NewFloat(v).Float32()
	return f
}
