// Package april reads the model files of april-asr, a library for streaming speech
// recognition, as they are specified by "doc/.april file format", version 1, and written
// by that project's export.
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
// networks/joiner: what an ONNX runtime takes, in place. After these come the
// initializers of each network's graph, encoder/NAME and so on, which alias the same bytes
// (ModelProto.graph 7, GraphProto.initializer 5, TensorProto; onnx.proto, IR version 14):
//
//   - Elements in raw_data are stored raw. The files align nothing, so that most of them
//     have to be copied for a typed view.
//   - Elements in a field of numbers, such as float_data, are stored as protobuf: the
//     tensor's bytes in the file are its whole TensorProto, which [File.Unpack] reads.
//     Packed numbers and single ones, also mixed, are one and the same. That varints are
//     as many as the shape wants, and within the range of the type, shows there, and in
//     [File.Audit]; on opening, that they can be as many.
//   - Without any elements in any field, only a tensor that has none is accepted.
//
// # Where the specification is silent
//
//   - Parts of the file may be in any order, and nothing may overlap. Bytes between and
//     behind them, a header_size that is not the header's, and bytes left behind the last
//     token are warnings of [File.Audit]. So are parameters that are not right behind the
//     last network, where april-asr looks for them whatever the header says.
//   - A text ends at its first NUL, as in C, and is UTF-8.
//   - The bounds of the parameters that the specification does not give are april-asr's.
//     They are read, and checked, with the metadata, not on opening.
//
// # ONNX
//
// What a network must be to be taken for an ONNX model is a well-formed ModelProto with a
// graph. One that is not (an ORT model, say, which onnxruntime reads as well, or a damaged
// one) remains a tensor of bytes without initializers; [Network].Err says why, and Audit
// fails the file. Inside a graph, on the other hand, an initializer that is not in order is
// an error of [Decode]: one with elements in another file, in more than one field, in too
// few or too many bytes, or nowhere; without a name, or with that of another; of a type
// without a DType here (strings, and types narrower than a byte).
//
// Unknown fields are stepped over, groups among them, which nest up to Limits.Depth. A
// field that may be there once and is there twice is an error, although protobuf lets the
// last one win, and the graphs of a model merge: a check that sees one thing is worth
// nothing if a runtime sees another. For the same reason a known field of another wire type
// is an error, and not an unknown field.
//
// Only the initializers of the graph itself are tensors. Those of the graphs inside its
// operators (If, Loop, Scan) and the values of Constant operators are left out, and so are
// sparse initializers, of which Audit warns.
package april
