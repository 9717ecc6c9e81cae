// Package dequant expands the element types of tensor files into float32. Package quantize goes the other way.
//
// Expand serves every type that is Supported. Bytes are
// little-endian, as all files of this project store them. Destination and source must not
// overlap. After an error the destination's contents are unspecified. Nothing here does I/O.
//
// A Codec expands any part of a tensor: the integers that a file gives a scale, the
// elements behind a head, blocks. Only its methods, and the methods of Grouped, start goroutines, for large buffers, if the
// caller lets them have more than one core.
//
// # Types
//
// A block has n elements. Column bytes is its size. In the formulas d and m are the block's own scale
// and offset, binary16 unless noted. s is the scale of a part of the block, and μ the part's offset.
// Brackets have the number of elements in a part. q is an element's code, and T or G a table that
// codes index. Products are taken from left to right.
//
//	type       n  bytes  value                                            source
//	F32        1      4  x, NaNs untouched                                IEEE 754 binary32
//	F16        1      2  x                                                IEEE 754 binary16
//	BF16       1      2  x                                                bfloat16
//	F64        1      8  x rounded; beyond float32's range an infinity    IEEE 754 binary64
//	F8_E4M3    1      1  x, without infinities                            OCP OFP8 v1.0
//	F8_E5M2    1      1  x                                                OCP OFP8 v1.0
//	F8_E8M0    1      1  2^(e-127); 255 is a NaN                          OCP MX v1.0
//	F8_E4M3FNUZ 1     1  x, bias 8; 0x80 is the one NaN                   arXiv 2206.02915
//	F8_E5M2FNUZ 1     1  x, bias 16; 0x80 is the one NaN                  arXiv 2206.02915
//	F6_E2M3    4      3  x, the first code in the lowest bits             OCP MX v1.0
//	F6_E3M2    4      3  x, the first code in the lowest bits             OCP MX v1.0
//	F4         2      1  E2M1, the first code in the lower nibble         OCP MX v1.0
//	I8         1      1  q                                                two's complement
//	I16        1      2  q
//	I32        1      4  q rounded
//	I64        1      8  q rounded
//	U8         1      1  q
//	U16        1      2  q
//	U32        1      4  q rounded
//	U64        1      8  q rounded
//	BOOL       1      1  0 for a zero byte, else 1
//	Q4_0      32     18  (q-8)·d                                          ggml dequantize_row_q4_0
//	Q4_1      32     20  q·d + m                                          ggml dequantize_row_q4_1
//	Q5_0      32     22  (q-16)·d                                         ggml dequantize_row_q5_0
//	Q5_1      32     24  q·d + m                                          ggml dequantize_row_q5_1
//	Q8_0      32     34  q·d                                              ggml dequantize_row_q8_0
//	Q8_1      32     36  q·d; the stored sum is not used                  ggml block_q8_1
//	Q2_K     256     84  d·s·q - m·μ, s and μ of 4 bits [16]              ggml dequantize_row_q2_K
//	Q3_K     256    110  d·s·q, s of 6 bits [16]                          ggml dequantize_row_q3_K
//	Q4_K     256    144  d·s·q - m·μ, s and μ of 6 bits [32]              ggml dequantize_row_q4_K
//	Q5_K     256    176  d·s·q - m·μ, s and μ of 6 bits [32]              ggml dequantize_row_q5_K
//	Q6_K     256    210  d·s·q, s of 8 bits [16]                          ggml dequantize_row_q6_K
//	Q8_K     256    292  q·d, d a binary32; stored sums are not used      ggml dequantize_row_q8_K
//	IQ4_NL    32     18  d·T[q], 16 entries                               ggml dequantize_row_iq4_nl
//	IQ4_XS   256    136  d·s·T[q], s of 6 bits [32], T as IQ4_NL's        ggml dequantize_row_iq4_xs
//	MXFP4     32     17  E2M1 · 2^(e-127)                                 OCP MX v1.0, ggml
//	NVFP4     64     36  E2M1 · unsigned E4M3 [16]                        ggml dequantize_row_nvfp4
//	IQ2_XXS  256     66  ±d·(s+½)/4·G, s of 4 bits [32], 256×8 entries    ggml dequantize_row_iq2_xxs
//	IQ2_XS   256     74  ±d·(s+½)/4·G, s of 4 bits [16], 512×8 entries    ggml dequantize_row_iq2_xs
//	IQ2_S    256     82  ±d·(s+½)/4·G, s of 4 bits [16], 1024×8 entries   ggml dequantize_row_iq2_s
//	IQ3_XXS  256     98  ±d·(s+½)/2·G, s of 4 bits [32], 256×4 entries    ggml dequantize_row_iq3_xxs
//	IQ3_S    256    110  ±d·(2s+1)·G, s of 4 bits [32], 512×4 entries     ggml dequantize_row_iq3_s
//	IQ1_S    256     50  d·(2s+1)·(G±⅛), s and ± [32], 2048×8 entries     ggml dequantize_row_iq1_s
//	IQ1_M    256     56  d·(2s+1)·(G±⅛), s [16], ± [8], G as IQ1_S's      ggml dequantize_row_iq1_m
//	TQ1_0    256     54  (q-1)·d, five base-3 digits in a byte            ggml dequantize_row_tq1_0
//	TQ2_0    256     66  (q-1)·d, q of 2 bits                             ggml dequantize_row_tq2_0
//	Q1_0     128     18  d or -d                                          ggml dequantize_row_q1_0
//	Q2_0      64     18  (q-1)·d, q of 2 bits, neighbours in one byte     ggml dequantize_row_q2_0
//	APR_Q4    32     18  (q-8)·d, neighbours in one byte                  aprender
//	APR_Q8     1      1  q·d, d a binary32 before all elements            aprender
//
// OCP MX leaves the order of codes in bytes open. F4 and F6 have the order of ONNX's raw_data, torch's
// float4_e2m1fn_x2 and AMD's rocRoller.
//
// The scale that files with NVFP4 may keep apart, for a whole tensor, is not applied. APR_Q4's d
// counts as 0 if it is infinite, NaN or below 2⁻¹⁴; its last block may be padded.
//
// # Scales that lie apart
//
// Quantized checkpoints in SafeTensors store codes, scales and zero points as tensors of their own.
// Grouped expands them. It takes scales as float32s, in the order of the matrix; Expand and
// Transpose make such scales of what is stored. q is a code, s its scale, z its zero point or bias. Package layout
// has the codes and packings.
//
//	convention                    Code             Pack       value         source
//	FP8, block, channel, tensor   E4M3, E5M2       PackRows   x·s           transformers finegrained_fp8
//	MXFP8                         E4M3             PackRows   x·2^(e-127)   OCP MX v1.0
//	compressed-tensors, int       Int8             PackRows   (q-z)·s       compressed_tensors forward
//	compressed-tensors, packed    1 to 8 bits      PackRows   (q-z)·s       pack_quantized
//	MLX affine                    1 to 8 bits      PackRows   s·q + z       mlx affine_dequantize
//	AWQ gemm                      4 bits           PackAWQ    (q-z)·s       AutoAWQ packing_utils
//	GPTQ                          2, 3, 4, 8 bits  PackGPTQ   (q-z)·s       GPTQModel qlinear
//	GPTQ in planes                3, 5, 6, 7 bits  PackPlanes (q-z)·s       GPTQModel planar_packing
//	HQQ                           1 to 8 bits      PackSlabs  (q-z)·s       hqq bitpack
//	BitNet                        2 bits           PackLowSlabs (q-1)·s     transformers bitnet
//	bitsandbytes, 4 bits          NF4, FP4         PackRows   T[q]·s        bitsandbytes get_4bit_type
//	bitsandbytes, int8            Int8By127        PackRows   (q·s)·1/127   bitsandbytes int8_vectorwise_dequant
//	MXFP4                         E2M1             PackRows   x·2^(e-127)   OCP MX v1.0
//	NVFP4                         E2M1, E2M1Plus   PackRows   x·s           s: combined by the caller
//
// The value of float32(1/127) is meant by 1/127. Only z of HQQ is no integer.
//
// # Values
//
// ggml-common.h has the layouts of block types, dequantize_row_* in ggml-quants.c the arithmetic:
// all in float32, every product and every sum rounded on its own. Integers and F64 round once, to
// nearest even. Scaled integers are scale × (q − zero), with the difference exact and the product
// rounded once. APR_Q4 and APR_Q8 expand in float32, as aprender's readers do.
//
// Every implementation gives the same bits, with one freedom:
//
//   - F32, F16, BF16, F8_E4M3 and F8_E5M2 carry a NaN over bit for bit. Its sign stays and its
//     mantissa moves left into place (F16's by 13 bits). A signalling NaN is not quieted,
//     although VCVTPH2PS and FCVTL would quiet it.
//   - In the other types a NaN can only come from arithmetic. If one implementation gives a NaN,
//     all give one. Its sign and payload are not specified: the instruction selected decides
//     which operand of a sum survives.
//
// # Implementations
//
// The portable loops, in files named *_generic.go, are always compiled and are the reference. A
// level (avx2, avx512, neon) is a table of kernels for some types. The best level that has a
// kernel for a type serves it, chosen once when the package is initialized. The build tag purego
// leaves all assembly out. impl.go states the contract of a kernel.
package dequant
