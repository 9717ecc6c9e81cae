// Package apr1 reads and writes APR1 model files, the ".apr Model Format" of whisper.apr,
// which runs Whisper speech recognition in browsers.
//
// # The container Binary
//
// Integers are little-endian. Offsets count from the start of the file, except those of
// tensors, which count from the end of the index, or of the scales where there are any.
//
//	┌─ Header ───────────────────────────────────────────────── 52 bytes ─┐
//	│  0  magic            [4]byte   "APR1"                               │
//	│  4  version          u16       1                                    │
//	│  6  model_type       u8        see ModelType                        │
//	│  7  quantization     u8        see Quantization                     │
//	│  8  compressed       u8        0, or 1 for LZ4                      │
//	│  9  n_tensors        u16       1 or more                            │
//	│ 11  flags            u8        see Flags                            │
//	│ 12  n_vocab, n_audio_ctx, n_audio_state, n_audio_head,              │
//	│     n_audio_layer, n_text_ctx, n_text_state, n_text_head,           │
//	│     n_text_layer, n_mels       u32 each                             │
//	├─ Tensor index ─────────────────────────────────── 96 × n_tensors ───┤
//	│  0  name             [48]byte  UTF-8 and a NUL                      │
//	│ 48  offset           u64                                            │
//	│ 56  size             u64       bytes in the file                    │
//	│ 64  n_elements       u64       product of the shape                 │
//	│ 72  shape            [4]u32    outermost first                      │
//	│ 88  n_dims           u8        0 to 4                               │
//	│ 89  reserved         [7]byte                                        │
//	├─ Scales, if int8 ──────────────────────────────── 4 × n_tensors ────┤
//	│     scale            f32       a value is scale × q                 │
//	├─ Tensor data ─────────────────────────────────── Σ size, packed ────┤
//	├─ Vocabulary, if flags has bit 0 ────────────────────────────────────┤
//	│  0  size             u32       bytes that follow                    │
//	│  4  n_tokens         u32                                            │
//	│  8  n_merges         u32                                            │
//	│     n_tokens strings, then n_merges pairs of strings, each:         │
//	│     0  length        u16                                            │
//	│     2  bytes         [length]byte                                   │
//	├─ Filterbank, if flags has bit 1 ────────────────────────────────────┤
//	│  0  size             u32       8 + 4 × n_mels × n_freqs             │
//	│  4  n_mels           u32                                            │
//	│  8  n_freqs          u32                                            │
//	│ 12  data             f32 each, one band after the other             │
//	├─ Checksum ──────────────────────────────────────────────────────────┤
//	│     crc32            u32       IEEE, of all before, magic included  │
//	└─────────────────────────────────────────────────────────────────────┘
//
// Its [layout.Index] has the Version "1".
//
// # Where the specification is silent
//
// What the program that the format comes from writes settles most of it: the layout of the
// vocabulary, the scale table and the index entries, the model types past the third, and
// what the checksum covers. The rest are our rules:
//
//   - An int8 scale is finite. Values are scale × q, without a zero point.
//   - A file with compressed = 1 has tensors stored raw, whose size is that of their
//     elements, and tensors stored in the LZ4 blocks of APR2, which any other size means:
//     each block is a u32 length and a raw LZ4 block, and yields 65,536 bytes, the last one
//     the rest. No program is known to have written such a file, so this is our reading.
//   - The tensors fill the data without gaps, in any order.
//   - The filterbank is also a tensor of the index, "mel_filterbank" of type F32 and shape
//     [n_mels, n_freqs], unless one of the file's own tensors has that name.
//   - A name whose last character has been cut, as writers do at 47 bytes, ends with U+FFFD
//     instead, which Audit warns of. Other invalid UTF-8 is an error.
//   - A file without tensors is refused: it may be one of those written before the header
//     had n_tensors, whose index entries were different.
//   - int4, which the program declares and never wrote, is refused, and so are tensors of
//     more than 4 dimensions, of whose shape its writer keeps but the first 4.
//   - Reserved fields and unknown flags are written as 0 and ignored. Bytes that belong to
//     nothing are warnings of Audit.
//
// # The container Late
//
// Later versions of the program wrote the same with the magic "APR\x00", the version 2 and
// 16 zero bytes behind the header, so that the index is at 68. Version is "2".
//
// # The container JSON
//
// The aprender library used the same magic for another layout, told apart by byte 8, which
// is "{". Version is "json".
//
//	0  magic            [4]byte   "APR1"
//	4  metadata_len     u32
//	8  metadata         one JSON object
//	   n_tensors        u32
//	   index_len        u32
//	   index            JSON array of {"name", "dtype", "shape", "offset", "size"}
//	   data             offsets count from here
//	   crc32            u32       IEEE, of all before
//
// Its writer knows one dtype, "F32"; here the name of every type of package layout will do.
// The entries are as many as n_tensors, and may be none.
//
// # Whisper files of aprender's APR2
//
// The same magic "APR\x00" and version also start files with a 64-byte header, which package
// aprender reads; the checksum in their header tells them apart.
package apr1
