// Package convert writes models that package loader can read as APR2, SafeTensors or GGUF files. Nothing
// that the source says is lost, except as named below. [NewPlan] says what will be written, [Plan.Write]
// writes it, and [Write] does both. [Save] writes tensors that are in memory.
//
// # Tensors
//
// Bytes are copied as they are, but for
//
//   - what Options.DType re-encodes. A quantized weight, as package scheme finds it, is one
//     tensor then: its values are written under its name, as F32 if a type of blocks does not
//     fit. The metadata lose the keys that say how it was quantized: quantization_config,
//     compression_config, the keys of MLX, ModelOpt and Ollama, and ComfyUI's descriptions and mark.
//     Codes that cannot be decoded are a [CodesError]
//   - a quantized weight in GGUF, whose readers know no codes and scales but those in ggml's blocks,
//     and one whose codes the new format would expand as numbers. It becomes F32 as a whole, or as
//     Options.DType says. GGUF refuses codes that cannot be decoded, unless Options.Keep has them
//   - blocks of quantized numbers that the new format has no id for, in APR2 the blocks of aprender
//     alone (APR_Q4 and APR_Q8), in SafeTensors all. They become F32, which holds the same
//     values; APR_Q8 in APR2 int8 with its scale
//   - integers with a scale in SafeTensors, and such with a scale of 0 in APR2. They become
//     F32 as well
//   - floats that APR2 has no id for (F4, F6, F8_…FNUZ), which become F32 too. Codes that cannot be decoded
//     keep their bits, as the types of the next point do
//   - other types that the new format has no id for (in APR2 complex numbers, F8_E8M0, and what TSM has
//     beyond numbers). Their bits stay, as unsigned integers of
//     their width or, if that is not 1, 2, 4 or 8 bytes, as one dimension of bytes.
//     The types and shapes that they stand for are in the metadata.
//   - tensors of more than 8 dimensions in APR2, or 4 in GGUF, which get the outermost ones as one,
//     and scalars, which APR2 knows as [1]. Their shapes are in the metadata, in GGUF also under
//     comfy.gguf.orig_shape.NAME. That key of a source gives blocks their shape once they become plain numbers.
//
// GGUF has no unsigned integers: I8 to I64 stand in for types that it lacks. Its readers take floats for
// weights: F8, F6 and F4 become F32, and only if Options.PlainF8 says that they hold weights.
//
// Options.Recipe and Options.TypeOf choose a type for each tensor. Rows that are no multiple of 256 get the types
// that llama.cpp takes instead: Q5_0 for Q4_K, Q5_1 for Q5_K, Q8_0 for Q6_K, Q4_0 for Q2_K and Q3_K, IQ4_NL for
// IQ4_XS. Rows that are no multiple of 32 become F16. Norms, biases and tensors of one dimension stay, but for
// Options.All; in GGUF F16 and BF16 leave the F32 ones among them too, since ggml computes with them. Options.Importance
// weighs the errors. Numbers that became NaN, or infinite with the scale of their block, are an error.
//
// Tensors that are part of others are written like any other, unless Options.NoAliases leaves
// them out. The initializers in the ONNX networks of an .april file are such tensors.
//
// # Metadata
//
// The metadata of an APR2 source are carried over as they are. Metadata of other formats become
//
//	apr_version                "2.0.0"
//	model_type, architecture   GGUF: general.architecture, and the keys that begin with it
//	                           APR1: "whisper", and the dimensions, name being the size;
//	                           of the container JSON, what it says
//	                           .april: "april", and the parameters but for the tokens
//	                           otherwise "unknown" and {}
//	vocab                      GGUF: tokenizer.ggml.tokens; APR1; .april: params.tokens
//	mel_filterbank, …_shape    APR1
//	quantization               scales and zero_points of integers, by name of tensor; method
//	                           and bits_per_weight if Options.DType has re-encoded
//	original_tensors           what tensors are that had to be stored as something else:
//	                           {"NAME": {"dtype": "C64", "shape": [64]}}; no dtype if
//	                           only the shape differs
//	FORMAT                     all that the source says, under its format's name, such as
//	                           gguf, but for what APR1 has that is above, and for how a
//	                           GGUF model was split
//	FORMAT_types               the types that JSON does not tell, in the shape of FORMAT: "u8",
//	                           "i64", "f32", "[u32]" and so on for all numbers and arrays of
//	                           GGUF, "bytes" for what is base64
//	FORMAT_bytes               strings that are not UTF-8, in the shape of FORMAT with elements
//	                           of arrays by position: in base64, where FORMAT has U+FFFD
//
// Codes that stay keep their method: what config.json or a file of scheme.Files beside the source says of it becomes
// quantization_config in the architecture, whether Options.Config has these files or not.
//
// Integers keep all digits, floats are the shortest decimals that read back as the same float32
// or float64; numbers that are not finite are "NaN", "Infinity" and "-Infinity". The payloads of
// NaNs are lost. [MergeConfig] adds Options.Config, for which [SideFiles] reads what is
// beside a Hugging Face model.
//
// In SafeTensors, whose metadata are strings, FORMAT safetensors is __metadata__ as it was. Every
// other key of the above is "apr2.KEY", its value as JSON. So is what an index says that is no
// string, but that goes into the index again if there is one, with a new total_size. Converted
// back, all are what they were before, and so are tensors in original_tensors.
//
// In GGUF, gguf is the file's own keys with their types, but for how a model was split and alignments that are not
// written. All else that does not follow from these keys is "apr2.KEY", as in SafeTensors. Models of other formats get
//
//	general.architecture       model_type
//	general.name, …            name, author, version, description and license of model_card
//	tokenizer.ggml.tokens      vocab
//	general.file_type          the recipe or type asked for, else the type that most elements of
//	                           matrices have; also for a GGUF source with tensors that are re-encoded
//	general.quantization_version   2, if blocks are there or Options.DType is given
//
// Names of tensors stay as they are. llama.cpp reads the names of its own converter only; the mapping from
// Hugging Face's names depends on the architecture, and is not guessed.
package convert
