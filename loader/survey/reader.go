package survey

import (
	"context"
	"slices"

	"github.com/tensormap/tensormap/dequant"
	"github.com/tensormap/tensormap/internal/elements"
	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/loader"
	"github.com/tensormap/tensormap/mmapio"
)

const (
	// chunk is the number of elements that a worker reads at a time. They stay in its core's cache, and are too few
	// for package dequant to use more cores.
	chunk = 1 << 16
	// batchElements is the number of elements in one batch of a phase. It is fixed, so results do not depend on the
	// number of workers.
	batchElements = 1 << 20
)

// batchCount returns how many batches n elements make, or n bytes. A batch has batchElements elements or bytes; the last one may be smaller.
func batchCount(n uint64) uint64 { return (n + batchElements - 1) / batchElements }

// leasedTensor is a tensor that a task reads, with a lease of its own. A tensor that can only be unpacked as a whole stays
// in the model's cache until the lease is released.
type leasedTensor struct {
	loader.Tensor
	lease    *loader.Lease
	quant    layout.Quant // if hasScale
	hasScale bool         // the file gives the tensor's integers a scale
	isWide   bool         // float32 would round the values
	// parts are the stored tensors of a logical one, by ascending name, or nil. Their bytes, one after the other, are
	// its stored bytes.
	parts []loader.Tensor
}

// checkValues returns an error if t has no values: its type has none, or its scheme cannot be decoded.
func checkValues(t loader.Tensor) error {
	switch err := t.Problem(); {
	case err != nil:
		return err
	case t.Scheme() != nil || dequant.Supported(t.DType()):
		return nil
	}
	return noValues{t.DType()}
}

// noValues is the error that a type has no values in float32. It is loader.ErrUnsupported for errors.Is.
type noValues struct{ dtype layout.DType }

// Error names the dtype.
func (e noValues) Error() string { return e.dtype.String() + " has no values in float32, only bytes" }

// Unwrap returns loader.ErrUnsupported.
func (e noValues) Unwrap() error { return loader.ErrUnsupported }

// leaseTensor returns t with its scale, its stored tensors and a lease of m. By the lease, t stays readable after m.Close. leaseTensor fails
// if m is closed, if ctx ends, or if the scale is damaged. If it does not fail, the caller releases the lease.
func leaseTensor(ctx context.Context, m *loader.Model, t loader.Tensor) (s leasedTensor, err error) {
	if s.lease, err = m.AcquireContext(ctx); err != nil {
		return s, err
	}
	s.Tensor = s.lease.Of(t)
	if s.quant, s.hasScale, err = s.Scale(); err != nil {
		s.lease.Release()
		return s, err
	}
	s.isWide = !s.hasScale && elements.IsWide(t.DType())
	for _, p := range s.Parts() {
		s.parts = append(s.parts, p.Tensor)
	}
	slices.SortFunc(s.parts, loader.ByName)
	return s, nil
}

// bytesOf returns the number of stored bytes of n elements, which must be whole blocks. For a logical tensor it returns the elements' share
// of all stored bytes, rounded down: for progress only. A logical tensor must have elements.
func (s *leasedTensor) bytesOf(n uint64) uint64 {
	if s.Scheme() != nil {
		return uint64(float64(s.RawBytes()) * float64(n) / float64(s.Elements()))
	}
	_, size := s.DType().ByteRange(0, n)
	return size
}

// reader is the buffers that a worker reads into. They grow to what is read at once.
type reader struct {
	floats  []float32
	doubles []float64
	bytes   []byte
}

// A readFunc returns n values of s from element first on, at most chunk: [reader.values32] or [reader.values64].
type readFunc[T float] func(r *reader, s *leasedTensor, first, n uint64) ([]T, error)

// values32 returns n values of s from element first on, at most chunk. They are valid until r reads again. It fails if reading does.
func (r *reader) values32(s *leasedTensor, first, n uint64) ([]float32, error) {
	v := buffer(&r.floats, n)
	return v, s.DequantizeRange(v, first)
}

// buffer returns the first n elements of *memory. If there are fewer, it allocates n.
func buffer[T mmapio.Number](memory *[]T, n uint64) []T {
	if uint64(len(*memory)) < n {
		*memory = mmapio.Aligned[T](int(n))
	}
	return (*memory)[:n]
}

// values64 returns n values of s from element first on, at most chunk, as float64s. It rounds integers of 64 bits to nearest, and all
// other values are exact. The result is valid until r reads again. values64 fails if reading does, and its result is then unspecified.
func (r *reader) values64(s *leasedTensor, first, n uint64) ([]float64, error) {
	v := buffer(&r.doubles, n)
	if !s.isWide {
		floats, err := r.values32(s, first, n)
		for i, x := range floats {
			v[i] = float64(x)
		}
		return v, err
	}
	size := uint64(s.DType().BlockBytes())
	b, err := r.storedBytes(s, first*size, n*size)
	if err == nil {
		elements.Float64s(s.DType(), v, b)
	}
	return v, err
}

// storedBytes returns n stored bytes of s from byte off on, decompressed. n is at most chunkBytes, and the bytes lie within s.RawBytes. A
// logical tensor has the bytes of its parts, one part after the other. The result is valid until r reads again. It fails if reading does.
func (r *reader) storedBytes(s *leasedTensor, off, n uint64) ([]byte, error) {
	b := buffer(&r.bytes, n)
	if s.parts == nil {
		_, err := s.ReadAt(b, int64(off))
		return b, err
	}
	for at, i := uint64(0), 0; at < n; i++ {
		size := s.parts[i].RawBytes()
		if off >= size {
			off -= size
			continue
		}
		k := min(size-off, n-at)
		if _, err := s.parts[i].ReadAt(b[at:at+k], int64(off)); err != nil {
			return b, err
		}
		at, off = at+k, 0
	}
	return b, nil
}

// chunkBytes is the size of a chunk of the largest elements.
const chunkBytes = 8 * chunk
