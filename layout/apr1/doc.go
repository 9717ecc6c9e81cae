// Package apr1 reads APR1 model files, the ".apr Model Format" of whisper.apr. The program runs
// Whisper speech recognition in browsers.
//
// # The container Binary
//
// Integers are little-endian. Offsets count from the start of the file. Offsets of tensors
// count from the end of the index, or of the scales if there are any.
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
// The files that whisper.apr writes settle most of it: the layout of the vocabulary, the scale table
// and the index entries, the model types past the third, and the bytes under the checksum. The rest
// are our rules:
//
//   - An int8 scale is finite. Values are scale × q, without a zero point.
//   - In a file with compressed = 1, a tensor that is as large as its elements is stored raw. Any
//     other size means the LZ4 blocks of APR2: each block is a u32 length and a raw LZ4 block, and
//     yields 65,536 bytes, the last one the rest. No program is known to have written such a file.
//   - The tensors fill the data without gaps, in any order.
//   - The filterbank is also a tensor of the index, "mel_filterbank" of type F32 and shape
//     [n_mels, n_freqs], unless one of the file's own tensors has that name.
//   - Writers cut names at 47 bytes. A name cut inside its last character ends with U+FFFD
//     instead, and Audit warns of it. Other invalid UTF-8 is an error.
//   - A file without tensors is refused. It may be older than n_tensors in the header, and have
//     other index entries.
//   - int4 is refused: the program declares it and never wrote it. So are tensors of more than 4
//     dimensions, because its writer keeps only the first 4 of their shape.
//   - Reserved fields and unknown flags are ignored. Audit warns of bytes that belong to nothing.
//
// # The container Binary2
//
// Later versions of the program (late APR1) wrote the same with the magic "APR\x00", the version 2 and
// 16 zero bytes behind the header. The index is at 68. Version is "2".
//
// # The container JSON
//
// The aprender library used the same magic for another layout. There byte 8 is "{". Version is "json".
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
// Its writer knows one dtype, "F32"; here the name of every type of package layout is read.
// n_tensors counts the entries, and may be 0.
//
// # Whisper files of aprender's APR2
//
// The same magic "APR\x00" and version also start files with a 64-byte header, which package
// aprender reads. The checksum in their header tells them apart.
package apr1
