//go:build !purego

#include "textflag.h"

// Kernels of the neon level. impl.go has their contract; each does what the portable loop of
// the same name does.
//
// All of them make 32 numbers at a time in V0 to V7, first from integers, then by scaling:
//
//	R0       where to store
//	R1       where to load
//	R2       how many numbers are still to come
//	V0-V7    32 numbers
//	V16, V17 32 int8s on their way there
//	V18, V19 scale and offset
//	V28-V31  neonSpread
//	other V  named where they are loaded

// What Go's assembler has no mnemonic for. Operands are register numbers in Go's order, the
// destination last. The comments say the same to the GNU assembler: TestNEONEncodings lets it
// assemble them, and compares with what Go made of the macro.

#define FADD4S(m, n, d)   WORD $(0x4E20D400 | (m)<<16 | (n)<<5 | (d)) // fadd vd.4s, vn.4s, vm.4s
#define FSUB4S(m, n, d)   WORD $(0x4EA0D400 | (m)<<16 | (n)<<5 | (d)) // fsub vd.4s, vn.4s, vm.4s
#define FMUL4S(m, n, d)   WORD $(0x6E20DC00 | (m)<<16 | (n)<<5 | (d)) // fmul vd.4s, vn.4s, vm.4s
#define FCMEQ4S(m, n, d)  WORD $(0x4E20E400 | (m)<<16 | (n)<<5 | (d)) // fcmeq vd.4s, vn.4s, vm.4s
#define FCVTL4S(n, d)     WORD $(0x0E217800 | (n)<<5 | (d))           // fcvtl vd.4s, vn.4h
#define FCVTL24S(n, d)    WORD $(0x4E217800 | (n)<<5 | (d))           // fcvtl2 vd.4s, vn.8h
#define UMAXV8H(n, d)     WORD $(0x6E70A800 | (n)<<5 | (d))           // umaxv hd, vn.8h
#define SCVTF4S(n, d)     WORD $(0x4E21D800 | (n)<<5 | (d))           // scvtf vd.4s, vn.4s
#define UCVTF4S(n, d)     WORD $(0x6E21D800 | (n)<<5 | (d))           // ucvtf vd.4s, vn.4s
#define SCVTF4S16(n, d)   WORD $(0x4F30E400 | (n)<<5 | (d))           // scvtf vd.4s, vn.4s, #16
#define UCVTF4S16(n, d)   WORD $(0x6F30E400 | (n)<<5 | (d))           // ucvtf vd.4s, vn.4s, #16
#define SCVTF4S24(n, d)   WORD $(0x4F28E400 | (n)<<5 | (d))           // scvtf vd.4s, vn.4s, #24
#define UCVTF4S24(n, d)   WORD $(0x6F28E400 | (n)<<5 | (d))           // ucvtf vd.4s, vn.4s, #24

#define LOAD_SPREAD \
	MOVD $·neonSpread(SB), R3 \
	VLD1 (R3), [V28.B16, V29.B16, V30.B16, V31.B16]

// SPREAD moves the 32 bytes of V16 and V17 to the tops of the 32-bit lanes of V0 to V7.
#define SPREAD \
	VTBL V28.B16, [V16.B16], V0.B16 \
	VTBL V29.B16, [V16.B16], V1.B16 \
	VTBL V30.B16, [V16.B16], V2.B16 \
	VTBL V31.B16, [V16.B16], V3.B16 \
	VTBL V28.B16, [V17.B16], V4.B16 \
	VTBL V29.B16, [V17.B16], V5.B16 \
	VTBL V30.B16, [V17.B16], V6.B16 \
	VTBL V31.B16, [V17.B16], V7.B16

// INT8S converts the 32 int8s of V16 and V17. Spread, each is 2^24 times itself, so a
// conversion that takes 24 bits as the fraction gives its value.
#define INT8S \
	SPREAD \
	ALL(SCVTF4S24)

#define ALL(op) \
	op(0, 0) \
	op(1, 1) \
	op(2, 2) \
	op(3, 3) \
	op(4, 4) \
	op(5, 5) \
	op(6, 6) \
	op(7, 7)

// WITH applies op and register m to the first 16 numbers, op and register k to the other 16.
#define WITH(op, m, k) \
	op(m, 0, 0) \
	op(m, 1, 1) \
	op(m, 2, 2) \
	op(m, 3, 3) \
	op(k, 4, 4) \
	op(k, 5, 5) \
	op(k, 6, 6) \
	op(k, 7, 7)

#define STORE \
	VST1.P [V0.S4, V1.S4, V2.S4, V3.S4], 64(R0) \
	VST1.P [V4.S4, V5.S4, V6.S4, V7.S4], 64(R0)

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

// FCVTL quiets a signalling NaN. So 32 halves with a NaN among them go, like the last few, a
// slower way in eights, where the bit that says quiet is copied from the half.
TEXT ·f16NEON(SB), NOSPLIT, $0-48
	MOVD dst_base+0(FP), R0
	MOVD dst_len+8(FP), R2
	MOVD src_base+24(FP), R1
	MOVD $0xFFBFFFFF, R3 // all but the quiet bit
	VDUP R3, V19.S4

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
	VLD1.P  16(R1), [V8.H8]
	FCVTL4S(8, 0)
	FCVTL24S(8, 1)
	VUSHLL  $13, V8.H4, V2.S4
	VUSHLL2 $13, V8.H8, V3.S4
	FCMEQ4S(0, 0, 4) // all ones but for a NaN
	FCMEQ4S(1, 1, 5)
	VORR    V19.B16, V2.B16, V2.B16
	VORR    V19.B16, V3.B16, V3.B16
	VORR    V4.B16, V2.B16, V2.B16
	VORR    V5.B16, V3.B16, V3.B16
	VAND    V2.B16, V0.B16, V0.B16
	VAND    V3.B16, V1.B16, V1.B16
	VST1.P  [V0.S4, V1.S4], 32(R0)
	SUB     $8, R2
	SUBS    $8, R4
	BNE     eight
	CBNZ    R2, loop
	RET

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

// Blocks of 32.

// LOAD_HALF loads a binary16 and repeats its value in every lane of register n, which is also vec.
#define LOAD_HALF(vec, n) \
	VLD1R.P 2(R1), [vec] \
	FCVTL4S(n, n)

TEXT ·q8_0NEON(SB), NOSPLIT, $0-48
	MOVD dst_base+0(FP), R0
	MOVD dst_len+8(FP), R2
	MOVD src_base+24(FP), R1
	LOAD_SPREAD

loop:
	LOAD_HALF(V18.H4, 18)
	VLD1.P 32(R1), [V16.B16, V17.B16]
	INT8S
	WITH(FMUL4S, 18, 18)
	STORE
	SUBS $32, R2
	BNE  loop
	RET

TEXT ·q8_1NEON(SB), NOSPLIT, $0-48
	MOVD dst_base+0(FP), R0
	MOVD dst_len+8(FP), R2
	MOVD src_base+24(FP), R1
	LOAD_SPREAD

loop:
	LOAD_HALF(V18.H4, 18)
	ADD    $2, R1 // the sum
	VLD1.P 32(R1), [V16.B16, V17.B16]
	INT8S
	WITH(FMUL4S, 18, 18)
	STORE
	SUBS $32, R2
	BNE  loop
	RET

// NIBBLES loads 16 bytes; their low nibbles come first. V20 is 15 in every byte.
#define NIBBLES \
	VLD1.P 16(R1), [V17.B16] \
	VAND V20.B16, V17.B16, V16.B16 \
	VUSHR $4, V17.B16, V17.B16

// CODED_NIBBLES has V21 give the int8 that a nibble stands for.
#define CODED_NIBBLES \
	NIBBLES \
	VTBL V16.B16, [V21.B16], V16.B16 \
	VTBL V17.B16, [V21.B16], V17.B16

#define LOAD_CODES(table) \
	MOVD table, R3 \
	VLD1 (R3), [V21.B16] \
	VMOVI $15, V20.B16

TEXT ·q4_0NEON(SB), NOSPLIT, $0-48
	MOVD dst_base+0(FP), R0
	MOVD dst_len+8(FP), R2
	MOVD src_base+24(FP), R1
	LOAD_SPREAD
	LOAD_CODES($·neonQ4Codes(SB))

loop:
	LOAD_HALF(V18.H4, 18)
	CODED_NIBBLES
	INT8S
	WITH(FMUL4S, 18, 18)
	STORE
	SUBS $32, R2
	BNE  loop
	RET

TEXT ·iq4_NLNEON(SB), NOSPLIT, $0-48
	MOVD dst_base+0(FP), R0
	MOVD dst_len+8(FP), R2
	MOVD src_base+24(FP), R1
	LOAD_SPREAD
	LOAD_CODES($·neonIQ4Codes(SB))

loop:
	LOAD_HALF(V18.H4, 18)
	CODED_NIBBLES
	INT8S
	WITH(FMUL4S, 18, 18)
	STORE
	SUBS $32, R2
	BNE  loop
	RET

// A float64 has room for the exponents of all scales, where float32 needs subnormals for two.
TEXT ·mxfp4NEON(SB), NOSPLIT, $0-48
	MOVD dst_base+0(FP), R0
	MOVD dst_len+8(FP), R2
	MOVD src_base+24(FP), R1
	LOAD_SPREAD
	LOAD_CODES($·neonFP4Codes(SB))

loop:
	MOVBU.P 1(R1), R3
	ADD     $(1023-128), R3
	LSL     $52, R3
	FMOVD   R3, F18
	FCVTDS  F18, F18
	VDUP    V18.S[0], V18.S4
	CODED_NIBBLES
	INT8S
	WITH(FMUL4S, 18, 18)
	STORE
	SUBS    $32, R2
	BNE     loop
	RET

TEXT ·q4_1NEON(SB), NOSPLIT, $0-48
	MOVD  dst_base+0(FP), R0
	MOVD  dst_len+8(FP), R2
	MOVD  src_base+24(FP), R1
	LOAD_SPREAD
	VMOVI $15, V20.B16

loop:
	LOAD_HALF(V18.H4, 18)
	LOAD_HALF(V19.H4, 19)
	NIBBLES
	INT8S
	WITH(FMUL4S, 18, 18)
	WITH(FADD4S, 19, 19)
	STORE
	SUBS  $32, R2
	BNE   loop
	RET

// FIVE_BITS loads 4 bytes of upper bits, then 16 of nibbles.
#define FIVE_BITS \
	VLD1R.P 4(R1), [V10.S4] \
	VTBL V22.B16, [V10.B16], V8.B16 \
	VTBL V23.B16, [V10.B16], V9.B16 \
	VCMTST V24.B16, V8.B16, V8.B16 \
	VCMTST V24.B16, V9.B16, V9.B16 \
	NIBBLES \
	VBIT V25.B16, V8.B16, V16.B16 \
	VBIT V25.B16, V9.B16, V17.B16

#define LOAD_BITS \
	MOVD $·neonBits(SB), R3 \
	VLD1 (R3), [V22.B16, V23.B16, V24.B16] \
	VMOVI $16, V25.B16 \
	VMOVI $15, V20.B16

TEXT ·q5_0NEON(SB), NOSPLIT, $0-48
	MOVD dst_base+0(FP), R0
	MOVD dst_len+8(FP), R2
	MOVD src_base+24(FP), R1
	LOAD_SPREAD
	LOAD_BITS

loop:
	LOAD_HALF(V18.H4, 18)
	FIVE_BITS
	VSUB V25.B16, V16.B16, V16.B16
	VSUB V25.B16, V17.B16, V17.B16
	INT8S
	WITH(FMUL4S, 18, 18)
	STORE
	SUBS $32, R2
	BNE  loop
	RET

TEXT ·q5_1NEON(SB), NOSPLIT, $0-48
	MOVD dst_base+0(FP), R0
	MOVD dst_len+8(FP), R2
	MOVD src_base+24(FP), R1
	LOAD_SPREAD
	LOAD_BITS

loop:
	LOAD_HALF(V18.H4, 18)
	LOAD_HALF(V19.H4, 19)
	FIVE_BITS
	INT8S
	WITH(FMUL4S, 18, 18)
	WITH(FADD4S, 19, 19)
	STORE
	SUBS $32, R2
	BNE  loop
	RET
