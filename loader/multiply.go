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
)

// MatVec writes to dst the product of the tensor, as a matrix, with the vector x. The matrix has the innermost
// dimension as its columns, and all others as rows. len(x) is the number of columns and len(dst)
// the number of rows; otherwise the error wraps ErrRange. An empty tensor has no rows.
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
func (t Tensor) MatVec(ctx context.Context, dst, x []float32) error {
	return t.call(ctx, t.desc().Stored, func(leaseCtx context.Context, env content.Env, s *state) error {
		return multiply(ctx, leaseCtx, env, t, s.values, dst, x, 1)
	})
}

// MatMul multiplies n vectors as MatVec does one. Their elements follow each other in xs, and so do the products in
// dst: dst[i·rows+r] is row r times vector i. A row is read once for all vectors.
func (t Tensor) MatMul(ctx context.Context, dst, xs []float32, n int) error {
	return t.call(ctx, t.desc().Stored, func(leaseCtx context.Context, env content.Env, s *state) error {
		return multiply(ctx, leaseCtx, env, t, s.values, dst, xs, n)
	})
}

// isProduct reports whether size equals n × each. It reports false if n is negative, or if the product needs more than 64 bits.
func isProduct(size, n int, each uint64) bool {
	hi, lo := bits.Mul64(uint64(n), each)
	return n >= 0 && hi == 0 && lo == uint64(size)
}

// multiply writes to dst the products of the rows of t with the n vectors in xs. v is the values of t. If rows are whole blocks of a type
// that has a kernel, multiply multiplies the rows as they are stored. They may be stored in another order, and among rows that the matrix
// lacks: multiply then puts each product in its place. Otherwise it expands rows to float32 first. multiply fails with ErrRange for xs or dst
// of a wrong length. It fails if v has no values, if reading does, or when callerCtx or leaseCtx ends. It also fails if the kernel quantizes
// vectors, and a vector has a NaN or an infinity.
func multiply(callerCtx, leaseCtx context.Context, env content.Env, t Tensor, v *values.Cached, dst, xs []float32, n int) error {
	rows, cols := t.Rows()
	if !isProduct(len(xs), n, cols) || !isProduct(len(dst), n, rows) {
		return fmt.Errorf("%w: %d values in and memory for %d out, but %d × %d go in and %d × %d come out",
			ErrRange, len(xs), len(dst), n, cols, n, rows)
	}
	if len(dst) == 0 {
		return nil
	}
	if err := v.Uncached.Err(); err != nil {
		return err
	}
	p := products.Get().(*product)
	defer p.release()
	p.callerCtx, p.leaseCtx, p.env, p.dst, p.rows, p.cols = callerCtx, leaseCtx, env, dst, int(rows), int(cols)
	b, ok, err := v.Uncached.Blocks(leaseCtx, env)
	if err != nil {
		return err
	}
	if !ok || p.cols%b.DType.BlockElems() != 0 {
		b = values.Blocks{DType: layout.F32, Scale: 1}
		p.expanded = v.Current() // the cache counts this as a use
	}
	p.stored = b
	if err := p.prepareVectors(b.DType, xs, n); err != nil {
		return err
	}
	if b.Order != nil {
		_, rowBytes := b.DType.ByteRange(0, cols)
		p.rows = int((b.Content.Size() - b.From) / rowBytes)
		p.storedOrder = content.Grown(p.storedOrder, uint64(p.rows*n))
		p.dst = p.storedOrder
	}
	workers, err := p.divideRows()
	if err != nil {
		return err
	}
	for len(p.workers) < workers {
		p.workers = append(p.workers, productWorker{})
	}
	p.nextRow.Store(0)
	p.workersBegun.Store(0)
	if err := p.team.Run(workers); err != nil { // runs p.takeRows
		return err
	}
	for i, row := range b.Order {
		for k := range n { // the products with vector k follow the products with vector k-1
			dst[k*int(rows)+i] = p.storedOrder[k*p.rows+int(row)]
		}
	}
	if b.Scale != 1 {
		for i := range dst {
			dst[i] *= b.Scale
		}
	}
	return nil
}

// product is one multiplication of a matrix with vectors. It goes back to a pool with its buffers, and later multiplications use
// them again. No buffer is larger than memory of the caller, or than a few rows.
type product struct {
	callerCtx, leaseCtx context.Context // of the caller, and of its lease or model
	env                 content.Env
	dst                 []float32 // the product of row r with vector i is dst[i*rows+r]
	rows, cols          int
	activations         []*dot.Activation
	activationPool      []*dot.Activation // of this call and of earlier ones
	storedOrder         []float32         // products as dst has them, but of rows in the order in which they are stored

	// Where workers take the rows from: they expand them if expanded is not nil, find them inMemory, or read them.
	expanded values.Values
	stored   values.Blocks
	inMemory []byte

	rowBytes   uint64 // of a row as workers get it
	rowsAtOnce int    // rows that a worker takes at a time
	nextRow    atomic.Int64
	team       *parallel.Team

	workersBegun atomic.Int64
	workers      []productWorker
}

// productWorker is the memory of one worker.
type productWorker struct {
	outputs [][]float32 // its products, by vector
	read    []byte      // rows as they are stored
	floats  []float32   // or expanded
}

// products is the pool of products that no call uses.
var products = sync.Pool{New: func() any {
	p := new(product)
	p.team = parallel.NewTeam(p.takeRows, func() { p.nextRow.Store(int64(p.rows)) }) // after a failure no rows are left to take
	return p
}}

// release clears all references to memory of callers, and returns p to the pool.
func (p *product) release() {
	p.callerCtx, p.leaseCtx, p.env, p.dst, p.stored, p.inMemory, p.expanded = nil, nil, content.Env{}, nil, values.Blocks{}, nil, nil
	for i := range p.workers {
		clear(p.workers[i].outputs)
	}
	products.Put(p)
}

// prepareVectors sets p.activations to the n vectors in xs, of p.cols values each, prepared for rows of type d. It uses memory
// of earlier calls again. It fails if d is quantized and a vector has NaNs or infinities.
func (p *product) prepareVectors(d layout.DType, xs []float32, n int) error {
	for len(p.activationPool) < n {
		p.activationPool = append(p.activationPool, new(dot.Activation))
	}
	p.activations = p.activationPool[:n]
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

// These constants say how rows are divided among workers. Constants with Elems in their names count multiplications of two numbers.
const (
	serialElems     = 1 << 18            // fewer in all stay on one core
	grainElems      = 1 << 17            // the least that a worker takes at a time
	maxGrainElems   = 1 << 20            // the most: the processor reads memory ahead of a worker that goes on in order
	sharesPerWorker = 16                 // into which the rows of each worker are divided, between these limits
	tileElems       = grainElems * 3 / 4 // elements in memory that a worker expands at a time: fewer than package dequant shares out to cores
	largeReadBytes  = 8 << 20            // of the rows that the only worker reads or expands at a time, if reading may wait for a network
)

// divideRows sets p.rowBytes, p.rowsAtOnce and, if the stored rows are in memory, p.inMemory. It returns the number of workers that multiply
// the rows. One worker is enough for few multiplications. One worker also does all that is read from a network, by large requests. Otherwise
// there is a worker for each core, or fewer for few rows. p.expanded or p.stored is set, and the rows are not empty. divideRows fails if
// looking for rows in memory does.
func (p *product) divideRows() (workers int, err error) {
	var cost content.Cost
	if p.expanded != nil {
		cost, p.rowBytes = p.expanded.Source().Cost(), 4*uint64(p.cols) // a float32 has 4 bytes
	} else {
		b := &p.stored
		_, p.rowBytes = b.DType.ByteRange(0, uint64(p.cols))
		cost = b.Content.Cost()
		if p.inMemory, err = b.Content.View(p.leaseCtx, p.env, b.From, uint64(p.rows)*p.rowBytes); err != nil {
			return 0, err
		}
	}
	perRow := max(1, p.cols*len(p.activations)) // multiplications
	workers = 1
	if p.rows > serialElems/perRow {
		workers = parallel.Cores()
	}
	switch {
	case p.inMemory != nil: // 1/sharesPerWorker of one core's rows, but no more than maxGrainElems, and no fewer than grainElems
		p.rowsAtOnce = max(grainElems/perRow, min(maxGrainElems/perRow, p.rows/(sharesPerWorker*parallel.Cores())))
	case cost.InPlace():
		p.rowsAtOnce = tileElems / max(1, p.cols)
	case cost.MayWait:
		workers, p.rowsAtOnce = 1, largeReadBytes/int(max(1, p.rowBytes))
	default: // each worker reads, so none as much as a single reader would
		p.rowsAtOnce = int(min(cost.ReadBytes, content.LZ4Read) / max(1, p.rowBytes))
	}
	p.rowsAtOnce = min(max(1, p.rowsAtOnce), p.rows)
	return min(workers, (p.rows+p.rowsAtOnce-1)/p.rowsAtOnce), nil
}

// takeRows multiplies rows with each vector until no rows are left. Each time it takes the next p.rowsAtOnce rows that no worker has taken.
// The rows are in p.inMemory, or takeRows reads or expands them. Each worker runs takeRows, with its own memory in p.workers. takeRows fails
// if reading or expanding rows does, or when p.callerCtx or p.leaseCtx ends.
func (p *product) takeRows() error {
	w := &p.workers[p.workersBegun.Add(1)-1]
	for len(w.outputs) < len(p.activations) {
		w.outputs = append(w.outputs, nil)
	}
	outputs := w.outputs[:len(p.activations)] // for each vector, the part of p.dst that is written next
	for {
		hi := int(p.nextRow.Add(int64(p.rowsAtOnce)))
		lo := hi - p.rowsAtOnce
		if lo >= p.rows {
			return nil
		}
		hi = min(hi, p.rows)
		if err := cmp.Or(context.Cause(p.callerCtx), context.Cause(p.leaseCtx)); err != nil {
			return err
		}
		for i := range outputs {
			outputs[i] = p.dst[i*p.rows:][lo:hi]
		}
		if p.expanded != nil {
			w.floats = content.Grown(w.floats, uint64((hi-lo)*p.cols))
			if err := p.expanded.Read(p.leaseCtx, p.env, w.floats, uint64(lo)*uint64(p.cols)); err != nil {
				return err
			}
			for i, a := range p.activations {
				if err := dot.Floats(outputs[i], w.floats, a); err != nil {
					return err
				}
			}
			continue
		}
		begin, end := uint64(lo)*p.rowBytes, uint64(hi)*p.rowBytes
		rows := p.inMemory
		if rows != nil {
			rows = rows[begin:end]
		} else {
			w.read = content.Grown(w.read, end-begin)
			if err := p.stored.Content.ReadAt(p.leaseCtx, p.env, w.read, p.stored.From+begin); err != nil {
				return err
			}
			rows = w.read
		}
		if err := dot.Mat(outputs, p.stored.DType, rows, p.activations); err != nil {
			return err
		}
	}
}
