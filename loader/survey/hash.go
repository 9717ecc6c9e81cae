package survey

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/loader"
	"github.com/tensormap/tensormap/mmapio"
)

// HashOptions tune Hash. Nil and zero fields mean the defaults.
type HashOptions struct {
	Options
	// Values and Stored select the digests to make. If neither is set, Values is meant.
	Values, Stored bool
}

// Digest is a SHA-256.
type Digest [sha256.Size]byte

// String is the digest in hexadecimal, as sha256sum writes it.
func (d Digest) String() string { return hex.EncodeToString(d[:]) }

// MarshalText is String.
func (d Digest) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// TensorDigest are the digests of one tensor: of nothing but its elements in row-major order.
// Its name and its shape are not part of them.
type TensorDigest struct {
	Tensor loader.Tensor
	Err    error // why there are none: the tensor is damaged

	// Values, unless it is nil, is the SHA-256 of the values as little-endian float32s, every
	// NaN being 0x7fc00000; the two zeros are different. So it is the same for F16 and for
	// what that is in F32, and for Q8_0 and what that expands to. It is nil where it was not
	// asked for, for types without values, and where a value is no float32 (of F64, and of
	// integers of 32 and 64 bits): then nothing but the stored elements tells tensors apart.
	Values *Digest
	// Stored, unless it is nil, is the SHA-256 of the elements as Tensor.Bytes has them:
	// decompressed. Where values were asked for and there are none, it is there instead.
	Stored *Digest

	quant  layout.Quant
	scaled bool
}

// Hash makes digests of m's tensors, in the order of the file. Neither the format, nor
// compression, nor how tensors are spread over shards changes them. Errors are as for
// [Stats].
func Hash(ctx context.Context, m *loader.Model, opts *HashOptions) ([]TensorDigest, error) {
	if opts == nil {
		opts = &HashOptions{}
	}
	wantValues := opts.Values || !opts.Stored
	if err := m.Changed(); err != nil {
		return nil, err
	}
	digests := make([]TensorDigest, 0, opts.most(m))
	order := make([]int32, 0, cap(digests))
	for t := range m.Tensors() {
		if opts.selects(t.Name()) {
			order = append(order, int32(len(digests)))
			digests = append(digests, TensorDigest{Tensor: t})
		}
	}
	// A tensor's digest takes one core: the longest go first, so that none is left to be
	// waited for at the end.
	slices.SortStableFunc(order, func(a, b int32) int {
		return cmp.Compare(digests[b].Tensor.RawBytes(), digests[a].Tensor.RawBytes())
	})
	begin := func(i int) task {
		return &hashTask{model: m, digest: &digests[order[i]], values: wantValues, stored: opts.Stored}
	}
	if err := run(ctx, &opts.Options, each(len(order), func(i int) uint64 { return begin(i).weight() }, begin), m); err != nil {
		return nil, err
	}
	return digests, nil
}

// hashTask is the work on one tensor. Its two digests are made at the same time, but of F32:
// there the first is mostly the second too.
type hashTask struct {
	model          *loader.Model
	subject        subject
	digest         *TensorDigest
	values, stored bool
	phase          int
	work           []func(w *worker) error
	oddNaN         bool // some NaN is not stored as it is hashed
}

func (t *hashTask) weight() uint64 {
	n := uint64(1)
	if t.values && t.stored {
		n = 2
	}
	return n * t.digest.Tensor.RawBytes()
}

func (t *hashTask) begin() uint64 {
	t.phase++
	t.work = nil
	d := t.digest
	f32 := d.Tensor.DType() == layout.F32
	switch t.phase {
	case 1:
		if t.subject, d.Err = newSubject(t.model, d.Tensor); d.Err != nil {
			return 0
		}
		d.quant, d.scaled = t.subject.quant, t.subject.scaled
		valued := t.values && valued(d.Tensor) == nil
		if valued {
			t.work = append(t.work, t.hashValues)
		}
		if t.stored && !(valued && f32) || t.values && !valued {
			t.work = append(t.work, t.hashStored)
		}
	case 2:
		switch {
		case t.values && d.Values == nil && d.Stored == nil:
			t.work = append(t.work, t.hashStored)
		case t.stored && d.Stored == nil && t.oddNaN:
			t.work = append(t.work, t.hashStored)
		case t.stored && d.Stored == nil:
			same := *d.Values
			d.Stored = &same
		}
	}
	return uint64(len(t.work))
}

func (t *hashTask) do(w *worker, part uint64) error { return t.work[part](w) }

func (t *hashTask) end(err error) {
	t.subject.release()
	d := t.digest
	if d.Err = cmp.Or(d.Err, err); d.Err != nil {
		*d = TensorDigest{Tensor: d.Tensor, Err: d.Err}
	}
}

// hashValues leaves no digest where one of the values is no float32.
func (t *hashTask) hashValues(w *worker) error {
	s := &t.subject
	h := sha256.New()
	for first := uint64(0); first < s.Elements(); first += chunk {
		n := min(chunk, s.Elements()-first)
		v, exact, err := w.a.exactly(s, first, n)
		if err != nil {
			return err
		}
		if !exact {
			return nil
		}
		if canonical(v) {
			t.oddNaN = true
		}
		h.Write(mmapio.Bytes(v))
		if err := w.saw(bytesOf(s.DType(), n)); err != nil {
			return err
		}
	}
	t.digest.Values = digestOf(h)
	return nil
}

// exactly are n values of s from element first on, unless one of them is no float32.
func (r *reader) exactly(s *subject, first, n uint64) (v []float32, exact bool, err error) {
	if !s.wide {
		v, err = r.values32(s, first, n)
		return v, true, err
	}
	size := uint64(s.DType().BlockBytes())
	b, err := r.elements(s, first*size, n*size)
	if err != nil {
		return nil, false, err
	}
	v = r.room(n)
	return v, narrow(s.DType(), v, b), nil
}

const canonicalNaN = 0x7fc00000

// canonical makes all NaNs of v the same, and reports whether any was not.
func canonical(v []float32) (changed bool) {
	nan := math.Float32frombits(canonicalNaN)
	for i, x := range v {
		if x != x {
			changed = changed || math.Float32bits(x) != canonicalNaN
			v[i] = nan
		}
	}
	return changed
}

// hashStep is four blocks of a compressed tensor: as many as the loader expands on one core.
const hashStep = 1 << 18

func (t *hashTask) hashStored(w *worker) error {
	s := &t.subject
	h := sha256.New()
	for off := uint64(0); off < s.RawBytes(); off += hashStep {
		b, err := w.b.elements(s, off, min(hashStep, s.RawBytes()-off))
		if err != nil {
			return err
		}
		h.Write(b)
		if err := w.saw(uint64(len(b))); err != nil {
			return err
		}
	}
	t.digest.Stored = digestOf(h)
	return nil
}

func digestOf(h hash.Hash) *Digest {
	return (*Digest)(h.Sum(nil))
}

// ValuesDigest is one digest for all of a model: the SHA-256 of a line for each tensor, by
// ascending name (bytewise),
//
//	DIGEST KIND SHAPE LENGTH:NAME\n
//
// where DIGEST is that of the values in lower case hexadecimal, KIND is "values", SHAPE is as
// in "[2,3]" but without dimensions of 1, which some formats drop, and LENGTH is that of NAME
// in bytes. A tensor without a digest of values has that of its stored elements, and as KIND
// its type, such as "I64", or "I8,scale=3f000000,zero=-3" (the bits of a float32) with a scale.
//
// ok is false where a tensor has neither, because it is damaged.
func ValuesDigest(list []TensorDigest) (total Digest, ok bool) {
	return totalOf(list, func(d *TensorDigest) (digest *Digest, kind string, shape []uint64) {
		if d.Values != nil {
			return d.Values, "values", squeezed(d.Tensor.Shape())
		}
		return d.Stored, d.kind(), squeezed(d.Tensor.Shape())
	})
}

// StoredDigest is [ValuesDigest] with all tensors' stored elements, their types, and all
// dimensions of their shapes.
func StoredDigest(list []TensorDigest) (total Digest, ok bool) {
	return totalOf(list, func(d *TensorDigest) (digest *Digest, kind string, shape []uint64) {
		return d.Stored, d.kind(), d.Tensor.Shape()
	})
}

func totalOf(list []TensorDigest, what func(d *TensorDigest) (digest *Digest, kind string, shape []uint64)) (total Digest, ok bool) {
	order := make([]int32, len(list))
	for i := range list {
		order[i] = int32(i)
	}
	slices.SortFunc(order, func(a, b int32) int { return cmp.Compare(list[a].Tensor.Name(), list[b].Tensor.Name()) })
	h := sha256.New()
	for _, i := range order {
		d := &list[i]
		digest, kind, shape := what(d)
		if digest == nil {
			return Digest{}, false
		}
		name := d.Tensor.Name()
		fmt.Fprintf(h, "%v %s %s %d:%s\n", digest, kind, shapeText(shape), len(name), name)
	}
	return *digestOf(h), true
}

func (d *TensorDigest) kind() string {
	if !d.scaled {
		return d.Tensor.DType().String()
	}
	return fmt.Sprintf("%v,scale=%08x,zero=%d", d.Tensor.DType(), math.Float32bits(d.quant.Scale), d.quant.Zero)
}

func shapeText(shape []uint64) string {
	dims := make([]string, len(shape))
	for i, dim := range shape {
		dims[i] = strconv.FormatUint(dim, 10)
	}
	return "[" + strings.Join(dims, ",") + "]"
}

// squeezed is shape without dimensions of 1: they say nothing about the order of elements,
// and formats that cannot have a scalar, or many dimensions, add or drop them.
func squeezed(shape []uint64) []uint64 {
	return slices.DeleteFunc(slices.Clone(shape), func(dim uint64) bool { return dim == 1 })
}
