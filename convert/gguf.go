package convert

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"slices"

	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/layout/gguf"
)

// ggufTarget has no manifest: every shard leads to the others.
var ggufTarget = target{
	name: "GGUF", holds: gguf.Holds, hasScalars: true, maxDims: gguf.MaxDims, onlyWeights: true,
	integers: map[int]layout.DType{1: layout.I8, 2: layout.I16, 4: layout.I32, 8: layout.I64},
	divide:   (*Plan).divideGGUF, begin: beginGGUF,
}

// divideGGUF plans one file or, if that is larger than Options.ShardBytes, shards. The first shard has the metadata,
// the others only the alignment, as gguf-split writes them. Path becomes that of the first shard.
func (p *Plan) divideGGUF() error {
	md, err := p.ggufMetadata()
	if err != nil {
		return err
	}
	if fits, err := p.planSingle(md); fits || err != nil {
		return err
	}
	align, others := uint64(32), layout.Metadata(nil)
	if v, ok := md.Get(keyAlignment); ok {
		align = uint64(v.(uint32)) // planSingle has returned an error for other types
		others.Set(keyAlignment, v)
	}
	bytes := func(t *layout.Tensor) uint64 { return gguf.InfoSize(t, align) }
	if err := p.divideInOrder(splitKeys(md, 0, 0, 0), splitKeys(others, 0, 0, 0), align, bytes); err != nil {
		return err
	}
	n := len(p.files)
	if n > math.MaxUint16 {
		return fmt.Errorf("%w: %d shards of at most %d bytes, and split.count is of 16 bits", layout.ErrLimit, n, p.opts.ShardBytes)
	}
	for i := range p.files { // numbers in place of the zeros above, which leaves the sizes as they are
		p.files[i].metadata = splitKeys(withoutSplit(p.files[i].metadata), i, n, len(p.Tensors))
	}
	p.replaced = p.single // an old model in one file
	if err := p.nameShards(); err != nil {
		return err
	}
	p.requested, p.Path = p.Path, p.files[0].path
	return nil
}

// beginGGUF begins a GGUF file.
func beginGGUF(p *Plan, dst io.Writer, f *file) (fileWriter, error) {
	return gguf.NewWriter(dst, entries(f.tensors), f.metadata, &gguf.Options{BigEndian: p.opts.BigEndian})
}

// ggufMetadata returns the keys of the new file: those of a GGUF source with their types, keys for what other
// sources say, and as apr2.KEY what is left of APR2 metadata.
func (p *Plan) ggufMetadata() (layout.Metadata, error) {
	md := p.Metadata
	if p.opts.DType != layout.Invalid {
		setObject(&md, "quantization", without(object(md, "quantization"), "method", "bits_per_weight")) // general.file_type says it
	}
	out, rest := typedMetadata(object(md, ggufKey), object(md, ggufKey+"_types"), object(md, ggufKey+"_bytes"))
	if object(md, ggufKey) != nil {
		md = without(md, ggufKey, ggufKey+"_types", ggufKey+"_bytes")
	}
	out = withoutSplit(out)
	if align, err := layout.Get[uint32](out, keyAlignment); err == nil && !gguf.Aligns(uint64(align)) {
		out = without(out, keyAlignment) // of the source's offsets, which the new file does not have
	}
	p.addShapes(&out)
	addGGUFKeys(&out, md)
	p.setFileType(&out)
	if err := setTyped(&out, p.opts.Set); err != nil {
		return nil, err
	}
	return out, addCarried(&out, md, rest)
}

// addShapes adds to out, under keyShape, the source's shapes of tensors with more dimensions than GGUF allows. joinDims
// has joined their outermost dimensions. Tensors written as integers for another type are left to setOriginals.
func (p *Plan) addShapes(out *layout.Metadata) {
	var shapes layout.Metadata
	for i := range p.Tensors {
		t := &p.Tensors[i]
		dims, fits := layout.As[[]int32](t.FromShape()) // the key has no larger numbers
		if fits && len(dims) > p.target.maxDims && t.standsFor == layout.Invalid {
			shapes = append(shapes, layout.Entry{Key: keyShape + t.Name, Value: dims})
		}
	}
	out.Merge(shapes)
}

// addGGUFKeys sets keys of GGUF in out, unless they are there, from md, which is APR2 metadata: the architecture, the
// model card and the vocabulary.
func addGGUFKeys(out *layout.Metadata, md layout.Metadata) {
	add := func(key string, value any) {
		if _, exists := out.Get(key); !exists {
			out.Set(key, value)
		}
	}
	if name := textAt(md, "model_type"); name != "" && name != "unknown" {
		add(keyArchitecture, name)
	}
	for _, key := range []string{"name", "author", "version", "description", "license"} {
		if text := textAt(md, "model_card", key); text != "" {
			add("general."+key, text)
		}
	}
	if vocab, err := layout.Get[[]string](md, "vocab"); err == nil && len(vocab) > 0 {
		add(keyTokens, vocab)
	}
}

// addCarried adds to out, as JSON under apr2.KEY, the keys of APR2 metadata md that describe would not derive from out.
// rest has the keys of a GGUF source whose values have no type of GGUF; they are added too.
func addCarried(out *layout.Metadata, md, rest layout.Metadata) error {
	silent, derived := requiredMetadata(), requiredMetadata()
	describeGGUF(&derived, *out)
	var carried layout.Metadata
	if len(rest) > 0 {
		md = append(slices.Clip(md), layout.Entry{Key: ggufKey, Value: rest})
	}
	for _, e := range md {
		c, err := carriedAs(e.Key, e.Value)
		if err != nil {
			return err
		}
		// silent has the values that say nothing, derived those that a reader finds anyway.
		if !hasEqual(silent, e.Key, e.Value) && !hasEqual(derived, e.Key, e.Value) {
			carried = append(carried, c)
		}
	}
	out.Merge(carried)
	return nil
}

// setFileType sets general.file_type, the type of most weights, and general.quantization_version in out. It leaves out
// as it is if the source is GGUF with metadata and no tensor is re-encoded.
func (p *Plan) setFileType(out *layout.Metadata) {
	hasBlocks, isChanged := false, false
	elements := make(map[layout.DType]uint64)
	for i := range p.Tensors {
		t := &p.Tensors[i]
		hasBlocks = hasBlocks || t.To.Quantized()
		isChanged = isChanged || t.Reencoded
		if len(t.Shape) > 1 {
			elements[t.To] += t.Elements()
		}
	}
	if len(*out) > 0 && !isChanged && object(p.Metadata, ggufKey) != nil {
		return
	}
	*out = without(*out, keyFileType)
	fileType, ok := fileTypes[p.opts.DType]
	if p.resolver != nil {
		fileType, ok = p.resolver.ftype, true
	} else if !ok {
		fileType, ok = fileTypes[dominantType(elements)]
	}
	if ok {
		out.Set(keyFileType, fileType)
	}
	if _, exists := out.Get(keyQuantization); (hasBlocks || p.opts.DType != layout.Invalid) && !exists {
		out.Set(keyQuantization, uint32(2)) // GGML_QNT_VERSION (ggml.h)
	}
}

// fileTypes are llama.cpp's numbers for models whose matrices mostly have a type (llama.h, enum
// llama_ftype). Recipes have numbers of their own.
var fileTypes = map[layout.DType]uint32{
	layout.F32: 0, layout.F16: 1, layout.Q4_0: 2, layout.Q4_1: 3, layout.Q8_0: 7, layout.Q5_0: 8, layout.Q5_1: 9,
	layout.Q2_K: 10, layout.Q3_K: 11, layout.Q4_K: 14, layout.Q5_K: 16, layout.Q6_K: 18,
	layout.IQ2_XXS: 19, layout.IQ2_XS: 20, layout.IQ3_XXS: 23, layout.IQ1_S: 24, layout.IQ4_NL: 25, layout.IQ3_S: 26,
	layout.IQ2_S: 28, layout.IQ4_XS: 30, layout.IQ1_M: 31, layout.BF16: 32, layout.TQ1_0: 36, layout.TQ2_0: 37, layout.MXFP4: 38,
}

// dominantType returns the type with the most elements. Of several it returns that of the lowest number, without any
// Invalid.
func dominantType(elements map[layout.DType]uint64) (most layout.DType) {
	for d, n := range elements {
		if c := cmp.Compare(n, elements[most]); c > 0 || c == 0 && d < most {
			most = d
		}
	}
	return most
}
