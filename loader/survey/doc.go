// Package survey computes things over all the tensors of an open model: [Stats] of their
// values, digests ([Hash]) that do not depend on how a model is stored, and what differs
// between two models ([Compare]).
//
// Tensors are read in chunks, on all cores, large tensors by several at once, and results are handed over one by one:
// memory grows with the index of a model at most. A damaged tensor has an error of its own; the others are read all
// the same.
//
// # Values
//
// Values are float32s, as package dequant expands elements. F64, I32, U32, I64 and U64 without a
// scale are more than float32 can hold. [Stats] and [Compare] take such values as float64 (64-bit
// integers beyond 2⁵³ rounded to nearest). [Hash] gives them a digest of values only if each of
// them is a float32. Types without values have bytes only.
package survey
