package loader

import (
	"cmp"
	"context"
	"fmt"
	"math/bits"
	"sync"
	"sync/atomic"

	"github.com/tensormap/tensormap/dequant/dot"
	"github.com/tensormap/tensormap/internal/parallel"
	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/loader/internal/content"
	"github.com/tensormap/tensormap/loader/internal/values"
	"github.com/tensormap/tensormap/mmapio"
)

// MatVec writes to dst the product of the tensor, as a matrix, with the vector x. The matrix has the innermost
// dimension as its columns, and all others as rows. len(x) is the number of columns and len(dst)
// that of rows; otherwise the error wraps ErrRange. An empty tensor has no rows.
//
// Rows are multiplied as they are stored, in kernels of package dot. For quantized types x is quantized
// first, as ggml does; package dot has the arithmetic and its error. Integers with a scale and no
// zero point are multiplied likewise. Types without a kernel are expanded, a few rows at a time.
//
// All cores take part if the matrix is large. Memory is taken for the prepared x, and for a few
// rows if they are not in memory as stored. It is used again: after the first call nothing is
// allocated for a tensor of a local file, or of a remote one once its bytes are present. Decrypting allocates.
// Nothing is cached but a tensor that can only be unpacked as a whole (layout.Encoding.Packed), which a
// lease pins.
//
// The call ends with ctx, and with the context of the tensor's lease. After an error dst's contents are
// unspecified. A NaN or an infinity in x is dequant.ErrNotFinite for quantized types. A mapped file that
// has shrunk is mmapio.ErrFault.
func (t Tensor) MatVec(ctx context.Context, dst, x []float32) error { return t.MatMul(ctx, dst, x, 1) }

// MatMul multiplies n vectors as MatVec does one. Their elements follow each other in xs, and so do the products in
// dst: dst[i·rows+r] is row r times vector i. A row is read once for all vectors.
func (t Tensor) MatMul(ctx context.Context, dst, xs []float32, n int) error {
	rows, cols := t.rows()
	if !isProduct(len(xs), n, cols) || !isProduct(len(dst), n, rows) {
		return t.wrap(fmt.Errorf("%w: %d values in and memory for %d out, but %d × %d go in and %d × %d come out",
			ErrRange, len(xs), len(dst), n, cols, n, rows))
	}
	return t.call(ctx, t.desc().Stored, func(own context.Context, env content.Env, s *state) error {
		if len(dst) == 0 {
			return nil
		}
		p := products.Get().(*product)
		defer p.release()
		p.ctx, p.own, p.env, p.dst, p.rows, p.cols = ctx, own, env, dst, int(rows), int(cols)
		return p.multiply(s.values, xs, n)
	})
}

// isProduct reports whether size is n × each. It is false if n is negative or the product overflows.
func isProduct(size, n int, each uint64) bool {
	hi, lo := bits.Mul64(uint64(n), each)
	return n >= 0 && hi == 0 && lo == uint64(size)
}

// multiply writes the products of the rows of v with the n vectors in xs to p.dst. It multiplies rows as they are
// stored if they are whole blocks of a type with a kernel. Otherwise it expands them first.
func (p *product) multiply(v values.Values, xs []float32, n int) error {
	if err := v.Err(); err != nil {
		return err
	}
	b, ok, err := v.Blocks(p.own, p.env)
	if err != nil {
		return err
	}
	if !ok || p.cols%b.DType.BlockElems() != 0 {
		return p.multiplyExpanded(v, xs, n)
	}
	if err := p.prepare(b.DType, xs, n); err != nil {
		return err
	}
	dst, rows := p.dst, p.rows
	if b.Order != nil { // the stored rows are multiplied in their order, and the products then put in that of the matrix
		_, size := b.DType.Span(0, uint64(p.cols))
		p.rows = int((b.Content.Size() - b.From) / size)
		p.products = grown(p.products, uint64(p.rows*n))
		p.dst = p.products
	}
	if err := p.multiplyStored(b); err != nil {
		return err
	}
	for i, row := range b.Order {
		for k := range n {
			dst[k*rows+i] = p.products[k*p.rows+int(row)]
		}
	}
	if b.Scale != 1 {
		for i := range dst {
			dst[i] *= b.Scale
		}
	}
	return nil
}

// multiplyStored multiplies all rows as they are stored in b, and writes to p.dst. It views them if they are in memory.
// Otherwise it reads a few at a time. The error is that of reading, or why a context has ended.
func (p *product) multiplyStored(b values.Blocks) error {
	p.dtype = b.DType
	_, row := b.DType.Span(0, uint64(p.cols))
	elements, err := b.Content.View(p.own, p.env, b.From, uint64(p.rows)*row)
	if err != nil {
		return err
	}
	if elements != nil {
		return p.run(0, p.rows, elements)
	}
	step := int(min(max(1, productBytes(b.Content)/row), uint64(p.rows)))
	p.bytes = grown(p.bytes, uint64(step)*row)
	for lo := 0; lo < p.rows; lo += step {
		hi := min(lo+step, p.rows)
		rows := p.bytes[:uint64(hi-lo)*row]
		if err := p.contextErr(); err != nil {
			return err
		}
		if err := b.Content.ReadAt(p.own, p.env, rows, b.From+uint64(lo)*row); err != nil {
			return err
		}
		if err := p.run(lo, hi-lo, rows); err != nil {
			return err
		}
	}
	return nil
}

// multiplyExpanded expands the rows of v to float32, multiplies them and writes to p.dst. If the stored bytes are in
// memory, each worker expands its own rows. Otherwise a few rows at a time are expanded for all workers.
func (p *product) multiplyExpanded(v values.Values, xs []float32, n int) error {
	if err := p.prepare(layout.F32, xs, n); err != nil {
		return err
	}
	p.dtype = layout.F32
	if v.Source().Cost().Piece == 0 {
		p.source = v
		return p.run(0, p.rows, nil)
	}
	step := min(p.rows, max(1, nearBytes/4/max(1, p.cols)))
	p.values = grown(p.values, uint64(step*p.cols))
	for lo := 0; lo < p.rows; lo += step {
		hi := min(lo+step, p.rows)
		if err := p.contextErr(); err != nil {
			return err
		}
		p.floats = p.values[:(hi-lo)*p.cols]
		if err := v.Read(p.own, p.env, p.floats, uint64(lo)*uint64(p.cols)); err != nil {
			return err
		}
		if err := p.run(lo, hi-lo, nil); err != nil {
			return err
		}
	}
	return nil
}

// nearBytes is the size of the rows that are read or expanded at a time, unless they are in memory.
// largeBytes is their size if few large reads are better.
const (
	nearBytes  = 1 << 20
	largeBytes = 8 << 20
)

// productBytes returns how many bytes of rows one read of c should have.
func productBytes(c content.Content) uint64 {
	if c.Cost().Piece >= content.Far {
		return largeBytes
	}
	return nearBytes
}

// grown returns memory of length n: that of s if it is large enough, else new and aligned. Its content is unspecified.
func grown[T mmapio.Number](s []T, n uint64) []T {
	if n <= uint64(cap(s)) {
		return s[:n]
	}
	return mmapio.Aligned[T](int(n))
}

// A product is a matrix under multiplication with vectors, and memory for that. All of its memory
// is as large as what callers hand in, or a few rows.
type product struct {
	ctx, own    context.Context // of the caller, and of its lease or model
	env         content.Env
	dst         []float32
	rows, cols  int
	activations []*dot.Activation
	made        []*dot.Activation // activations, and those of earlier calls
	bytes       []byte            // rows that are not in memory
	values      []float32         // rows that are expanded
	products    []float32         // of stored rows that have another order in the matrix

	// The rows at hand are row first of the matrix and those behind it.
	dtype  layout.DType
	first  int
	count  int
	stored []byte
	floats []float32     // instead of stored
	source values.Values // that workers expand rows of, instead of stored and floats
	grain  int           // rows that a worker takes at a time
	next   atomic.Int64
	team   *parallel.Team

	worker     atomic.Int64
	outputs    [][][]float32 // of each worker: its products, by vector
	rowBuffers [][]float32   // of each worker: rows that it expands
}

var products = sync.Pool{New: func() any {
	p := new(product)
	p.team = parallel.NewTeam(p.work, func() { p.next.Store(int64(p.count)) })
	return p
}}

// release returns p to the pool, without what belongs to callers.
func (p *product) release() {
	p.ctx, p.own, p.env, p.dst, p.stored, p.floats, p.source = nil, nil, content.Env{}, nil, nil, nil, nil
	for _, parts := range p.outputs {
		clear(parts)
	}
	products.Put(p)
}

// contextErr returns why a context of the call has ended, or nil.
func (p *product) contextErr() error { return cmp.Or(context.Cause(p.ctx), context.Cause(p.own)) }

// prepare makes an activation of each of the n vectors in xs, which dot multiplies with rows of type d. It uses the
// memory of earlier calls. The error is of a vector that has NaNs or infinities, if d is quantized.
func (p *product) prepare(d layout.DType, xs []float32, n int) error {
	for len(p.made) < n {
		p.made = append(p.made, new(dot.Activation))
	}
	p.activations = p.made[:n]
	for i, a := range p.activations {
		if err := a.Set(d, xs[i*p.cols:][:p.cols]); err != nil {
			if n > 1 {
				err = fmt.Errorf("vector %d: %w", i, err)
			}
			return err
		}
	}
	return nil
}

// A product of fewer than serialElems multiplications stays on one core. A worker takes grainElems at a time, or 1/shares of
// its part up to maxGrainElems: the processor reads memory ahead of a worker that goes on in order. Rows that
// are expanded first come tileElems at a time, fewer than package dequant shares out to cores.
const (
	serialElems   = 1 << 18
	grainElems    = 1 << 17
	maxGrainElems = 1 << 20
	shares        = 16
	tileElems     = grainElems * 3 / 4
)

// run multiplies count rows, from row first of the matrix on, on all cores if they are many. The rows are b as they are
// stored. If b is nil, they are p.floats, or those that workers expand from p.source.
func (p *product) run(first, count int, b []byte) error {
	p.first, p.count, p.stored = first, count, b
	each := p.cols * len(p.activations)
	cores := parallel.Cores()
	p.grain = max(1, grainElems/max(1, each), min(maxGrainElems/max(1, each), count/(shares*cores)))
	if p.source != nil {
		p.grain = max(1, tileElems/max(1, p.cols))
	}
	workers := 1
	if count > serialElems/max(1, each) {
		workers = min(cores, (count+p.grain-1)/p.grain)
	}
	for len(p.outputs) < workers {
		p.outputs, p.rowBuffers = append(p.outputs, nil), append(p.rowBuffers, nil)
	}
	p.next.Store(0)
	p.worker.Store(0)
	return p.team.Run(workers)
}

// work multiplies rows as one of the workers. It takes p.grain of them at a time, from p.next on, until none are left.
// The error is that of expanding, or why a context has ended.
func (p *product) work() error {
	worker := p.worker.Add(1) - 1
	parts := p.outputs[worker]
	for len(parts) < len(p.activations) {
		parts = append(parts, nil)
	}
	parts = parts[:len(p.activations)]
	p.outputs[worker] = parts
	for {
		hi := int(p.next.Add(int64(p.grain)))
		lo := hi - p.grain
		if lo >= p.count {
			return nil
		}
		hi = min(hi, p.count)
		if err := p.contextErr(); err != nil {
			return err
		}
		for i := range parts {
			parts[i] = p.dst[i*p.rows+p.first:][lo:hi]
		}
		if err := p.multiplyRows(int(worker), parts, lo, hi); err != nil {
			return err
		}
	}
}

// multiplyRows multiplies the rows lo to hi-1 of those at hand with each vector, and writes to dst, by vector. The rows
// are p.stored, or p.floats, or are expanded from p.source into the memory of the worker.
func (p *product) multiplyRows(worker int, dst [][]float32, lo, hi int) error {
	if p.stored != nil {
		size := len(p.stored) / p.count
		return dot.Mat(dst, p.dtype, p.stored[lo*size:hi*size], p.activations)
	}
	var floats []float32
	if p.source != nil {
		p.rowBuffers[worker] = grown(p.rowBuffers[worker], uint64((hi-lo)*p.cols))
		floats = p.rowBuffers[worker]
		if err := p.source.Read(p.own, p.env, floats, uint64(p.first+lo)*uint64(p.cols)); err != nil {
			return err
		}
	} else {
		floats = p.floats[lo*p.cols : hi*p.cols]
	}
	for i, a := range p.activations {
		if err := dot.Floats(dst[i], floats, a); err != nil {
			return err
		}
	}
	return nil
}
