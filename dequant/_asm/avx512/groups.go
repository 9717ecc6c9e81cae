package main

import (
	"fmt"
	"math"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
	"github.com/tensormap/tensormap/dequant/_asm/kit"
)

// A formula makes values of the values of 16 codes, in place.
type formula func(z, scale, offset reg.VecVirtual)

func subtractAndScale(z, scale, offset reg.VecVirtual) {
	VSUBPS(offset, z, z)
	VMULPS(scale, z, z)
}

func scaleAndAdd(z, scale, offset reg.VecVirtual) {
	VMULPS(scale, z, z)
	VADDPS(offset, z, z)
}

// justScale serves codes that have no offsets.
func justScale(z, scale, _ reg.VecVirtual) { VMULPS(scale, z, z) }

func scaleBy127(z, scale, _ reg.VecVirtual) {
	VMULPS(scale, z, z)
	VMULPS_BCST(kit.Words("by127", math.Float32bits(float32(1)/127)), z, z)
}

// An unpacker loads constants, and returns the generator of 16 elements from element at on.
type unpacker func(k *kernel) func(at int) reg.VecVirtual

// groups generates the codes whose scales lie apart. A code of up to five bits has fewer values than a group has
// elements. It is shortest to compute all values first and to look them up.
func groups() {
	for bits := 1; bits <= 8; bits++ {
		for _, v := range []struct {
			name string
			f    formula
		}{{"Groups", subtractAndScale}, {"BiasedGroups", scaleAndAdd}} {
			name := fmt.Sprintf("uint%d%s", bits, v.name)
			switch {
			case bits <= 5:
				count := func(n int) float32 { return float32(n & (1<<bits - 1)) }
				kit.Groups(name, level, bits, bits == 4, tabled(fmt.Sprint("count", bits), 1<<bits, count, places(bits, false), v.f))
			case bits < 8:
				kit.Groups(name, level, bits, false, computed(integers(bits), v.f))
			default:
				kit.Groups(name, level, bits, false, computed(extended(VPMOVZXBD), v.f))
			}
		}
	}
	kit.Groups("int8Groups", level, 8, false, computed(extended(VPMOVSXBD), subtractAndScale))
	kit.Groups("int8By127Groups", level, 8, false, computed(extended(VPMOVSXBD), scaleBy127))
	kit.Groups("e5m2Groups", level, 8, false, computed(e5m2Groups, justScale))
	kit.Groups("e4m3Groups", level, 8, false, e4m3Groups)
	for _, v := range []struct {
		name      string
		values    [16]float32
		highFirst bool
	}{
		{"e2m1", kit.MinusZero(kit.E2M1), false}, {"e2m1Plus", kit.E2M1, false}, {"nf4", kit.NF4, true}, {"fp4", kit.MinusZero(kit.BnbFP4), true},
	} {
		value := func(n int) float32 { return v.values[n] }
		kit.Groups(v.name+"Groups", level, 4, !v.highFirst, tabled(v.name+"Values", 16, value, places(4, v.highFirst), justScale))
	}
}

// computed applies a formula to every element.
func computed(u unpacker, f formula) kit.Body {
	return func(kk *kit.Kernel) func(scale, offset func(at int) Mem) func() {
		k := &kernel{Kernel: kk}
		unpack := u(k)
		return func(scale, offset func(at int) Mem) func() {
			s, o := float(scale(0)), float(offset(0))
			return func() {
				for at := 0; at < kit.GroupStep; at += 16 {
					z := unpack(at)
					f(z, s, o)
					k.Store(z, at)
				}
			}
		}
	}
}

// tabled applies a formula to the n values of all codes, and looks elements up there. Instructions regard as many
// low bits of an index as tables need, or the values repeat.
func tabled(name string, n int, value func(n int) float32, u unpacker, f formula) kit.Body {
	return func(kk *kit.Kernel) func(scale, offset func(at int) Mem) func() {
		k := &kernel{Kernel: kk}
		var values []reg.VecVirtual // of 16 codes each
		for first := 0; first < max(n, 16); first += 16 {
			values = append(values, floats(fmt.Sprint(name, "From", first), func(i int) float32 { return value(first + i) }))
		}
		unpack := u(k)
		return func(scale, offset func(at int) Mem) func() {
			var tables [kit.GroupStep / 16][]reg.VecVirtual
			for i := range tables {
				if i > 0 && scale(16*i) == scale(0) {
					tables[i] = tables[0]
					continue
				}
				s, o := float(scale(16*i)), float(offset(16*i))
				for _, v := range values {
					t := ZMM()
					VMOVAPS(v, t)
					f(t, s, o)
					tables[i] = append(tables[i], t)
				}
			}
			return func() {
				for i, t := range tables {
					z := unpack(16 * i)
					switch {
					case n <= 4:
						VPERMILPS(z, t[0], z)
					case n <= 16:
						VPERMPS(t[0], z, z)
					default:
						VPERMI2PS(t[1], t[0], z)
					}
					k.Store(z, 16*i)
				}
			}
		}
	}
}

// places puts each code into the lowest bits of its doubleword. The bits above it are any.
func places(bits int, highFirst bool) unpacker {
	switch {
	case bits <= 2: // 16 codes fit a doubleword
		return func(k *kernel) func(at int) reg.VecVirtual {
			var shifts [kit.GroupStep / 16]reg.VecVirtual
			for n := range shifts {
				shifts[n] = zmm(fmt.Sprint("shifts", bits, "From", 16*n*bits%32), func(i int) uint32 { return uint32((16*n + i) * bits % 32) })
			}
			return func(at int) reg.VecVirtual {
				z := ZMM()
				VPBROADCASTD(k.From(at*bits/32*4), z)
				VPSRLVD(shifts[at/16], z, z)
				return z
			}
		}
	case bits == 4: // two doublewords
		return func(k *kernel) func(at int) reg.VecVirtual {
			flip, second, lanes := 0, K(), GP32()
			if highFirst {
				flip = 1
			}
			shift := zmm(fmt.Sprint("nibbles", flip), func(i int) uint32 { return uint32(4 * (i%8 ^ flip)) })
			MOVL(U32(0xff00), lanes)
			KMOVW(lanes, second)
			return func(at int) reg.VecVirtual {
				z := ZMM()
				VPBROADCASTD(k.From(at/2), z)
				VPBROADCASTD(k.From(at/2+4), second, z)
				VPSRLVD(shift, z, z)
				return z
			}
		}
	}
	// Two bytes that hold the code come into each doubleword, out of a window of 16 or, if there are fewer, of 8.
	return func(k *kernel) func(at int) reg.VecVirtual {
		shift := zmm(fmt.Sprint("shiftsInBytes", bits), func(i int) uint32 { return uint32(i * bits % 8) })
		window := 16
		if k.In < window {
			window = 8
		}
		var spread [kit.GroupStep / 16]reg.VecVirtual
		from := func(at int) int { return min(at*bits/8, k.In-window) }
		for n := range spread {
			skip := 16*n*bits/8 - from(16*n)
			spread[n] = zmm(fmt.Sprint("spread", bits, "Skip", skip), func(i int) uint32 {
				at := skip + i*bits/8
				if i*bits%8+bits <= 8 {
					return 0x80808000 | uint32(at)
				}
				return 0x80800000 | uint32(at+1)<<8 | uint32(at)
			})
		}
		return func(at int) reg.VecVirtual {
			z := ZMM()
			if window == 16 {
				VBROADCASTI32X4(k.From(from(at)), z)
			} else {
				VPBROADCASTQ(k.From(from(at)), z)
			}
			VPSHUFB(spread[at/16], z, z)
			VPSRLVD(shift, z, z)
			return z
		}
	}
}

// integers converts unsigned integers that lie without gaps.
func integers(bits int) unpacker {
	return func(k *kernel) func(at int) reg.VecVirtual {
		place, mask := places(bits, false)(k), splat(fmt.Sprint("low", bits, "Bits"), 1<<bits-1)
		return func(at int) reg.VecVirtual {
			z := place(at)
			VPANDD(mask, z, z)
			VCVTDQ2PS(z, z)
			return z
		}
	}
}

// extended converts bytes that extend makes doublewords of.
func extended(extend func(...Op)) unpacker {
	return func(k *kernel) func(at int) reg.VecVirtual {
		return func(at int) reg.VecVirtual {
			z := ZMM()
			extend(k.From(at), z)
			VCVTDQ2PS(z, z)
			return z
		}
	}
}

// e5m2Groups treats bytes as the upper halves of binary16s. Products quiet NaNs anyway.
func e5m2Groups(k *kernel) func(at int) reg.VecVirtual {
	return func(at int) reg.VecVirtual {
		h, z := YMM(), ZMM()
		VPMOVZXBW(k.From(at), h)
		VPSLLW(U8(8), h, h)
		VCVTPH2PS(h, z)
		return z
	}
}

// e4m3Groups makes the upper half of a float from a byte: the bits of normal numbers fit in place, and their
// exponents are 120 too low. Zeros, subnormal numbers and NaNs are rare, and take the way of f8e4m3.
func e4m3Groups(kk *kit.Kernel) func(scale, offset func(at int) Mem) func() {
	k := &kernel{Kernel: kk}
	fields, bias := splat("e4m3Fields", 0x87f00000), splat("e4m3Bias", 120<<23)
	least, most := YMM(), YMM()
	VPBROADCASTD(kit.Words("e4m3Least", 0x10101010), least) // doubled, as the sign is shifted out
	VPBROADCASTD(kit.Words("e4m3Normals", 0xecececec), most)
	return func(scale, _ func(at int) Mem) func() {
		s := float(scale(0))
		return func() {
			odd := YMM()
			VMOVDQU(k.From(0), odd)
			VPADDB(odd, odd, odd)
			VPSUBB(least, odd, odd)
			VPSUBUSB(most, odd, odd)
			var z [kit.GroupStep / 16]reg.VecVirtual
			for i := range z {
				z[i] = ZMM()
				VPMOVSXBD(k.From(16*i), z[i])
				VPSLLD(U8(20), z[i], z[i])
				VPANDD(fields, z[i], z[i])
				VPADDD(bias, z[i], z[i])
			}
			VPTEST(odd, odd)
			k.Unless("odd", func() {
				expand := e4m3(k)
				for i, v := range expand([]Op{k.From(0), k.From(16)}) {
					VMOVAPS(v, z[i])
				}
			})
			for i, v := range z {
				VMULPS(s, v, v)
				k.Store(v, 16*i)
			}
		}
	}
}
