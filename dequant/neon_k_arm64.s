//go:build !purego

#include "textflag.h"
#include "neon_arm64.h"

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

// INSERT puts there the bits that the mask selects from v and w, shifted. It uses V26 and V27.
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

// func q2_KNEON(dst []float32, src []byte)
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
// func q3_KNEON(dst []float32, src []byte)
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

// func q4_KNEON(dst []float32, src []byte)
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

// func q5_KNEON(dst []float32, src []byte)
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

// func q6_KNEON(dst []float32, src []byte)
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
// func iq4_XSNEON(dst []float32, src []byte)
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
