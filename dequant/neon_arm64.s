//go:build !purego

#include "textflag.h"
#include "neon_arm64.h"

// WIDEN loads 32 halves and moves them to the tops of the lanes of V0 to V7. V28 is zero.
#define WIDEN \
	VLD1.P 64(R1), [V8.H8, V9.H8, V10.H8, V11.H8] \
	VZIP1 V8.H8, V28.H8, V0.H8 \
	VZIP2 V8.H8, V28.H8, V1.H8 \
	VZIP1 V9.H8, V28.H8, V2.H8 \
	VZIP2 V9.H8, V28.H8, V3.H8 \
	VZIP1 V10.H8, V28.H8, V4.H8 \
	VZIP2 V10.H8, V28.H8, V5.H8 \
	VZIP1 V11.H8, V28.H8, V6.H8 \
	VZIP2 V11.H8, V28.H8, V7.H8

// EIGHT_HALVES expands V8 to V0 and V1. FCVTL quiets a signalling NaN, so its quiet bit is copied
// from the half: it is ANDed with V2 and V3, which have all other bits set, and that one where
// FCMEQ finds no NaN. V19 has all bits set but that one.
#define EIGHT_HALVES \
	FCVTL4S(8, 0) \
	FCVTL24S(8, 1) \
	VUSHLL $13, V8.H4, V2.S4 \
	VUSHLL2 $13, V8.H8, V3.S4 \
	FCMEQ4S(0, 0, 4) \
	FCMEQ4S(1, 1, 5) \
	VORR V19.B16, V2.B16, V2.B16 \
	VORR V19.B16, V3.B16, V3.B16 \
	VORR V4.B16, V2.B16, V2.B16 \
	VORR V5.B16, V3.B16, V3.B16 \
	VAND V2.B16, V0.B16, V0.B16 \
	VAND V3.B16, V1.B16, V1.B16

#define LOAD_QUIET \
	MOVD $0xFFBFFFFF, R3 \
	VDUP R3, V19.S4

// Halves without a NaN go 32 at a time; with one, and the last few, eight at a time.
// func f16NEON(dst []float32, src []byte)
TEXT ·f16NEON(SB), NOSPLIT, $0-48
	MOVD dst_base+0(FP), R0
	MOVD dst_len+8(FP), R2
	MOVD src_base+24(FP), R1
	LOAD_QUIET

loop:
	CMP    $32, R2
	BLT    few
	VLD1.P 64(R1), [V8.H8, V9.H8, V10.H8, V11.H8]
	VSHL   $1, V8.H8, V12.H8
	VSHL   $1, V9.H8, V13.H8
	VSHL   $1, V10.H8, V14.H8
	VSHL   $1, V11.H8, V15.H8
	VUMAX  V12.H8, V13.H8, V12.H8
	VUMAX  V14.H8, V15.H8, V14.H8
	VUMAX  V12.H8, V14.H8, V12.H8
	UMAXV8H(12, 12)
	VMOV   V12.H[0], R3
	CMPW   $0xF800, R3 // infinity, its sign shifted out
	BHI    nan
	FCVTL4S(8, 0)
	FCVTL24S(8, 1)
	FCVTL4S(9, 2)
	FCVTL24S(9, 3)
	FCVTL4S(10, 4)
	FCVTL24S(10, 5)
	FCVTL4S(11, 6)
	FCVTL24S(11, 7)
	STORE
	SUB    $32, R2
	CBNZ   R2, loop
	RET

nan:
	SUB  $64, R1
	MOVD $32, R4
	B    eight

few:
	MOVD R2, R4

eight:
	VLD1.P 16(R1), [V8.H8]
	EIGHT_HALVES
	VST1.P [V0.S4, V1.S4], 32(R0)
	SUB    $8, R2
	SUBS   $8, R4
	BNE    eight
	CBNZ   R2, loop
	RET

// E5M2 is the upper byte of a half.
// func f8e5m2NEON(dst []float32, src []byte)
TEXT ·f8e5m2NEON(SB), NOSPLIT, $0-48
	MOVD dst_base+0(FP), R0
	MOVD dst_len+8(FP), R2
	MOVD src_base+24(FP), R1
	LOAD_QUIET
	VEOR V28.B16, V28.B16, V28.B16

loop:
	VLD1.P 8(R1), [V8.B8]
	VZIP1  V8.B16, V28.B16, V8.B16
	EIGHT_HALVES
	VST1.P [V0.S4, V1.S4], 32(R0)
	SUBS   $8, R2
	BNE    loop
	RET

// E4M3 with its bits in a half's place is 2^8 times too small, subnormals too. Its NaN is
// then 480, which lacks some bits of the exponent.
// func f8e4m3NEON(dst []float32, src []byte)
TEXT ·f8e4m3NEON(SB), NOSPLIT, $0-48
	MOVD  dst_base+0(FP), R0
	MOVD  dst_len+8(FP), R2
	MOVD  src_base+24(FP), R1
	MOVD  $0x4000, R3
	VDUP  R3, V20.H8
	MOVD  $0x43800000, R3 // 2^8
	VDUP  R3, V21.S4
	MOVD  $0x7FFFFFFF, R3
	VDUP  R3, V22.S4
	MOVD  $0x43F00000, R3 // 480
	VDUP  R3, V23.S4
	MOVD  $0x7F800000, R3
	VDUP  R3, V24.S4

loop:
	VLD1.P 8(R1), [V8.B8]
	VUSHLL $7, V8.B8, V8.H8
	VAND   V20.B16, V8.B16, V9.B16 // the sign, one bit too low
	VADD   V9.H8, V8.H8, V8.H8
	FCVTL4S(8, 0)
	FCVTL24S(8, 1)
	FMUL4S(21, 0, 0)
	FMUL4S(21, 1, 1)
	VAND   V22.B16, V0.B16, V2.B16
	VAND   V22.B16, V1.B16, V3.B16
	VCMEQ  V23.S4, V2.S4, V2.S4
	VCMEQ  V23.S4, V3.S4, V3.S4
	VAND   V24.B16, V2.B16, V2.B16
	VAND   V24.B16, V3.B16, V3.B16
	VORR   V2.B16, V0.B16, V0.B16
	VORR   V3.B16, V1.B16, V1.B16
	VST1.P [V0.S4, V1.S4], 32(R0)
	SUBS   $8, R2
	BNE    loop
	RET

// func f64NEON(dst []float32, src []byte)
TEXT ·f64NEON(SB), NOSPLIT, $0-48
	MOVD dst_base+0(FP), R0
	MOVD dst_len+8(FP), R2
	MOVD src_base+24(FP), R1

loop:
	VLD1.P 64(R1), [V8.D2, V9.D2, V10.D2, V11.D2]
	FCVTN2S(8, 0)
	FCVTN22S(9, 0)
	FCVTN2S(10, 1)
	FCVTN22S(11, 1)
	VST1.P [V0.S4, V1.S4], 32(R0)
	SUBS   $8, R2
	BNE    loop
	RET

// func bf16NEON(dst []float32, src []byte)
TEXT ·bf16NEON(SB), NOSPLIT, $0-48
	MOVD dst_base+0(FP), R0
	MOVD dst_len+8(FP), R2
	MOVD src_base+24(FP), R1
	VEOR V28.B16, V28.B16, V28.B16

loop:
	WIDEN
	STORE
	SUBS $32, R2
	BNE  loop
	RET

// func i8NEON(dst []float32, src []byte)
TEXT ·i8NEON(SB), NOSPLIT, $0-48
	MOVD dst_base+0(FP), R0
	MOVD dst_len+8(FP), R2
	MOVD src_base+24(FP), R1
	LOAD_SPREAD

loop:
	VLD1.P 32(R1), [V16.B16, V17.B16]
	INT8S
	STORE
	SUBS $32, R2
	BNE  loop
	RET

// func u8NEON(dst []float32, src []byte)
TEXT ·u8NEON(SB), NOSPLIT, $0-48
	MOVD dst_base+0(FP), R0
	MOVD dst_len+8(FP), R2
	MOVD src_base+24(FP), R1
	LOAD_SPREAD

loop:
	VLD1.P 32(R1), [V16.B16, V17.B16]
	SPREAD
	ALL(UCVTF4S24)
	STORE
	SUBS $32, R2
	BNE  loop
	RET

// func boolNEON(dst []float32, src []byte)
TEXT ·boolNEON(SB), NOSPLIT, $0-48
	MOVD  dst_base+0(FP), R0
	MOVD  dst_len+8(FP), R2
	MOVD  src_base+24(FP), R1
	LOAD_SPREAD
	VMOVI $1, V20.B16

loop:
	VLD1.P 32(R1), [V16.B16, V17.B16]
	VUMIN  V20.B16, V16.B16, V16.B16
	VUMIN  V20.B16, V17.B16, V17.B16
	INT8S
	STORE
	SUBS   $32, R2
	BNE    loop
	RET

// func i16NEON(dst []float32, src []byte)
TEXT ·i16NEON(SB), NOSPLIT, $0-48
	MOVD dst_base+0(FP), R0
	MOVD dst_len+8(FP), R2
	MOVD src_base+24(FP), R1
	VEOR V28.B16, V28.B16, V28.B16

loop:
	WIDEN
	ALL(SCVTF4S16)
	STORE
	SUBS $32, R2
	BNE  loop
	RET

// func u16NEON(dst []float32, src []byte)
TEXT ·u16NEON(SB), NOSPLIT, $0-48
	MOVD dst_base+0(FP), R0
	MOVD dst_len+8(FP), R2
	MOVD src_base+24(FP), R1
	VEOR V28.B16, V28.B16, V28.B16

loop:
	WIDEN
	ALL(UCVTF4S16)
	STORE
	SUBS $32, R2
	BNE  loop
	RET

// func i32NEON(dst []float32, src []byte)
TEXT ·i32NEON(SB), NOSPLIT, $0-48
	MOVD dst_base+0(FP), R0
	MOVD dst_len+8(FP), R2
	MOVD src_base+24(FP), R1

loop:
	VLD1.P 64(R1), [V0.S4, V1.S4, V2.S4, V3.S4]
	VLD1.P 64(R1), [V4.S4, V5.S4, V6.S4, V7.S4]
	ALL(SCVTF4S)
	STORE
	SUBS $32, R2
	BNE  loop
	RET

// func u32NEON(dst []float32, src []byte)
TEXT ·u32NEON(SB), NOSPLIT, $0-48
	MOVD dst_base+0(FP), R0
	MOVD dst_len+8(FP), R2
	MOVD src_base+24(FP), R1

loop:
	VLD1.P 64(R1), [V0.S4, V1.S4, V2.S4, V3.S4]
	VLD1.P 64(R1), [V4.S4, V5.S4, V6.S4, V7.S4]
	ALL(UCVTF4S)
	STORE
	SUBS $32, R2
	BNE  loop
	RET

// LOAD_SCALE puts the scale in every lane of V18, the zero point in those of V19 as a number.
// The caller keeps it small enough for every difference to be exact.
#define LOAD_SCALE \
	VDUP R3, V18.S4 \
	VDUP R4, V19.S4 \
	SCVTF4S(19, 19)

// func i8ScaledNEON(dst []float32, src []byte, scale float32, zero int32)
TEXT ·i8ScaledNEON(SB), NOSPLIT, $0-56
	MOVD dst_base+0(FP), R0
	MOVD dst_len+8(FP), R2
	MOVD src_base+24(FP), R1
	MOVW scale+48(FP), R3
	MOVW zero+52(FP), R4
	LOAD_SCALE
	LOAD_SPREAD

loop:
	VLD1.P 32(R1), [V16.B16, V17.B16]
	INT8S
	WITH(FSUB4S, 19, 19)
	WITH(FMUL4S, 18, 18)
	STORE
	SUBS $32, R2
	BNE  loop
	RET

// func i16ScaledNEON(dst []float32, src []byte, scale float32, zero int32)
TEXT ·i16ScaledNEON(SB), NOSPLIT, $0-56
	MOVD dst_base+0(FP), R0
	MOVD dst_len+8(FP), R2
	MOVD src_base+24(FP), R1
	MOVW scale+48(FP), R3
	MOVW zero+52(FP), R4
	LOAD_SCALE
	VEOR V28.B16, V28.B16, V28.B16

loop:
	WIDEN
	ALL(SCVTF4S16)
	WITH(FSUB4S, 19, 19)
	WITH(FMUL4S, 18, 18)
	STORE
	SUBS $32, R2
	BNE  loop
	RET
