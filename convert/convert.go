package convert

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/layout/apr2"
	"github.com/tensormap/tensormap/layout/formats"
	"github.com/tensormap/tensormap/loader"
	"github.com/tensormap/tensormap/quantize"
)

// Options tune a conversion. A nil *Options and every zero field mean the defaults.
type Options struct {
	// Format is the format to write. Unknown takes the one whose suffix the path has.
	Format layout.Format
	// Align is the alignment of every tensor of an APR2 file in bytes: 64, the default, or 32.
	Align int
	// BigEndian writes a GGUF file for machines of that byte order. Other formats have none.
	BigEndian bool
	// Config is merged into the metadata, as MergeConfig says.
	Config layout.Metadata
	// Set sets keys of a GGUF file: values of GGUF's types, or texts. A text is read as the type of the
	// key's old value, or of a prefix such as "u32:". Else it is JSON if it can be, or a string. For
	// other formats the keys are merged as those of Config.
	Set layout.Metadata
	// DType re-encodes tensors of real numbers: one of the types that CanEncode accepts.
	// Invalid leaves them as they are stored.
	DType layout.DType
	// Recipe, if set, chooses the types of tensors by their part in the network: one of Recipes, such as
	// "q4_k_m". DType is then its own.
	Recipe string
	// TypeOf, if set, returns the type for the tensor called name, or Invalid for what DType or Recipe say.
	TypeOf func(name string) layout.DType
	// Importance weighs the errors of quantized tensors, by their names: see ReadImportance.
	Importance Importance
	// Keep, if set, reports whether the tensor called name stays as it is stored, whatever DType says.
	Keep func(name string) bool
	// All quantizes norms, biases and tensors of one dimension like any other. They are small, and
	// models depend on them. Without All they stay as stored if DType is I8 or a type of blocks.
	All bool
	// PlainF8 takes the values of F8, F6 and F4 tensors for weights if they have no scale. Otherwise
	// re-encoding them is a *PartError, as it is for codes that cannot be decoded.
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
	// NoAliases leaves out tensors whose bytes are part of another tensor's, as the initializers
	// in the ONNX networks of an .april file are.
	NoAliases bool
	// Progress, if set, is called with how many of how many bytes of the new files are written,
	// all counted as not compressed.
	Progress func(done, total uint64)
}

// Plan says what a conversion writes. NewPlan makes it; Write carries it out, and replaces
// estimates by what was written.
type Plan struct {
	Path   string // the new file, or the manifest or index that stands for its shards
	Format layout.Format
	// Metadata is the metadata of the new model.
	Metadata layout.Metadata
	// Tensors are the tensors of the new model, in the order of its files.
	Tensors []Tensor
	// LeftOut names the tensors that Options.NoAliases has left out.
	LeftOut []string
	// Quantized are the weights that stay the codes they were stored as, beside their scales. Without them, and
	// with others that are decoded, Metadata no longer has the method.
	Quantized []Part
	// Bytes is the size of all files together. Until Write has succeeded, it counts every tensor as
	// not compressed, and leaves out a manifest or index.
	Bytes  uint64
	Shards int // number of shards; 0 if the model is one file
	// Removed is the SafeTensors file or index that stands for an older model, and goes;
	// "" if there is none.
	Removed string
	// Left names files beside Path that are called like its shards and belong to none,
	// such as those of an older model of more shards.
	Left []string
	// Stale lists files beside a new SafeTensors file that still say how the weights were quantized,
	// though they no longer are: config.json and those in scheme.Files. Readers rely on them.
	Stale []string

	stems     []string // prefixes of the names of undecoded codes that Options.Keep leaves as stored
	undecoded []string // the same of all codes that cannot be decoded and stay as they are
	decoded   bool     // some quantized weight is written by its values
	model     *loader.Model
	lease     *loader.Lease // while it is planned
	opts      Options
	target    *target
	requested string          // the path that the caller gave, if the index has another name; else ""
	whole     string          // path of the model if it were one file
	instead   string          // file that readers might take instead of Path, and that goes; "" for none
	index     layout.Metadata // of SafeTensors: what only the index can say
	parts     []part
	resolver  *resolver // of Options.Recipe
}

// Tensor records how one tensor is written.
type Tensor struct {
	Name  string
	Shape []int
	// From is the type of the source's elements. A type that an earlier conversion could only note
	// in the metadata is restored. From is Invalid for a quantized weight that is written by its values.
	From, To  layout.DType
	bits      layout.DType // the type that integers of the new format stand for, or Invalid
	Reencoded bool         // the values are encoded anew; otherwise the bytes are the same
	// Oversized reports that the tensor alone exceeds Options.ShardBytes. It has a shard of its own.
	Oversized bool
	stays     bool   // a part of a weight in Plan.Quantized
	scaled    bool   // quant is the scale of a tensor of integers
	at        uint32 // position among the source's tensors
	Bytes     uint64 // of the new elements
	Stored    uint64 // in the new file, once it is written: fewer than Bytes if compressed
	*Decision

	source loader.Tensor
}

// FromShape returns the shape of the source's elements. Like From, it may be restored.
func (t *Tensor) FromShape() []int {
	if t.restored != nil {
		return t.restored.shape
	}
	return t.source.Shape()
}

// FromBytes returns the number of bytes stored in the source.
func (t *Tensor) FromBytes() uint64 { return t.source.StoredBytes() }

// Elements returns the number of the source's elements.
func (t *Tensor) Elements() uint64 { return t.source.Elements() }

// Decision says what sets a tensor apart from one that is copied as it is. Tensors next to each other that
// are treated alike share one.
type Decision struct {
	Scheme string // of a quantized weight that is written by its values
	// NotReencoded says why Options.DType has not re-encoded the tensor; "" if it has, or was not to.
	NotReencoded string
	// Fallback says why the tensor is re-encoded to another type than the one asked for; "" if it is not.
	Fallback string
	// Weighted reports that Options.Importance has the tensor's columns.
	Weighted bool
	// Changed says why the tensor is written as another type: the new format cannot hold it as it
	// is stored. No value is lost, and no bit of a type without values. "" for others.
	Changed string
	// Lost counts the values that the new encoding does not hold. Write fills it in.
	Lost quantize.Loss

	restored   *original  // what the source says elsewhere of its shape, or nil
	importance *[]float32 // of the columns, for each matrix; nil without
	skip       int        // source bytes that are not copied
	quant      layout.Quant
}

// noteLoss notes the values that t's new encoding does not hold.
func (t *Tensor) noteLoss(lost quantize.Loss) {
	if t.Lost != lost {
		own := *t.Decision
		own.Lost, t.Decision = lost, &own
	}
}

// Compressed counts the tensors that are stored compressed, their bytes and those of their blocks.
func (p *Plan) Compressed() (tensors int, raw, stored uint64) {
	for i := range p.Tensors {
		if t := &p.Tensors[i]; t.Stored != 0 && t.Stored < t.Bytes {
			tensors, raw, stored = tensors+1, raw+t.Bytes, stored+t.Stored
		}
	}
	return tensors, raw, stored
}

// NewPlan decides how m's tensors and metadata are written to path, and checks whatever can be
// wrong with names, types, metadata and sizes. It writes nothing. Tensors that become int8 are read,
// for their scales. A file of m that has changed since it was opened is an error: see
// [loader.Model.Changed].
//
// Elements that are not re-encoded are copied byte for byte. Types that the new format does not
// have are replaced as the package's documentation says; Tensor.Changed names the reason.
//
// An APR2 model larger than Options.ShardBytes becomes shards and a manifest at path, which has the
// metadata. Each shard takes as many tensors as fit, uncompressed and in their order. For model.apr
// the shards are model-00001-of-00004.apr and so on, each an APR2 file with the required
// metadata and its tensors' scales.
//
// Tensors of a SafeTensors file are ordered by the alignment of their types, widest first, since
// the format allows no space between them. Options.DType is F32, F16 or BF16; compressing is
// ErrUnsupported. Shards have the names of Hugging Face: model-00001-of-00004.safetensors and so on
// for model.safetensors. Plan.Path is then the index, model.safetensors.index.json. The first shard
// has the metadata; the others have its key format, without which some readers refuse them. A
// directory must not hold both model.safetensors and its index, since readers differ in which one
// they take. The new model replaces either, unless it is being read.
//
// Shards of GGUF have gguf-split's names and keys: model-00001-of-00004.gguf and so on for model.gguf.
// Plan.Path is then the first, which has the metadata; an old model.gguf goes. Compressing is
// ErrUnsupported.
func NewPlan(ctx context.Context, m *loader.Model, path string, opts *Options) (*Plan, error) {
	if opts == nil {
		opts = &Options{}
	}
	lease, err := m.AcquireContext(ctx)
	if err != nil {
		return nil, err
	}
	defer lease.Release()
	p := &Plan{Path: path, Format: opts.Format, model: m, lease: lease, opts: *opts}
	defer func() { p.lease = nil }()
	if p.Format == layout.Unknown {
		p.Format = bySuffix(path)
	}
	if p.target = targets[p.Format]; p.target == nil {
		return nil, fmt.Errorf("%s: %w: writing %v", path, layout.ErrUnsupported, p.Format)
	}
	if p.opts.BigEndian && p.Format != layout.GGUF {
		return nil, fmt.Errorf("%s: %w: %v in big-endian order", path, layout.ErrUnsupported, p.Format)
	}
	if err := lease.Changed(); err != nil {
		return nil, err
	}
	from, err := lease.Metadata()
	if err != nil {
		return nil, err
	}
	p.Metadata = requiredMetadata()
	describe(&p.Metadata, m.Format(), from)
	p.Metadata = withoutEncryption(p.Metadata)
	if err := p.decide(ctx, lease); err != nil {
		return nil, err
	}
	if err := p.describePlan(); err != nil {
		return nil, about(path, err)
	}
	p.findStale()
	suffix := formats.Suffix(p.Format)
	p.whole = withoutExt(path, suffix) + suffix
	if err := p.target.divide(p); err != nil {
		return nil, about(path, err)
	}
	p.Bytes = p.size()
	// Scales and metadata may have been read from two versions of a file.
	return p, cmp.Or(p.checkTargets(), lease.Changed())
}

// Write writes what the plan says, in constant memory. The model must still be open. Files appear
// under their names once all of them are complete. None does if a file of the model has changed
// since it was opened.
//
// The files must not replace files of the model. Wherever the process ends, Path stands for the old
// model, for nothing, or for the whole of the new one: see [atomicfile.CommitAll]. If two
// conversions write to the same path, in whatever processes, the one that ends later replaces the
// other's whole. Old shards that the new model does not replace stay; Left names them.
func (p *Plan) Write(ctx context.Context) error {
	lease, err := p.model.AcquireContext(ctx)
	if err != nil {
		return err
	}
	defer lease.Release()
	for i := range p.Tensors {
		p.Tensors[i].source = lease.Of(p.Tensors[i].source)
	}
	if err := p.checkTargets(); err != nil {
		return err
	}
	return newWriter(ctx, p, lease).write()
}

// Write plans a conversion and carries it out.
func Write(ctx context.Context, m *loader.Model, path string, opts *Options) (*Plan, error) {
	p, err := NewPlan(ctx, m, path, opts)
	if err != nil {
		return nil, err
	}
	return p, p.Write(ctx)
}

// size returns the size of all parts together.
func (p *Plan) size() (sum uint64) {
	for i := range p.parts {
		sum += p.parts[i].size
	}
	return sum
}

// about adds path to errors of formats. Errors of the system name it already.
func about(path string, err error) error {
	var fe *layout.FormatError
	if errors.As(err, &fe) {
		return fmt.Errorf("%s: %w", path, err)
	}
	return err
}
