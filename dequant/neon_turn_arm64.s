//go:build !purego

#include "textflag.h"
#include "neon_arm64.h"

// Words of 32 bits turned around: transposer and permutedKernel in impl.go have the contracts.

// TURN makes columns of rows r0 to r3, in d0 to d3. It uses V28 to V31.
#define TURN(r0, r1, r2, r3, d0, d1, d2, d3) \
	VTRN1 r1.S4, r0.S4, V28.S4 \
	VTRN2 r1.S4, r0.S4, V29.S4 \
	VTRN1 r3.S4, r2.S4, V30.S4 \
	VTRN2 r3.S4, r2.S4, V31.S4 \
	VTRN1 V30.D2, V28.D2, d0.D2 \
	VTRN1 V31.D2, V29.D2, d1.D2 \
	VTRN2 V30.D2, V28.D2, d2.D2 \
	VTRN2 V31.D2, V29.D2, d3.D2

// SWAP makes of halves or bytes of two rows' words one row of the lower ones and one of the upper ones.
#define SWAP(T, a, b) \
	VTRN1 b.T, a.T, V16.T \
	VTRN2 b.T, a.T, b.T \
	VMOV  V16.B16, a.B16

// SWAP_NIBBLES does the same with nibbles of bytes.
#define SWAP_NIBBLES(a, b) \
	VMOV a.B16, V16.B16 \
	VSLI $4, b.B16, a.B16 \
	VSRI $4, V16.B16, b.B16

#define NEXT_PLANE(v) \
	VST1 [v.S4], (R11) \
	ADD  R7, R11

// Eight rows of permuted columns. A word of each row lies in 32 bytes, and so do the scales of a group.
//
//	R0       where to store
//	R1       the words
//	R2       columns that are still to come
//	R3       from one row of dst to the next, in bytes
//	R4       the columns' groups
//	R5, R6   scales and offsets of group 0
//	V16-V21  words of a column of words: V16 and V17 of the first one, in case there are three
//	V24      the bits of a code

#define LOAD_PERMUTED(bits) \
	MOVD dst_base+0(FP), R0 \
	MOVD stride+24(FP), R3 \
	MOVD words_base+32(FP), R1 \
	MOVD columns+56(FP), R2 \
	MOVD groups_base+64(FP), R4 \
	MOVD scales_base+88(FP), R5 \
	MOVD offsets_base+112(FP), R6 \
	LSL  $2, R3 \
	MOVD $(1<<bits - 1), R7 \
	VDUP R7, V24.S4

// SCALED makes values of a column's codes, in two registers with their numbers.
#define SCALED(va, a, vb, b) \
	VAND   V24.B16, va.B16, va.B16 \
	VAND   V24.B16, vb.B16, vb.B16 \
	MOVWU.P 4(R4), R7 \
	ADD    R7<<8, R6, R8 \
	VLD1   (R8), [V26.S4, V27.S4] \
	ADD    R7<<8, R5, R8 \
	UCVTF4S(a, a) \
	UCVTF4S(b, b) \
	FSUB4S(26, a, a) \
	FSUB4S(27, b, b) \
	VLD1   (R8), [V26.S4, V27.S4] \
	FMUL4S(26, a, a) \
	FMUL4S(27, b, b)

// LOWEST and SHIFTED take the codes of a column from the words in wa and wb, ACROSS from those and the next ones.
#define LOWEST(wa, wb, va, a, vb, b) \
	VMOV wa.B16, va.B16 \
	VMOV wb.B16, vb.B16 \
	SCALED(va, a, vb, b)

#define SHIFTED(shift, wa, wb, va, a, vb, b) \
	VUSHR $(shift), wa.S4, va.S4 \
	VUSHR $(shift), wb.S4, vb.S4 \
	SCALED(va, a, vb, b)

#define ACROSS(shift, wa, wb, na, nb, va, a, vb, b) \
	VUSHR $(shift), wa.S4, va.S4 \
	VUSHR $(shift), wb.S4, vb.S4 \
	VSLI  $(32-shift), na.S4, va.S4 \
	VSLI  $(32-shift), nb.S4, vb.S4 \
	SCALED(va, a, vb, b)

// The four columns of a square are in V0 to V3 for the first four rows, and in V4 to V7 for the others.
#define COLUMN0(shift, wa, wb) SHIFTED(shift, wa, wb, V0, 0, V4, 4)
#define COLUMN1(shift, wa, wb) SHIFTED(shift, wa, wb, V1, 1, V5, 5)
#define COLUMN2(shift, wa, wb) SHIFTED(shift, wa, wb, V2, 2, V6, 6)
#define COLUMN3(shift, wa, wb) SHIFTED(shift, wa, wb, V3, 3, V7, 7)

#define NEXT_ROW(v) \
	VST1 [v.S4], (R9) \
	ADD  R3, R9

#define STORE_SQUARE \
	MOVD R0, R9 \
	ADD  $16, R0 \
	TURN(V0, V1, V2, V3, V8, V9, V10, V11) \
	NEXT_ROW(V8) \
	NEXT_ROW(V9) \
	NEXT_ROW(V10) \
	NEXT_ROW(V11) \
	TURN(V4, V5, V6, V7, V8, V9, V10, V11) \
	NEXT_ROW(V8) \
	NEXT_ROW(V9) \
	NEXT_ROW(V10) \
	NEXT_ROW(V11)

#define SQUARE(s0, s1, s2, s3, wa, wb) \
	COLUMN0(s0, wa, wb) \
	COLUMN1(s1, wa, wb) \
	COLUMN2(s2, wa, wb) \
	COLUMN3(s3, wa, wb) \
	STORE_SQUARE

// LOWEST_SQUARE is SQUARE with a first shift of 0.
#define LOWEST_SQUARE(s1, s2, s3, wa, wb) \
	LOWEST(wa, wb, V0, 0, V4, 4) \
	COLUMN1(s1, wa, wb) \
	COLUMN2(s2, wa, wb) \
	COLUMN3(s3, wa, wb) \
	STORE_SQUARE

// NEXT_WORDS loads a column of words of eight rows out of 64.
#define NEXT_WORDS(wa, wb) \
	VLD1 (R1), [wa.S4, wb.S4] \
	ADD  $256, R1

// func transposeWordsNEON(dst []byte, dstStride int, src []byte, srcStride, rows, columns int)
TEXT ·transposeWordsNEON(SB), NOSPLIT, $0-80
	MOVD dst_base+0(FP), R0
	MOVD dstStride+24(FP), R3
	MOVD src_base+32(FP), R1
	MOVD srcStride+56(FP), R4
	MOVD rows+64(FP), R5

rows:
	MOVD columns+72(FP), R6
	MOVD R0, R9
	MOVD R1, R10
	ADD  R4, R10, R11
	ADD  R4, R11, R12
	ADD  R4, R12, R13
	ADD  R4, R13, R1

columns:
	VLD1.P 16(R10), [V0.S4]
	VLD1.P 16(R11), [V1.S4]
	VLD1.P 16(R12), [V2.S4]
	VLD1.P 16(R13), [V3.S4]
	TURN(V0, V1, V2, V3, V4, V5, V6, V7)
	VST1   [V4.S4], (R9)
	ADD    R3, R9
	VST1   [V5.S4], (R9)
	ADD    R3, R9
	VST1   [V6.S4], (R9)
	ADD    R3, R9
	VST1   [V7.S4], (R9)
	ADD    R3, R9
	SUBS   $4, R6
	BNE    columns
	ADD    $16, R0
	SUBS   $4, R5
	BNE    rows
	RET

// func transposeNibblesNEON(dst []byte, dstStride, plane int, src []byte, srcStride, rows, columns int)
TEXT ·transposeNibblesNEON(SB), NOSPLIT, $0-88
	MOVD dst_base+0(FP), R0
	MOVD dstStride+24(FP), R3
	MOVD plane+32(FP), R7
	MOVD src_base+40(FP), R1
	MOVD srcStride+64(FP), R4
	MOVD rows+72(FP), R5

rows:
	MOVD columns+80(FP), R6
	MOVD R0, R9
	MOVD R1, R8

columns:
	MOVD R8, R10
	VLD1 (R10), [V0.S4]
	ADD  R4, R10
	VLD1 (R10), [V1.S4]
	ADD  R4, R10
	VLD1 (R10), [V2.S4]
	ADD  R4, R10
	VLD1 (R10), [V3.S4]
	ADD  R4, R10
	VLD1 (R10), [V4.S4]
	ADD  R4, R10
	VLD1 (R10), [V5.S4]
	ADD  R4, R10
	VLD1 (R10), [V6.S4]
	ADD  R4, R10
	VLD1 (R10), [V7.S4]
	SWAP(H8, V0, V4)
	SWAP(H8, V1, V5)
	SWAP(H8, V2, V6)
	SWAP(H8, V3, V7)
	SWAP(B16, V0, V2)
	SWAP(B16, V1, V3)
	SWAP(B16, V4, V6)
	SWAP(B16, V5, V7)
	SWAP_NIBBLES(V0, V1)
	SWAP_NIBBLES(V2, V3)
	SWAP_NIBBLES(V4, V5)
	SWAP_NIBBLES(V6, V7)
	MOVD R9, R11
	NEXT_PLANE(V0)
	NEXT_PLANE(V4)
	NEXT_PLANE(V1)
	NEXT_PLANE(V5)
	NEXT_PLANE(V2)
	NEXT_PLANE(V6)
	NEXT_PLANE(V3)
	NEXT_PLANE(V7)
	ADD  $16, R8
	ADD  $16, R9
	SUBS $4, R6
	BNE  columns
	ADD  R3, R0
	LSL  $3, R4, R10
	ADD  R10, R1
	SUBS $8, R5
	BNE  rows
	RET

// func permuted2NEON(dst []float32, stride int, words []byte, columns int, groups []int32, scales, offsets []float32)
TEXT ·permuted2NEON(SB), NOSPLIT, $0-136
	LOAD_PERMUTED(2)

columns:
	NEXT_WORDS(V16, V17)
	LOWEST_SQUARE(2, 4, 6, V16, V17)
	SQUARE(8, 10, 12, 14, V16, V17)
	SQUARE(16, 18, 20, 22, V16, V17)
	SQUARE(24, 26, 28, 30, V16, V17)
	SUBS $16, R2
	BNE  columns
	RET

// func permuted3NEON(dst []float32, stride int, words []byte, columns int, groups []int32, scales, offsets []float32)
TEXT ·permuted3NEON(SB), NOSPLIT, $0-136
	LOAD_PERMUTED(3)

columns:
	NEXT_WORDS(V16, V17)
	NEXT_WORDS(V18, V19)
	NEXT_WORDS(V20, V21)
	LOWEST_SQUARE(3, 6, 9, V16, V17)
	SQUARE(12, 15, 18, 21, V16, V17)
	COLUMN0(24, V16, V17)
	COLUMN1(27, V16, V17)
	ACROSS(30, V16, V17, V18, V19, V2, 2, V6, 6)
	COLUMN3(1, V18, V19)
	STORE_SQUARE
	SQUARE(4, 7, 10, 13, V18, V19)
	SQUARE(16, 19, 22, 25, V18, V19)
	COLUMN0(28, V18, V19)
	ACROSS(31, V18, V19, V20, V21, V1, 1, V5, 5)
	COLUMN2(2, V20, V21)
	COLUMN3(5, V20, V21)
	STORE_SQUARE
	SQUARE(8, 11, 14, 17, V20, V21)
	SQUARE(20, 23, 26, 29, V20, V21)
	SUBS $32, R2
	BNE  columns
	RET

// func permuted4NEON(dst []float32, stride int, words []byte, columns int, groups []int32, scales, offsets []float32)
TEXT ·permuted4NEON(SB), NOSPLIT, $0-136
	LOAD_PERMUTED(4)

columns:
	NEXT_WORDS(V16, V17)
	LOWEST_SQUARE(4, 8, 12, V16, V17)
	SQUARE(16, 20, 24, 28, V16, V17)
	SUBS $8, R2
	BNE  columns
	RET

// func permuted8NEON(dst []float32, stride int, words []byte, columns int, groups []int32, scales, offsets []float32)
TEXT ·permuted8NEON(SB), NOSPLIT, $0-136
	LOAD_PERMUTED(8)

columns:
	NEXT_WORDS(V16, V17)
	LOWEST_SQUARE(8, 16, 24, V16, V17)
	SUBS $4, R2
	BNE  columns
	RET

// func rescaleEachNEON(dst, scales, offsets []float32)
TEXT ·rescaleEachNEON(SB), NOSPLIT, $0-72
	MOVD dst_base+0(FP), R0
	MOVD dst_len+8(FP), R2
	MOVD scales_base+24(FP), R5
	MOVD offsets_base+48(FP), R6

values:
	VLD1   (R0), [V0.S4, V1.S4]
	VLD1.P 32(R6), [V2.S4, V3.S4]
	VLD1.P 32(R5), [V4.S4, V5.S4]
	FSUB4S(2, 0, 0)
	FSUB4S(3, 1, 1)
	FMUL4S(4, 0, 0)
	FMUL4S(5, 1, 1)
	VST1.P [V0.S4, V1.S4], 32(R0)
	SUBS   $8, R2
	BNE    values
	RET
