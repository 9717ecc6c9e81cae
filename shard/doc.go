// Package shard is the place for models of several files as one table of tensors: APR2
// manifests, SafeTensors index files, GGUF splits. Nothing of it is built yet; package
// loader opens single files.
package shard
