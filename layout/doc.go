// Package layout is the vocabulary that every model file format decodes into:
// element types, tensor descriptors, the index of a file, and the error that says
// where and why a file is wrong.
//
// It opens nothing and starts nothing. Each package below this one decodes one format. A decoder
// reads the header and index of a file through an [Input] and returns a [File]. The File's
// [Index] says of every tensor where its bytes are and how to read them. The decoder never reads
// the bytes themselves.
//
// # What a decoder guarantees
//
// A decoder checks the Index that it returns:
//
//   - Every tensor lies inside the file, and inside the part of it that its format gives to data.
//   - Its stored size is the one that its type and shape imply.
//   - Names are valid UTF-8 without NUL, and unique.
//   - Tensors that are not empty overlap neither each other nor the header.
//
// [File.Audit] checks the rest, which a file may get wrong and still be read safely, such as a
// checksum or an alignment that it promises.
//
// # Lifetime
//
// An Index is memory of its own, names included: it stays valid when the input is unmapped.
package layout
