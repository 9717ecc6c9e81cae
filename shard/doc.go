// Package shard makes one table of the tensors of several files. It opens no file: package loader does.
//
// Package manifest reads the files that name the others: APR2 manifests and SafeTensors indexes. GGUF has
// none.
//
// # GGUF split
//
// The files are called NAME-00001-of-00006.gguf, counted from 1. Each says in its metadata which shard
// it is (split.no, from 0) and how many there are (split.count). split.tensors.count is the number of
// tensors that they hold together. There is no manifest: any file leads to the others.
//
// # Agreement
//
// The table holds what the shards hold. A tensor that is not in the shard that a manifest names for it is
// an error, as is a name in two shards: the error names both places. A tensor that is in a shard and not
// in the manifest's map belongs to the model, because leaving weights out is the worse mistake.
// [manifest.File.Audit] warns of it.
package shard
