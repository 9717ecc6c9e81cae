//go:build !purego

#include "textflag.h"
#include "neon_arm64.h"

// Codes whose scales lie apart: groupKernel in impl.go has the contract.
//
//	R5, R6   the next scale, and how far away the one behind it is: 0 if there is one for all
//	R7, R8   the same for offsets
//	R9, R10  how many numbers a group has, and how many of them are still to come
//	V18, V19 scale and offset of the group
//	V22      the scale of the second half of two groups of 16

#define LOAD_GROUPS \
	MOVD dst_base+0(FP), R0 \
	MOVD dst_len+8(FP), R2 \
	MOVD codes_base+24(FP), R1 \
	MOVD scales_base+48(FP), R5 \
	MOVD scales_len+56(FP), R6 \
	CMP  $1, R6 \
	CSET NE, R6 \
	LSL  $2, R6 \
	MOVD offsets_base+72(FP), R7 \
	MOVD offsets_len+80(FP), R8 \
	CMP  $1, R8 \
	CSET NE, R8 \
	LSL  $2, R8 \
	MOVD group+96(FP), R9

#define NEXT_SCALE(v) \
	VLD1R (R5), [v.S4] \
	ADD   R6, R5

#define NEXT_GROUP \
	NEXT_SCALE(V18) \
	VLD1R (R7), [V19.S4] \
	ADD   R8, R7 \
	MOVD  R9, R10

// NEIGHBOURS loads 32 nibbles, the lower one of a byte first. V20 is 15 in every byte.
#define NEIGHBOURS \
	VLD1.P 16(R1), [V17.B16] \
	VUSHR  $4, V17.B16, V21.B16 \
	VAND   V20.B16, V17.B16, V17.B16 \
	VZIP1  V21.B16, V17.B16, V16.B16 \
	VZIP2  V21.B16, V17.B16, V17.B16

// UPPER_NEIGHBOURS loads the upper nibble of a byte first.
#define UPPER_NEIGHBOURS \
	VLD1.P 16(R1), [V17.B16] \
	VUSHR  $4, V17.B16, V21.B16 \
	VAND   V20.B16, V17.B16, V17.B16 \
	VZIP1  V17.B16, V21.B16, V16.B16 \
	VZIP2  V17.B16, V21.B16, V17.B16

// PLACED makes 32 numbers of the codes in V16 and V17: V8 to V15 bring the bytes of each into its lane, V28
// and V29 shift it down, and V24 has its bits.
#define PLACED \
	VTBL V8.B16, [V16.B16, V17.B16], V0.B16 \
	VTBL V9.B16, [V16.B16, V17.B16], V1.B16 \
	VTBL V10.B16, [V16.B16, V17.B16], V2.B16 \
	VTBL V11.B16, [V16.B16, V17.B16], V3.B16 \
	VTBL V12.B16, [V16.B16, V17.B16], V4.B16 \
	VTBL V13.B16, [V16.B16, V17.B16], V5.B16 \
	VTBL V14.B16, [V16.B16, V17.B16], V6.B16 \
	VTBL V15.B16, [V16.B16, V17.B16], V7.B16 \
	USHL4S(28, 0, 0) \
	USHL4S(29, 1, 1) \
	USHL4S(28, 2, 2) \
	USHL4S(29, 3, 3) \
	USHL4S(28, 4, 4) \
	USHL4S(29, 5, 5) \
	USHL4S(28, 6, 6) \
	USHL4S(29, 7, 7) \
	VAND V24.B16, V0.B16, V0.B16 \
	VAND V24.B16, V1.B16, V1.B16 \
	VAND V24.B16, V2.B16, V2.B16 \
	VAND V24.B16, V3.B16, V3.B16 \
	VAND V24.B16, V4.B16, V4.B16 \
	VAND V24.B16, V5.B16, V5.B16 \
	VAND V24.B16, V6.B16, V6.B16 \
	VAND V24.B16, V7.B16, V7.B16 \
	ALL(UCVTF4S)

#define LOAD_PLACES(bits) \
	LOAD_GROUPS \
	MOVD $(1<<bits - 1), R3 \
	VDUP R3, V24.S4 \
	MOVD $·neonPlaces(SB), R3 \
	ADD  $(160*bits), R3 \
	VLD1.P 64(R3), [V8.B16, V9.B16, V10.B16, V11.B16] \
	VLD1.P 64(R3), [V12.B16, V13.B16, V14.B16, V15.B16] \
	VLD1 (R3), [V28.B16, V29.B16]

// LOAD_1 to LOAD_7 load 32 codes of so many bits. V17 has the last bytes, those that fit V16 among them.
#define LOAD_1 \
	FMOVS.P 4(R1), F16
#define LOAD_2 \
	VLD1.P 8(R1), [V16.B8]
#define LOAD_3 \
	VLD1 (R1), [V16.B8] \
	ADD  $4, R1 \
	VLD1.P 8(R1), [V17.B8]
#define LOAD_TWICE(bits) \
	VLD1 (R1), [V16.B16] \
	ADD  $(4*bits-16), R1 \
	VLD1.P 16(R1), [V17.B16]
#define LOAD_5 LOAD_TWICE(5)
#define LOAD_6 LOAD_TWICE(6)
#define LOAD_7 LOAD_TWICE(7)

// func uint4GroupsNEON(dst []float32, codes []byte, scales, offsets []float32, group int)
TEXT ·uint4GroupsNEON(SB), NOSPLIT, $0-104
	LOAD_GROUPS
	LOAD_SPREAD
	VMOVI $15, V20.B16

group:
	NEXT_GROUP

part:
	NEIGHBOURS
	SPREAD
	ALL(UCVTF4S24)
	WITH(FSUB4S, 19, 19)
	WITH(FMUL4S, 18, 18)
	STORE
	SUBS $32, R10
	BNE  part
	SUBS R9, R2
	BNE  group
	RET

// func uint4BiasedGroupsNEON(dst []float32, codes []byte, scales, offsets []float32, group int)
TEXT ·uint4BiasedGroupsNEON(SB), NOSPLIT, $0-104
	LOAD_GROUPS
	LOAD_SPREAD
	VMOVI $15, V20.B16

group:
	NEXT_GROUP

part:
	NEIGHBOURS
	SPREAD
	ALL(UCVTF4S24)
	WITH(FMUL4S, 18, 18)
	WITH(FADD4S, 19, 19)
	STORE
	SUBS $32, R10
	BNE  part
	SUBS R9, R2
	BNE  group
	RET

// func uint8GroupsNEON(dst []float32, codes []byte, scales, offsets []float32, group int)
TEXT ·uint8GroupsNEON(SB), NOSPLIT, $0-104
	LOAD_GROUPS
	LOAD_SPREAD

group:
	NEXT_GROUP

part:
	VLD1.P 32(R1), [V16.B16, V17.B16]
	SPREAD
	ALL(UCVTF4S24)
	WITH(FSUB4S, 19, 19)
	WITH(FMUL4S, 18, 18)
	STORE
	SUBS $32, R10
	BNE  part
	SUBS R9, R2
	BNE  group
	RET

// func uint8BiasedGroupsNEON(dst []float32, codes []byte, scales, offsets []float32, group int)
TEXT ·uint8BiasedGroupsNEON(SB), NOSPLIT, $0-104
	LOAD_GROUPS
	LOAD_SPREAD

group:
	NEXT_GROUP

part:
	VLD1.P 32(R1), [V16.B16, V17.B16]
	SPREAD
	ALL(UCVTF4S24)
	WITH(FMUL4S, 18, 18)
	WITH(FADD4S, 19, 19)
	STORE
	SUBS $32, R10
	BNE  part
	SUBS R9, R2
	BNE  group
	RET

// func int8GroupsNEON(dst []float32, codes []byte, scales, offsets []float32, group int)
TEXT ·int8GroupsNEON(SB), NOSPLIT, $0-104
	LOAD_GROUPS
	LOAD_SPREAD

group:
	NEXT_GROUP

part:
	VLD1.P 32(R1), [V16.B16, V17.B16]
	INT8S
	WITH(FSUB4S, 19, 19)
	WITH(FMUL4S, 18, 18)
	STORE
	SUBS $32, R10
	BNE  part
	SUBS R9, R2
	BNE  group
	RET

// func int8By127GroupsNEON(dst []float32, codes []byte, scales, offsets []float32, group int)
TEXT ·int8By127GroupsNEON(SB), NOSPLIT, $0-104
	LOAD_GROUPS
	LOAD_SPREAD
	MOVD $0x3C010204, R3 // 1/127
	VDUP R3, V20.S4

group:
	NEXT_GROUP

part:
	VLD1.P 32(R1), [V16.B16, V17.B16]
	INT8S
	WITH(FMUL4S, 18, 18)
	WITH(FMUL4S, 20, 20)
	STORE
	SUBS $32, R10
	BNE  part
	SUBS R9, R2
	BNE  group
	RET

// E4M3 goes eight at a time, as in f8e4m3NEON. A NaN is 480 before it gets all bits of the exponent.
// func e4m3GroupsNEON(dst []float32, codes []byte, scales, offsets []float32, group int)
TEXT ·e4m3GroupsNEON(SB), NOSPLIT, $0-104
	LOAD_GROUPS
	MOVD $0x4000, R3
	VDUP R3, V20.H8
	MOVD $0x43800000, R3 // 2^8
	VDUP R3, V21.S4
	MOVD $0x7FFFFFFF, R3
	VDUP R3, V22.S4
	MOVD $0x43F00000, R3 // 480
	VDUP R3, V23.S4
	MOVD $0x7F800000, R3
	VDUP R3, V24.S4

group:
	NEXT_GROUP

part:
	VLD1.P 8(R1), [V8.B8]
	VUSHLL $7, V8.B8, V8.H8
	VAND   V20.B16, V8.B16, V9.B16 // the sign, one bit too low
	VADD   V9.H8, V8.H8, V8.H8
	FCVTL4S(8, 0)
	FCVTL24S(8, 1)
	FMUL4S(21, 0, 0)
	FMUL4S(21, 1, 1)
	VAND   V22.B16, V0.B16, V2.B16
	VAND   V22.B16, V1.B16, V3.B16
	VCMEQ  V23.S4, V2.S4, V2.S4
	VCMEQ  V23.S4, V3.S4, V3.S4
	VAND   V24.B16, V2.B16, V2.B16
	VAND   V24.B16, V3.B16, V3.B16
	VORR   V2.B16, V0.B16, V0.B16
	VORR   V3.B16, V1.B16, V1.B16
	FMUL4S(18, 0, 0)
	FMUL4S(18, 1, 1)
	VST1.P [V0.S4, V1.S4], 32(R0)
	SUBS   $8, R10
	BNE    part
	SUBS   R9, R2
	BNE    group
	RET

// func e5m2GroupsNEON(dst []float32, codes []byte, scales, offsets []float32, group int)
TEXT ·e5m2GroupsNEON(SB), NOSPLIT, $0-104
	LOAD_GROUPS
	VEOR V28.B16, V28.B16, V28.B16

group:
	NEXT_GROUP

part:
	VLD1.P 8(R1), [V8.B8]
	VZIP1  V8.B16, V28.B16, V8.B16
	FCVTL4S(8, 0)
	FCVTL24S(8, 1)
	FMUL4S(18, 0, 0)
	FMUL4S(18, 1, 1)
	VST1.P [V0.S4, V1.S4], 32(R0)
	SUBS   $8, R10
	BNE    part
	SUBS   R9, R2
	BNE    group
	RET

// LOAD_FLOATS loads sixteen floats to V24 to V27. The bytes of one are found by four times its code
// and V23, which counts them in every lane. V28 to V31 repeat a byte of V16 or V17 in a lane.
#define LOAD_FLOATS(table) \
	MOVD  table, R3 \
	VLD1  (R3), [V24.B16, V25.B16, V26.B16, V27.B16] \
	MOVD  $·neonRepeat(SB), R3 \
	VLD1  (R3), [V28.B16, V29.B16, V30.B16, V31.B16] \
	MOVD  $0x03020100, R3 \
	VDUP  R3, V23.S4 \
	VMOVI $15, V20.B16

#define FLOAT(repeat, codes, v) \
	VTBL repeat.B16, [codes.B16], v.B16 \
	VADD V23.B16, v.B16, v.B16 \
	VTBL v.B16, [V24.B16, V25.B16, V26.B16, V27.B16], v.B16

#define FLOATS \
	VSHL $2, V16.B16, V16.B16 \
	VSHL $2, V17.B16, V17.B16 \
	FLOAT(V28, V16, V0) \
	FLOAT(V29, V16, V1) \
	FLOAT(V30, V16, V2) \
	FLOAT(V31, V16, V3) \
	FLOAT(V28, V17, V4) \
	FLOAT(V29, V17, V5) \
	FLOAT(V30, V17, V6) \
	FLOAT(V31, V17, V7)

// Groups of 16 come in twos.
#define TABLED_GROUPS(neighbours) \
	CMP  $16, R9 \
	BEQ  pairs \
group: \
	NEXT_GROUP \
part: \
	neighbours \
	FLOATS \
	WITH(FMUL4S, 18, 18) \
	STORE \
	SUBS $32, R10 \
	BNE  part \
	SUBS R9, R2 \
	BNE  group \
	RET \
pairs: \
	NEXT_SCALE(V18) \
	NEXT_SCALE(V22) \
	neighbours \
	FLOATS \
	WITH(FMUL4S, 18, 22) \
	STORE \
	SUBS $32, R2 \
	BNE  pairs \
	RET

// func e2m1GroupsNEON(dst []float32, codes []byte, scales, offsets []float32, group int)
TEXT ·e2m1GroupsNEON(SB), NOSPLIT, $0-104
	LOAD_GROUPS
	LOAD_FLOATS($·e2m1Floats(SB))
	TABLED_GROUPS(NEIGHBOURS)

// func e2m1PlusGroupsNEON(dst []float32, codes []byte, scales, offsets []float32, group int)
TEXT ·e2m1PlusGroupsNEON(SB), NOSPLIT, $0-104
	LOAD_GROUPS
	LOAD_FLOATS($·e2m1PlusFloats(SB))
	TABLED_GROUPS(NEIGHBOURS)

// func nf4GroupsNEON(dst []float32, codes []byte, scales, offsets []float32, group int)
TEXT ·nf4GroupsNEON(SB), NOSPLIT, $0-104
	LOAD_GROUPS
	LOAD_FLOATS($·nf4Floats(SB))
	TABLED_GROUPS(UPPER_NEIGHBOURS)

// func fp4GroupsNEON(dst []float32, codes []byte, scales, offsets []float32, group int)
TEXT ·fp4GroupsNEON(SB), NOSPLIT, $0-104
	LOAD_GROUPS
	LOAD_FLOATS($·bnbFP4Floats(SB))
	TABLED_GROUPS(UPPER_NEIGHBOURS)

// func uint1GroupsNEON(dst []float32, codes []byte, scales, offsets []float32, group int)
TEXT ·uint1GroupsNEON(SB), NOSPLIT, $0-104
	LOAD_PLACES(1)

group:
	NEXT_GROUP

part:
	LOAD_1
	PLACED
	WITH(FSUB4S, 19, 19)
	WITH(FMUL4S, 18, 18)
	STORE
	SUBS $32, R10
	BNE  part
	SUBS R9, R2
	BNE  group
	RET

// func uint1BiasedGroupsNEON(dst []float32, codes []byte, scales, offsets []float32, group int)
TEXT ·uint1BiasedGroupsNEON(SB), NOSPLIT, $0-104
	LOAD_PLACES(1)

group:
	NEXT_GROUP

part:
	LOAD_1
	PLACED
	WITH(FMUL4S, 18, 18)
	WITH(FADD4S, 19, 19)
	STORE
	SUBS $32, R10
	BNE  part
	SUBS R9, R2
	BNE  group
	RET

// func uint2GroupsNEON(dst []float32, codes []byte, scales, offsets []float32, group int)
TEXT ·uint2GroupsNEON(SB), NOSPLIT, $0-104
	LOAD_PLACES(2)

group:
	NEXT_GROUP

part:
	LOAD_2
	PLACED
	WITH(FSUB4S, 19, 19)
	WITH(FMUL4S, 18, 18)
	STORE
	SUBS $32, R10
	BNE  part
	SUBS R9, R2
	BNE  group
	RET

// func uint2BiasedGroupsNEON(dst []float32, codes []byte, scales, offsets []float32, group int)
TEXT ·uint2BiasedGroupsNEON(SB), NOSPLIT, $0-104
	LOAD_PLACES(2)

group:
	NEXT_GROUP

part:
	LOAD_2
	PLACED
	WITH(FMUL4S, 18, 18)
	WITH(FADD4S, 19, 19)
	STORE
	SUBS $32, R10
	BNE  part
	SUBS R9, R2
	BNE  group
	RET

// func uint3GroupsNEON(dst []float32, codes []byte, scales, offsets []float32, group int)
TEXT ·uint3GroupsNEON(SB), NOSPLIT, $0-104
	LOAD_PLACES(3)

group:
	NEXT_GROUP

part:
	LOAD_3
	PLACED
	WITH(FSUB4S, 19, 19)
	WITH(FMUL4S, 18, 18)
	STORE
	SUBS $32, R10
	BNE  part
	SUBS R9, R2
	BNE  group
	RET

// func uint3BiasedGroupsNEON(dst []float32, codes []byte, scales, offsets []float32, group int)
TEXT ·uint3BiasedGroupsNEON(SB), NOSPLIT, $0-104
	LOAD_PLACES(3)

group:
	NEXT_GROUP

part:
	LOAD_3
	PLACED
	WITH(FMUL4S, 18, 18)
	WITH(FADD4S, 19, 19)
	STORE
	SUBS $32, R10
	BNE  part
	SUBS R9, R2
	BNE  group
	RET

// func uint5GroupsNEON(dst []float32, codes []byte, scales, offsets []float32, group int)
TEXT ·uint5GroupsNEON(SB), NOSPLIT, $0-104
	LOAD_PLACES(5)

group:
	NEXT_GROUP

part:
	LOAD_5
	PLACED
	WITH(FSUB4S, 19, 19)
	WITH(FMUL4S, 18, 18)
	STORE
	SUBS $32, R10
	BNE  part
	SUBS R9, R2
	BNE  group
	RET

// func uint5BiasedGroupsNEON(dst []float32, codes []byte, scales, offsets []float32, group int)
TEXT ·uint5BiasedGroupsNEON(SB), NOSPLIT, $0-104
	LOAD_PLACES(5)

group:
	NEXT_GROUP

part:
	LOAD_5
	PLACED
	WITH(FMUL4S, 18, 18)
	WITH(FADD4S, 19, 19)
	STORE
	SUBS $32, R10
	BNE  part
	SUBS R9, R2
	BNE  group
	RET

// func uint6GroupsNEON(dst []float32, codes []byte, scales, offsets []float32, group int)
TEXT ·uint6GroupsNEON(SB), NOSPLIT, $0-104
	LOAD_PLACES(6)

group:
	NEXT_GROUP

part:
	LOAD_6
	PLACED
	WITH(FSUB4S, 19, 19)
	WITH(FMUL4S, 18, 18)
	STORE
	SUBS $32, R10
	BNE  part
	SUBS R9, R2
	BNE  group
	RET

// func uint6BiasedGroupsNEON(dst []float32, codes []byte, scales, offsets []float32, group int)
TEXT ·uint6BiasedGroupsNEON(SB), NOSPLIT, $0-104
	LOAD_PLACES(6)

group:
	NEXT_GROUP

part:
	LOAD_6
	PLACED
	WITH(FMUL4S, 18, 18)
	WITH(FADD4S, 19, 19)
	STORE
	SUBS $32, R10
	BNE  part
	SUBS R9, R2
	BNE  group
	RET

// func uint7GroupsNEON(dst []float32, codes []byte, scales, offsets []float32, group int)
TEXT ·uint7GroupsNEON(SB), NOSPLIT, $0-104
	LOAD_PLACES(7)

group:
	NEXT_GROUP

part:
	LOAD_7
	PLACED
	WITH(FSUB4S, 19, 19)
	WITH(FMUL4S, 18, 18)
	STORE
	SUBS $32, R10
	BNE  part
	SUBS R9, R2
	BNE  group
	RET

// func uint7BiasedGroupsNEON(dst []float32, codes []byte, scales, offsets []float32, group int)
TEXT ·uint7BiasedGroupsNEON(SB), NOSPLIT, $0-104
	LOAD_PLACES(7)

group:
	NEXT_GROUP

part:
	LOAD_7
	PLACED
	WITH(FMUL4S, 18, 18)
	WITH(FADD4S, 19, 19)
	STORE
	SUBS $32, R10
	BNE  part
	SUBS R9, R2
	BNE  group
	RET
