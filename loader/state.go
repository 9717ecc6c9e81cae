package loader

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"strings"
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
	values   *values.Cached
	weight   *weight // of a logical tensor; else nil
}

// states are made one by one. They take 8 bytes for a tensor that nobody has touched.
type states []atomic.Pointer[state]

// getOrBuild returns the i-th state. If there is none yet, it stores the state that build returns. If several calls build the state
// concurrently, all return the state that was stored first.
func (s states) getOrBuild(i int, build func(i int) *state) *state {
	if known := s[i].Load(); known != nil {
		return known
	}
	s[i].CompareAndSwap(nil, build(i))
	return s[i].Load()
}

// storedState returns the state of the i-th stored tensor, which it builds at the first call.
func (m *Model) storedState(i uint32) *state {
	if known := m.storedStates[i].Load(); known != nil { // without this a closure would be allocated for each row
		return known
	}
	return m.storedStates.getOrBuild(int(i), m.buildStored)
}

// buildStored returns a new state of the i-th stored tensor. It reads nothing, and does not fail. If the elements cannot be read, or have no
// values in float32, the state has the reason: methods of the tensor that read values return it as their error.
func (m *Model) buildStored(i int) *state {
	desc := &m.tensors[i]
	f := m.files[desc.File]
	all := new(struct { // one allocation for a model of very many tensors
		state
		elements content.Cached
		typed    values.Typed
		values   values.Cached
	})
	s := &all.state
	s.elements, s.values = &all.elements, &all.values
	all.elements = content.Cached{
		Content: s.elementsFrom(f, desc, f.stored(desc)), Store: &m.cacheStore, Key: cache.Key{Tensor: uint32(i), Kind: cache.Elements},
	}
	all.typed.Content = s.elements
	all.typed.Count, _ = layout.Elements(desc.Shape) // cannot overflow: its bytes were computed from it
	all.values = values.Cached{Uncached: &all.typed, Store: &m.cacheStore, Key: cache.Key{Tensor: uint32(i), Kind: cache.Float32}}
	switch err := cmp.Or(checkExpandable(desc.DType), f.checkReadable(desc)); {
	case err != nil:
		s.values.Uncached = values.Refused{Reason: err, Content: s.elements}
	case desc.Quant != nil || desc.DType.HeadBytes() > 0 || f.scaledByMetadata(desc):
		all.typed.FindCodec = func(ctx context.Context, env content.Env) (dequant.Codec, error) {
			return m.codecOf(ctx, env, f, desc, s)
		}
	default:
		all.typed.Codec = plainCodecs[desc.DType]
	}
	return s
}

// plainCodecs has the codecs of elements without a scale, which all tensors of a dtype share. It has all dtypes that checkExpandable takes,
// but for dtypes with a head.
var plainCodecs = func() (codecs [math.MaxUint8 + 1]*dequant.Codec) {
	for d := layout.Invalid + 1; d.Valid(); d++ {
		if c, err := dequant.NewCodec(d, layout.Quant{}, false); err == nil {
			codecs[d] = &c
		}
	}
	return codecs
}()

// codec returns the codec that makes values of the elements. It returns nil if the tensor is logical, or if its values cannot be read. It
// also returns nil if the codec depends on the tensor's head or its scale, and is yet to be found.
func (s *state) codec() *dequant.Codec {
	if typed, ok := s.values.Uncached.(*values.Typed); ok {
		return typed.Codec
	}
	return nil
}

// dropSources drops from the cache what the values under key k were computed from: stored elements, and for a logical
// tensor also scales, constants and the elements of its parts. It first takes elements out of pins.ForWarming(). An entry that is
// still pinned then stays in the cache. pins may be nil.
func (m *Model) dropSources(k cache.Key, pins *cache.Pins) {
	warmed := pins.ForWarming()
	m.cache.Drop(warmed, k.Tensor, cache.Elements)
	if k.Kind != cache.Logical {
		return
	}
	m.cache.Drop(nil, k.Tensor, cache.Scales, cache.Constants)
	for part := range m.tensorOfKey(k).storedTensors() {
		m.cache.Drop(warmed, part.index, cache.Elements)
	}
}

// isRaw reports whether the elements of the tensor desc are stored as they are: not compressed, not packed, and decrypted if need be.
func isRaw(desc *layout.Tensor) bool { return desc.Encoding == layout.Raw }

// isLZ4 reports whether the elements of the tensor desc are stored as compressed blocks.
func isLZ4(desc *layout.Tensor) bool { return desc.Encoding == layout.LZ4 }

// stored returns the stored bytes of a tensor as a content, decrypted but still compressed. It reads nothing. If the bytes are not
// raw, and may have to be fetched into a cache, the content is Large: one request then fetches many blocks.
func (f *file) stored(desc *layout.Tensor) content.Content {
	if f.decrypted != nil {
		return f.decrypted.Content(desc, f.data, f.data.Remote())
	}
	return &content.Stored{File: f.data, Off: desc.Offset, Length: desc.Stored, Large: !isRaw(desc) && f.data.Fetches()}
}

// elementsFrom returns the elements of the tensor desc of f, as a content that reads stored, their stored bytes. The content decompresses
// or unpacks them if necessary. elementsFrom itself reads nothing. If checkReadable refuses desc, it returns stored, which nobody reads. If
// s has a table of compressed blocks already, the content uses that table: it knows the lengths of blocks that were read before.
func (s *state) elementsFrom(f *file, desc *layout.Tensor, stored content.Content) content.Content {
	switch {
	case isLZ4(desc):
		if blocks, ok := s.lz4Blocks(); ok {
			return content.LZ4{Table: blocks.Table, Stored: stored}
		}
		return content.LZ4{Table: content.NewTable(f.index.Format, desc.Offset, desc.Stored, desc.Raw), Stored: stored}
	case desc.Encoding.Packed() && f.checkReadable(desc) == nil: // so f.layout is an Unpacker
		return &content.Packed{Stored: stored, Length: desc.Raw, Unpack: func(ctx context.Context, stored, dst []byte) error {
			in := &inputWithBytes{f.data.Input(ctx), desc.Offset, stored}
			return f.layout.(layout.Unpacker).Unpack(in, desc, dst)
		}}
	}
	return stored
}

// lz4Blocks returns the elements of a compressed tensor as LZ4 blocks. ok is false if the tensor is not compressed.
func (s *state) lz4Blocks() (blocks content.LZ4, ok bool) {
	if s.elements != nil {
		blocks, ok = s.elements.Content.(content.LZ4)
	}
	return blocks, ok
}

// checkReadable returns why the elements of the file's tensor desc cannot be read, or nil. The error is ErrKey if the encoding of desc is
// encrypted: no key was given then, since with a key desc has the encoding after decryption (see decryptedTensors). Other errors are
// ErrUnsupported.
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

// checkExpandable returns why elements of type d have no values in float32, or nil. The error is ErrUnsupported.
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

// codecOf returns the codec that makes values of the elements of the tensor desc. f is the tensor's file, and s is its state. For a dtype
// with a head, codecOf reads the head from s.elements, and the codec comes from the head. For any other dtype, the codec comes from the
// dtype and from the scale that f has for the tensor, and s is not used. codecOf fails if the head or the metadata cannot be read, or if the
// dtype has no values in float32.
func (m *Model) codecOf(ctx context.Context, env content.Env, f *file, desc *layout.Tensor, s *state) (c dequant.Codec, err error) {
	n := desc.DType.HeadBytes()
	if n == 0 {
		q, scaled, err := f.scale(ctx, desc)
		if err != nil {
			return c, err
		}
		return dequant.NewCodec(desc.DType, q, scaled)
	}
	head := make([]byte, n)
	if desc.Raw > 0 { // an empty tensor has no head
		err = content.Read(ctx, env, s.elements, head, 0)
	}
	if err != nil {
		return c, err
	}
	return dequant.ReadHead(desc.DType, head)
}

// buildWeight returns a new state of the i-th logical tensor, and reads nothing. If the scheme refuses the tensor, the state has
// the elements of the tensor's codes, and reading values fails with the scheme's reason.
func (m *Model) buildWeight(i int) *state {
	w := &weight{model: m, Weight: m.weightTable.Weight(i)}
	codes := m.storedState(w.Parts[0].Tensor)
	if w.Err != nil {
		refused := *codes
		refused.values = &values.Cached{Uncached: values.Refused{Reason: w.Err, Content: codes.elements}, Store: &m.cacheStore, Key: codes.values.Key}
		return &refused
	}
	return &state{weight: w, values: &values.Cached{
		Uncached: w.values(codes), Store: &m.cacheStore, Key: w.key(cache.Logical),
	}}
}

// checkBytes returns why the tensor's elements cannot be read as bytes, or nil. For a logical tensor, which has no bytes of its own, it
// returns ErrUnsupported with the names of the parts.
func (t Tensor) checkBytes() error {
	if !t.isLogical() {
		return t.file().checkReadable(t.desc())
	}
	var names []string
	for part := range t.storedTensors() {
		names = append(names, layout.Quote(part.desc().Name))
	}
	return fmt.Errorf("%w: the tensor is quantized (%s), its bytes are the bytes of its parts %s",
		ErrUnsupported, t.schemeWeight().Scheme, strings.Join(names, ", "))
}

// envForParts returns the Env for several reads of parts of the tensor. A read may put more than its part into the cache: the scales of a
// logical tensor, or all of a packed tensor. For such tensors the result has pins in place of env.Pins. Entries that a read has put into the
// cache then stay for the next read, until the caller unpins pins. For other tensors envForParts returns env unchanged.
func (s *state) envForParts(env content.Env, pins *cache.Pins) content.Env {
	if s.weight != nil || s.elements.Cost().OnlyWhole {
		env.Pins = pins
	}
	return env
}
