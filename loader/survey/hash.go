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
	// F64, or an integer of 32 or 64 bits, is no float32. Only stored elements tell those
	// apart.
	Values *Digest
	// Stored, unless it is nil, is the SHA-256 of the elements, decompressed, as Tensor.Bytes returns
	// them. For a logical tensor it covers the parts by ascending name. It also stands in for a digest of
	// values that was asked for and does not exist.
	Stored *Digest

	quant    layout.Quant // if hasScale
	hasScale bool
}

// Hash makes digests of m's tensors, and calls each with them, one call at a time, by ascending name (bytewise).
// A nil opts means digests of values. Neither the format, nor compression, nor how tensors are spread over shards changes them.
// A tensor that cannot be read has its error in TensorDigest.Err. Hash fails if a call of each fails, if ctx ends, or if m is closed or
// one of its files has changed.
func Hash(ctx context.Context, m *loader.Model, opts *HashOptions, each func(*TensorDigest) error) error {
	if opts == nil {
		opts = &HashOptions{}
	}
	list := slices.SortedFunc(opts.tensors(m), loader.ByName)
	return run(ctx, &opts.Options, each, func(yield func(task[TensorDigest]) bool) {
		for _, t := range list {
			if !yield(&hashTask{model: m, digest: &TensorDigest{Tensor: t}, values: opts.Values || !opts.Stored, stored: opts.Stored}) {
				return
			}
		}
	}, m)
}

// hashTask makes the digests of one tensor, both at the same time. F32 is the exception: there the digest of the
// values is also that of the stored elements, unless a NaN is stored with other bits than canonicalNaN.
type hashTask struct {
	model          *loader.Model
	leased         leasedTensor
	digest         *TensorDigest
	values, stored bool
	phase          int
	work           []func(w *worker) error
	hasOddNaN      bool // some NaN has other bits than canonicalNaN: the digest of values is not that of the stored elements
}

// progressBytes returns the number of the tensor's stored bytes, twice if both digests are asked for, though F32 may be read once.
func (t *hashTask) progressBytes() uint64 {
	n := uint64(1)
	if t.values && t.stored {
		n = 2
	}
	return n * t.digest.Tensor.RawBytes()
}

// begin sets t.work to the functions that make the digests of the next of two phases, and returns their number. It returns 0 after the
// last phase. Phase 1 makes the digests that were asked for. It leaves out that of the stored elements of F32, since the digest of values
// may serve for both. Phase 2 makes the digest of stored elements if that of values could not be made, or does not serve for both. If the
// tensor cannot be leased, begin sets t.digest.Err, and returns 0.
func (t *hashTask) begin(ctx context.Context) uint64 {
	t.phase++
	t.work = nil
	d := t.digest
	f32 := d.Tensor.DType() == layout.F32
	switch t.phase {
	case 1:
		if t.leased, d.Err = leaseTensor(ctx, t.model, d.Tensor); d.Err != nil {
			return 0
		}
		d.quant, d.hasScale = t.leased.quant, t.leased.hasScale
		hasValues := t.values && checkValues(d.Tensor) == nil
		if hasValues {
			t.work = append(t.work, t.hashValues)
		}
		storedStandsIn := t.values && !hasValues
		valuesMayServeForBoth := hasValues && f32
		if storedStandsIn || (t.stored && !valuesMayServeForBoth) {
			t.work = append(t.work, t.hashStored)
		}
	case 2:
		switch {
		case d.Stored != nil: // made by the first phase
		case d.Values == nil || (t.stored && t.hasOddNaN): // a value is no float32, or the bytes of F32 are not those that were hashed
			t.work = append(t.work, t.hashStored)
		case t.stored: // F32: both digests are the same
			same := *d.Values
			d.Stored = &same
		}
	}
	return uint64(len(t.work))
}

// do makes digest number part of the current phase. It fails if reading does, or if the work is canceled.
func (t *hashTask) do(w *worker, part uint64) error { return t.work[part](w) }

// end releases the tensor, and returns its digests. If err is not nil, or the tensor failed before, they have nothing but Tensor and Err.
// The error that it returns is always nil: other tensors go on.
func (t *hashTask) end(err error) (*TensorDigest, error) {
	t.leased.release()
	d := t.digest
	if d.Err = cmp.Or(d.Err, err); d.Err != nil {
		*d = TensorDigest{Tensor: d.Tensor, Err: d.Err}
	}
	return d, nil
}

// hashValues sets the digest of the values as float32s, in which all NaNs have the bits canonicalNaN. If a NaN had other bits, it sets
// t.hasOddNaN. If float32 would round a value, it sets no digest and returns nil. It fails if reading does, or if the work is canceled.
func (t *hashTask) hashValues(w *worker) error {
	s := &t.leased
	h := sha256.New()
	for first := uint64(0); first < s.Elements(); first += chunk {
		n := min(chunk, s.Elements()-first)
		v, exact, err := w.readerA.exactFloats(s, first, n)
		if err != nil {
			return err
		}
		if !exact {
			return nil
		}
		if canonicalizeNaNs(v) {
			t.hasOddNaN = true
		}
		h.Write(mmapio.Bytes(v))
		if err := w.progress(s.bytesOf(n)); err != nil {
			return err
		}
	}
	t.digest.Values = digestOf(h)
	return nil
}

// exactFloats returns n values of s from element first on, at most chunk, as float32s. exact is false if one of them had to be
// rounded. The values are valid until r reads again. The caller may write to them, since no task of Hash sets s.inPlace. It fails if
// reading does.
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
	v = r.floatBuffer(n)
	return v, elements.Float32s(s.DType(), v, b), nil
}

// canonicalNaN has the bits of every NaN in a digest, so that the processor that computed a NaN makes no difference.
const canonicalNaN = 0x7fc00000

// canonicalizeNaNs replaces every NaN of v by one with the bits canonicalNaN, and reports whether any had other bits.
func canonicalizeNaNs(v []float32) (changed bool) {
	nan := math.Float32frombits(canonicalNaN)
	for i, x := range v {
		if x != x {
			changed = changed || math.Float32bits(x) != canonicalNaN
			v[i] = nan
		}
	}
	return changed
}

// hashStep is the size of four blocks of a compressed tensor, which the loader decompresses on one core.
const hashStep = 1 << 18

// hashStored sets the digest of the stored elements, decompressed. It fails if reading does, or if the work is canceled.
func (t *hashTask) hashStored(w *worker) error {
	s := &t.leased
	h := sha256.New()
	for off := uint64(0); off < s.RawBytes(); off += hashStep {
		b, err := w.readerB.storedBytes(s, off, min(hashStep, s.RawBytes()-off))
		if err != nil {
			return err
		}
		h.Write(b)
		if err := w.progress(uint64(len(b))); err != nil {
			return err
		}
	}
	t.digest.Stored = digestOf(h)
	return nil
}

// digestOf returns the digest of what h, a SHA-256, has hashed.
func digestOf(h hash.Hash) *Digest { return (*Digest)(h.Sum(nil)) }

// ModelDigest folds the digests of tensors into digests of their model. It takes the tensors by
// ascending name, as [Hash] hands them out. The zero value is that of a model without tensors.
type ModelDigest struct{ values, stored lines }

// lines hashes a line for each tensor.
type lines struct {
	hash    hash.Hash
	missing bool // a tensor has no digest
}

// Add adds a tensor's digests to those of the model. The caller adds tensors by ascending name. After a tensor without a digest, the
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
// like "[2,3]", without dimensions of 1, which some formats drop. LENGTH is that of NAME in
// bytes. A tensor without a digest of values has that of its stored elements. Its KIND is its
// type, such as "I64", or "I8,scale=3f000000,zero=-3" (the bits of a float32) with a scale.
//
// ok is false if a tensor has neither, because it is damaged.
func (m *ModelDigest) Values() (total Digest, ok bool) { return m.values.digest() }

// Stored returns the digest of lines as those of Values, but of stored elements: DIGEST is that of the stored elements, KIND the
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
		fmt.Fprintf(l.hash, "%v %s %s %d:%s\n", digest, kind, shapeText(shape), len(name), name)
	}
}

// digest returns the digest of all lines, or that of no bytes if there are none. ok is false if a tensor had no digest.
func (l *lines) digest() (total Digest, ok bool) {
	switch {
	case l.missing:
		return Digest{}, false
	case l.hash == nil:
		return sha256.Sum256(nil), true
	}
	return *digestOf(l.hash), true
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

// shapeText returns a shape as text, such as "[2,3]".
func shapeText(shape []int) string {
	dims := make([]string, len(shape))
	for i, dim := range shape {
		dims[i] = strconv.Itoa(dim)
	}
	return "[" + strings.Join(dims, ",") + "]"
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

// HashFiles makes digests of m's files, and calls each with them, one call at a time, in the order of Model.Files. It reads files,
// several at once, into buffers and not by way of their mapping. It ignores Options.Filter. It fails if a file cannot be read or a call
// of each fails. It also fails if ctx ends, or if m is closed or one of its files has changed.
func HashFiles(ctx context.Context, m *loader.Model, opts *Options, each func(*FileDigest) error) error {
	if opts == nil {
		opts = &Options{}
	}
	return run(ctx, opts, each, func(yield func(task[FileDigest]) bool) {
		for i, f := range m.Files() {
			if !yield(&fileTask{model: m, file: i, digest: &FileDigest{File: f}}) {
				return
			}
		}
	}, m)
}

// fileTask makes the digest of one file.
type fileTask struct {
	model    *loader.Model
	file     int
	digest   *FileDigest
	hasBegun bool
}

// progressBytes returns the size of the file.
func (t *fileTask) progressBytes() uint64 { return t.digest.File.Size }

// begin returns 1 at its first call, for the whole file, and then 0.
func (t *fileTask) begin(context.Context) (parts uint64) {
	if t.hasBegun {
		return 0
	}
	t.hasBegun = true
	return 1
}

// do reads the whole file, which is the only part, and sets its digest. It fails if reading does, or if the work is canceled.
func (t *fileTask) do(w *worker, _ uint64) error {
	h := sha256.New()
	for off, size := uint64(0), t.digest.File.Size; off < size; {
		b := w.readerA.byteBuffer(min(chunkBytes, size-off))
		if err := t.model.ReadFileAt(w.ctx, t.file, b, off); err != nil {
			return err
		}
		h.Write(b)
		off += uint64(len(b))
		if err := w.progress(uint64(len(b))); err != nil {
			return err
		}
	}
	t.digest.Digest = *digestOf(h)
	return nil
}

// end returns the file's digest, and err, the error of reading the file, which ends all work.
func (t *fileTask) end(err error) (*FileDigest, error) { return t.digest, err }
