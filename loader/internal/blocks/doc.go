// Package blocks reads compressed tensors as package lz4block's blocks. A file says where a
// block begins only by the lengths of all blocks before it. A [Table] walks these lengths, no
// further than it has to and no length twice. A [Tensor] reads, expands and writes elements
// through a table, block by block and on all cores.
//
// Methods touch mapped memory: their callers run them under [mmapio.Guard].
package blocks
