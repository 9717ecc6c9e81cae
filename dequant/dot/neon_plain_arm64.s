//go:build !purego

#include "textflag.h"
#include "neon_arm64.h"

// PLAIN multiplies rows of R4 numbers from R2 on with those from R3 on. widen makes floats of 32 in V16 to V23.
#define PLAIN(widen) \
	MOVD dst_base+0(FP), R0 \
	MOVD dst_len+8(FP), R1 \
	MOVD rows_base+24(FP), R2 \
	MOVD x_base+48(FP), R3 \
	MOVD x_len+56(FP), R4 \
row: \
	ZERO(0) \
	ZERO(1) \
	ZERO(2) \
	ZERO(3) \
	ZERO(4) \
	ZERO(5) \
	ZERO(6) \
	ZERO(7) \
	MOVD R3, R5 \
	MOVD R4, R6 \
numbers: \
	widen \
	VLD1.P 64(R5), [V24.B16, V25.B16, V26.B16, V27.B16] \
	VLD1.P 64(R5), [V28.B16, V29.B16, V30.B16, V31.B16] \
	FMUL4S(24, 16, 16) \
	FMUL4S(25, 17, 17) \
	FMUL4S(26, 18, 18) \
	FMUL4S(27, 19, 19) \
	FMUL4S(28, 20, 20) \
	FMUL4S(29, 21, 21) \
	FMUL4S(30, 22, 22) \
	FMUL4S(31, 23, 23) \
	FADD4S(16, 0, 0) \
	FADD4S(17, 1, 1) \
	FADD4S(18, 2, 2) \
	FADD4S(19, 3, 3) \
	FADD4S(20, 4, 4) \
	FADD4S(21, 5, 5) \
	FADD4S(22, 6, 6) \
	FADD4S(23, 7, 7) \
	SUBS $32, R6 \
	BNE  numbers \
	FADD4S(4, 0, 0) \
	FADD4S(5, 1, 1) \
	FADD4S(6, 2, 2) \
	FADD4S(7, 3, 3) \
	FADD4S(2, 0, 30) \
	FADD4S(3, 1, 31) \
	TOTAL \
	SUBS $1, R1 \
	BNE  row \
	RET

#define FLOATS \
	VLD1.P 64(R2), [V16.B16, V17.B16, V18.B16, V19.B16] \
	VLD1.P 64(R2), [V20.B16, V21.B16, V22.B16, V23.B16]

// func floatsNEON(dst []float32, rows []float32, x []float32)
TEXT ·floatsNEON(SB), NOSPLIT, $0-72
	PLAIN(FLOATS)

// func f32NEON(dst []float32, rows []byte, x []float32)
TEXT ·f32NEON(SB), NOSPLIT, $0-72
	PLAIN(FLOATS)

// FROM_HALVES converts the binary16s of V24 to V27.
#define FROM_HALVES \
	FCVTL4S(24, 16) \
	FCVTL24S(24, 17) \
	FCVTL4S(25, 18) \
	FCVTL24S(25, 19) \
	FCVTL4S(26, 20) \
	FCVTL24S(26, 21) \
	FCVTL4S(27, 22) \
	FCVTL24S(27, 23)

#define F16 \
	VLD1.P 64(R2), [V24.B16, V25.B16, V26.B16, V27.B16] \
	FROM_HALVES

// func f16NEON(dst []float32, rows []byte, x []float32)
TEXT ·f16NEON(SB), NOSPLIT, $0-72
	PLAIN(F16)

// BF16_EIGHT makes floats of eight BF16s: their upper halves. V8 is 0.
#define BF16_EIGHT(u, v, w) \
	VZIP1 u.H8, V8.H8, v.H8 \
	VZIP2 u.H8, V8.H8, w.H8

#define BF16 \
	VLD1.P 64(R2), [V24.B16, V25.B16, V26.B16, V27.B16] \
	BF16_EIGHT(V24, V16, V17) \
	BF16_EIGHT(V25, V18, V19) \
	BF16_EIGHT(V26, V20, V21) \
	BF16_EIGHT(V27, V22, V23)

// func bf16NEON(dst []float32, rows []byte, x []float32)
TEXT ·bf16NEON(SB), NOSPLIT, $0-72
	ZERO(8)
	PLAIN(BF16)

// An E5M2 is the upper byte of a binary16.
#define E5M2 \
	VLD1.P 32(R2), [V28.B16, V29.B16] \
	VZIP1  V28.B16, V8.B16, V24.B16 \
	VZIP2  V28.B16, V8.B16, V25.B16 \
	VZIP1  V29.B16, V8.B16, V26.B16 \
	VZIP2  V29.B16, V8.B16, V27.B16 \
	FROM_HALVES

// func f8e5m2NEON(dst []float32, rows []byte, x []float32)
TEXT ·f8e5m2NEON(SB), NOSPLIT, $0-72
	ZERO(8)
	PLAIN(E5M2)

// An E4M3 is a binary16 but for the exponent's bias, and NaNs. V9 is 0x7f, V10 0x80 and V11 256.
#define E4M3_HALVES(u, v, w) \
	VAND  V9.B16, u.B16, V30.B16 \
	VCMEQ V9.B16, V30.B16, V31.B16 \
	VUSHR $1, V30.B16, V30.B16 \
	VBIT  V10.B16, u.B16, V30.B16 \
	VBIT  V31.B16, V9.B16, V30.B16 \
	VSHL  $7, u.B16, V31.B16 \
	VZIP1 V30.B16, V31.B16, v.B16 \
	VZIP2 V30.B16, V31.B16, w.B16

#define E4M3 \
	VLD1.P 32(R2), [V28.B16, V29.B16] \
	E4M3_HALVES(V28, V24, V25) \
	E4M3_HALVES(V29, V26, V27) \
	FROM_HALVES \
	FMUL4S(11, 16, 16) \
	FMUL4S(11, 17, 17) \
	FMUL4S(11, 18, 18) \
	FMUL4S(11, 19, 19) \
	FMUL4S(11, 20, 20) \
	FMUL4S(11, 21, 21) \
	FMUL4S(11, 22, 22) \
	FMUL4S(11, 23, 23)

// func f8e4m3NEON(dst []float32, rows []byte, x []float32)
TEXT ·f8e4m3NEON(SB), NOSPLIT, $0-72
	VMOVI $0x7f, V9.B16
	VMOVI $0x80, V10.B16
	MOVD  $0x43800000, R7 // 256
	VDUP  R7, V11.S4
	PLAIN(E4M3)

#define INT8S \
	VLD1.P 32(R2), [V24.B16, V25.B16] \
	SXTL8H(24, 26) \
	SXTL28H(24, 27) \
	SXTL8H(25, 28) \
	SXTL28H(25, 29) \
	SXTL4S(26, 16) \
	SXTL24S(26, 17) \
	SXTL4S(27, 18) \
	SXTL24S(27, 19) \
	SXTL4S(28, 20) \
	SXTL24S(28, 21) \
	SXTL4S(29, 22) \
	SXTL24S(29, 23) \
	SCVTF4S(16, 16) \
	SCVTF4S(17, 17) \
	SCVTF4S(18, 18) \
	SCVTF4S(19, 19) \
	SCVTF4S(20, 20) \
	SCVTF4S(21, 21) \
	SCVTF4S(22, 22) \
	SCVTF4S(23, 23)

// func i8NEON(dst []float32, rows []byte, x []float32)
TEXT ·i8NEON(SB), NOSPLIT, $0-72
	PLAIN(INT8S)
