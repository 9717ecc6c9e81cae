// Package apr2 reads and writes APR2 model files by "APR-FORMAT-002: APR v2 Format
// Specification", 2.0.0-draft. Package aprender reads the files that are shipped in its stead.
//
// # The file
//
// Integers are little-endian. Offsets count from the start of the file, except offsets
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
// of raw LZ4 block. Each block yields 65,536 bytes, the last one the rest.
//
// # Where the specification is silent
//
// No writer of the draft was ever shipped, so the rules are ours:
//
//   - The header's hexadecimal magic is the big-endian reading of the four bytes.
//   - raw_size alone says whether a tensor is compressed. It must then be the size that
//     dtype and dims imply, and at most 255 times size, the most that LZ4 can reach. The
//     flags of an entry are ignored; writing sets bit 0 for compressed tensors. [File.Audit] warns
//     of a header flag COMPRESSED that disagrees with the index.
//   - Alignment counts from the start of the file: to 32 bytes if only ALIGNED_32 is set, else
//     to 64. A misaligned tensor is readable, but not in place. Audit fails it if a flag promises
//     alignment, and else warns.
//   - Sections are written as drawn and read in any order, also behind the data. Nothing
//     may overlap. Tensors stay between data_offset and the footer. The entries fill the index exactly.
//   - A scalar is written with the shape [1]. A dimension of 0 makes an empty tensor. That
//     is never compressed.
//   - metadata_size 0 means that there is no metadata. Audit warns of missing required keys.
//   - ENCRYPTED and SIGNED have our layout from minor version 1 on (docs/trust.md). Without a trusted key
//     signed files open, and Audit says that the signature was not checked. Of encrypted files the head
//     can be read. ENCRYPTED in minor version 0 is refused. SHARDED is only a flag here.
//   - Reserved fields and unknown flags are written as 0 and ignored.
//   - The metadata key quantization.scales maps tensor names to numbers. It turns integer tensors into
//     real ones: scale × (q − zero point). quantization.zero_points maps names to the zero points
//     other than 0. See [File.Scales].
//
// # Extension
//
// From version_minor 1 on, files may hold dtypes that the draft's enum lacks. Files
// of minor version 0 may not.
//
//	0x20 F64   0x21 U16   0x22 U32   0x23 U64   0x24 BOOL   0x25 F8_E4M3   0x26 F8_E5M2
//	0x40 | ggml's type id, for types that have no id of their own above: Q4_K is 0x4C
package apr2
