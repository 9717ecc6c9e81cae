package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
	"github.com/tensormap/tensormap/dequant/_asm/kit"
)

// affine generates what fitAffine does.
func affine() {
	fit("fitAffine", "makes sixteen fits as fitAffine does.", true, func(k *kernel) {
		zeros, most := splatted("zero", 0), param("most", func(GPVirtual) {})
		r := rounder{zeros, most}
		low, sumW := loaded(k.at(xs)), loaded(k.at(ws))
		high, sumX := copied(low), mul(sumW, low)
		k.each("bounds", 1, func(i GPVirtual) {
			x, w := loaded(k.row(i, xs)), loaded(k.row(i, ws))
			VMINPS(low, x, low)
			VMAXPS(high, x, high)
			plus(sumW, w)
			plus(sumX, mul(w, x))
		})
		VMINPS(low, zero(), low)
		// failure returns the error of the codes that code gives.
		failure := func(label string, scale, low VecVirtual, code func(i GPVirtual, x VecVirtual) VecVirtual) VecVirtual {
			sum := zero()
			flag := Load(Param("absolute"), GP64()).(GPVirtual)
			TESTQ(flag, flag)
			JZ(LabelRef(label + "_squared"))
			for _, absolute := range []bool{true, false} {
				name := label + "_absolute"
				if !absolute {
					Label(label + "_squared")
					name = label + "_squares"
				}
				k.each(name, 0, func(i GPVirtual) {
					x := loaded(k.row(i, xs))
					diff := mul(scale, code(i, x))
					plus(diff, low)
					VSUBPS(x, diff, diff)
					if absolute {
						VANDPS(splatted("magnitude", 0x7fffffff), diff, diff)
					} else {
						VMULPS(diff, diff, diff)
					}
					VMULPS(k.row(i, ws), diff, diff)
					plus(sum, diff)
				})
				if absolute {
					JMP(LabelRef(label + "_done"))
				}
			}
			Label(label + "_done")
			return sum
		}
		first := V()
		VCVTDQ2PS(most, first)
		VDIVPS(sub(high, low), first, first)
		VMOVUPS(first, k.at(inverse))
		VMOVUPS(low, k.at(lowest))
		scale := number("one", 1)
		VDIVPS(first, scale, scale)
		least := failure("first", scale, low, func(_ GPVirtual, x VecVirtual) VecVirtual {
			l := sub(x, low)
			VMULPS(first, l, l)
			r.round(l)
			return l
		})
		flat := compared(equal, high, low)
		flat.where(zero(), scale)
		flat.where(splat("minus_infinity", 0xff800000), least) // which no other error undercuts
		top, sumWAt, sumXAt := k.at(spare), k.at(spare+row), k.at(spare+2*row)
		VMOVUPS(high, top)
		VMOVUPS(sumW, sumWAt)
		VMOVUPS(sumX, sumXAt)
		k.eachTry("try", func() {
			tried := k.quotient(sub(loaded(top), low))
			sumL, sumLL, sumXL := zero(), zero(), zero()
			k.each("sums", 0, func(i GPVirtual) {
				x := loaded(k.row(i, xs))
				l := sub(x, low)
				VMULPS(tried, l, l)
				r.round(l)
				VMOVUPS(l, k.row(i, ls))
				wl := V()
				VMULPS(k.row(i, ws), l, wl)
				plus(sumL, wl)
				VMULPS(wl, l, l)
				plus(sumLL, l)
				VMULPS(wl, x, x)
				plus(sumXL, x)
			})
			sumW, sumX := loaded(sumWAt), loaded(sumXAt)
			det := sub(mul(sumW, sumLL), mul(sumL, sumL))
			newScale := div(sub(mul(sumW, sumXL), mul(sumX, sumL)), det)
			newLow := div(sub(mul(sumLL, sumX), mul(sumL, sumXL)), det)
			above := compared(greater, newLow, zeros)
			above.where(zero(), newLow)
			above.where(div(sumXL, sumLL), newScale)
			e := failure("next", newScale, newLow, func(i GPVirtual, _ VecVirtual) VecVirtual { return loaded(k.row(i, ls)) })
			better := both(compared(less, e, least), compared(greater, det, zeros))
			better.where(e, least)
			for _, c := range []struct {
				place int
				v     VecVirtual
			}{{inverse, tried}, {lowest, low}} {
				old := loaded(k.at(c.place))
				better.where(c.v, old)
				VMOVUPS(old, k.at(c.place))
			}
			better.where(newScale, scale)
			better.where(newLow, low)
		})
		VMOVUPS(scale, k.at(scales))
		offset := V()
		VXORPS(splatted("sign", 1<<31), low, offset)
		VMOVUPS(offset, k.at(seconds))
	})
}

// extreme returns the element of greatest magnitude, the first of several, and the fits in which all are about 0.
func (k *kernel) extreme(each func(i GPVirtual, x VecVirtual)) (value VecVirtual, none func() mask) {
	value = zero()
	most := zero()
	k.each("extreme", 0, func(i GPVirtual) {
		x := loaded(k.row(i, xs))
		a := magnitude(x)
		m := compared(greater, a, most)
		m.where(a, most)
		m.where(x, value)
		each(i, x)
	})
	VMOVUPS(most, k.at(seconds))
	return value, func() mask { return compared(less, loaded(k.at(seconds)), number("tiny", 1e-15)) }
}

// bounds returns the rounder to -most and most-1.
func bounds() rounder {
	return rounder{param("most", func(r GPVirtual) { NEGQ(r) }), param("most", func(r GPVirtual) { DECQ(r) })}
}

// search generates a search over independent tries. measure sums products under an inverse scale. The fit's scale is
// the quotient of the sums, or 0 for 0/0 if zeros is set. first is tried first, and counts in any case.
func (k *kernel) search(extreme, first VecVirtual, zeros bool, measure func(label string, inverse VecVirtual) (lx, ll VecVirtual)) (scale, best VecVirtual) {
	lx, ll := measure("first", first)
	scale = div(lx, ll)
	if zeros {
		compared(equal, ll, zero()).where(zero(), scale)
	}
	product := mul(scale, lx)
	best = copied(first)
	k.eachTry("try", func() {
		tried := k.quotient(extreme)
		lx, ll := measure("next", tried)
		better := both(compared(greater, ll, zero()), compared(greater, mul(lx, lx), mul(product, ll)))
		s := div(lx, ll)
		better.where(s, scale)
		better.where(mul(s, lx), product)
		better.where(tried, best)
	})
	return scale, best
}

// symmetric generates what fitSymmetric does.
func symmetric() {
	fit("fitSymmetric", "makes sixteen fits as fitSymmetric does.", true, func(k *kernel) {
		extreme, none := k.extreme(func(i GPVirtual, x VecVirtual) {
			VMULPS(k.row(i, ws), x, x)
			VMOVUPS(x, k.row(i, ls))
		})
		r := bounds()
		first := V()
		VCVTDQ2PS(r.low, first)
		VDIVPS(extreme, first, first)
		scale, inverse := k.search(extreme, first, true, func(label string, inverse VecVirtual) (lx, ll VecVirtual) {
			lx, ll = zero(), zero()
			k.each(label, 0, func(i GPVirtual) {
				l := V()
				VMULPS(k.row(i, xs), inverse, l)
				r.round(l)
				p := V()
				VMULPS(k.row(i, ls), l, p)
				plus(lx, p)
				VMULPS(k.row(i, ws), l, p)
				VMULPS(l, p, p)
				plus(ll, p)
			})
			return lx, ll
		})
		none().where(zero(), scale)
		VMOVUPS(scale, k.at(scales))
		VMOVUPS(inverse, k.at(seconds))
	})
}

// byTurns generates what fitByTurns does. Turns go on while one of the fits changes: to the others they do nothing.
func byTurns() {
	fit("fitByTurns", "makes sixteen fits as fitByTurns does.", false, func(k *kernel) {
		extreme, none := k.extreme(func(i GPVirtual, x VecVirtual) {
			VMULPS(x, x, x)
			VMOVUPS(x, k.row(i, ws))
		})
		r := bounds()
		inverse := V()
		VCVTDQ2PS(r.low, inverse)
		VDIVPS(extreme, inverse, inverse)
		lx, ll := zero(), zero()
		k.each("begin", 0, func(i GPVirtual) {
			x, w := loaded(k.row(i, xs)), loaded(k.row(i, ws))
			l := mul(inverse, x)
			r.round(l)
			VMOVUPS(l, k.row(i, ls))
			plus(lx, mul(mul(w, x), l))
			plus(ll, mul(mul(w, l), l))
		})
		turns, changed := GP64(), mask{k: K(), v: V()}
		MOVQ(U32(5), turns)
		Label("turn")
		changed.clear()
		k.each("change", 0, func(i GPVirtual) {
			x, w, old := loaded(k.row(i, xs)), loaded(k.row(i, ws)), loaded(k.row(i, ls))
			wx := mul(w, x)
			newLX, newLL := sub(lx, mul(wx, old)), sub(ll, mul(mul(w, old), old))
			better := compared(greater, newLX, zero())
			l := mul(x, newLL)
			VDIVPS(newLX, l, l)
			r.round(l)
			better = both(better, compared(notEqual, l, old))
			plus(newLX, mul(wx, l))
			VMULPS(l, w, w)
			VMULPS(l, w, w)
			plus(newLL, w)
			better = both(better, compared(greater, newLL, zero()))
			better = both(better, compared(greater, mul(mul(newLX, newLX), ll), mul(mul(lx, lx), newLL)))
			better.where(l, old)
			better.where(newLX, lx)
			better.where(newLL, ll)
			VMOVUPS(old, k.row(i, ls))
			changed.include(better)
		})
		changed.jumpIfNone("settled")
		DECQ(turns)
		JNZ(LabelRef("turn"))
		Label("settled")
		scale := zero()
		compared(greater, ll, zero()).where(div(lx, ll), scale)
		none().where(zero(), scale)
		VMOVUPS(scale, k.at(scales))
	})
}

// levels generates what fitIQ4 does.
func levels() {
	// thresholds returns the places between the levels that a binary search asks at some depth.
	thresholds := func(depth int) Mem {
		name := []string{"iq4_middle", "iq4_quarters", "iq4_eighths", "iq4_sixteenths"}[depth]
		return kit.Words(name, kit.List(16, kit.Bits(func(i int) float32 {
			at := 8>>depth*(2*(i%(1<<depth))+1) - 1
			return (float32(kit.IQ4[at]) + float32(kit.IQ4[at+1])) / 2
		}))...)
	}
	level := func(name string, first, step int) Mem {
		return kit.Words(name, kit.List(16, kit.Bits(func(i int) float32 { return float32(kit.IQ4[(first+step*i)%16]) }))...)
	}
	fit("fitIQ4", "makes sixteen fits as fitIQ4 does.", true, func(k *kernel) {
		extreme, none := k.extreme(func(GPVirtual, VecVirtual) {})
		even, odd := level("iq4_even", 0, 2), level("iq4_odd", 1, 2)
		// nearest returns the level nearest to x, the upper one of two.
		nearest := func(x VecVirtual) VecVirtual {
			m := compared(notLess, x, thresholds(0))
			at := zero()
			for depth := 1; depth < 4; depth++ {
				VPADDD(at, at, at)
				VPSUBD(m.ones(), at, at)
				limit := V()
				VPERMPS(thresholds(depth), at, limit)
				m = compared(notLess, x, limit)
			}
			q, upper := V(), V()
			VPERMPS(even, at, q)
			VPERMPS(odd, at, upper)
			m.where(upper, q)
			return q
		}
		first := V()
		VXORPS(splatted("sign", 1<<31), extreme, first)
		VDIVPS(number("iq4_least", -127), first, first)
		VDIVPS(first, number("one", 1), first)
		scale, _ := k.search(extreme, first, false, func(label string, inverse VecVirtual) (lx, ll VecVirtual) {
			lx, ll = zero(), zero()
			k.each(label, 0, func(i GPVirtual) {
				x := loaded(k.row(i, xs))
				q, p := nearest(mul(inverse, x)), V()
				wq := V()
				VMULPS(k.row(i, ws), q, wq)
				VMULPS(wq, x, p)
				plus(lx, p)
				VMULPS(wq, q, p)
				plus(ll, p)
			})
			return lx, ll
		})
		none().where(zero(), scale)
		VMOVUPS(scale, k.at(scales))
	})
}
