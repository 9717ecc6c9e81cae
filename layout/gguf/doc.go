// Package gguf decodes GGUF files, versions 1 to 3, and encodes version 3: the format of ggml and llama.cpp.
//
//	0      "GGUF"
//	4      u32      version
//	8      u64      tensor_count
//	16     u64      metadata_kv_count
//	24     …        metadata_kv: string key, u32 value_type, value
//	       …        tensor_infos: string name, u32 n_dimensions, u64[n_dimensions] dimensions,
//	                u32 type, u64 offset
//	       …        padding to a multiple of general.alignment
//	D      …        tensor_data; the offset of a tensor counts from D
//
// A string is a u64 length and that many bytes. A value is, by its type,
//
//	0 u8   1 i8   2 u16   3 i16   4 u32   5 i32   6 f32   7 bool, a byte   8 string
//	10 u64   11 i64   12 f64
//	9 an array: u32 type, u64 length, and that many values
//
// Version 1 has u32 where this has u64, save for a tensor's offset. A big-endian file has every number
// of several bytes turned round, also numbers in blocks: its version tells it, and [File.Unpack] turns its tensors back.
// dimensions are innermost first; an index has them outermost first, as all formats here.
//
// # Opening
//
// The tensor infos lie behind the metadata, and nothing says where. A reader must walk through
// all of it. [Decode] does that and no more. It steps over arrays of numbers and reads only the
// lengths of a vocabulary's strings. [File.Get] and [File.Metadata] read values when asked.
//
// # Source
//
// https://github.com/ggml-org/ggml, docs/gguf.md, and ggml's own reader, src/gguf.cpp.
// Where they differ, or say nothing:
//
//   - Alignments are powers of two, as for ggml. docs/gguf.md wants a multiple of 8; Audit warns of others and
//     of more than 4096. NewWriter writes 8 to 4096.
//   - Tensors are aligned, lie in the file and do not overlap. ggml also wants each to begin at
//     the padded end of the one before it. [File.Audit] warns of others.
//   - The padding behind the last tensor may be missing, as some writers leave it out.
//   - Arrays of arrays are read, as docs/gguf.md allows. ggml refuses them, and Audit warns.
//   - Names of tensors have as many bytes as layout.Limits allows, and so do dimensions. docs/gguf.md wants 64 and 4, ggml fewer
//     than 64. Audit warns of more, and NewWriter refuses them. stable-diffusion.cpp has names of up to 127 bytes, ComfyUI-GGUF
//     tensors of five dimensions.
//   - The key comfy.gguf.orig_shape.NAME of ComfyUI-GGUF gives the tensor its shape, if that has as many elements and its rows hold
//     whole blocks. Otherwise the tensor keeps the stored shape, and Audit warns.
//   - Keys are UTF-8, without NUL bytes and not empty. docs/gguf.md wants ASCII, and Audit
//     warns of others.
package gguf
