// Kernels of the neon level. impl.go has their contract. A group of a row is unpacked, and then multiplied
// with one activation or with several:
//
//	R0       where to store the next product
//	R1       where to load from the row
//	R2       the activation's group
//	R3       blocks left in a row, or groups
//	R4       rows left
//	R5       the activation's first group
//	R6       blocks of a row
//	R7, R8   what a type needs
//	V0-V15   the group's codes, the first sixteen of a block before the second
//	V16-V23  its scales, and what unpacks codes
//	V24-V29  what is needed for a few instructions
//	V30, V31 the partial sums
//
// Kernels for several activations have
//
//	R9       the group's distance from the first
//	R10, R11 the first activation, and how many there are
//	R12      where the partial sums of all are
//	R13      groups of a row
//	R14      the end of the rows
//	R15-R17  the activation, how many are left, and its partial sums
//
// Block k has its codes next to the codes of block k+4: see codeIndex.

// What Go's assembler has no mnemonic for. Operands are register numbers in Go's order, the
// destination last. The comments say the same to another assembler: see dequant's TestNEONEncodings.

#define SDOT(m, n, d)     WORD $(0x4E809400 | (m)<<16 | (n)<<5 | (d)) // sdot vd.4s, vn.16b, vm.16b
#define FADD4S(m, n, d)   WORD $(0x4E20D400 | (m)<<16 | (n)<<5 | (d)) // fadd vd.4s, vn.4s, vm.4s
#define FSUB4S(m, n, d)   WORD $(0x4EA0D400 | (m)<<16 | (n)<<5 | (d)) // fsub vd.4s, vn.4s, vm.4s
#define FMUL4S(m, n, d)   WORD $(0x6E20DC00 | (m)<<16 | (n)<<5 | (d)) // fmul vd.4s, vn.4s, vm.4s
#define MUL4S(m, n, d)    WORD $(0x4EA09C00 | (m)<<16 | (n)<<5 | (d)) // mul vd.4s, vn.4s, vm.4s
#define MUL16B(m, n, d)   WORD $(0x4E209C00 | (m)<<16 | (n)<<5 | (d)) // mul vd.16b, vn.16b, vm.16b
#define ADDP4S(m, n, d)   WORD $(0x4EA0BC00 | (m)<<16 | (n)<<5 | (d)) // addp vd.4s, vn.4s, vm.4s
#define EOR16B(m, n, d)   WORD $(0x6E201C00 | (m)<<16 | (n)<<5 | (d)) // eor vd.16b, vn.16b, vm.16b
#define UHADD16B(m, n, d) WORD $(0x6E200400 | (m)<<16 | (n)<<5 | (d)) // uhadd vd.16b, vn.16b, vm.16b
#define USHL4S(m, n, d)   WORD $(0x6EA04400 | (m)<<16 | (n)<<5 | (d)) // ushl vd.4s, vn.4s, vm.4s
#define USHL8H(m, n, d)   WORD $(0x6E604400 | (m)<<16 | (n)<<5 | (d)) // ushl vd.8h, vn.8h, vm.8h
#define SMULL4S(m, n, d)  WORD $(0x0E60C000 | (m)<<16 | (n)<<5 | (d)) // smull vd.4s, vn.4h, vm.4h
#define SMULL24S(m, n, d) WORD $(0x4E60C000 | (m)<<16 | (n)<<5 | (d)) // smull2 vd.4s, vn.8h, vm.8h
#define SXTL8H(n, d)      WORD $(0x0F08A400 | (n)<<5 | (d))           // sxtl vd.8h, vn.8b
#define SXTL28H(n, d)     WORD $(0x4F08A400 | (n)<<5 | (d))           // sxtl2 vd.8h, vn.16b
#define SXTL4S(n, d)      WORD $(0x0F10A400 | (n)<<5 | (d))           // sxtl vd.4s, vn.4h
#define SXTL24S(n, d)     WORD $(0x4F10A400 | (n)<<5 | (d))           // sxtl2 vd.4s, vn.8h
#define MVN16B(n, d)      WORD $(0x6E205800 | (n)<<5 | (d))           // mvn vd.16b, vn.16b
#define USHR16B1(n, d)    WORD $(0x6F0F0400 | (n)<<5 | (d))           // ushr vd.16b, vn.16b, #1
#define USHR16B6(n, d)    WORD $(0x6F0A0400 | (n)<<5 | (d))           // ushr vd.16b, vn.16b, #6
#define SCVTF4S(n, d)     WORD $(0x4E21D800 | (n)<<5 | (d))           // scvtf vd.4s, vn.4s
#define FCVTL4S(n, d)     WORD $(0x0E217800 | (n)<<5 | (d))           // fcvtl vd.4s, vn.4h
#define FCVTL24S(n, d)    WORD $(0x4E217800 | (n)<<5 | (d))           // fcvtl2 vd.4s, vn.8h

#define ZERO(d) EOR16B(d, d, d)

// NOTHING stands for what a type does without.
#define NOTHING(at, v, w) \

// GROUPS multiplies rows with one activation. Every block is a group, which unpack unpacks and times multiplies.
#define GROUPS(unpack, times) \
	MOVD dst_base+0(FP), R0 \
	MOVD dst_len+8(FP), R4 \
	MOVD rows_base+24(FP), R1 \
	MOVD x+48(FP), R5 \
	MOVD blocks+56(FP), R6 \
row: \
	ZERO(30) \
	ZERO(31) \
	MOVD R5, R2 \
	MOVD R6, R3 \
group: \
	unpack \
	times \
	ADD  $384, R2 \
	SUBS $1, R3 \
	BNE  group \
	TOTAL \
	SUBS $1, R4 \
	BNE  row \
	RET

// BLOCKS does so for blocks of 32, eight to a group. Blocks that a row lacks are codes and scales of 0.
#define BLOCKS(block, scales, times) \
	MOVD dst_base+0(FP), R0 \
	MOVD dst_len+8(FP), R4 \
	MOVD rows_base+24(FP), R1 \
	MOVD x+48(FP), R5 \
	MOVD blocks+56(FP), R6 \
row: \
	ZERO(30) \
	ZERO(31) \
	MOVD R5, R2 \
	MOVD R6, R3 \
group: \
	CMP  $8, R3 \
	BLT  part \
	EIGHT(block) \
multiply: \
	scales \
	times \
	ADD  $384, R2 \
	SUBS $8, R3 \
	BGT  group \
	TOTAL \
	SUBS $1, R4 \
	BNE  row \
	RET \
part: \
	ZERO(2) \
	ZERO(3) \
	ZERO(4) \
	ZERO(5) \
	ZERO(6) \
	ZERO(7) \
	ZERO(8) \
	ZERO(9) \
	ZERO(10) \
	ZERO(11) \
	ZERO(12) \
	ZERO(13) \
	ZERO(14) \
	ZERO(15) \
	ZERO(16) \
	ZERO(18) \
	block(0, V0, V1) \
	CMP  $1, R3 \
	BEQ  multiply \
	block(1, V2, V3) \
	CMP  $2, R3 \
	BEQ  multiply \
	block(2, V4, V5) \
	CMP  $3, R3 \
	BEQ  multiply \
	block(3, V6, V7) \
	CMP  $4, R3 \
	BEQ  multiply \
	block(4, V8, V9) \
	CMP  $5, R3 \
	BEQ  multiply \
	block(5, V10, V11) \
	CMP  $6, R3 \
	BEQ  multiply \
	block(6, V12, V13) \
	B    multiply

#define EIGHT(block) \
	block(0, V0, V1) \
	block(1, V2, V3) \
	block(2, V4, V5) \
	block(3, V6, V7) \
	block(4, V8, V9) \
	block(5, V10, V11) \
	block(6, V12, V13) \
	block(7, V14, V15)

// MANY multiplies rows of groups with several activations.
#define MANY(unpack, times) \
	MOVD dst_base+0(FP), R0 \
	MOVD rows_base+24(FP), R1 \
	MOVD rows_len+32(FP), R14 \
	ADD  R1, R14 \
	MOVD xs_base+48(FP), R10 \
	MOVD xs_len+56(FP), R11 \
	MOVD acc_base+72(FP), R12 \
	MOVD groups+96(FP), R13 \
row: \
	MOVD R12, R17 \
	MOVD R11, R16 \
	ZERO(30) \
	ZERO(31) \
clear: \
	VST1.P [V30.B16, V31.B16], 32(R17) \
	SUBS $1, R16 \
	BNE  clear \
	MOVD ZR, R9 \
	MOVD R13, R3 \
group: \
	unpack \
	MOVD R10, R15 \
	MOVD R11, R16 \
	MOVD R12, R17 \
vector: \
	MOVD.P 8(R15), R2 \
	ADD  R9, R2 \
	VLD1 (R17), [V30.B16, V31.B16] \
	times \
	VST1.P [V30.B16, V31.B16], 32(R17) \
	SUBS $1, R16 \
	BNE  vector \
	ADD  $384, R9 \
	SUBS $1, R3 \
	BNE  group \
	MOVD R12, R17 \
	MOVD R11, R16 \
totals: \
	VLD1.P 32(R17), [V30.B16, V31.B16] \
	TOTAL \
	SUBS $1, R16 \
	BNE  totals \
	CMP  R14, R1 \
	BNE  row \
	RET

// TOTAL adds the partial sums in halves, and stores the product.
#define TOTAL \
	FADD4S(31, 30, 30) \
	VEXT $8, V30.B16, V30.B16, V31.B16 \
	FADD4S(31, 30, 30) \
	VEXT $4, V30.B16, V30.B16, V31.B16 \
	FADD4S(31, 30, 30) \
	FMOVS.P F30, 4(R0)

// DOT16 makes t of the products of the sixteen codes a with the codes of the activation.
#define DOT16(a, at, t) \
	FMOVQ (at)(R2), F28 \
	ZERO(t) \
	SDOT(28, a, t)

// DOT32 does so for a block.
#define DOT32(a, b, at, t) \
	FMOVQ (at)(R2), F28 \
	FMOVQ (at+32)(R2), F29 \
	ZERO(t) \
	SDOT(28, a, t) \
	SDOT(29, b, t)

// FOUR adds the lanes of t, u, v and w. They become lanes of t.
#define FOUR(t, u, v, w) \
	ADDP4S(u, t, t) \
	ADDP4S(w, v, v) \
	ADDP4S(v, t, t)

// BLOCKS_LOW and BLOCKS_HIGH make the sums of the first and of the last four blocks in V24.
#define BLOCKS_LOW \
	DOT32(0, 1, 0, 24) \
	DOT32(2, 3, 64, 25) \
	DOT32(4, 5, 128, 26) \
	DOT32(6, 7, 192, 27) \
	FOUR(24, 25, 26, 27)

#define BLOCKS_HIGH \
	DOT32(8, 9, 16, 24) \
	DOT32(10, 11, 80, 25) \
	DOT32(12, 13, 144, 26) \
	DOT32(14, 15, 208, 27) \
	FOUR(24, 25, 26, 27)

// ADD_SCALED adds V24, integers, times d and the activation's scales to the partial sums p. V28 becomes these scales.
#define ADD_SCALED(at, d, p) \
	SCVTF4S(24, 24) \
	FMOVQ (256+at)(R2), F28 \
	FMUL4S(28, d, 29) \
	FMUL4S(29, 24, 24) \
	FADD4S(24, p, p)

// SUB_SCALED subtracts V25, integers, times V17 and V28.
#define SUB_SCALED(p) \
	SCVTF4S(25, 25) \
	FMUL4S(28, 17, 28) \
	FMUL4S(28, 25, 25) \
	FSUB4S(25, p, p)

// SMALL_TIMES multiplies blocks with scales in V16 and V17. less and offset have offsets in V18 and V19, or do nothing.
#define SMALL_TIMES(less, offset) \
	BLOCKS_LOW \
	less(0, 18, 30) \
	ADD_SCALED(0, 16, 30) \
	offset(0, 18, 30) \
	BLOCKS_HIGH \
	less(16, 19, 31) \
	ADD_SCALED(16, 17, 31) \
	offset(16, 19, 31)

// LESS_SUM and the macros after it correct sums of codes that are so much too great, or too small.
#define LESS_SUM(at, m, p) \
	FMOVQ (288+at)(R2), F28 \
	VSUB V28.S4, V24.S4, V24.S4

#define LESS_8_SUMS(at, m, p) \
	FMOVQ (288+at)(R2), F28 \
	VSHL $3, V28.S4, V28.S4 \
	VSUB V28.S4, V24.S4, V24.S4

#define MORE_16_SUMS(at, m, p) \
	FMOVQ (288+at)(R2), F28 \
	VSHL $4, V28.S4, V28.S4 \
	VADD V28.S4, V24.S4, V24.S4

// ADD_OFFSETS adds offsets times the activation's rounded sums.
#define ADD_OFFSETS(at, m, p) \
	FMOVQ (320+at)(R2), F28 \
	FMUL4S(28, m, 28) \
	FADD4S(28, p, p)

// SUPER_TIMES multiplies blocks whose integer scales are in V18 and V19, under a scale in V16. mins are in V20 and V21.
#define SUPER_TIMES(mins) \
	BLOCKS_LOW \
	MUL4S(18, 24, 24) \
	ADD_SCALED(0, 16, 30) \
	mins(0, 20, 30) \
	BLOCKS_HIGH \
	MUL4S(19, 24, 24) \
	ADD_SCALED(16, 16, 31) \
	mins(16, 21, 31)

#define SUB_MINS(at, m, p) \
	FMOVQ (288+at)(R2), F25 \
	MUL4S(m, 25, 25) \
	SUB_SCALED(p)

// HALVES_TIMES multiplies blocks whose halves have the integer scales in V18 to V21. mins are words in V22 and V23.
#define HALVES_TIMES(mins) \
	SCALED_HALVES(0, 1, 2, 3, 0, 18, 24, 25, 26, 27) \
	SCALED_HALVES(4, 5, 6, 7, 128, 19, 25, 26, 27, 29) \
	ADDP4S(25, 24, 24) \
	ADD_SCALED(0, 16, 30) \
	mins(0, 22, 30) \
	SCALED_HALVES(8, 9, 10, 11, 16, 20, 24, 25, 26, 27) \
	SCALED_HALVES(12, 13, 14, 15, 144, 21, 25, 26, 27, 29) \
	ADDP4S(25, 24, 24) \
	ADD_SCALED(16, 16, 31) \
	mins(16, 23, 31)

#define SCALED_HALVES(a, b, c, d, at, s, t, u, v, w) \
	DOT16(a, at, t) \
	DOT16(b, at+32, u) \
	DOT16(c, at+64, v) \
	DOT16(d, at+96, w) \
	FOUR(t, u, v, w) \
	MUL4S(s, t, t)

#define SUB_HALF_MINS(at, m, p) \
	FMOVQ (352+at)(R2), F25 \
	SMULL4S(25, m, 26) \
	SMULL24S(25, m, 25) \
	ADDP4S(25, 26, 25) \
	SUB_SCALED(p)

// LOAD_HALF loads a binary16 and repeats its value in every lane of v, whose number is n.
#define LOAD_HALF(v, n) \
	VLD1R.P 2(R1), [v.H4] \
	FCVTL4S(n, n)
