// Kernels of the neon level. impl.go has their contract; each does what the portable loop of
// the same name does.
//
// Most make 32 numbers at a time in V0 to V7, first from integers, then by scaling:
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
#define FCVTN2S(n, d)     WORD $(0x0E616800 | (n)<<5 | (d))           // fcvtn vd.2s, vn.2d
#define FCVTN22S(n, d)    WORD $(0x4E616800 | (n)<<5 | (d))           // fcvtn2 vd.4s, vn.2d
#define USHL4S(m, n, d)   WORD $(0x6EA04400 | (m)<<16 | (n)<<5 | (d)) // ushl vd.4s, vn.4s, vm.4s
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

// LOAD_HALF loads a binary16 and repeats its value in every lane of v, whose number is n.
#define LOAD_HALF(v, n) \
	VLD1R.P 2(R1), [v.H4] \
	FCVTL4S(n, n)

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
