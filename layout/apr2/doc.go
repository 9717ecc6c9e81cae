// Package apr2 reads and writes APR2 model files by "APR-FORMAT-002: APR v2 Format
// Specification", 2.0.0-draft. Package aprender reads the files that are shipped in its stead.
//
// # The file
//
// Integers are little-endian. Offsets count from the start of the file, except those
// of tensors, which count from data_offset.
//
//	┌─ Header ───────────────────────────────────────────────── 32 bytes ─┐
//	│  0  magic            [4]byte   "APR2"                               │
//	│  4  version_major    u16       2                                    │
//	│  6  version_minor    u16       any                                  │
//	│  8  flags            u32       see Flags                            │
//	│ 12  metadata_offset  u32                                            │
//	│ 16  metadata_size    u32                                            │
//	│ 20  index_offset     u32                                            │
//	│ 24  index_size       u32                                            │
//	│ 28  data_offset      u32                                            │
//	├─ Metadata ─────────────────────────────────── metadata_size bytes ──┤
//	│     one JSON object                                                 │
//	├─ Tensor index ────────────────────────────────── index_size bytes ──┤
//	│  0  tensor_count     u32                                            │
//	│  4  reserved         u32                                            │
//	│     tensor_count entries, each:                                     │
//	│     0     name_len   u16                                            │
//	│     2     name       [name_len]byte       UTF-8                     │
//	│     +0    dtype      u8                                             │
//	│     +1    n_dims     u8                   n, 1 to 8                 │
//	│     +2    dims       [n]u64               outermost first           │
//	│     +2+8n offset     u64                  from data_offset          │
//	│     +10+8n size      u64                  bytes in the file         │
//	│     +18+8n raw_size  u64                  0: not compressed         │
//	│     +26+8n flags     u32                                            │
//	├─ Padding to a multiple of 64 ───────────────────────────────────────┤
//	├─ Tensor data, from data_offset ─────────────────────────────────────┤
//	│     each tensor at a multiple of 64 (or 32) from the file's start   │
//	├─ Footer ───────────────────────────────────────────────── 16 bytes ─┤
//	│  0  crc32            u32       IEEE, of all bytes before the footer │
//	│  4  magic_end        [4]byte   "2RPA"                               │
//	│  8  file_size        u64       of the whole file                    │
//	└─────────────────────────────────────────────────────────────────────┘
//
// A tensor with a raw_size is compressed: blocks of a u32 length and that many bytes
// of raw LZ4 block, each of which yields 65,536 bytes, the last one the rest.
//
// # Where the specification is silent
//
// No writer of the draft was ever shipped, so these are our rules:
//
//   - The header's hexadecimal magic is the big-endian reading of the four bytes.
//   - raw_size alone says whether a tensor is compressed; it must then be the size that
//     dtype and dims imply, and at most 255 times size, the most that LZ4 can reach. The
//     flags of an entry are ignored (bit 0 is set for compressed tensors on writing), and
//     a header flag COMPRESSED that disagrees with the index is a warning of [File.Audit].
//   - What is aligned is a tensor's offset from the start of the file: to 32 bytes where
//     only ALIGNED_32 is set, else to 64. A misaligned tensor is readable, but not in
//     place; Audit fails it where a flag promises alignment and else warns.
//   - Sections are written as drawn and read in any order, also behind the data. Nothing
//     may overlap, tensors stay between data_offset and the footer, and the entries fill
//     the index exactly.
//   - A scalar is written with the shape [1]. A dimension of 0 makes an empty tensor,
//     which is never compressed.
//   - metadata_size 0 means that there is no metadata. Required keys that are missing
//     are warnings of Audit.
//   - ENCRYPTED has no layout: such files are refused. Neither has SIGNED: they open, and
//     Audit says that the signature was not checked. SHARDED is but a flag here.
//   - Reserved fields and unknown flags are written as 0 and ignored.
//   - The metadata key quantization.scales, an object from tensor name to number, turns
//     integer tensors into real ones, scale × (q − zero point), and
//     quantization.zero_points, from name to integer, holds the zero points that are not
//     0. See [File.Scales].
//
// # Extension
//
// From version_minor 1 on, files may hold dtypes that the draft's enum lacks. In a file
// of minor version 0 they are unknown dtypes.
//
//	0x20 F64   0x21 U16   0x22 U32   0x23 U64   0x24 BOOL   0x25 F8_E4M3   0x26 F8_E5M2
//	0x40 | ggml's type id, for types that have no id of their own above: Q4_K is 0x4C
package apr2
