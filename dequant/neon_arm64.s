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

// LOAD_HALF loads a binary16 and repeats its value in every lane of v, whose number is n.
#define LOAD_HALF(v, n) \
	VLD1R.P 2(R1), [v.H4] \
	FCVTL4S(n, n)

TEXT ·q8_0NEON(SB), NOSPLIT, $0-48
	MOVD dst_base+0(FP), R0
	MOVD dst_len+8(FP), R2
	MOVD src_base+24(FP), R1
	LOAD_SPREAD

loop:
	LOAD_HALF(V18, 18)
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
	LOAD_HALF(V18, 18)
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
	LOAD_HALF(V18, 18)
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
	LOAD_HALF(V18, 18)
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
	LOAD_HALF(V18, 18)
	LOAD_HALF(V19, 19)
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
	LOAD_HALF(V18, 18)
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
	LOAD_HALF(V18, 18)
	LOAD_HALF(V19, 19)
	FIVE_BITS
	INT8S
	WITH(FMUL4S, 18, 18)
	WITH(FADD4S, 19, 19)
	STORE
	SUBS $32, R2
	BNE  loop
	RET

// Blocks of 256: runs of 16 or 32 with a scale each, and some with a min, which V8 to V11 hold.
// What is called shift is an instruction without its last two operands.

// SCALES makes numbers in V8 to V11 of the int8s in V16, times the registers m and k in turn.
#define SCALES(m, k) \
	VTBL V28.B16, [V16.B16], V8.B16 \
	VTBL V29.B16, [V16.B16], V9.B16 \
	VTBL V30.B16, [V16.B16], V10.B16 \
	VTBL V31.B16, [V16.B16], V11.B16 \
	SCVTF4S24(8, 8) \
	SCVTF4S24(9, 9) \
	SCVTF4S24(10, 10) \
	SCVTF4S24(11, 11) \
	FMUL4S(m, 8, 8) \
	FMUL4S(k, 9, 9) \
	FMUL4S(m, 10, 10) \
	FMUL4S(k, 11, 11)

// SHIFT brings bits of v and w to their place in V16 and V17.
#define SHIFT(shift, v, w) \
	shift, v.B16, V16.B16 \
	shift, w.B16, V17.B16

// INSERT adds the bits that the mask selects from v and w, shifted. It uses V26 and V27.
#define INSERT(mask, shift, v, w) \
	shift, v.B16, V26.B16 \
	shift, w.B16, V27.B16 \
	VBIT mask.B16, V26.B16, V16.B16 \
	VBIT mask.B16, V27.B16, V17.B16

// SUB_BYTES subtracts v from both V16 and V17, AND_BYTES keeps the bits of v.
#define SUB_BYTES(v) \
	VSUB v.B16, V16.B16, V16.B16 \
	VSUB v.B16, V17.B16, V17.B16

#define AND_BYTES(v) \
	VAND v.B16, V16.B16, V16.B16 \
	VAND v.B16, V17.B16, V17.B16

// SCALE_RUNS expands two runs of 16 by lanes i and j of s.
#define SCALE_RUNS(s, i, j) \
	VDUP s.S[i], V18.S4 \
	VDUP s.S[j], V19.S4 \
	INT8S \
	WITH(FMUL4S, 18, 19)

// AFFINE_RUN expands a run of 32 by lane i of s, less lane i of m.
#define AFFINE_RUN(s, m, i) \
	VDUP s.S[i], V18.S4 \
	VDUP m.S[i], V19.S4 \
	INT8S \
	WITH(FMUL4S, 18, 18) \
	WITH(FSUB4S, 19, 19) \
	STORE

// Q2_RUNS expands two runs of V24 and V25. V21 is 3.
#define Q2_RUNS(shift, s, m, i, j) \
	SHIFT(shift, V24, V25) \
	AND_BYTES(V21) \
	SCALE_RUNS(s, i, j) \
	VDUP m.S[i], V18.S4 \
	VDUP m.S[j], V19.S4 \
	WITH(FSUB4S, 18, 19) \
	STORE

// Q2_HALF expands eight runs by the scales and mins that zip picks from V12 and V13.
#define Q2_HALF(zip) \
	zip V13.S4, V12.S4, V16.S4 \
	SCALES(14, 15) \
	VLD1.P 32(R1), [V24.B16, V25.B16] \
	Q2_RUNS(VSHL $0, V8, V9, 0, 1) \
	Q2_RUNS(VUSHR $2, V8, V9, 2, 3) \
	Q2_RUNS(VUSHR $4, V10, V11, 0, 1) \
	Q2_RUNS(VUSHR $6, V10, V11, 2, 3)

TEXT ·q2_KNEON(SB), NOSPLIT, $0-48
	MOVD  dst_base+0(FP), R0
	MOVD  dst_len+8(FP), R2
	MOVD  src_base+24(FP), R1
	LOAD_SPREAD
	VMOVI $15, V20.B16
	VMOVI $3, V21.B16

loop:
	ADD     $80, R1, R3
	VLD1R.P 2(R3), [V14.H4]
	VLD1R   (R3), [V15.H4]
	FCVTL4S(14, 14)
	FCVTL4S(15, 15)
	VLD1.P  16(R1), [V13.B16]
	VAND    V20.B16, V13.B16, V12.B16
	VUSHR   $4, V13.B16, V13.B16
	Q2_HALF(VZIP1)
	Q2_HALF(VZIP2)
	ADD     $4, R1
	SUBS    $256, R2
	BNE     loop
	RET

// Q3_RUNS expands two runs of V14 and V15, with a bit more from V12 and V13. V21 is 3, V24 is 4.
#define Q3_RUNS(shift, mask, s, i, j) \
	SHIFT(shift, V14, V15) \
	AND_BYTES(V21) \
	INSERT(V24, mask, V12, V13) \
	SUB_BYTES(V24) \
	SCALE_RUNS(s, i, j) \
	STORE

// The 6-bit scales: a nibble each in eight bytes, then two bits each in four, which go to bits
// 4 and 5 by a shift of their own for every lane of 32 bits.
TEXT ·q3_KNEON(SB), NOSPLIT, $0-48
	MOVD  dst_base+0(FP), R0
	MOVD  dst_len+8(FP), R2
	MOVD  src_base+24(FP), R1
	LOAD_SPREAD
	VMOVI $15, V20.B16
	VMOVI $3, V21.B16
	VMOVI $0x30, V22.B16
	VMOVI $32, V23.B16
	VMOVI $4, V24.B16

loop:
	ADD     $96, R1, R3
	VLD1.P  8(R3), [V16.B8]
	VLD1R.P 4(R3), [V17.S4]
	VLD1R   (R3), [V18.H4]
	FCVTL4S(18, 18)
	VUSHR   $4, V16.B16, V19.B16
	VMOV    V19.D[0], V16.D[1]
	VAND    V20.B16, V16.B16, V16.B16
	VSHL    $4, V17.B16, V8.B16
	VSHL    $2, V17.B16, V9.B16
	VUSHR   $2, V17.B16, V10.B16
	VMOV    V8.S[0], V17.S[0]
	VMOV    V9.S[1], V17.S[1]
	VMOV    V10.S[3], V17.S[3]
	VBIT    V22.B16, V17.B16, V16.B16
	VSUB    V23.B16, V16.B16, V16.B16
	SCALES(18, 18)
	VLD1.P  32(R1), [V12.B16, V13.B16]
	VLD1.P  32(R1), [V14.B16, V15.B16]
	Q3_RUNS(VSHL $0, VSHL $2, V8, 0, 1)
	Q3_RUNS(VUSHR $2, VSHL $1, V8, 2, 3)
	Q3_RUNS(VUSHR $4, VSHL $0, V9, 0, 1)
	Q3_RUNS(VUSHR $6, VUSHR $1, V9, 2, 3)
	VLD1.P  32(R1), [V14.B16, V15.B16]
	Q3_RUNS(VSHL $0, VUSHR $2, V10, 0, 1)
	Q3_RUNS(VUSHR $2, VUSHR $3, V10, 2, 3)
	Q3_RUNS(VUSHR $4, VUSHR $4, V11, 0, 1)
	Q3_RUNS(VUSHR $6, VUSHR $5, V11, 2, 3)
	ADD     $14, R1
	SUBS    $256, R2
	BNE     loop
	RET

// K4_SCALES loads what Q4_K and Q5_K begin with: the first four scales come to V8, the other four
// to V10, the mins to V9 and V11. V20 is 15, V21 is 63.
#define K4_SCALES \
	LOAD_HALF(V18, 18) \
	LOAD_HALF(V19, 19) \
	VLD1.P  8(R1), [V16.B8] \
	VLD1R.P 4(R1), [V12.S4] \
	VUSHR   $6, V16.B8, V13.B8 \
	VAND    V21.B16, V16.B16, V16.B16 \
	VUSHR   $4, V12.B16, V14.B16 \
	VAND    V20.B16, V12.B16, V12.B16 \
	VMOV    V14.S[1], V12.S[1] \
	VSLI    $4, V13.B8, V12.B8 \
	VMOV    V12.D[0], V16.D[1] \
	SCALES(18, 19)

// Q4_RUNS expands two runs, the low nibbles and the high ones of 32 bytes.
#define Q4_RUNS(s, m, i, j) \
	VLD1.P 32(R1), [V12.B16, V13.B16] \
	SHIFT(VAND V20.B16, V12, V13) \
	AFFINE_RUN(s, m, i) \
	SHIFT(VUSHR $4, V12, V13) \
	AFFINE_RUN(s, m, j)

TEXT ·q4_KNEON(SB), NOSPLIT, $0-48
	MOVD  dst_base+0(FP), R0
	MOVD  dst_len+8(FP), R2
	MOVD  src_base+24(FP), R1
	LOAD_SPREAD
	VMOVI $15, V20.B16
	VMOVI $63, V21.B16

loop:
	K4_SCALES
	Q4_RUNS(V8, V9, 0, 1)
	Q4_RUNS(V8, V9, 2, 3)
	Q4_RUNS(V10, V11, 0, 1)
	Q4_RUNS(V10, V11, 2, 3)
	SUBS  $256, R2
	BNE   loop
	RET

// Q5_RUNS is Q4_RUNS with a bit more from V24 and V25. V22 is 16.
#define Q5_RUNS(low, high, s, m, i, j) \
	VLD1.P 32(R1), [V12.B16, V13.B16] \
	SHIFT(VAND V20.B16, V12, V13) \
	INSERT(V22, low, V24, V25) \
	AFFINE_RUN(s, m, i) \
	SHIFT(VUSHR $4, V12, V13) \
	INSERT(V22, high, V24, V25) \
	AFFINE_RUN(s, m, j)

TEXT ·q5_KNEON(SB), NOSPLIT, $0-48
	MOVD  dst_base+0(FP), R0
	MOVD  dst_len+8(FP), R2
	MOVD  src_base+24(FP), R1
	LOAD_SPREAD
	VMOVI $15, V20.B16
	VMOVI $63, V21.B16
	VMOVI $16, V22.B16

loop:
	K4_SCALES
	VLD1.P 32(R1), [V24.B16, V25.B16]
	Q5_RUNS(VSHL $4, VSHL $3, V8, V9, 0, 1)
	Q5_RUNS(VSHL $2, VSHL $1, V8, V9, 2, 3)
	Q5_RUNS(VSHL $0, VUSHR $1, V10, V11, 0, 1)
	Q5_RUNS(VUSHR $2, VUSHR $3, V10, V11, 2, 3)
	SUBS   $256, R2
	BNE    loop
	RET

// Q6_RUNS expands two runs: nibbles of v and w, two bits more from V24 and V25. V22 is 0x30, V23 is 32.
#define Q6_RUNS(nibble, v, w, shift, s, i, j) \
	SHIFT(nibble, v, w) \
	INSERT(V22, shift, V24, V25) \
	SUB_BYTES(V23) \
	SCALE_RUNS(s, i, j) \
	STORE

#define Q6_HALF(s, t) \
	VLD1.P 64(R1), [V12.B16, V13.B16, V14.B16, V15.B16] \
	VLD1.P 32(R4), [V24.B16, V25.B16] \
	Q6_RUNS(VAND V20.B16, V12, V13, VSHL $4, s, 0, 1) \
	Q6_RUNS(VAND V20.B16, V14, V15, VSHL $2, s, 2, 3) \
	Q6_RUNS(VUSHR $4, V12, V13, VSHL $0, t, 0, 1) \
	Q6_RUNS(VUSHR $4, V14, V15, VUSHR $2, t, 2, 3)

TEXT ·q6_KNEON(SB), NOSPLIT, $0-48
	MOVD  dst_base+0(FP), R0
	MOVD  dst_len+8(FP), R2
	MOVD  src_base+24(FP), R1
	LOAD_SPREAD
	VMOVI $15, V20.B16
	VMOVI $0x30, V22.B16
	VMOVI $32, V23.B16

loop:
	ADD    $128, R1, R4
	ADD    $192, R1, R3
	VLD1.P 16(R3), [V16.B16]
	VLD1R  (R3), [V18.H4]
	FCVTL4S(18, 18)
	SCALES(18, 18)
	Q6_HALF(V8, V9)
	Q6_HALF(V10, V11)
	ADD    $82, R1
	SUBS   $256, R2
	BNE    loop
	RET

// The scale of a run, R6, takes its upper two bits from R4 and the nibble from R5.
TEXT ·iq4_XSNEON(SB), NOSPLIT, $0-48
	MOVD dst_base+0(FP), R0
	MOVD dst_len+8(FP), R2
	MOVD src_base+24(FP), R1
	LOAD_SPREAD
	LOAD_CODES($·neonIQ4Codes(SB))

loop:
	LOAD_HALF(V18, 18)
	MOVHU.P 2(R1), R4
	MOVWU.P 4(R1), R5
	MOVD    $8, R7

run:
	AND  $15, R5, R6
	BFI  $4, R4, $2, R6
	SUB  $32, R6
	VDUP R6, V19.S4
	SCVTF4S(19, 19)
	FMUL4S(18, 19, 19)
	LSR  $2, R4
	LSR  $4, R5
	CODED_NIBBLES
	INT8S
	WITH(FMUL4S, 19, 19)
	STORE
	SUB  $1, R7
	CBNZ R7, run
	SUBS $256, R2
	BNE  loop
	RET
