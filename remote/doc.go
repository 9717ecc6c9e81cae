// Package remote opens models by address, and caches what it reads where other programs look for it.
//
//	m, err := remote.Open(ctx, "hf://org/name", nil)
//
// # Addresses
//
//	hf://[models/]org/name[@revision][/file]   a model of the Hugging Face Hub
//	https://huggingface.co/org/name[/…]        the same, as a browser shows it
//	oci://host/repository[:tag][@digest]       an artifact in a registry
//	ollama://[[host/]namespace/]name[:tag]     a model of Ollama's registry or store
//	s3://bucket/key                            an object in a bucket, or a folder of them
//	http://…, https://…                        a file, see package httprange; cached if its version is known
//	file://…, a path                           what loader.Open takes
//
// A revision is a branch, a tag or a commit; the default is main. It may hold slashes only as
// refs/pr/N and refs/convert/NAME. It is resolved to a commit once, and all files come from that
// commit. Without a file, the model is chosen among the repository's files as loader.Open chooses in
// a directory.
//
// An artifact's files are its layers, under the names that annotations give them (ModelPack's
// org.cncf.model.filepath, oras' title), and the files in layers that are archives. Its manifest is pinned by
// its digest.
//
// A model of Ollama is a GGUF layer, or layers of tensors. Layers in Ollama's store are read without
// a request.
//
// An object in a bucket is identified by its endpoint, bucket, key and ETag: once overwritten, it
// is another object.
//
// # Cache
//
// A complete file of the Hub lies where huggingface_hub has it: in $HF_HUB_CACHE, else $HF_HOME/hub, else huggingface/hub in
// $XDG_CACHE_HOME or ~/.cache. Each of the two finds what the other has. A complete file of Ollama lies in its store, and all
// other files in $XDG_CACHE_HOME/tensormap. An incomplete file whose final place is on another file system lies in .tensormap
// next to that place. When it has all bytes and its digest is right, it moves to its final place.
//
// # Credentials
//
// The Hub gets the token of huggingface_hub: HF_TOKEN (HUGGING_FACE_HUB_TOKEN), else the file HF_TOKEN_PATH. A registry
// gets what docker login has stored. A bucket gets signatures made with the keys of AWS_ACCESS_KEY_ID, a profile or the
// machine's role. Targets of redirects get no credentials, and messages show none.
//
// # Offline
//
// HF_HUB_OFFLINE or TRANSFORMERS_OFFLINE (1, on, yes, true) forbids all requests. Files read before, in part or whole, go
// on working. Reading others fails with an error that says so.
//
// docs/addresses.md tells all of it, with every variable.
package remote
