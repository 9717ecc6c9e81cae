// Package april reads the model files of april-asr, a library for streaming speech
// recognition, by its "doc/.april file format", version 1. The project's export writes them.
//
// # The file
//
// Integers are little-endian. A string is a u64 length and that many bytes.
//
//	┌─ File ──────────────────────────────────────────────────────────────┐
//	│  0  magic            [8]byte   "APRILMDL"                           │
//	│  8  version          u32       1                                    │
//	│ 12  header_size      u64       bytes of Header                      │
//	├─ Header ────────────────────────────────────────────────────────────┤
//	│ 20  language_tag     [8]byte   IETF tag, padded with NUL            │
//	│ 28  name             string                                         │
//	│     description      string                                         │
//	│     model            u32       1, LSTM_TRANSDUCER_STATELESS         │
//	│     params           u64 offset from the file's start, u64 size     │
//	│     network_count    u64       3                                    │
//	│     networks         network_count of u64 offset, u64 size          │
//	├─ Networks: encoder, decoder, joiner ────────────────────────────────┤
//	│     an ONNX model each                                              │
//	├─ Params ────────────────────────────────────────────────────────────┤
//	│  0  magic            [8]byte   "PARAMS\0\0"                         │
//	│  8  batch_size       i32       1                                    │
//	│ 12  segment_size     i32       1 to 99                              │
//	│ 16  segment_step     i32       1 to segment_size                    │
//	│ 20  mel_features     i32       1 to 255                             │
//	│ 24  samplerate       i32       1 to 143,999                         │
//	│ 28  frame_shift_ms   i32       1 to frame_length_ms                 │
//	│ 32  frame_length_ms  i32       1 to 5000                            │
//	│ 36  round_pow2       i32       not 0: true                          │
//	│ 40  mel_low          i32       1 to samplerate - 1                  │
//	│ 44  mel_high         i32       0, or more than mel_low              │
//	│ 48  snip_edges       i32       not 0: true                          │
//	│ 52  token_count      i32       1 to 16,383                          │
//	│ 56  blank_token_id   i32       0 to token_count - 1                 │
//	│ 60  tokens           token_count of i32 length, text                │
//	└─────────────────────────────────────────────────────────────────────┘
//
// # Tensors
//
// Each network is a tensor of bytes, networks/encoder, networks/decoder and
// networks/joiner, in the form that an ONNX runtime takes, in place. After the networks come the
// initializers of each network's graph, encoder/NAME and so on. They alias the same bytes
// (ModelProto.graph 7, GraphProto.initializer 5, TensorProto; onnx.proto, IR version 14):
//
//   - Elements in raw_data are stored raw. The files align nothing, so most of them
//     have to be copied for a typed view.
//   - Elements in a field of numbers, such as float_data, are stored as protobuf. The
//     tensor's bytes in the file are its whole TensorProto; [File.Unpack] reads it.
//     Numbers may be packed, single, or mixed. Opening checks that there can be as many varints
//     as the shape wants. Unpack and [File.Audit] check that there are, and their range.
//   - A TensorProto without elements is accepted only if the shape has none.
//
// # Where the specification is silent
//
//   - Parts of the file may be in any order, and nothing may overlap. [File.Audit] warns of bytes
//     between and behind them, of a wrong header_size, and of bytes behind the last token. It
//     also warns of parameters that are not right behind the last network, because april-asr looks
//     for them there whatever the header says.
//   - A text ends at its first NUL, as in C, and is UTF-8.
//   - Bounds of parameters that the specification does not give are april-asr's. Parameters
//     are read and checked with the metadata, not on opening.
//
// # ONNX
//
// An ONNX model is a well-formed ModelProto with a graph. Another network (an ORT model, which
// onnxruntime reads as well, or a damaged one) remains a tensor of bytes without
// initializers; [Network].Err says why, and Audit fails the file.
//
// Inside a graph, [Decode] refuses an initializer without elements, or with elements in another
// file, in several fields, in too few or too many bytes. It refuses one without a name, or with
// the name of another. It refuses types without a DType here: strings, and types narrower than a
// byte.
//
// Unknown fields are skipped. So are groups, which nest up to Limits.Depth. A
// field that may be there once and is there twice is an error. Protobuf lets the
// last one win and merges graphs, but a check that sees one thing is worth
// nothing if a runtime sees another. For the same reason a known field of another wire type
// is an error.
//
// Only the initializers of the graph itself are tensors. Initializers of the graphs inside its
// operators (If, Loop, Scan) and the values of Constant operators are left out. So are
// sparse initializers; Audit warns of them.
package april
