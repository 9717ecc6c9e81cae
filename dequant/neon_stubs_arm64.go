//go:build !purego

package dequant

// neonSpread are the indices of four table lookups that move 16 bytes to the tops of 16
// lanes of 32 bits. What is out of range gives the zero below.
var neonSpread = func() (t [64]uint8) {
	for i := range t {
		t[i] = 0xff
		if i%4 == 3 {
			t[i] = uint8(i / 4)
		}
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
