package quantize

import (
	"encoding/binary"
	"math"

	"github.com/tensormap/tensormap/internal/block"
)

// encodeF32Generic writes each value as its four bytes. It stops at the end of the shorter slice.
func encodeF32Generic(dst []byte, src []float32) {
	for len(dst) >= 4 && len(src) >= 1 {
		binary.LittleEndian.PutUint32(dst, math.Float32bits(src[0]))
		dst, src = dst[4:], src[1:]
	}
}

// encodeQ4_0Generic writes 18 bytes for 32 values: a scale, then nibbles. The value of greatest magnitude gets code −8.
func encodeQ4_0Generic(dst []byte, src []float32) {
	for len(dst) >= 18 && len(src) >= 32 {
		b, x := (*[18]byte)(dst), (*[32]float32)(src)
		extreme, _ := firstExtreme(x[:])
		d := extreme / -8
		id := reciprocal(d)
		putHalf((*[2]byte)(b[0:]), d)
		for j := range 16 {
			lo := min(15, int8(truncate(float32(x[j]*id)+8.5)))
			hi := min(15, int8(truncate(float32(x[j+16]*id)+8.5)))
			b[2+j] = byte(lo) | byte(hi)<<4
		}
		dst, src = dst[18:], src[32:]
	}
}

// encodeQ4_1Generic writes 20 bytes for 32 values: scale and offset, then nibbles. Least and greatest value get codes 0 and 15.
func encodeQ4_1Generic(dst []byte, src []float32) {
	for len(dst) >= 20 && len(src) >= 32 {
		b, x := (*[20]byte)(dst), (*[32]float32)(src)
		lowest, highest := bounds(x)
		d := (highest - lowest) / 15
		id := reciprocal(d)
		putHalf((*[2]byte)(b[0:]), d)
		putHalf((*[2]byte)(b[2:]), lowest)
		for j := range 16 {
			lo := min(15, int8(truncate(float32((x[j]-lowest)*id)+0.5)))
			hi := min(15, int8(truncate(float32((x[j+16]-lowest)*id)+0.5)))
			b[4+j] = byte(lo) | byte(hi)<<4
		}
		dst, src = dst[20:], src[32:]
	}
}

// encodeQ5_0Generic writes 22 bytes for 32 values: a scale, upper bits, then nibbles. The value of greatest magnitude gets code −16.
func encodeQ5_0Generic(dst []byte, src []float32) {
	for len(dst) >= 22 && len(src) >= 32 {
		b, x := (*[22]byte)(dst), (*[32]float32)(src)
		extreme, _ := firstExtreme(x[:])
		d := extreme / -16
		id := reciprocal(d)
		putHalf((*[2]byte)(b[0:]), d)
		high := uint32(0)
		for j := range 16 {
			lo := uint32(min(31, int8(truncate(float32(x[j]*id)+16.5))))
			hi := uint32(min(31, int8(truncate(float32(x[j+16]*id)+16.5))))
			b[6+j] = byte(lo&15 | hi&15<<4)
			high |= (lo>>4&1 | hi>>4&1<<16) << j
		}
		binary.LittleEndian.PutUint32(b[2:6], high)
		dst, src = dst[22:], src[32:]
	}
}

// encodeQ5_1Generic writes 24 bytes for 32 values: scale and offset, upper bits, then nibbles. Least and greatest value get codes 0 and 31.
func encodeQ5_1Generic(dst []byte, src []float32) {
	for len(dst) >= 24 && len(src) >= 32 {
		b, x := (*[24]byte)(dst), (*[32]float32)(src)
		lowest, highest := bounds(x)
		d := (highest - lowest) / 31
		id := reciprocal(d)
		putHalf((*[2]byte)(b[0:]), d)
		putHalf((*[2]byte)(b[2:]), lowest)
		high := uint32(0)
		for j := range 16 {
			lo := uint32(truncate(float32((x[j]-lowest)*id) + 0.5))
			hi := uint32(truncate(float32((x[j+16]-lowest)*id) + 0.5))
			b[8+j] = byte(lo&15 | hi&15<<4)
			high |= (lo>>4&1 | hi>>4&1<<16) << j
		}
		binary.LittleEndian.PutUint32(b[4:8], high)
		dst, src = dst[24:], src[32:]
	}
}

// encodeQ8_0Generic writes 34 bytes for 32 values: a scale, then int8s. The greatest magnitude gets code 127.
func encodeQ8_0Generic(dst []byte, src []float32) {
	for len(dst) >= 34 && len(src) >= 32 {
		b, x := (*[34]byte)(dst), (*[32]float32)(src)
		d := magnitude(x) / 127
		id := reciprocal(d)
		putHalf((*[2]byte)(b[0:]), d)
		for j, v := range x {
			b[2+j] = byte(roundHalfAway(float32(v * id)))
		}
		dst, src = dst[34:], src[32:]
	}
}

// putHalf stores f as a binary16, rounded to nearest even.
func putHalf(b *[2]byte, f float32) { binary.LittleEndian.PutUint16(b[:], block.Half(f)) }

// The bits of a magnitude order as magnitudes do, and the bits of NaNs are above infinity's.
const (
	signBit  = 1 << 31
	infinity = 0x7f800000
)

// magnitude returns the greatest magnitude. A NaN wins over values before it and loses to values
// after it, as in ggml's MAX.
func magnitude(x *[32]float32) (greatest float32) {
	for _, v := range x {
		if a := abs(v); !(greatest > a) {
			greatest = a
		}
	}
	return greatest
}

// bounds returns the least and the greatest element. NaNs are passed over; a block of nothing else
// has the greatest number as its least. The first of a zero and a minus zero counts.
func bounds(x *[32]float32) (lowest, highest float32) {
	lowest, highest = math.MaxFloat32, -math.MaxFloat32
	for _, v := range x {
		if v < lowest {
			lowest = v
		}
		if v > highest {
			highest = v
		}
	}
	return lowest, highest
}

// reciprocal returns 1/d, or 0 if d is 0.
func reciprocal(d float32) float32 {
	if d == 0 {
		return 0
	}
	return 1 / d
}

// abs returns the magnitude of f. It clears the sign of NaNs too.
func abs(f float32) float32 { return math.Float32frombits(math.Float32bits(f) &^ (1 << 31)) }

// truncate converts toward zero. NaNs and numbers out of range give the least int32, as with
// CVTTSS2SI. Go leaves that to the machine.
func truncate(f float32) int32 {
	if f >= -1<<31 && f < 1<<31 {
		return int32(f)
	}
	return math.MinInt32
}

// roundHalfAway converts C's roundf of f as truncate does. In float64 the sum never rounds up to
// the next whole number.
func roundHalfAway(f float32) int32 {
	if f >= -1<<31 && f < 1<<31 {
		x := float64(f)
		return int32(x + math.Copysign(0.5, x))
	}
	return math.MinInt32
}
