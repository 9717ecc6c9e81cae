// Package bw2l reads BW2L files, the "binary wav2letter model file format" of speech
// recognizers, versions 1 and 2. The specification of version 1 is b2l.txt of the project's
// branches of wav2letter (July 2020), of version 2 the b2l.txt in its libw2l library.
//
// # The file
//
// Integers are little-endian. A str8 is a u8 length and that many bytes of UTF-8; a str64
// has a u64 length. Nothing is aligned, and nothing has a checksum.
//
//	┌─ File ──────────────────────────────────────────────────────────────┐
//	│  magic          [4]byte   "BW2L"                                    │
//	│  version        u8        1 or 2                                    │
//	│  name           str8      of the model                              │
//	│  section_count  u64                                                 │
//	│  section_count sections, each:                                      │
//	│     name         str8                                               │
//	│     type         str8     utf8, keyval, data, array or layers       │
//	│     desc         str64    a description                             │
//	│     data_length  u64                                                │
//	│     data         [data_length]byte                                  │
//	└─────────────────────────────────────────────────────────────────────┘
//	┌─ Data of a section of type keyval: until the section ends ──────────┐
//	│  key            str8                                                │
//	│  value          str64                                               │
//	└─────────────────────────────────────────────────────────────────────┘
//	┌─ Data of a section of type array ───────────────────────────────────┐
//	│  type           str8      fp64, fp32, fp16, i64, i32, i16 or i8     │
//	│  array_len      u64       elements                                  │
//	│  ndim           u8                          version 2 only          │
//	│  dims           [ndim]u64 innermost first   version 2 only          │
//	│  data           array_len elements                                  │
//	└─────────────────────────────────────────────────────────────────────┘
//	┌─ Data of a section of type layers ──────────────────────────────────┐
//	│  layer_count    u64                                                 │
//	│  layer_count layers, each:                                          │
//	│     arch         str64    the line that defines the layer           │
//	│     scale        f32                        version 1 only          │
//	│     offset       i64                        version 1 only          │
//	│     param_count  u64                                                │
//	│     param_count arrays, as above                                    │
//	└─────────────────────────────────────────────────────────────────────┘
//
// # Tensors
//
// An array section is a tensor with the name of its section. Parameter j of layer i in
// the section "layers" is "layers.<i>.<j>", counted from 0. A section of type layers
// with another name has that name in its tensors. Shapes are outermost dimension first: the reverse
// of dims. Their product must be array_len. In version 1, and if ndim is 0, the shape is [array_len].
//
// Integers in the layers of version 1 are scaled: a value is scale × (q − offset), see
// [layout.Quant]. Other arrays are as they stand.
//
// The section "transitions" is the matrix of an ASG criterion, one row and one column for
// every token. Its writer, ArrayFire, stores columns. A version 1 file holds N×N elements
// in one dimension, column by column. In a version 2 file, the reverse of dims has the matrix's
// columns as rows.
//
// # Metadata
//
// [File.Metadata] has these keys, then the sections that are not arrays, by name, in
// the order of the file:
//
//   - "name", the model's name, which may be empty
//   - "descriptions", if a section has one: an object of section names and descriptions
//
// A section's value goes by its type:
//
//   - utf8 (arch, tokens): a string
//   - keyval (flags, config): an object of strings
//   - data (spm), and every type not named here: a [layout.Blob]
//   - layers: an array with an object for every layer, of "arch"; in version 1 "scale" and
//     "offset"; and "param_count"
//
// A section whose own name is "name", "descriptions" or "sections" is found under that name
// in the object "sections".
//
// # Where the specification is silent
//
//   - Sections come in any order. Two of the same name are an error, and so are bytes
//     of an array or layers section behind its last array.
//   - A key that occurs twice in a keyval section has the last of its values, at the place
//     of the first. Keys may be empty or hold NUL bytes; writers leave such keys behind.
//   - Text that is not valid UTF-8 is a Blob instead of a string, and [File.Audit] warns
//     of it. Names of sections and keys must be valid.
//   - A scale that is zero or not finite is an error in a layer that has integers. It does not
//     matter elsewhere: writers put 1 there, and 0 for the offset.
//   - With a dimension of 0 there is no element, whatever the others are.
//   - Tensors repeat the name of their layers section. A file is refused if these names would
//     take more than four times its size.
package bw2l
