package survey

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash"
	"math"
	"slices"
	"strings"

	"github.com/tensormap/tensormap/internal/elements"
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

// String returns the digest in hexadecimal, as sha256sum writes it.
func (d Digest) String() string { return hex.EncodeToString(d[:]) }

// MarshalText returns String.
func (d Digest) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// TensorDigest holds the digests of one tensor: of nothing but its elements in row-major order.
// Its name and its shape are not part of them.
type TensorDigest struct {
	Tensor loader.Tensor
	Err    error // why there are none: the tensor is damaged

	// Values, unless it is nil, is the SHA-256 of the values as little-endian float32s, every
	// NaN being 0x7fc00000; the two zeros are different. So F16 and its copy in F32 have the
	// same digest, and so have Q8_0 and its expansion.
	//
	// It is nil if nobody asked for it, and for types without values. It is nil if a value of
	// F64, or an integer of 32 or 64 bits, is no float32. Only stored elements tell such values
	// apart.
	Values *Digest
	// Stored, unless it is nil, is the SHA-256 of the elements, decompressed, as Tensor.Bytes returns
	// them. For a logical tensor it covers the parts by ascending name. It also stands in for a digest of
	// values that was asked for and does not exist.
	Stored *Digest

	quant    layout.Quant // if hasScale
	hasScale bool
}

// Hash makes digests of the tensors of m that opts selects. It calls deliver with the digests of each tensor, one call at a time, by
// ascending name (bytewise). A nil opts means digests of the values of all tensors. Digests of both kinds depend on a tensor's elements
// alone. The file's format, its compression and the number of shards do not change them.
// A tensor that cannot be read has its error in TensorDigest.Err. Hash fails if a call of deliver fails, if ctx ends, or if m is closed or
// one of its files has changed.
func Hash(ctx context.Context, m *loader.Model, opts *HashOptions, deliver func(*TensorDigest) error) error {
	if opts == nil {
		opts = &HashOptions{}
	}
	list := opts.tensors(m)
	slices.SortFunc(list, loader.ByName)
	values := opts.Values || !opts.Stored
	bytes := func(i int) uint64 { // twice the tensor's if both digests are asked for
		if values && opts.Stored {
			return 2 * list[i].RawBytes()
		}
		return list[i].RawBytes()
	}
	return run(ctx, &opts.Options, len(list), bytes, func(ctx context.Context, j *job, i int) (*TensorDigest, error) {
		d := &TensorDigest{Tensor: list[i]}
		// One batch for the whole tensor: a SHA-256 takes the bytes in their order.
		if err := j.eachBatch(1, func(w *worker, _ uint64) error { return d.hash(ctx, j, w, m, values, opts.Stored) }); err != nil {
			return &TensorDigest{Tensor: d.Tensor, Err: err}, nil // other tensors go on
		}
		return d, nil
	}, deliver, m)
}

// hash sets d.Values if values is true, and d.Stored if stored is true. If the tensor has no digest of values, hash sets d.Stored in any
// case. It fails if reading does, or if the work is canceled.
func (d *TensorDigest) hash(ctx context.Context, j *job, w *worker, m *loader.Model, values, stored bool) error {
	s, err := leaseTensor(ctx, m, d.Tensor)
	if err != nil {
		return err
	}
	defer s.lease.Release()
	d.quant, d.hasScale = s.quant, s.hasScale
	if values && checkValues(d.Tensor) == nil {
		d.Values, err = j.digest(ctx, s.Elements(), chunk, func(first, n uint64) ([]byte, uint64, error) {
			v, exact, err := w.readerA.exactFloats(&s, first, n)
			if err != nil || !exact {
				return nil, 0, err
			}
			canonicalizeNaNs(v)
			return mmapio.Bytes(v), s.bytesOf(n), nil
		})
	}
	if err != nil || d.Values != nil && !stored {
		return err
	}
	d.Stored, err = j.digest(ctx, s.RawBytes(), hashStep, func(off, n uint64) ([]byte, uint64, error) {
		b, err := w.readerA.storedBytes(&s, off, n)
		return b, n, err
	})
	return err
}

// digest returns the digest of n elements or bytes. read returns up to step of them at a time, from the one with number first on, as the
// bytes b. counted is how many bytes they count for in Progress. If read returns no bytes, digest returns nil: there is no digest. It fails
// if read does, or if the work is canceled.
func (j *job) digest(ctx context.Context, n, step uint64, read func(first, n uint64) (b []byte, counted uint64, err error)) (*Digest, error) {
	h := sha256.New()
	for first := uint64(0); first < n; first += step {
		b, counted, err := read(first, min(step, n-first))
		if err != nil || len(b) == 0 {
			return nil, err
		}
		h.Write(b)
		if err := j.progress(ctx, counted); err != nil {
			return nil, err
		}
	}
	return (*Digest)(h.Sum(nil)), nil
}

// exactFloats returns n values of s from element first on, at most chunk, as float32s. exact is false if float32 cannot hold one of the
// values. The result is valid until r reads again. exactFloats fails if reading does.
func (r *reader) exactFloats(s *leasedTensor, first, n uint64) (v []float32, exact bool, err error) {
	if !s.isWide {
		v, err = r.values32(s, first, n)
		return v, true, err
	}
	size := uint64(s.DType().BlockBytes())
	b, err := r.storedBytes(s, first*size, n*size)
	if err != nil {
		return nil, false, err
	}
	v = buffer(&r.floats, n)
	return v, elements.Float32s(s.DType(), v, b), nil
}

// canonicalNaN has the bits of every NaN in a digest, so that the processor that computed a NaN makes no difference.
const canonicalNaN = 0x7fc00000

// canonicalizeNaNs replaces every NaN of v by one with the bits canonicalNaN.
func canonicalizeNaNs(v []float32) {
	nan := math.Float32frombits(canonicalNaN)
	for i, x := range v {
		if x != x {
			v[i] = nan
		}
	}
}

// hashStep is the size of four blocks of a compressed tensor, which the loader decompresses on one core.
const hashStep = 1 << 18

// ModelDigest folds the digests of tensors into digests of their model. It takes the tensors by
// ascending name, as [Hash] delivers them. The zero value is the state of a model without tensors.
type ModelDigest struct{ values, stored lines }

// lines hashes a line for each tensor.
type lines struct {
	hash    hash.Hash
	missing bool // a tensor has no digest
}

// Add adds a tensor's digests to the digests of the model. The caller adds tensors by ascending name. After a tensor without a digest, the
// model has none.
func (m *ModelDigest) Add(d *TensorDigest) {
	if d.Values != nil {
		m.values.add(d, d.Values, "values", squeezed(d.Tensor.Shape()))
	} else {
		m.values.add(d, d.Stored, d.kind(), squeezed(d.Tensor.Shape()))
	}
	m.stored.add(d, d.Stored, d.kind(), d.Tensor.Shape())
}

// Values returns one digest for all tensors: the SHA-256 of a line for each,
//
//	DIGEST KIND SHAPE LENGTH:NAME\n
//
// DIGEST is the digest of the values in lower case hexadecimal, and KIND is "values". SHAPE looks
// like "[2,3]", without dimensions of 1, which some formats drop. LENGTH is the length of NAME in
// bytes. A tensor without a digest of values has the digest of its stored elements. Its KIND is its
// type, such as "I64", or "I8,scale=3f000000,zero=-3" (the bits of a float32) with a scale.
//
// ok is false if a tensor has neither, because it is damaged.
func (m *ModelDigest) Values() (total Digest, ok bool) { return m.values.digest() }

// Stored returns the digest of lines as Values has them, but of stored elements: DIGEST is the digest of the stored elements, KIND the
// type, and SHAPE has all dimensions. ok is false if a tensor has no digest of stored elements.
func (m *ModelDigest) Stored() (total Digest, ok bool) { return m.stored.digest() }

// add hashes the line of the next tensor: digest, kind, shape and the name of d's tensor. If digest is nil, it sets l.missing, and
// hashes nothing from then on.
func (l *lines) add(d *TensorDigest, digest *Digest, kind string, shape []int) {
	if l.hash == nil {
		l.hash = sha256.New()
	}
	if l.missing = l.missing || digest == nil; !l.missing {
		name := d.Tensor.Name()
		fmt.Fprintf(l.hash, "%v %s %s %d:%s\n", digest, kind, strings.ReplaceAll(fmt.Sprint(shape), " ", ","), len(name), name)
	}
}

// digest returns the digest of all lines, or the digest of no bytes if there are none. ok is false if a tensor had no digest.
func (l *lines) digest() (total Digest, ok bool) {
	switch {
	case l.missing:
		return Digest{}, false
	case l.hash == nil:
		return sha256.Sum256(nil), true
	}
	return Digest(l.hash.Sum(nil)), true
}

// kind returns the KIND of a line for stored elements: the scheme of a logical tensor, else the type, and the scale if there is one.
func (d *TensorDigest) kind() string {
	if w := d.Tensor.Scheme(); w != nil {
		return w.Scheme
	}
	if !d.hasScale {
		return d.Tensor.DType().String()
	}
	return fmt.Sprintf("%v,scale=%08x,zero=%d", d.Tensor.DType(), math.Float32bits(d.quant.Scale), d.quant.Zero)
}

// squeezed returns a copy of shape without dimensions of 1. They do not change the order of elements.
// Formats that cannot have a scalar, or many dimensions, add or drop them.
func squeezed(shape []int) []int {
	return slices.DeleteFunc(slices.Clone(shape), func(dim int) bool { return dim == 1 })
}

// FileDigest holds the SHA-256 of a whole file, as sha256sum makes it and model hubs show it.
type FileDigest struct {
	File   loader.FileInfo
	Digest Digest
}

// HashFiles makes digests of m's files. It calls deliver with the digest of each file, one call at a time, in the order of Model.Files. It
// reads several files at once, into buffers and not by way of their mapping. It ignores Options.Filter. It fails if a file cannot be read or
// a call of deliver fails. It also fails if ctx ends, or if m is closed or one of its files has changed.
func HashFiles(ctx context.Context, m *loader.Model, opts *Options, deliver func(*FileDigest) error) error {
	if opts == nil {
		opts = &Options{}
	}
	files := m.Files()
	return run(ctx, opts, len(files), func(i int) uint64 { return files[i].Size }, func(ctx context.Context, j *job, i int) (*FileDigest, error) {
		d := &FileDigest{File: files[i]}
		err := j.eachBatch(1, func(w *worker, _ uint64) error {
			sum, err := j.digest(ctx, d.File.Size, chunkBytes, func(off, n uint64) ([]byte, uint64, error) {
				b := buffer(&w.readerA.bytes, n)
				return b, n, m.ReadFileAt(ctx, i, b, off)
			})
			if err == nil {
				d.Digest = *sum
			}
			return err
		})
		return d, err
	}, deliver, m)
}
