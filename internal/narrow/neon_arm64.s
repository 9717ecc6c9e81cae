//go:build !purego

#include "textflag.h"

// Kernels of the neon level. narrow.go has their contract; each does what the portable loop of the same name does. R0 is where
// to store, R1 where to load, and R2 counts the numbers of src.

// What Go's assembler has no mnemonic for, as in dequant's neon_arm64.h.

#define FCMEQ4S(m, n, d)  WORD $(0x4E20E400 | (m)<<16 | (n)<<5 | (d)) // fcmeq vd.4s, vn.4s, vm.4s
#define FCVTN4H(n, d)     WORD $(0x0E216800 | (n)<<5 | (d))           // fcvtn vd.4h, vn.4s
#define FCVTN24H(n, d)    WORD $(0x4E216800 | (n)<<5 | (d))           // fcvtn2 vd.8h, vn.4s

// func f16NEON(dst []byte, src []float32)
TEXT ·f16NEON(SB), NOSPLIT, $0-48
	MOVD dst_base+0(FP), R0
	MOVD src_base+24(FP), R1
	MOVD src_len+32(FP), R2

loop:
	VLD1.P 64(R1), [V0.S4, V1.S4, V2.S4, V3.S4]
	FCVTN4H(0, 4)
	FCVTN24H(1, 4)
	FCVTN4H(2, 5)
	FCVTN24H(3, 5)
	VST1.P [V4.H8, V5.H8], 32(R0)
	SUBS   $16, R2
	BNE    loop
	RET

// ROUND_BF16 makes the upper half of v its bfloat16: it adds just less than half a last place, or
// half of one if the last place is odd, and to a NaN the quiet bit instead. V20 is 1, V21 is
// 0x7FFF, V22 the quiet bit.
#define ROUND_BF16(v, n) \
	VUSHR $16, v.S4, V16.S4 \
	VAND V20.B16, V16.B16, V16.B16 \
	VADD V21.S4, V16.S4, V16.S4 \
	VADD v.S4, V16.S4, V16.S4 \
	VORR V22.B16, v.B16, V17.B16 \
	FCMEQ4S(n, n, n) \
	VBSL V17.B16, V16.B16, v.B16

// func bf16NEON(dst []byte, src []float32)
TEXT ·bf16NEON(SB), NOSPLIT, $0-48
	MOVD  dst_base+0(FP), R0
	MOVD  src_base+24(FP), R1
	MOVD  src_len+32(FP), R2
	MOVD  $1, R3
	VDUP  R3, V20.S4
	MOVD  $0x7FFF, R3
	VDUP  R3, V21.S4
	MOVD  $0x400000, R3
	VDUP  R3, V22.S4

loop:
	VLD1.P 64(R1), [V0.S4, V1.S4, V2.S4, V3.S4]
	ROUND_BF16(V0, 0)
	ROUND_BF16(V1, 1)
	ROUND_BF16(V2, 2)
	ROUND_BF16(V3, 3)
	VUZP2  V1.H8, V0.H8, V0.H8
	VUZP2  V3.H8, V2.H8, V1.H8
	VST1.P [V0.H8, V1.H8], 32(R0)
	SUBS   $16, R2
	BNE    loop
	RET
