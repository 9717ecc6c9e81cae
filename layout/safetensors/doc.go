// Package safetensors reads and writes SafeTensors files.
//
//	0      u64       N, the size of the header
//	8      N bytes   the header, a JSON object in UTF-8; spaces may follow it
//	8+N              the tensors' bytes, to the end of the file
//
// The header maps names to tensors, positions counting from 8+N:
//
//	{"__metadata__": {"format": "pt"},
//	 "wte.weight": {"dtype": "F16", "shape": [50257, 768], "data_offsets": [0, 77194752]}}
//
// Numbers are little-endian, shapes outermost dimension first. Taken in the order of
// their positions the tensors start at 0, touch, and end with the file.
//
// Source: https://github.com/huggingface/safetensors, README ("Format") and
// safetensors/src/tensor.rs, revision 24b0b28. Where the two differ:
//
//   - README demands that the header starts with '{'. The reference takes white space before it, so that writers may
//     align the data: its test test_whitespace_leading_padded_header asks readers to tolerate it. So does this package, and
//     Audit warns. Before and after the object stands any white space of JSON.
//   - Duplicate keys are refused everywhere. The reference lets the last of two equal
//     tensor names or __metadata__ keys win.
//   - A tensor is a JSON object and its dtype a JSON string. The reference also reads
//     the other notations of its serializer, such as ["F32",[2],[0,8]].
//   - As in the reference, unknown keys of a tensor are ignored, and __metadata__ may
//     be null.
package safetensors
