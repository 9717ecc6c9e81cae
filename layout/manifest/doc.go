// Package manifest decodes, encodes and audits the files that say which files make up a model. They are
// told apart by structure.
//
// # APR2 manifest
//
// A JSON object (APR-FORMAT-002, "Sharding"), usually called model.apr. Every shard is an
// APR2 file beside it.
//
//	{
//	  "apr_version": "2.0.0",
//	  "sharded": true,
//	  "shard_count": 2,                       the number of shards, at least 1
//	  "shards": [
//	    {"file": "model-00001-of-00002.apr",  a plain name, each once
//	     "size": 2147483648,                  in bytes, checked on opening
//	     "crc32": "cbf43926",                 of all bytes but the last 16, 8 lower-case hex digits
//	     "sha256": "9f86d081…",               optional: of the whole file, 64 lower-case hex digits
//	     "head_sha256": "60303ae2…"}, …       of all before the data, if signed or encrypted
//	  ],
//	  "tensor_shard_map": {"encoder.conv1.weight": 0, …},  tensor to position in shards
//	  "metadata": {…},                        optional: takes the place of the first shard's
//	  "signature": {…}, "encryption": {…}     if the shards are signed or encrypted: docs/trust.md
//	}
//
// The footer of a shard, its last 16 bytes, states the same CRC32. A model in a directory
// opens only if the footers agree with the manifest. Verify reads all bytes of every shard
// and compares both checksums.
//
// A CRC32 of the whole file would tell nothing, because the file holds its own CRC32: every
// file of that size has the same. [File.Audit] warns of such numbers, and nothing is
// compared with them.
//
// Names cannot leave the manifest's directory, neither by what they say nor through a
// symbolic link.
//
// # SafeTensors index
//
// A JSON object, usually called model.safetensors.index.json, as the Python packages
// transformers and huggingface_hub write it. Every shard is a SafeTensors file beside it.
//
//	{
//	  "metadata": {"total_size": 4294967296},  optional: of all tensors in bytes
//	  "weight_map": {"encoder.conv1.weight": "model-00001-of-00002.safetensors", …}
//	}
//
// Shards are in the order of their names. Names are plain here too, but links are followed
// wherever they lead: the Hugging Face cache is a directory of links. Keys of "metadata" are
// added to the first shard's.
package manifest
