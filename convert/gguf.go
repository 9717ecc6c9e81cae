package convert

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/layout/gguf"
)

// ggufTarget has no manifest: every shard leads to the others.
var ggufTarget = target{
	name: "GGUF", hasType: gguf.Holds, hasScalars: true, maxDims: gguf.MaxDims, readsAllAsWeights: true,
	integers:    map[int]layout.DType{1: layout.I8, 2: layout.I16, 4: layout.I32, 8: layout.I64},
	divideFiles: (*Plan).divideGGUF,
}

// divideGGUF plans one file. If that is larger than Options.ShardBytes, it plans shards instead, and Path becomes the path of the
// first. The first shard has the metadata, the others only the alignment, as gguf-split writes them. It fails if a tensor or
// key cannot be written, or if there are more than 65,535 shards.
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
	bytesOf := func(t *layout.Tensor) uint64 { return gguf.InfoSize(t, align) }
	if err := p.divideInOrder(splitKeys(md, 0, 0, 0), splitKeys(others, 0, 0, 0), align, bytesOf); err != nil {
		return err
	}
	n := len(p.files)
	if n > math.MaxUint16 {
		return fmt.Errorf("%w: %d shards of at most %d bytes, and split.count is of 16 bits", layout.ErrLimit, n, p.opts.ShardBytes)
	}
	for i := range p.files { // numbers in place of the zeros above, which leaves the sizes as they are
		p.files[i].metadata = splitKeys(withoutSplit(p.files[i].metadata), i, n, len(p.Tensors))
	}
	p.replacedPath = p.singlePath // an old model in one file
	if err := p.nameShards(); err != nil {
		return err
	}
	p.requestedPath, p.Path = p.Path, p.files[0].path
	return nil
}

// ggufMetadata returns the keys of the new file. Keys of a GGUF source stay, with their types. From the metadata of other
// sources it makes keys of GGUF. The rest of APR2 metadata goes under apr2.KEY. ggufMetadata leaves out what describeGGUF finds in the new
// keys, and the values for an unknown model. It fails for a key of Options.Set that setTyped refuses, and for values that have no JSON.
func (p *Plan) ggufMetadata() (layout.Metadata, error) {
	md := slices.Clone(p.Metadata)
	if p.opts.DType != layout.Invalid {
		setObject(&md, "quantization", without(object(md, "quantization"), "method", "bits_per_weight")) // general.file_type says it
	}
	out, rest := typedMetadata(object(md, ggufKey), object(md, ggufKey+"_types"), object(md, ggufKey+"_bytes"))
	if object(md, ggufKey) != nil {
		md = without(md, ggufKey, ggufKey+"_types", ggufKey+"_bytes")
	}
	out = withoutSplit(out)
	if align, err := layout.Get[uint32](out, keyAlignment); err == nil && !gguf.Aligns(uint64(align)) {
		out = without(out, keyAlignment) // a writer refuses it, and the source's offsets are not the offsets in the new file
	}
	p.addShapes(&out)
	addGGUFKeys(&out, md)
	p.setFileType(&out)
	if err := setTyped(&out, p.opts.Set); err != nil {
		return nil, err
	}
	derived := requiredMetadata() // describeGGUF adds what it finds in the keys of the new file
	describeGGUF(&derived, out)
	if len(rest) > 0 { // keys of a GGUF source whose values have no type of GGUF
		md = append(slices.Clip(md), layout.Entry{Key: ggufKey, Value: rest})
	}
	carried, err := carriedEntries(md, requiredMetadata(), derived)
	out.Merge(carried)
	return out, err
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
// model card and the vocabulary. It skips values of other types than GGUF wants.
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

// setFileType sets general.file_type in out to the number of the recipe, if types are chosen by one. Otherwise it sets the number of the
// type that was asked for, or else of the type that most elements of matrices have. It sets general.quantization_version too, if there are
// blocks or a type was asked for. It changes nothing if the source is GGUF with metadata and no tensor is re-encoded.
func (p *Plan) setFileType(out *layout.Metadata) {
	hasBlocks, isChanged := false, false
	elements := map[layout.DType]uint64{layout.Invalid: 0}
	for i := range p.Tensors {
		t := &p.Tensors[i]
		hasBlocks = hasBlocks || t.To.Quantized()
		isChanged = isChanged || t.Reencoded
		if len(t.Shape) > 1 {
			elements[t.To] += t.Elements()
		}
	}
	if len(*out) > 0 && !isChanged && object(p.Metadata, ggufKey) != nil { // the source's keys still hold
		return
	}
	*out = without(*out, keyFileType)
	byElements := func(a, b layout.DType) int { return cmp.Compare(elements[a], elements[b]) }
	most := slices.MaxFunc(slices.Sorted(maps.Keys(elements)), byElements) // the first of several
	names := []string{p.opts.DType.String(), most.String()}
	if p.resolver != nil {
		names = []string{strings.ToUpper(p.resolver.name)}
	}
	for _, name := range names {
		if fileType, ok := fileTypeOf(name); ok {
			out.Set(keyFileType, fileType)
			break
		}
	}
	if _, exists := out.Get(keyQuantization); (hasBlocks || p.opts.DType != layout.Invalid) && !exists {
		out.Set(keyQuantization, uint32(2)) // GGML_QNT_VERSION (ggml.h)
	}
}

// fileTypeOf returns general.file_type for a recipe called name, or for a model whose matrices mostly have the type of that
// name. It returns false if llama.cpp has no number for it.
func fileTypeOf(name string) (uint32, bool) {
	const numbers = 64                                                // file types from 64 on have no names
	for _, name := range []string{name, name + "_S", name + "_MOE"} { // llama.cpp has Q4_K_S, but no Q4_K
		for n := range uint32(numbers) {
			if gguf.FileType(n) == name {
				return n, true
			}
		}
	}
	return 0, false
}
