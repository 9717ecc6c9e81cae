// Package aprender reads the files that aprender, the project that published the draft of APR2, ships in
// the draft's stead. Their header has 64 bytes and one of the magics "APR2" (aprender 0.20) and
// "APR\x00" (since 0.25). Both are the format [layout.APR2], in version "2.0 (64-byte header)".
//
//	┌─ Header ───────────────────────────────────────────────── 64 bytes ─┐
//	│  0  magic            [4]byte   "APR\x00" or "APR2"                  │
//	│  4  version          [2]u8     2, any                               │
//	│  6  flags            u16       see Flags                            │
//	│  8  tensor_count     u32                                            │
//	│ 12  metadata_offset  u64       64                                   │
//	│ 20  metadata_size    u32       without padding, at most 16 MiB      │
//	│ 24  index_offset     u64                                            │
//	│ 32  data_offset      u64                                            │
//	│ 40  checksum         u32       CRC32 of the header without it       │
//	│ 44  reserved         [20]byte                                       │
//	├─ Metadata: one JSON object, zeros to a multiple of 64 ──────────────┤
//	├─ Tensor index: tensor_count entries sorted by name, each ───────────┤
//	│     0     name_len   u16       at most 256                          │
//	│     2     name       [name_len]byte       UTF-8                     │
//	│     +0    dtype      u8                                             │
//	│     +1    n_dims     u8                   n, 0 to 8                 │
//	│     +2    dims       [n]u64               outermost first           │
//	│     +2+8n offset     u64                  from data_offset          │
//	│     +10+8n size      u64                  bytes                     │
//	├─ Zeros to a multiple of 64, tensors, each with zeros likewise ──────┤
//	├─ crc32               u32       IEEE, of all bytes before it ────────┤
//	└─────────────────────────────────────────────────────────────────────┘
//
// # What writers do
//
//   - Metadata may repeat keys; the last value counts. The draft's required keys and its
//     quantization.scales have no meaning here.
//   - realizar, aprender's inference engine, writes no crc32. A file that was cut looks alike, so
//     Audit fails it.
//   - realizar 0.6 writes no checksum of the header (0) and does not sort the index. Audit warns of
//     both. A checksum that is neither right nor 0 is refused.
//   - Writers set LZ4_COMPRESSED and ZSTD_COMPRESSED over raw data, and Audit warns. If metadata or
//     index then make no sense, everything after the header is compressed, and the file is refused.
//   - ENCRYPTED, SHARDED and LAYOUT_COLUMN_MAJOR files are refused. SIGNED files open, with a
//     warning.
//
// There are three enums of dtypes, and nothing in a file names its enum:
//
//	id             0    1    2     3     4    5    6     7     8       9
//	aprender       F32  F16  BF16  F64   I32  I64  I8    U8    APR_Q4  APR_Q8
//	realizar 0.6   F32  F16  BF16  I8    I16  I32  I64   U8    Q4_K    Q6_K
//	realizar 0.8   F32  F16  Q4_0  Q4_1            Q5_0  Q5_1  Q8_0
//
//	id             10    12    13    14    30    128     129
//	aprender             Q4_K        Q6_K  BF16  APR_Q4  APR_Q8
//	realizar 0.6   Q8_0
//	realizar 0.8         Q4_K  Q5_K  Q6_K
//
// A file's enum is the one that explains every tensor's size. APR_Q4 and Q4_K have the same size in
// whole superblocks. A file is refused if nothing else in it decides between them. A header without
// a checksum means realizar 0.6.
//
// # Namesakes
//
// aprender has more layouts with these magics: its JSON container under LZ4 or zstd, and the
// late APR1 that package apr1 reads. Decode refuses them by name.
package aprender
