//go:build !purego

#include "textflag.h"

// Operands of the words are register numbers in Go's order, the destination last.
#define SDOT(m, n, d)   WORD $(0x4E809400 | (m)<<16 | (n)<<5 | (d)) // sdot vd.4s, vn.16b, vm.16b
#define FADD4S(m, n, d) WORD $(0x4E20D400 | (m)<<16 | (n)<<5 | (d)) // fadd vd.4s, vn.4s, vm.4s
#define FMUL4S(m, n, d) WORD $(0x6E20DC00 | (m)<<16 | (n)<<5 | (d)) // fmul vd.4s, vn.4s, vm.4s

// SUMS makes the sums of two blocks, four halves. The activation's halves lie 32 bytes apart, from at on.
#define SUMS(at) \
	VLD1.P 64(R1), [V0.B16, V1.B16, V2.B16, V3.B16] \
	FMOVQ  (at+0)(R2), F4 \
	FMOVQ  (at+32)(R2), F5 \
	FMOVQ  (at+64)(R2), F6 \
	FMOVQ  (at+96)(R2), F7 \
	VEOR   V16.B16, V16.B16, V16.B16 \
	VEOR   V17.B16, V17.B16, V17.B16 \
	VEOR   V18.B16, V18.B16, V18.B16 \
	VEOR   V19.B16, V19.B16, V19.B16 \
	SDOT(4, 0, 16) \
	SDOT(5, 1, 17) \
	SDOT(6, 2, 18) \
	SDOT(7, 3, 19) \
	VADDP  V17.S4, V16.S4, V16.S4 \
	VADDP  V19.S4, V18.S4, V18.S4 \
	VADDP  V18.S4, V16.S4, V16.S4 \
	VST1.P [V16.S4], 16(R0)

// func sumsNEON(sums *int32, q, y *int8)
TEXT ·sumsNEON(SB), NOSPLIT, $0-24
	MOVD sums+0(FP), R0
	MOVD q+8(FP), R1
	MOVD y+16(FP), R2
	SUMS(0)
	SUMS(128)
	SUMS(16)
	SUMS(144)
	RET

// ROWS multiplies rows of R4 floats from R2 on with those from R3 on.
#define ROWS(row, numbers) \
row: \
	VEOR  V0.B16, V0.B16, V0.B16 \
	VEOR  V1.B16, V1.B16, V1.B16 \
	VEOR  V2.B16, V2.B16, V2.B16 \
	VEOR  V3.B16, V3.B16, V3.B16 \
	VEOR  V4.B16, V4.B16, V4.B16 \
	VEOR  V5.B16, V5.B16, V5.B16 \
	VEOR  V6.B16, V6.B16, V6.B16 \
	VEOR  V7.B16, V7.B16, V7.B16 \
	MOVD  R3, R5 \
	MOVD  R4, R6 \
numbers: \
	VLD1.P 64(R2), [V16.B16, V17.B16, V18.B16, V19.B16] \
	VLD1.P 64(R2), [V20.B16, V21.B16, V22.B16, V23.B16] \
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
	SUBS  $32, R6 \
	BNE   numbers \
	FADD4S(4, 0, 0) \
	FADD4S(5, 1, 1) \
	FADD4S(6, 2, 2) \
	FADD4S(7, 3, 3) \
	FADD4S(2, 0, 0) \
	FADD4S(3, 1, 1) \
	FADD4S(1, 0, 0) \
	VEXT  $8, V0.B16, V0.B16, V1.B16 \
	FADD4S(1, 0, 0) \
	VEXT  $4, V0.B16, V0.B16, V1.B16 \
	FADD4S(1, 0, 0) \
	FMOVS.P F0, 4(R0) \
	SUBS  $1, R1 \
	BNE   row \
	RET

// func floatsNEON(dst, rows, x []float32)
TEXT ·floatsNEON(SB), NOSPLIT, $0-72
	MOVD dst_base+0(FP), R0
	MOVD dst_len+8(FP), R1
	MOVD rows_base+24(FP), R2
	MOVD x_base+48(FP), R3
	MOVD x_len+56(FP), R4
	ROWS(row, numbers)

// func f32NEON(dst []float32, rows []byte, x []float32)
TEXT ·f32NEON(SB), NOSPLIT, $0-72
	MOVD dst_base+0(FP), R0
	MOVD dst_len+8(FP), R1
	MOVD rows_base+24(FP), R2
	MOVD x_base+48(FP), R3
	MOVD x_len+56(FP), R4
	ROWS(row, numbers)
