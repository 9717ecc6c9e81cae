//go:build !purego

#include "textflag.h"
#include "neon_arm64.h"

// Blocks of 32. The macro named as a type unpacks block i to v and w. Lane i of V16 becomes its scale, and lane i of V18
// its offset.

// SCALES makes floats in V16 and V17 of eight binary16s.
#define SCALES \
	FCVTL24S(16, 17) \
	FCVTL4S(16, 16)

#define SCALES_AND_OFFSETS \
	SCALES \
	FCVTL24S(18, 19) \
	FCVTL4S(18, 18)

// NIBBLES loads 16 bytes; their low nibbles come first. V20 is 15.
#define NIBBLES(v, w) \
	VLD1.P 16(R1), [w.B16] \
	VAND   V20.B16, w.B16, v.B16 \
	VUSHR  $4, w.B16, w.B16

// CODED_NIBBLES has V21 give the code that a nibble stands for.
#define CODED_NIBBLES(v, w) \
	NIBBLES(v, w) \
	VTBL v.B16, [V21.B16], v.B16 \
	VTBL w.B16, [V21.B16], w.B16

#define LOAD_CODES(table) \
	MOVD  table, R7 \
	VLD1  (R7), [V21.B16] \
	VMOVI $15, V20.B16

#define Q8_0(i, v, w) \
	VLD1.P 2(R1), V16.H[i] \
	VLD1.P 32(R1), [v.B16, w.B16]

#define Q8_0_TIMES SMALL_TIMES(NOTHING, NOTHING)
#define Q8_0_GROUP \
	EIGHT(Q8_0) \
	SCALES

// func q8_0NEON(dst []float32, rows []byte, x *int8, blocks int)
TEXT ·q8_0NEON(SB), NOSPLIT, $0-64
	BLOCKS(Q8_0, SCALES, Q8_0_TIMES)

// func q8_0ManyNEON(dst []float32, rows []byte, xs []*int8, acc []float32, groups int)
TEXT ·q8_0ManyNEON(SB), NOSPLIT, $0-104
	MANY(Q8_0_GROUP, Q8_0_TIMES)

#define Q4_0(i, v, w) \
	VLD1.P 2(R1), V16.H[i] \
	NIBBLES(v, w)

#define Q4_0_TIMES SMALL_TIMES(LESS_8_SUMS, NOTHING)
#define Q4_0_GROUP \
	EIGHT(Q4_0) \
	SCALES

// func q4_0NEON(dst []float32, rows []byte, x *int8, blocks int)
TEXT ·q4_0NEON(SB), NOSPLIT, $0-64
	VMOVI $15, V20.B16
	BLOCKS(Q4_0, SCALES, Q4_0_TIMES)

// func q4_0ManyNEON(dst []float32, rows []byte, xs []*int8, acc []float32, groups int)
TEXT ·q4_0ManyNEON(SB), NOSPLIT, $0-104
	VMOVI $15, V20.B16
	MANY(Q4_0_GROUP, Q4_0_TIMES)

#define Q4_1(i, v, w) \
	VLD1.P 2(R1), V16.H[i] \
	VLD1.P 2(R1), V18.H[i] \
	NIBBLES(v, w)

#define Q4_1_TIMES SMALL_TIMES(NOTHING, ADD_OFFSETS)
#define Q4_1_GROUP \
	EIGHT(Q4_1) \
	SCALES_AND_OFFSETS

// func q4_1NEON(dst []float32, rows []byte, x *int8, blocks int)
TEXT ·q4_1NEON(SB), NOSPLIT, $0-64
	VMOVI $15, V20.B16
	BLOCKS(Q4_1, SCALES_AND_OFFSETS, Q4_1_TIMES)

// func q4_1ManyNEON(dst []float32, rows []byte, xs []*int8, acc []float32, groups int)
TEXT ·q4_1ManyNEON(SB), NOSPLIT, $0-104
	VMOVI $15, V20.B16
	MANY(Q4_1_GROUP, Q4_1_TIMES)

// FIVE_BITS loads 4 bytes of upper bits, then 16 of nibbles. Where a bit is clear it puts ones above the nibble, which
// subtract 16. V21 to V23 are neonBits.
#define FIVE_BITS(v, w) \
	VLD1R.P 4(R1), [V24.S4] \
	MVN16B(24, 24) \
	VTBL    V21.B16, [V24.B16], V25.B16 \
	VTBL    V22.B16, [V24.B16], V26.B16 \
	VCMTST  V23.B16, V25.B16, V25.B16 \
	VCMTST  V23.B16, V26.B16, V26.B16 \
	VLD1.P  16(R1), [v.B16] \
	VUSHR   $4, v.B16, w.B16 \
	VSLI    $4, V25.B16, v.B16 \
	VSLI    $4, V26.B16, w.B16

#define LOAD_BITS \
	MOVD $·neonBits(SB), R7 \
	VLD1 (R7), [V21.B16, V22.B16, V23.B16]

#define Q5_0(i, v, w) \
	VLD1.P 2(R1), V16.H[i] \
	FIVE_BITS(v, w)

#define Q5_0_GROUP \
	EIGHT(Q5_0) \
	SCALES

// func q5_0NEON(dst []float32, rows []byte, x *int8, blocks int)
TEXT ·q5_0NEON(SB), NOSPLIT, $0-64
	LOAD_BITS
	BLOCKS(Q5_0, SCALES, Q8_0_TIMES)

// func q5_0ManyNEON(dst []float32, rows []byte, xs []*int8, acc []float32, groups int)
TEXT ·q5_0ManyNEON(SB), NOSPLIT, $0-104
	LOAD_BITS
	MANY(Q5_0_GROUP, Q8_0_TIMES)

#define Q5_1(i, v, w) \
	VLD1.P 2(R1), V16.H[i] \
	VLD1.P 2(R1), V18.H[i] \
	FIVE_BITS(v, w)

#define Q5_1_TIMES SMALL_TIMES(MORE_16_SUMS, ADD_OFFSETS)
#define Q5_1_GROUP \
	EIGHT(Q5_1) \
	SCALES_AND_OFFSETS

// func q5_1NEON(dst []float32, rows []byte, x *int8, blocks int)
TEXT ·q5_1NEON(SB), NOSPLIT, $0-64
	LOAD_BITS
	BLOCKS(Q5_1, SCALES_AND_OFFSETS, Q5_1_TIMES)

// func q5_1ManyNEON(dst []float32, rows []byte, xs []*int8, acc []float32, groups int)
TEXT ·q5_1ManyNEON(SB), NOSPLIT, $0-104
	LOAD_BITS
	MANY(Q5_1_GROUP, Q5_1_TIMES)

#define IQ4_NL(i, v, w) \
	VLD1.P 2(R1), V16.H[i] \
	CODED_NIBBLES(v, w)

#define IQ4_NL_GROUP \
	EIGHT(IQ4_NL) \
	SCALES

// func iq4_NLNEON(dst []float32, rows []byte, x *int8, blocks int)
TEXT ·iq4_NLNEON(SB), NOSPLIT, $0-64
	LOAD_CODES($·neonIQ4(SB))
	BLOCKS(IQ4_NL, SCALES, Q8_0_TIMES)

// func iq4_NLManyNEON(dst []float32, rows []byte, xs []*int8, acc []float32, groups int)
TEXT ·iq4_NLManyNEON(SB), NOSPLIT, $0-104
	LOAD_CODES($·neonIQ4(SB))
	MANY(IQ4_NL_GROUP, Q8_0_TIMES)

#define MXFP4(i, v, w) \
	VLD1.P 1(R1), V16.B[i] \
	CODED_NIBBLES(v, w)

// EXPONENTS makes floats in V16 and V17 of eight exponents: half of what they mean. The first two are subnormal.
#define EXPONENTS \
	VUXTL  V16.B8, V16.H8 \
	VUXTL2 V16.H8, V17.S4 \
	VUXTL  V16.H4, V16.S4 \
	VSHL   $2, V23.S4, V24.S4 \
	EXPONENT(V16, 16) \
	EXPONENT(V17, 17)

// V22 is ^1, V23 is 2^-128, and V24 what makes an exponent one greater.
#define EXPONENT(v, n) \
	VCMTST V22.S4, v.S4, V25.S4 \
	USHL4S(n, 23, 26) \
	VSHL   $23, v.S4, v.S4 \
	VSUB   V24.S4, v.S4, v.S4 \
	VBIF   V25.B16, V26.B16, v.B16

#define MXFP4_GROUP \
	EIGHT(MXFP4) \
	EXPONENTS

#define LOAD_MXFP4 \
	LOAD_CODES($·neonFP4(SB)) \
	MOVW $~1, R7 \
	VDUP R7, V22.S4 \
	MOVD $0x200000, R7 \
	VDUP R7, V23.S4

// func mxfp4NEON(dst []float32, rows []byte, x *int8, blocks int)
TEXT ·mxfp4NEON(SB), NOSPLIT, $0-64
	LOAD_MXFP4
	BLOCKS(MXFP4, EXPONENTS, Q8_0_TIMES)

// func mxfp4ManyNEON(dst []float32, rows []byte, xs []*int8, acc []float32, groups int)
TEXT ·mxfp4ManyNEON(SB), NOSPLIT, $0-104
	LOAD_MXFP4
	MANY(MXFP4_GROUP, Q8_0_TIMES)

// Blocks of 256, and NVFP4 in groups of four.

// K4_SCALES loads what Q4_K and Q5_K begin with: scale and offset, and eight integers of each.
#define K4_SCALES \
	LOAD_HALF(V16, 16) \
	LOAD_HALF(V17, 17) \
	VMOVI   $15, V28.B16 \
	VMOVI   $63, V29.B16 \
	VLD1.P  8(R1), [V18.B8] \
	VLD1R.P 4(R1), [V19.S4] \
	VUSHR   $6, V18.B8, V24.B8 \
	VAND    V29.B16, V18.B16, V18.B16 \
	VUSHR   $4, V19.B16, V25.B16 \
	VAND    V28.B16, V19.B16, V19.B16 \
	VMOV    V25.S[1], V19.S[1] \
	VSLI    $4, V24.B8, V19.B8 \
	VUXTL   V18.B8, V18.H8 \
	VUXTL   V19.B8, V19.H8 \
	VUXTL2  V18.H8, V20.S4 \
	VUXTL2  V19.H8, V21.S4 \
	VUXTL   V18.H4, V18.S4 \
	VUXTL   V19.H4, V19.S4

// LOW_HIGH loads 32 bytes to c and d. Their low nibbles become a and b. V28 is 15.
#define LOW_HIGH(a, b, c, d) \
	VLD1.P 32(R1), [c.B16, d.B16] \
	VAND   V28.B16, c.B16, a.B16 \
	VAND   V28.B16, d.B16, b.B16 \
	VUSHR  $4, c.B16, c.B16 \
	VUSHR  $4, d.B16, d.B16

#define Q4_K \
	K4_SCALES \
	LOW_HIGH(V0, V1, V2, V3) \
	LOW_HIGH(V4, V5, V6, V7) \
	LOW_HIGH(V8, V9, V10, V11) \
	LOW_HIGH(V12, V13, V14, V15)

#define Q4_K_TIMES SUPER_TIMES(SUB_MINS)

// func q4_KNEON(dst []float32, rows []byte, x *int8, blocks int)
TEXT ·q4_KNEON(SB), NOSPLIT, $0-64
	GROUPS(Q4_K, Q4_K_TIMES)

// func q4_KManyNEON(dst []float32, rows []byte, xs []*int8, acc []float32, groups int)
TEXT ·q4_KManyNEON(SB), NOSPLIT, $0-104
	MANY(Q4_K, Q4_K_TIMES)

// INSERT puts bits of V24 and V25, shifted, where V29 has ones. What is called shift is an instruction without its last two operands.
#define INSERT(shift, v, w) \
	shift, V24.B16, V26.B16 \
	shift, V25.B16, V27.B16 \
	VBIT V29.B16, V26.B16, v.B16 \
	VBIT V29.B16, V27.B16, w.B16

#define Q5_K \
	K4_SCALES \
	VMOVI  $16, V29.B16 \
	VLD1.P 32(R1), [V24.B16, V25.B16] \
	LOW_HIGH(V0, V1, V2, V3) \
	INSERT(VSHL $4, V0, V1) \
	INSERT(VSHL $3, V2, V3) \
	LOW_HIGH(V4, V5, V6, V7) \
	INSERT(VSHL $2, V4, V5) \
	INSERT(VSHL $1, V6, V7) \
	LOW_HIGH(V8, V9, V10, V11) \
	VBIT   V29.B16, V24.B16, V8.B16 \
	VBIT   V29.B16, V25.B16, V9.B16 \
	INSERT(VUSHR $1, V10, V11) \
	LOW_HIGH(V12, V13, V14, V15) \
	INSERT(VUSHR $2, V12, V13) \
	INSERT(VUSHR $3, V14, V15)

// func q5_KNEON(dst []float32, rows []byte, x *int8, blocks int)
TEXT ·q5_KNEON(SB), NOSPLIT, $0-64
	GROUPS(Q5_K, Q4_K_TIMES)

// func q5_KManyNEON(dst []float32, rows []byte, xs []*int8, acc []float32, groups int)
TEXT ·q5_KManyNEON(SB), NOSPLIT, $0-104
	MANY(Q5_K, Q4_K_TIMES)

// HALF_SCALES loads sixteen int8s as integers.
#define HALF_SCALES(v, n) \
	SXTL8H(n, 19) \
	SXTL28H(n, 21) \
	SXTL4S(19, 18) \
	SXTL24S(19, 19) \
	SXTL4S(21, 20) \
	SXTL24S(21, 21)

// Q6_HALF loads 64 bytes of nibbles to e to h. V24 and V25 have two bits more of all. V28 is 15, V23 is 32.
#define Q6_HALF(a, b, c, d, e, f, g, h) \
	VLD1.P 64(R1), [e.B16, f.B16, g.B16, h.B16] \
	VLD1.P 32(R7), [V24.B16, V25.B16] \
	VAND   V28.B16, e.B16, a.B16 \
	VAND   V28.B16, f.B16, b.B16 \
	VAND   V28.B16, g.B16, c.B16 \
	VAND   V28.B16, h.B16, d.B16 \
	VUSHR  $4, e.B16, e.B16 \
	VUSHR  $4, f.B16, f.B16 \
	VUSHR  $4, g.B16, g.B16 \
	VUSHR  $4, h.B16, h.B16 \
	INSERT(VSHL $4, a, b) \
	INSERT(VSHL $2, c, d) \
	VBIT   V29.B16, V24.B16, e.B16 \
	VBIT   V29.B16, V25.B16, f.B16 \
	INSERT(VUSHR $2, g, h) \
	VSUB   V23.B16, a.B16, a.B16 \
	VSUB   V23.B16, b.B16, b.B16 \
	VSUB   V23.B16, c.B16, c.B16 \
	VSUB   V23.B16, d.B16, d.B16 \
	VSUB   V23.B16, e.B16, e.B16 \
	VSUB   V23.B16, f.B16, f.B16 \
	VSUB   V23.B16, g.B16, g.B16 \
	VSUB   V23.B16, h.B16, h.B16

#define Q6_K \
	ADD    $128, R1, R7 \
	VMOVI  $15, V28.B16 \
	VMOVI  $0x30, V29.B16 \
	VMOVI  $32, V23.B16 \
	Q6_HALF(V0, V1, V2, V3, V4, V5, V6, V7) \
	Q6_HALF(V8, V9, V10, V11, V12, V13, V14, V15) \
	MOVD   R7, R1 \
	VLD1.P 16(R1), [V18.B16] \
	HALF_SCALES(V18, 18) \
	LOAD_HALF(V16, 16)

#define Q6_K_TIMES HALVES_TIMES(NOTHING)

// func q6_KNEON(dst []float32, rows []byte, x *int8, blocks int)
TEXT ·q6_KNEON(SB), NOSPLIT, $0-64
	GROUPS(Q6_K, Q6_K_TIMES)

// func q6_KManyNEON(dst []float32, rows []byte, xs []*int8, acc []float32, groups int)
TEXT ·q6_KManyNEON(SB), NOSPLIT, $0-104
	MANY(Q6_K, Q6_K_TIMES)

// CRUMBS loads 32 bytes to g and h, and makes four blocks of them. V28 is 3.
#define CRUMBS(a, b, c, d, e, f, g, h) \
	VLD1.P 32(R1), [g.B16, h.B16] \
	VAND   V28.B16, g.B16, a.B16 \
	VAND   V28.B16, h.B16, b.B16 \
	VUSHR  $2, g.B16, c.B16 \
	VUSHR  $2, h.B16, d.B16 \
	VUSHR  $4, g.B16, e.B16 \
	VUSHR  $4, h.B16, f.B16 \
	VAND   V28.B16, c.B16, c.B16 \
	VAND   V28.B16, d.B16, d.B16 \
	VAND   V28.B16, e.B16, e.B16 \
	VAND   V28.B16, f.B16, f.B16 \
	VUSHR  $6, g.B16, g.B16 \
	VUSHR  $6, h.B16, h.B16

#define ALL_CRUMBS \
	VMOVI $3, V28.B16 \
	CRUMBS(V0, V1, V2, V3, V4, V5, V6, V7) \
	CRUMBS(V8, V9, V10, V11, V12, V13, V14, V15)

#define Q2_K \
	VMOVI  $15, V28.B16 \
	VLD1.P 16(R1), [V23.B16] \
	VAND   V28.B16, V23.B16, V18.B16 \
	VUSHR  $4, V23.B16, V23.B16 \
	VUXTL  V23.B8, V22.H8 \
	VUXTL2 V23.B16, V23.H8 \
	HALF_SCALES(V18, 18) \
	ALL_CRUMBS \
	LOAD_HALF(V16, 16) \
	LOAD_HALF(V17, 17)

#define Q2_K_TIMES HALVES_TIMES(SUB_HALF_MINS)

// func q2_KNEON(dst []float32, rows []byte, x *int8, blocks int)
TEXT ·q2_KNEON(SB), NOSPLIT, $0-64
	GROUPS(Q2_K, Q2_K_TIMES)

// func q2_KManyNEON(dst []float32, rows []byte, xs []*int8, acc []float32, groups int)
TEXT ·q2_KManyNEON(SB), NOSPLIT, $0-104
	MANY(Q2_K, Q2_K_TIMES)

// UPPER puts ones above two bits where a bit of V24 and V25 is set, which subtracts 4.
#define UPPER(bit, v, w) \
	VMOVI  $bit, V26.B16 \
	VCMTST V26.B16, V24.B16, V27.B16 \
	VCMTST V26.B16, V25.B16, V28.B16 \
	VSLI   $2, V27.B16, v.B16 \
	VSLI   $2, V28.B16, w.B16

// The 6-bit scales: a nibble each in eight bytes, then two bits each in four, which go to bits
// 4 and 5 by a shift of their own for every lane of 32 bits.
#define Q3_SCALES \
	VLD1.P  8(R1), [V18.B8] \
	VLD1R.P 4(R1), [V19.S4] \
	VMOVI   $15, V28.B16 \
	VMOVI   $0x30, V29.B16 \
	VUSHR   $4, V18.B16, V26.B16 \
	VMOV    V26.D[0], V18.D[1] \
	VAND    V28.B16, V18.B16, V18.B16 \
	VSHL    $4, V19.B16, V26.B16 \
	VSHL    $2, V19.B16, V27.B16 \
	VUSHR   $2, V19.B16, V28.B16 \
	VMOV    V26.S[0], V19.S[0] \
	VMOV    V27.S[1], V19.S[1] \
	VMOV    V28.S[3], V19.S[3] \
	VBIT    V29.B16, V19.B16, V18.B16 \
	VMOVI   $32, V28.B16 \
	VSUB    V28.B16, V18.B16, V18.B16 \
	HALF_SCALES(V18, 18)

#define Q3_K \
	VLD1.P 32(R1), [V24.B16, V25.B16] \
	MVN16B(24, 24) \
	MVN16B(25, 25) \
	ALL_CRUMBS \
	UPPER(1, V0, V1) \
	UPPER(2, V2, V3) \
	UPPER(4, V4, V5) \
	UPPER(8, V6, V7) \
	UPPER(16, V8, V9) \
	UPPER(32, V10, V11) \
	UPPER(64, V12, V13) \
	UPPER(128, V14, V15) \
	Q3_SCALES \
	LOAD_HALF(V16, 16)

// func q3_KNEON(dst []float32, rows []byte, x *int8, blocks int)
TEXT ·q3_KNEON(SB), NOSPLIT, $0-64
	GROUPS(Q3_K, Q6_K_TIMES)

// func q3_KManyNEON(dst []float32, rows []byte, xs []*int8, acc []float32, groups int)
TEXT ·q3_KManyNEON(SB), NOSPLIT, $0-104
	MANY(Q3_K, Q6_K_TIMES)

// The scales of IQ4_XS are nibbles, and above them two bits. V22 is neonCrumbs, V20 is 15.
#define IQ4_XS \
	LOAD_HALF(V16, 16) \
	VLD1R.P 2(R1), [V18.H8] \
	VLD1R.P 4(R1), [V24.S4] \
	USHL8H(22, 18, 18) \
	VMOVI   $3, V25.B16 \
	VUXTL   V25.B8, V25.H8 \
	VAND    V25.B16, V18.B16, V18.B16 \
	VUSHR   $4, V24.B16, V25.B16 \
	VAND    V20.B16, V24.B16, V24.B16 \
	VZIP1   V25.B16, V24.B16, V24.B16 \
	VUXTL   V24.B8, V24.H8 \
	VSLI    $4, V18.H8, V24.H8 \
	VMOVI   $32, V25.B16 \
	VUXTL   V25.B8, V25.H8 \
	VSUB    V25.H8, V24.H8, V24.H8 \
	SXTL4S(24, 18) \
	SXTL24S(24, 19) \
	CODED_NIBBLES(V0, V1) \
	CODED_NIBBLES(V2, V3) \
	CODED_NIBBLES(V4, V5) \
	CODED_NIBBLES(V6, V7) \
	CODED_NIBBLES(V8, V9) \
	CODED_NIBBLES(V10, V11) \
	CODED_NIBBLES(V12, V13) \
	CODED_NIBBLES(V14, V15)

#define IQ4_XS_TIMES SUPER_TIMES(NOTHING)

#define LOAD_IQ4_XS \
	LOAD_CODES($·neonIQ4(SB)) \
	MOVD $·neonCrumbs(SB), R7 \
	VLD1 (R7), [V22.B16]

// func iq4_XSNEON(dst []float32, rows []byte, x *int8, blocks int)
TEXT ·iq4_XSNEON(SB), NOSPLIT, $0-64
	LOAD_IQ4_XS
	GROUPS(IQ4_XS, IQ4_XS_TIMES)

// func iq4_XSManyNEON(dst []float32, rows []byte, xs []*int8, acc []float32, groups int)
TEXT ·iq4_XSManyNEON(SB), NOSPLIT, $0-104
	LOAD_IQ4_XS
	MANY(IQ4_XS, IQ4_XS_TIMES)

#define TQ2_0 \
	ALL_CRUMBS \
	LOAD_HALF(V16, 16) \
	VMOV V16.B16, V17.B16

#define TQ_TIMES SMALL_TIMES(LESS_SUM, NOTHING)

// func tq2_0NEON(dst []float32, rows []byte, x *int8, blocks int)
TEXT ·tq2_0NEON(SB), NOSPLIT, $0-64
	GROUPS(TQ2_0, TQ_TIMES)

// func tq2_0ManyNEON(dst []float32, rows []byte, xs []*int8, acc []float32, groups int)
TEXT ·tq2_0ManyNEON(SB), NOSPLIT, $0-104
	MANY(TQ2_0, TQ_TIMES)

// TRIT makes d of the first digits of fractions in base three: three times n, and of that what exceeds a byte.
#define TRIT(n, d) \
	USHR16B1(n, d) \
	UHADD16B(n, d, d) \
	USHR16B6(d, d)

// TRITS makes two vectors of digits, and moves on to the next. V28 is 3.
#define TRITS(a, b) \
	TRIT(24, a) \
	TRIT(25, b) \
	MUL16B(28, 24, 24) \
	MUL16B(28, 25, 25)

#define NEXT_TRIT(a) \
	MUL16B(28, 24, 24) \
	TRIT(24, a)

// V23 is neonPowers.
#define TQ1_0 \
	VMOVI   $3, V28.B16 \
	VLD1.P  32(R1), [V24.B16, V25.B16] \
	TRITS(0, 1) \
	TRITS(2, 3) \
	TRITS(4, 5) \
	TRITS(6, 7) \
	TRIT(24, 8) \
	TRIT(25, 9) \
	VLD1.P  16(R1), [V24.B16] \
	TRIT(24, 10) \
	NEXT_TRIT(11) \
	NEXT_TRIT(12) \
	NEXT_TRIT(13) \
	NEXT_TRIT(14) \
	VLD1R.P 4(R1), [V24.S4] \
	MUL16B(23, 24, 24) \
	TRIT(24, 15) \
	LOAD_HALF(V16, 16) \
	VMOV    V16.B16, V17.B16

// func tq1_0NEON(dst []float32, rows []byte, x *int8, blocks int)
TEXT ·tq1_0NEON(SB), NOSPLIT, $0-64
	MOVD $·neonPowers(SB), R7
	VLD1 (R7), [V23.B16]
	GROUPS(TQ1_0, TQ_TIMES)

// func tq1_0ManyNEON(dst []float32, rows []byte, xs []*int8, acc []float32, groups int)
TEXT ·tq1_0ManyNEON(SB), NOSPLIT, $0-104
	MOVD $·neonPowers(SB), R7
	VLD1 (R7), [V23.B16]
	MANY(TQ1_0, TQ_TIMES)

// FP4_PAIR makes two halves of blocks of 16 bytes.
#define FP4_PAIR(v, w) \
	NIBBLES(V24, V25) \
	VZIP1 V25.D2, V24.D2, v.D2 \
	VZIP2 V25.D2, V24.D2, w.D2 \
	VTBL  v.B16, [V21.B16], v.B16 \
	VTBL  w.B16, [V21.B16], w.B16

#define NVFP4_BLOCK(i, s, t, u, v) \
	VLD1.P 4(R1), V16.S[i] \
	FP4_PAIR(s, t) \
	FP4_PAIR(u, v)

// The scales are the upper bytes of binary16s, shifted by one. 0x7f is no number but zero. Those of first halves come to V16 and V17,
// those of second halves to V18 and V19.
#define NVFP4 \
	NVFP4_BLOCK(0, V0, V1, V2, V3) \
	NVFP4_BLOCK(1, V4, V5, V6, V7) \
	NVFP4_BLOCK(2, V8, V9, V10, V11) \
	NVFP4_BLOCK(3, V12, V13, V14, V15) \
	ZERO(24) \
	VMOVI  $0x7f, V25.B16 \
	VCMEQ  V25.B16, V16.B16, V26.B16 \
	VAND   V25.B16, V16.B16, V16.B16 \
	VBIT   V26.B16, V24.B16, V16.B16 \
	VUZP2  V16.B16, V16.B16, V18.B16 \
	VUZP1  V16.B16, V16.B16, V16.B16 \
	VUSHLL $7, V16.B8, V16.H8 \
	VUSHLL $7, V18.B8, V18.H8 \
	SCALES_AND_OFFSETS \
	FMUL4S(22, 16, 16) \
	FMUL4S(22, 17, 17) \
	FMUL4S(22, 18, 18) \
	FMUL4S(22, 19, 19)

#define NVFP4_SUMS(a, b, c, d, at, scale, e, p) \
	DOT16(a, at, 24) \
	DOT16(b, at+64, 25) \
	DOT16(c, at+128, 26) \
	DOT16(d, at+192, 27) \
	FOUR(24, 25, 26, 27) \
	ADD_SCALED(e, scale, p)

#define NVFP4_TIMES \
	NVFP4_SUMS(0, 2, 4, 6, 0, 16, 0, 30) \
	NVFP4_SUMS(1, 3, 5, 7, 32, 18, 0, 30) \
	NVFP4_SUMS(8, 10, 12, 14, 16, 17, 16, 31) \
	NVFP4_SUMS(9, 11, 13, 15, 48, 19, 16, 31)

// V22 is 128.
#define LOAD_NVFP4 \
	LOAD_CODES($·neonFP4(SB)) \
	MOVD $0x43000000, R7 \
	VDUP R7, V22.S4

// func nvfp4NEON(dst []float32, rows []byte, x *int8, blocks int)
TEXT ·nvfp4NEON(SB), NOSPLIT, $0-64
	LOAD_NVFP4
	GROUPS(NVFP4, NVFP4_TIMES)

// func nvfp4ManyNEON(dst []float32, rows []byte, xs []*int8, acc []float32, groups int)
TEXT ·nvfp4ManyNEON(SB), NOSPLIT, $0-104
	LOAD_NVFP4
	MANY(NVFP4, NVFP4_TIMES)
