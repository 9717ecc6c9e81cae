//go:build !purego

#include "textflag.h"
#include "neon_arm64.h"

// Blocks of 32.

// func q8_0NEON(dst []float32, src []byte)
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

// func q8_1NEON(dst []float32, src []byte)
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

// func q4_0NEON(dst []float32, src []byte)
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

// func iq4_NLNEON(dst []float32, src []byte)
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
// func mxfp4NEON(dst []float32, src []byte)
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

// func q4_1NEON(dst []float32, src []byte)
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

// func q5_0NEON(dst []float32, src []byte)
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

// func q5_1NEON(dst []float32, src []byte)
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
