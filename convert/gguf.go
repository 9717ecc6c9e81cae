package convert

import (
	"bufio"
	"cmp"
	"crypto/sha256"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/layout/gguf"
)

// ggufTarget has no manifest: every shard leads to the others.
var ggufTarget = target{
	name: "GGUF", holds: gguf.Holds, dims: gguf.MostDims, scalars: true, integers: signed, weights: true,
	divide: (*Plan).asGGUF, writer: newGGUFWriter,
}

// asGGUF plans one file, and shards if that is too large.
func (p *Plan) asGGUF() error {
	md, err := p.ggufMetadata()
	if err != nil {
		return err
	}
	if whole, err := p.asWhole(md); whole || err != nil {
		return err
	}
	return p.divideGGUF()
}

func newGGUFWriter(p *Plan, dst io.Writer, s *part) (fileWriter, error) {
	return gguf.NewWriter(dst, entries(s.tensors), s.metadata, &gguf.Options{BigEndian: p.opts.BigEndian})
}

// Keys of GGUF that say what the file is.
const (
	keyArchitecture = "general.architecture"
	keyFileType     = "general.file_type"
	keyQuantization = "general.quantization_version"
	keyAlignment    = "general.alignment"
	keyTokens       = "tokenizer.ggml.tokens"
	keyShape        = "comfy.gguf.orig_shape." // and the name of a tensor: its shape, for ComfyUI-GGUF and package gguf
)

// comfyShapes returns the shapes that a GGUF source has under keyShape, by name of tensor.
func comfyShapes(md layout.Metadata) (shapes map[string][]int) {
	for _, e := range md {
		name, ok := strings.CutPrefix(e.Key, keyShape)
		dims, isList := e.Value.([]int32)
		if !ok || !isList || slices.ContainsFunc(dims, func(n int32) bool { return n < 0 }) {
			continue
		}
		if shapes == nil {
			shapes = make(map[string][]int)
		}
		for _, n := range dims {
			shapes[name] = append(shapes[name], int(n))
		}
	}
	return shapes
}

// reshaped reports whether blocks become plain numbers, whose rows may have any length, so that t can have the shape. It has as many
// elements.
func (t *Tensor) reshaped(p *Plan, shape []int) bool {
	n, ok := layout.Elements(shape)
	plain := !t.To.Quantized() || p.target.expands(t.To)
	return ok && n == t.source.Elements() && t.From.Quantized() && plain
}

// setShapes enters the shapes of tensors whose outermost dimensions were joined.
func (p *Plan) setShapes(out *layout.Metadata) {
	var shapes layout.Metadata
	for i := range p.Tensors {
		t := &p.Tensors[i]
		shape := t.FromShape()
		large := func(n int) bool { return n > math.MaxInt32 }
		if len(shape) <= p.target.dims || t.bits != layout.Invalid || slices.ContainsFunc(shape, large) {
			continue
		}
		dims := make([]int32, len(shape))
		for i, n := range shape {
			dims[i] = int32(n)
		}
		shapes = append(shapes, layout.Entry{Key: keyShape + t.Name, Value: dims})
	}
	out.Merge(shapes)
}

// ggufMetadata returns the keys of the new file: those of a GGUF source with their types, what the
// source says otherwise, and as apr2.KEY what is left of APR2 metadata.
func (p *Plan) ggufMetadata() (layout.Metadata, error) {
	md := p.Metadata
	if d := p.opts.DType; d != layout.Invalid {
		q := without(object(md, "quantization"), "method", "bits_per_weight") // general.file_type says it
		setObject(&md, "quantization", q)
	}
	types, _ := md.Get(ggufKey + "_types")
	out, rest := typedMetadata(object(md, ggufKey), types, object(md, ggufKey+"_bytes"))
	if object(md, ggufKey) != nil {
		md = without(md, ggufKey, ggufKey+"_types", ggufKey+"_bytes")
	}
	out = withoutSplit(out)
	if align, ok := out.Get(keyAlignment); ok {
		if n, ok := align.(uint32); ok && !gguf.Aligns(uint64(n)) {
			out = without(out, keyAlignment) // of the source's offsets, which the new file does not have
		}
	}
	p.setShapes(&out)
	describeForGGUF(&out, md)
	p.setFileType(&out)
	if err := p.opts.set(&out); err != nil {
		return nil, err
	}
	return out, carryRest(&out, md, rest)
}

var ggufKey = layout.GGUF.String()

// describeForGGUF adds keys of GGUF that the source states in another way.
func describeForGGUF(out *layout.Metadata, md layout.Metadata) {
	add := func(key string, value any) {
		if _, there := out.Get(key); !there {
			out.Set(key, value)
		}
	}
	if name := stringAt(md, "model_type"); name != "" && name != "unknown" {
		add(keyArchitecture, name)
	}
	for _, key := range []string{"name", "author", "version", "description", "license"} {
		if text := stringAt(md, "model_card", key); text != "" {
			add("general."+key, text)
		}
	}
	if vocab, err := layout.Get[[]string](md, "vocab"); err == nil && len(vocab) > 0 {
		add(keyTokens, vocab)
	}
}

func stringAt(md layout.Metadata, key string, nested ...string) string {
	v, _ := md.Get(key, nested...)
	s, _ := v.(string)
	return s
}

// carryRest adds what of the APR2 metadata a reader of the new file would not find in the keys that it
// has, as JSON. rest holds keys of a GGUF source that GGUF has no type for.
func carryRest(out *layout.Metadata, md, rest layout.Metadata) error {
	silent, derived := requiredMetadata(), requiredMetadata()
	describeGGUF(&derived, *out)
	var carried layout.Metadata
	if len(rest) > 0 {
		md = append(md[:len(md):len(md)], layout.Entry{Key: ggufKey, Value: rest})
	}
	for key, value := range md.All() {
		e, err := carriedAs(key, value)
		if err != nil {
			return err
		}
		if !saysSame(silent, key, value) && !saysSame(derived, key, value) {
			carried = append(carried, e)
		}
	}
	out.Merge(carried)
	return nil
}

// saysSame reports whether md has key with a value of the same text.
func saysSame(md layout.Metadata, key string, value any) bool {
	v, ok := md.Get(key)
	return ok && textDigest(v) == textDigest(value)
}

// textDigest returns the digest of a value's JSON, which is known to have one.
func textDigest(v any) (sum [sha256.Size]byte) {
	h := sha256.New()
	w := bufio.NewWriter(h)
	layout.WriteJSON(w, v)
	w.Flush()
	h.Sum(sum[:0])
	return sum
}

// setFileType enters what the file is quantized to, if that is not as the source says it.
func (p *Plan) setFileType(out *layout.Metadata) {
	quantized, changed := false, false
	elements := make(map[layout.DType]uint64)
	for i := range p.Tensors {
		t := &p.Tensors[i]
		quantized = quantized || t.To.Quantized()
		changed = changed || t.Reencoded
		if len(t.Shape) > 1 {
			elements[t.To] += t.Elements()
		}
	}
	if len(*out) > 0 && !changed && object(p.Metadata, ggufKey) != nil {
		return // a GGUF file's own words
	}
	*out = without(*out, keyFileType)
	if p.resolver != nil {
		out.Set(keyFileType, p.resolver.ftype)
	} else if ftype, ok := fileTypes[p.opts.DType]; ok {
		out.Set(keyFileType, ftype)
	} else if ftype, ok := fileTypeOf(elements); ok {
		out.Set(keyFileType, ftype)
	}
	if _, there := out.Get(keyQuantization); (quantized || p.opts.DType != layout.Invalid) && !there {
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

// fileTypeOf returns the number of the type that most elements have.
func fileTypeOf(elements map[layout.DType]uint64) (ftype uint32, ok bool) {
	var most layout.DType
	for d, n := range elements {
		if c := cmp.Compare(n, elements[most]); c > 0 || c == 0 && d < most {
			most = d
		}
	}
	ftype, ok = fileTypes[most]
	return ftype, ok
}

// divideGGUF divides the tensors among shards. The first has the metadata, as gguf-split writes it.
func (p *Plan) divideGGUF() error {
	align, others := uint64(32), layout.Metadata(nil)
	if v, ok := p.Metadata.Get(keyAlignment); ok {
		align = uint64(v.(uint32)) // the writer has looked at it
		others.Set(keyAlignment, v)
	}
	bytes := func(t *layout.Tensor) uint64 { return gguf.InfoSize(t, align) }
	if err := p.fill(splitKeys(p.Metadata, 0, 0, 0), splitKeys(others, 0, 0, 0), align, bytes); err != nil {
		return err
	}
	n := len(p.parts)
	if n > math.MaxUint16 {
		return fmt.Errorf("%w: %d shards of at most %d bytes, and split.count is of 16 bits", layout.ErrLimit, n, p.opts.ShardBytes)
	}
	for i := range p.parts { // whose sizes stay
		p.parts[i].metadata = splitKeys(withoutSplit(p.parts[i].metadata), i, n, len(p.Tensors))
	}
	p.instead = p.whole
	if err := p.nameShards(); err != nil {
		return err
	}
	p.requested, p.Path = p.Path, p.parts[0].path
	return nil
}

// splitKeys returns md with the keys by which the parts of a split find each other.
func splitKeys(md layout.Metadata, no, count, tensors int) layout.Metadata {
	return append(md[:len(md):len(md)],
		layout.Entry{Key: "split.no", Value: uint16(no)},
		layout.Entry{Key: "split.count", Value: uint16(count)},
		layout.Entry{Key: "split.tensors.count", Value: int32(tensors)})
}

// isSplit reports whether a key is about how a model is divided among files.
func isSplit(key string) bool { return strings.HasPrefix(key, "split.") }

// withoutSplit returns md without the keys that say how the source was divided: they are not true of a new file.
func withoutSplit(md layout.Metadata) layout.Metadata {
	split := func(e layout.Entry) bool { return isSplit(e.Key) }
	if slices.ContainsFunc(md, split) {
		return slices.DeleteFunc(slices.Clone(md), split)
	}
	return md
}
