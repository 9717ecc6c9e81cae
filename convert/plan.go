package convert

import (
	"crypto/sha256"
	"io"
	"slices"
	"strings"

	"github.com/tensormap/tensormap/dequant"
	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/layout/apr2"
	"github.com/tensormap/tensormap/loader"
	"github.com/tensormap/tensormap/loader/survey"
	"github.com/tensormap/tensormap/quantize"
)

// Options tune a conversion. A nil *Options and every zero field mean the defaults.
type Options struct {
	// Format is the format to write. Unknown means the format that the suffix of path names.
	Format layout.Format
	// Align is the alignment of every tensor of an APR2 file in bytes: 64, the default, or 32.
	Align int
	// BigEndian writes a GGUF file for machines of that byte order. Other formats have none.
	BigEndian bool
	// Config is merged into the metadata, as MergeConfig says.
	Config layout.Metadata
	// Set sets keys of a GGUF file: values of GGUF's types, or texts. A text is read as the type of the
	// key's old value, or of a prefix such as "u32:". Else it is JSON if it can be, or a string. For
	// other formats the keys are merged as the keys of Config are.
	Set layout.Metadata
	// DType re-encodes tensors of real numbers: one of the types that CanEncode accepts.
	// Invalid leaves them as they are stored.
	DType layout.DType
	// Recipe, if set, chooses the types of tensors by their roles in the network: one of Recipes, such as
	// "q4_k_m". The type that it has for most matrices replaces DType.
	Recipe string
	// TypeOf, if set, returns the type for the tensor called name, or Invalid for the type of DType or Recipe.
	TypeOf func(name string) layout.DType
	// Importance weighs the errors of quantized tensors, by their names: see ReadImportance.
	Importance Importance
	// Keep, if set, reports whether the tensor called name stays as it is stored, whatever DType says.
	Keep func(name string) bool
	// All quantizes norms, biases and tensors of one dimension like any other. They are small, and
	// models depend on them. Without All they stay as stored if DType is I8 or a type of blocks.
	All bool
	// PlainF8 takes the values of F8, F6 and F4 tensors for weights if they have no scale. Otherwise
	// re-encoding them is a *CodesError, as it is for codes that cannot be decoded.
	PlainF8 bool
	// Compress, if it is Fast or High, stores tensors as LZ4 blocks if that saves one part in 32
	// and 64 bytes. A tensor that does not shrink within its first 16 MiB is not tried further.
	// Compressed tensors cannot be viewed in place. Only APR2 has compression.
	Compress Compression
	// ShardBytes, unless it is 0, divides a larger model among files of at most this size.
	ShardBytes uint64
	// Signer, if set, signs an APR2 file, or its shards and their manifest.
	Signer *apr2.Signer
	// Encrypter, if set, encrypts an APR2 file, or its shards and their manifest.
	Encrypter *apr2.Encrypter
	// Only, if set, reports whether the tensor called name is written. A quantized weight is asked for by
	// its own name, and comes with all its parts.
	Only func(name string) bool
	// NoAliases leaves out tensors whose bytes lie inside another tensor's, as the initializers
	// in the ONNX networks of an .april file do.
	NoAliases bool
	// Progress, if set, is called with the number of bytes written and the number of all bytes to be written. Both count
	// tensors as not compressed.
	Progress func(done, total uint64)
}

// Compression says how tensors are compressed.
type Compression uint8

// The kinds of compression. All are read equally fast.
const (
	NoCompression Compression = iota
	Fast                      // LZ4, at hundreds of MB/s a core
	High                      // LZ4 HC: some ten times slower, and smaller
	AsStored                  // the source's LZ4 blocks are copied, and nothing else is compressed
)

// compresses reports whether blocks are made, not only copied.
func (c Compression) compresses() bool { return c == Fast || c == High }

// Plan says what a conversion writes. NewPlan makes it; Write carries it out, and replaces
// estimates by what was written.
//
// An APR2 model larger than Options.ShardBytes becomes shards and a manifest at Path, which has the
// metadata. Each shard takes as many tensors as fit, uncompressed and in their order. For model.apr
// the shards are model-00001-of-00004.apr and so on, each an APR2 file with the required
// metadata and its tensors' scales.
//
// Tensors of a SafeTensors file are ordered by the alignment of their types, widest first, since
// the format allows no space between them. Options.DType is F32, F16 or BF16; compressing is
// ErrUnsupported. Shards have the names of Hugging Face: model-00001-of-00004.safetensors and so on
// for model.safetensors. Path is then the index, model.safetensors.index.json. The first shard
// has the metadata. The others have only its key "format", without which some readers refuse them. A
// directory must not hold both model.safetensors and its index, since readers differ in which one
// they take. Write removes the other one, and fails if it is being read.
//
// Shards of GGUF have gguf-split's names and keys: model-00001-of-00004.gguf and so on for model.gguf.
// Path is then the first, which has the metadata. Write removes an old model.gguf. Compressing is
// ErrUnsupported.
type Plan struct {
	Path   string // the new file, or the manifest or index that stands for its shards
	Format layout.Format
	// Metadata is the metadata of the new model.
	Metadata layout.Metadata
	// Tensors are the tensors of the new model, in the order of its files.
	Tensors []Tensor
	// LeftOut names the tensors that Options.NoAliases has left out.
	LeftOut []string
	// Quantized are the weights that stay the codes they were stored as, beside their scales. If it is empty and other
	// weights are decoded, Metadata no longer has the method.
	Quantized []Weight
	// Bytes is the size of all files together. Until Write has succeeded, it counts every tensor as
	// not compressed, and leaves out a manifest or index.
	Bytes  uint64
	Shards int // number of shards; 0 if the model is one file
	// Removed is the SafeTensors file or index of an older model that Write removes; "" if there is none.
	Removed string
	// Left names files beside Path that are called like its shards and belong to none:
	// the files of an older model of more shards, say.
	Left []string
	// Stale lists files beside a new SafeTensors file that still say how the weights were quantized,
	// though they no longer are: config.json and the files in scheme.Files. Readers rely on them.
	Stale []string

	opts               Options
	model              *loader.Model
	lease              *loader.Lease // of the model, while the conversion is planned
	target             *target
	resolver           *resolver // of Options.Recipe, or nil
	writesSomeByValues bool      // writesWeightByValues is true for some quantized weight
	undecodedPrefixes  []string  // prefixes of the names of codes that cannot be decoded, and stay
	exemptPrefixes     []string  // the prefixes in undecodedPrefixes that Options.Keep names: tensors beside the codes stay too
	files              []file
	indexMetadata      layout.Metadata // of a SafeTensors index: what __metadata__ cannot hold
	singlePath         string          // path of the model if it were one file
	requestedPath      string          // the path that the caller gave, if Path is another; else ""
	replacedPath       string          // path that readers might take instead of Path, and that Write removes; "" for none
}

// Weight is a quantized weight that stays as it is stored.
type Weight struct {
	Scheme string
	// Codes is the name of the tensor that holds the codes. Scale is the name of the tensor of scales, or "" if there is none.
	Codes, Scale string
}

// Tensor records how one tensor is written.
type Tensor struct {
	Name  string
	Shape []int
	// From is the type of the source's elements. A type that an earlier conversion could only note
	// in the metadata is restored. From is Invalid for a quantized weight that is written by its values.
	From, To       layout.DType
	standsFor      layout.DType // the type whose bits integers of type To hold, or Invalid
	headBytes      uint8        // bytes at the start of the source's tensor that are not copied
	isPartOrMarker bool         // t is a part of a weight in Plan.Quantized, or the marker of scaled FP8
	hasScale       bool         // the tensor has integers and a scale
	// Reencoded reports that the values are encoded anew. Otherwise the bytes are the same.
	Reencoded bool
	// Weighted reports that Options.Importance has the tensor's columns.
	Weighted bool
	// Oversized reports that the tensor alone exceeds Options.ShardBytes. It has a shard of its own.
	Oversized      bool
	sourcePosition uint32 // among the source's tensors
	Bytes          uint64 // of the new elements
	Stored         uint64 // in the new file, once it is written: fewer than Bytes if compressed
	Scheme         string // of a quantized weight that is written by its values
	// NotReencoded says why the tensor is not re-encoded as the options ask. It is "" if the tensor is re-encoded, or if no option asks.
	NotReencoded string
	// Fallback says why the tensor is re-encoded to another type than the options ask for. It is "" for other tensors.
	Fallback string
	// Changed says why the tensor is written as another type: the new format cannot hold it as it
	// is stored. No value is lost, and no bit of a type without values. "" for others.
	Changed string
	// Lost counts the values that the new encoding does not hold. Write sets it.
	Lost quantize.Loss
	// Errors says how far the new values are from the values of the source, as float32s. Write sets it for tensors that are re-encoded to
	// another type than F32; it is nil for others.
	Errors *survey.Errors

	source   loader.Tensor
	original *[]int // the shape before an earlier conversion, or nil
	scale    layout.Quant
}

// FromShape returns the shape of the source's tensor. If the source's metadata has the tensor's shape before an earlier conversion, it
// returns that shape instead.
func (t *Tensor) FromShape() []int {
	if t.original != nil {
		return *t.original
	}
	return t.source.Shape()
}

// FromBytes returns the number of bytes stored in the source.
func (t *Tensor) FromBytes() uint64 { return t.source.StoredBytes() }

// Elements returns the number of the source's elements.
func (t *Tensor) Elements() uint64 { return t.source.Elements() }

// isCopied reports whether all bytes of the source's tensor are written as they are.
func (t *Tensor) isCopied() bool { return !t.Reencoded && t.headBytes == 0 }

// copiesBlocks reports whether the source's LZ4 blocks can be written as they are. The source may be encrypted.
func (t *Tensor) copiesBlocks() bool {
	e, _ := t.source.Decrypted()
	return t.isCopied() && e == layout.LZ4
}

// decryptedBytes returns how many bytes the source stores for the tensor, less what encryption adds. They are LZ4 blocks
// if the tensor is compressed.
func (t *Tensor) decryptedBytes() uint64 {
	_, n := t.source.Decrypted()
	return n
}

// Compressed returns the number of tensors that are stored compressed, and of their bytes raw and as stored.
func (p *Plan) Compressed() (tensors int, raw, stored uint64) {
	for i := range p.Tensors {
		if t := &p.Tensors[i]; t.Stored != 0 && t.Stored < t.Bytes {
			tensors, raw, stored = tensors+1, raw+t.Bytes, stored+t.Stored
		}
	}
	return tensors, raw, stored
}

// ByImportance reports whether Options.Importance weighs errors.
func (p *Plan) ByImportance() bool { return len(p.opts.Importance) > 0 }

// file is one file to be written.
type file struct {
	path     string
	tensors  []Tensor // a range of Plan.Tensors
	metadata layout.Metadata
	// size is the size of the file in bytes. Until the file is written, every tensor that may be compressed
	// counts as raw.
	size uint64
	// crc32 covers all but the footer, which has the same number; sha256 covers the whole file.
	crc32      uint32
	sha256     [sha256.Size]byte
	headDigest string // SHA-256 of the head of a signed or encrypted file, in hexadecimal
}

// size returns the sum of the sizes of all files, in bytes.
func (p *Plan) size() (sum uint64) {
	for i := range p.files {
		sum += p.files[i].size
	}
	return sum
}

// target is a format to write: what its tensors can be, and how its files are written.
type target struct {
	name       string
	hasType    func(layout.DType) bool // whether the format has a type
	hasScales  bool                    // of tensors of integers
	hasScalars bool                    // tensors without dimensions
	hasDigests bool                    // of shards, in the manifest
	maxDims    int                     // of a tensor
	// integers maps sizes in bytes to the types that hold the bits of types that the format lacks.
	integers map[int]layout.DType
	// readsAllAsWeights tells that readers take all tensors for weights, so that no code may pass for a number. Quantized
	// weights are then written by their values, and floats of a type that the format lacks become F32.
	readsAllAsWeights bool

	// divideFiles sets Plan.files: it decides which tensors go into which file, and checks all that will be written.
	divideFiles func(p *Plan) error
	// manifest returns the file that leads to the shards. It is nil if each of them leads to the others.
	manifest func(p *Plan) ([]byte, error)
}

// fileWriter writes the tensors of a file one after the other.
type fileWriter interface {
	WriteTensorFunc(write func(dst io.Writer) error) error
	Size() uint64 // in bytes; an estimate before Close if tensors are compressed
	Close() error
}

// canEncode reports whether tensors may be re-encoded to d.
func (to *target) canEncode(d layout.DType) bool {
	return CanEncode(d) && to.hasType(d) && (d != layout.I8 || to.hasScales)
}

// expands reports whether elements of type d become F32 because the format has no such type. Such types are floats and quantized
// blocks that package dequant expands. F8_E8M0, the type of scales, counts as a float only if readers take all tensors for weights.
func (to *target) expands(d layout.DType) bool {
	isFloat := d.Kind() == layout.KindFloat && (to.readsAllAsWeights || d != layout.F8_E8M0)
	return !to.hasType(d) && (d.Quantized() || isFloat) && dequant.Supported(d)
}

// CanEncode reports whether tensors can be re-encoded to d: F32, F16, BF16, Q8_0, Q4_0, Q4_1, Q5_0,
// Q5_1, Q2_K to Q6_K, IQ4_NL, IQ4_XS, MXFP4, or I8, which is int8 with one scale for each tensor.
func CanEncode(d layout.DType) bool { return d == layout.I8 || quantize.Supported(d) }

// selects reports whether the tensor called name is written.
func (opts *Options) selects(name string) bool { return opts.Only == nil || opts.Only(name) }

// keeps reports whether the caller wants the tensor called name as it is stored.
func (opts *Options) keeps(name string) bool { return opts.Keep != nil && opts.Keep(name) }

// staysStored reports whether t is copied although Options.DType would re-encode it. Options.Keep names it, it is a part
// of a weight that stays, or it lies beside codes that cannot be decoded and that Options.Keep names.
func (p *Plan) staysStored(t *Tensor) bool {
	isBeside := func(prefix string) bool { return strings.HasPrefix(t.Name, prefix) }
	return t.isPartOrMarker || p.opts.keeps(t.Name) || slices.ContainsFunc(p.exemptPrefixes, isBeside)
}
