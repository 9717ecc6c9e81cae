package kit

import (
	"bytes"
	"encoding/binary"
	"math"

	"github.com/mmcloughlin/avo/attr"
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
)

// A constant is data that functions share by name.
type constant struct {
	bytes []byte
	at    Mem
}

var constants = map[string]constant{}

// Data returns the address of read-only bytes, a multiple of four of them. They are emitted once.
func Data(name string, b []byte) Mem {
	if c, ok := constants[name]; ok {
		if !bytes.Equal(c.bytes, b) {
			panic("two constants are named " + name)
		}
		return c.at
	}
	at := GLOBL(name, attr.RODATA|attr.NOPTR)
	for i := 0; i < len(b); i += 8 {
		if len(b)-i < 8 {
			DATA(i, U32(binary.LittleEndian.Uint32(b[i:])))
		} else {
			DATA(i, U64(binary.LittleEndian.Uint64(b[i:])))
		}
	}
	constants[name] = constant{b, at}
	return at
}

// Words returns the address of read-only words of 32 bits.
func Words(name string, values ...uint32) Mem {
	var b []byte
	for _, v := range values {
		b = binary.LittleEndian.AppendUint32(b, v)
	}
	return Data(name, b)
}

// List returns the first n values of f.
func List[T any](n int, f func(i int) T) []T {
	list := make([]T, n)
	for i := range list {
		list[i] = f(i)
	}
	return list
}

// Bits returns the function that gives the bits of f's floats.
func Bits(f func(i int) float32) func(i int) uint32 {
	return func(i int) uint32 { return math.Float32bits(f(i)) }
}

// Codebooks and levels, as ggml-common.h has them. FP4 is E2M1 doubled.
var (
	IQ4    = [16]int8{-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113}
	FP4    = [16]int8{0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12}
	IQ2    = [8]float32{8, 25, 43}
	IQ3XXS = [8]float32{4, 12, 20, 28, 36, 44, 52, 62}
	IQ3S   = [8]float32{1, 3, 5, 7, 9, 11, 13, 15}
)

// MinusZero makes the value of code 8 −0.
func MinusZero(values [16]float32) [16]float32 {
	values[8] = float32(math.Copysign(0, -1))
	return values
}

// E2M1 as OCP MX v1.0 has it, and the tables of bitsandbytes' get_4bit_type. Code 8 is +0.
var (
	E2M1 = [16]float32{0, 0.5, 1, 1.5, 2, 3, 4, 6, 0, -0.5, -1, -1.5, -2, -3, -4, -6}
	NF4  = [16]float32{
		-1, -0.6961928009986877, -0.5250730514526367, -0.39491748809814453,
		-0.28444138169288635, -0.18477343022823334, -0.09105003625154495, 0,
		0.07958029955625534, 0.16093020141124725, 0.24611230194568634, 0.33791524171829224,
		0.44070982933044434, 0.5626170039176941, 0.7229568362236023, 1,
	}
	BnbFP4 = [16]float32{
		0, 0.0625 / 12, 8.0 / 12, 1, 4.0 / 12, 6.0 / 12, 2.0 / 12, 3.0 / 12,
		0, -0.0625 / 12, -8.0 / 12, -1, -4.0 / 12, -6.0 / 12, -2.0 / 12, -3.0 / 12,
	}
)

// TritPowers returns the factors that move the first five digits of a fraction in base three
// into the upper byte of a word.
func TritPowers() (p [5]uint32) {
	power := uint32(1 << 8)
	for run := range p {
		p[run] = power
		power *= 3
	}
	return p
}
