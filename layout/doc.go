// Package layout is the vocabulary that every model file format decodes into:
// element types, tensor descriptors, the index of a file, and the error that says
// where and why a file is wrong.
//
// It opens nothing and starts nothing. A decoder (the packages below this one, one a
// format) reads the header and index of a file through an [Input] and answers with a
// [File], whose [Index] describes every tensor: where its bytes are, what they mean.
// The bytes themselves are never read.
//
// # What a decoder guarantees
//
// An Index that a decoder returns has been checked: every tensor lies inside the file
// and inside the part of it that its format gives to data; its stored size is the one
// its type and shape imply; names are valid UTF-8 without NUL and unique; non-empty
// tensors overlap neither each other nor the header. What a file may get wrong and still
// be read safely (a checksum, an alignment it promised) is left to [File.Audit].
//
// # Lifetime
//
// An Index is memory of its own, names included: it stays valid when the input is unmapped.
package layout
