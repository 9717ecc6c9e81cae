package loader

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/tensormap/tensormap/dequant"
	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/loader/internal/cache"
	"github.com/tensormap/tensormap/loader/internal/content"
	"github.com/tensormap/tensormap/loader/internal/values"
)

// state is what a tensor's handle stands for: where its bytes are, and what they mean. It is made when the tensor is first
// touched, reads nothing, and never changes.
type state struct {
	elements *content.Cached // nil for a logical tensor, which has no bytes of its own
	stored   content.Content // the elements as the file has them, decrypted
	values   *values.Cached
	weight   *weight // of a logical tensor; else nil
	err      error   // why the elements cannot be read, or nil
}

// states are made one by one. They take 8 bytes for a tensor that nobody has touched.
type states []atomic.Pointer[state]

// get returns the i-th state, which the first call makes by build. Of several at a time all return the same.
func (s states) get(i int, build func(i int) *state) *state {
	if known := s[i].Load(); known != nil {
		return known
	}
	s[i].CompareAndSwap(nil, build(i))
	return s[i].Load()
}

// storedState returns the state of a tensor as it is stored.
func (m *Model) storedState(i uint32) *state {
	all := m.states()
	if known := all[i].Load(); known != nil { // or else the method below would be made for each row
		return known
	}
	return all.get(int(i), m.buildStored)
}

// buildStored makes the state of the i-th stored tensor and reads nothing. Elements or values that cannot be read are
// no error here: the state has why, and methods return it.
func (m *Model) buildStored(i int) *state {
	desc := &m.tensors[i]
	f := &m.files[desc.File]
	all := new(struct { // one allocation for a model of very many tensors
		state
		elements content.Cached
		typed    values.Typed
		values   values.Cached
	})
	s := &all.state
	s.stored, s.err, s.elements, s.values = f.stored(desc), f.checkReadable(desc), &all.elements, &all.values
	all.elements = content.Cached{
		Content: s.elementsFrom(f, desc, s.stored), Store: &m.store, Key: cache.Key{Tensor: uint32(i), Kind: cache.Elements},
	}
	all.typed.In = s.elements
	all.typed.N, _ = layout.Elements(desc.Shape) // cannot overflow: its bytes were computed from it
	all.values = values.Cached{Values: &all.typed, Store: &m.store, Key: cache.Key{Tensor: uint32(i), Kind: cache.Float32}}
	if err := cmp.Or(checkExpandable(desc.DType), s.err); err != nil {
		s.values.Values = values.Refused{Reason: err, In: s.elements}
	} else if desc.Quant != nil || desc.DType.HeadBytes() > 0 || f.scaledByMetadata(desc) {
		all.typed.Find = func(ctx context.Context, env content.Env) (dequant.Codec, error) {
			return m.codec(ctx, env, f, desc, s)
		}
	} else {
		all.typed.Codec = unscaled(desc.DType)
	}
	return s
}

// unscaledCodecs are the codecs of elements that need none but their type, each made once.
var unscaledCodecs sync.Map // *dequant.Codec by layout.DType

// unscaled returns the codec of elements of type d without a scale. d must have values: otherwise unscaled panics.
func unscaled(d layout.DType) *dequant.Codec {
	if c, ok := unscaledCodecs.Load(d); ok {
		return c.(*dequant.Codec)
	}
	c, err := dequant.NewCodec(d, layout.Quant{}, false)
	if err != nil {
		panic(err) // a type that is supported has a codec
	}
	known, _ := unscaledCodecs.LoadOrStore(d, &c)
	return known.(*dequant.Codec)
}

// dropSources drops from the cache what the values of k were made of, before these are cached: elements, and for a
// logical tensor also scales, constants and the elements of its parts. Pinned entries stay.
func (m *Model) dropSources(k cache.Key) {
	m.cache.Drop(k.Tensor, cache.Elements)
	if k.Kind != cache.Logical {
		return
	}
	m.cache.Drop(k.Tensor, cache.Scales, cache.Constants)
	for _, i := range m.of(k).storedTensors() {
		m.cache.Drop(i, cache.Elements)
	}
}

// elementsFrom returns the elements of a tensor, decompressed or unpacked if need be. stored has their bytes as the
// file has them. The table of compressed blocks is that of s, if it has one.
func (s *state) elementsFrom(f *file, desc *layout.Tensor, stored content.Content) content.Content {
	switch {
	case desc.Encoding == layout.LZ4:
		if blocks, ok := s.lz4(); ok {
			return content.LZ4{Table: blocks.Table, Stored: stored}
		}
		return content.LZ4{Table: content.NewTable(f.index.Format, desc.Offset, desc.Stored, desc.Raw), Stored: stored}
	case desc.Encoding.Packed() && s.err == nil:
		return &content.Packed{Stored: stored, N: desc.Raw, Unpack: func(ctx context.Context, stored, dst []byte) error {
			in := &fetched{f.data.Input(ctx), desc.Offset, stored}
			return f.layout.(layout.Unpacker).Unpack(in, desc, dst)
		}}
	}
	return stored
}

// lz4 returns the blocks of a compressed tensor. ok is false for any other.
func (s *state) lz4() (blocks content.LZ4, ok bool) {
	if s.elements != nil {
		blocks, ok = s.elements.Content.(content.LZ4)
	}
	return blocks, ok
}

// checkReadable returns why elements of the file's tensor cannot be read, or nil.
func (f *file) checkReadable(desc *layout.Tensor) error {
	switch desc.Encoding {
	case layout.Raw, layout.LZ4:
		return nil
	case layout.Encrypted, layout.EncryptedLZ4:
		return fmt.Errorf("%w: the tensor is encrypted, and no key was given", ErrKey)
	case layout.Protobuf, layout.Swapped:
		if _, ok := f.layout.(layout.Unpacker); ok {
			return nil
		}
	}
	return fmt.Errorf("%w: elements stored as %s", ErrUnsupported, desc.Encoding)
}

// checkExpandable returns why elements of a type have no values, or nil.
func checkExpandable(d layout.DType) error {
	if dequant.Supported(d) {
		return nil
	}
	why := ""
	if d.Kind() == layout.KindComplex {
		why = ": complex numbers are two each"
	}
	return fmt.Errorf("%w: %s has no values in float32%s", ErrUnsupported, d, why)
}

// codec returns how the stored elements become values: by their type, by the scale that the file gives integers, or by
// the first bytes of a tensor whose type has a head. The error is that of reading these, or of metadata.
func (m *Model) codec(ctx context.Context, env content.Env, f *file, desc *layout.Tensor, s *state) (c dequant.Codec, err error) {
	n := desc.DType.HeadBytes()
	if n == 0 {
		q, scaled, err := f.scale(ctx, desc)
		if err != nil {
			return c, err
		}
		return dequant.NewCodec(desc.DType, q, scaled)
	}
	head := make([]byte, n)
	if desc.Raw > 0 { // else there is none
		err = s.elements.ReadAt(ctx, env, head, 0)
	}
	if err != nil {
		return c, err
	}
	return dequant.ReadHead(desc.DType, head)
}

// weightState returns the state of the i-th logical tensor. It is that of its codes, without values, if the scheme refuses
// the tensor.
func (m *Model) weightState(i int) *state { return m.weights().get(i, m.buildWeight) }

// buildWeight makes the state of the i-th logical tensor and reads nothing. If its scheme refuses it, the state is a
// copy of that of its codes, whose values are the error.
func (m *Model) buildWeight(i int) *state {
	w := &weight{model: m, Weight: m.schemes.Weight(i)}
	codes := m.storedState(w.Parts[0].Tensor)
	if w.Err != nil {
		refused := *codes
		refused.values = &values.Cached{Values: values.Refused{Reason: w.Err, In: codes.elements}, Store: &m.store, Key: codes.values.Key}
		return &refused
	}
	return &state{weight: w, values: &values.Cached{
		Values: w.values(codes), Store: &m.store, Key: w.key(cache.Logical),
	}}
}

// bytesErr returns why the tensor has no bytes that could be read, or nil.
func (s *state) bytesErr() error {
	if s.weight == nil {
		return s.err
	}
	var names []string
	for _, p := range s.weight.Parts {
		names = append(names, layout.Quote(s.weight.model.tensors[p.Tensor].Name))
	}
	return fmt.Errorf("%w: the tensor is quantized (%s), its bytes are those of its parts %s",
		ErrUnsupported, s.weight.Scheme, strings.Join(names, ", "))
}

// pinned returns env with own as its pins, if reading a part of the tensor puts more of it into the cache. Later reads
// of the same call then find it there. Otherwise it returns env. The caller unpins own.
func (s *state) pinned(env content.Env, own *cache.Pins) content.Env {
	if s.weight != nil || s.elements.Cost().Whole {
		env.Pins = own
	}
	return env
}

// withPins calls f with what pinned returns, and unpins afterwards. It allocates pins only if they are needed.
func (s *state) withPins(m *Model, env content.Env, f func(env content.Env) error) error {
	if s.weight == nil && !s.elements.Cost().Whole {
		return f(env)
	}
	own := new(cache.Pins)
	defer m.cache.Unpin(own)
	return f(s.pinned(env, own))
}
