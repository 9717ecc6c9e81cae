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
	return t.call(ctx, t.desc().Stored, func(leaseCtx context.Context, env content.Env, s *state) error {
		rows, cols := t.Rows()
		if !isProduct(len(xs), n, cols) || !isProduct(len(dst), n, rows) {
			return fmt.Errorf("%w: %d values in and memory for %d out, but %d × %d go in and %d × %d come out",
				ErrRange, len(xs), len(dst), n, cols, n, rows)
		}
		if len(dst) == 0 {
			return nil
		}
		p := products.Get().(*product)
		defer p.release()
		p.callerCtx, p.leaseCtx, p.env, p.dst, p.rows, p.cols = ctx, leaseCtx, env, dst, int(rows), int(cols)
		return p.multiply(s.values, xs, n)
	})
}

// isProduct reports whether size equals n × each. It reports false if n is negative, or if the product needs more than 64 bits.
func isProduct(size, n int, each uint64) bool {
	hi, lo := bits.Mul64(uint64(n), each)
	return n >= 0 && hi == 0 && lo == uint64(size)
}

// multiply writes the products of the rows of v with the n vectors in xs to p.dst. If rows are whole blocks of a type that has a
// kernel, it multiplies them as they are stored. Otherwise it expands them to float32 first. It fails if v has no values, if reading
// does, or when p.callerCtx or p.leaseCtx ends. It also fails if the kernel quantizes vectors, and one has a NaN or an infinity.
func (p *product) multiply(v values.Values, xs []float32, n int) error {
	if err := v.Err(); err != nil {
		return err
	}
	b, ok, err := v.Blocks(p.leaseCtx, p.env)
	if err != nil {
		return err
	}
	if !ok || p.cols%b.DType.BlockElems() != 0 {
		return p.multiplyExpanded(v, xs, n)
	}
	if err := p.prepareVectors(b.DType, xs, n); err != nil {
		return err
	}
	if b.Order == nil {
		err = p.multiplyStored(b)
	} else {
		err = p.multiplyReordered(b)
	}
	if err != nil {
		return err
	}
	if b.Scale != 1 {
		for i := range p.dst {
			p.dst[i] *= b.Scale
		}
	}
	return nil
}

// multiplyReordered multiplies rows that are stored in another order than that of the matrix, and writes to p.dst. Row i of the
// matrix is row b.Order[i] of the stored ones. It first multiplies all stored rows, also those that the matrix lacks, into
// p.storedOrder. It then copies each product to its place. It fails as multiplyStored does.
func (p *product) multiplyReordered(b values.Blocks) error {
	dst, rows := p.dst, p.rows
	_, rowBytes := b.DType.Span(0, uint64(p.cols))
	storedRows := int((b.Content.Size() - b.From) / rowBytes)
	p.storedOrder = content.Grown(p.storedOrder, uint64(storedRows*len(p.activations)))
	p.dst, p.rows = p.storedOrder, storedRows
	err := p.multiplyStored(b)
	p.dst, p.rows = dst, rows
	if err != nil {
		return err
	}
	for i, row := range b.Order {
		for k := range p.activations { // the products with vector k follow those with vector k-1
			dst[k*rows+i] = p.storedOrder[k*storedRows+int(row)]
		}
	}
	return nil
}

// multiplyStored multiplies p.rows rows as they are stored, and writes to p.dst. The first row begins at byte b.From of b.Content,
// and no row is empty. It uses rows in memory in place. It reads others into p.readBuffer, a few at a time. It fails if reading
// does, or when p.callerCtx or p.leaseCtx ends.
func (p *product) multiplyStored(b values.Blocks) error {
	p.rowType = b.DType
	_, rowBytes := b.DType.Span(0, uint64(p.cols))
	elements, err := b.Content.View(p.leaseCtx, p.env, b.From, uint64(p.rows)*rowBytes)
	if err != nil {
		return err
	}
	if elements != nil {
		p.storedRows = elements
		return p.multiplyInParallel(0, p.rows)
	}
	bytesAtOnce := uint64(stepBytes)
	if b.Content.Cost().LargeReads() {
		bytesAtOnce = largeStepBytes
	}
	step := int(min(max(1, bytesAtOnce/rowBytes), uint64(p.rows)))
	p.readBuffer = content.Grown(p.readBuffer, uint64(step)*rowBytes)
	for lo := 0; lo < p.rows; lo += step {
		hi := min(lo+step, p.rows)
		p.storedRows = p.readBuffer[:uint64(hi-lo)*rowBytes]
		if err := p.contextErr(); err != nil {
			return err
		}
		if err := b.Content.ReadAt(p.leaseCtx, p.env, p.storedRows, b.From+uint64(lo)*rowBytes); err != nil {
			return err
		}
		if err := p.multiplyInParallel(lo, hi-lo); err != nil {
			return err
		}
	}
	return nil
}

// multiplyExpanded expands the rows of v to float32, multiplies them with the n vectors in xs, and writes to p.dst. If stored bytes
// are in memory, each worker expands its own rows. Otherwise it expands a few rows at a time into p.expandBuffer, and the workers
// multiply those. It fails if reading does, or when p.callerCtx or p.leaseCtx ends.
func (p *product) multiplyExpanded(v values.Values, xs []float32, n int) error {
	if err := p.prepareVectors(layout.F32, xs, n); err != nil {
		return err
	}
	p.rowType = layout.F32
	if v.Source().Cost().InPlace() {
		p.rowSource = v
		return p.multiplyInParallel(0, p.rows)
	}
	step := min(p.rows, max(1, stepBytes/4/max(1, p.cols))) // rows; a float32 has 4 bytes
	p.expandBuffer = content.Grown(p.expandBuffer, uint64(step*p.cols))
	for lo := 0; lo < p.rows; lo += step {
		hi := min(lo+step, p.rows)
		if err := p.contextErr(); err != nil {
			return err
		}
		p.floatRows = p.expandBuffer[:(hi-lo)*p.cols]
		if err := v.Read(p.leaseCtx, p.env, p.floatRows, uint64(lo)*uint64(p.cols)); err != nil {
			return err
		}
		if err := p.multiplyInParallel(lo, hi-lo); err != nil {
			return err
		}
	}
	return nil
}

// stepBytes is the size of the rows that are read or expanded at a time, unless they are in memory.
// largeStepBytes is their size if few large reads are better.
const (
	stepBytes      = 1 << 20
	largeStepBytes = 8 << 20
)

// product is one multiplication of a matrix with vectors. It goes back to a pool with its buffers, and later multiplications use
// them again. No buffer is larger than memory of the caller, or than a few rows.
type product struct {
	callerCtx, leaseCtx context.Context // of the caller, and of its lease or model
	env                 content.Env
	dst                 []float32 // the product of row r with vector i is dst[i*rows+r]
	rows, cols          int
	activations         []*dot.Activation
	activationPool      []*dot.Activation // of this call and of earlier ones
	readBuffer          []byte            // rows that are not in memory
	expandBuffer        []float32         // rows that are expanded
	storedOrder         []float32         // products as dst has them, but of rows in the order in which they are stored

	// The rows that are multiplied now: rowCount of them, from row firstRow of the matrix on. They are in storedRows, in
	// floatRows, or workers read them from rowSource. The other two are nil.
	rowType    layout.DType
	firstRow   int
	rowCount   int
	storedRows []byte
	floatRows  []float32
	rowSource  values.Values
	rowsAtOnce int // rows that a worker takes at a time
	nextRow    atomic.Int64
	team       *parallel.Team

	workersBegun    atomic.Int64
	outputsByWorker [][][]float32 // of each worker: its products, by vector
	rowBuffers      [][]float32   // of each worker: rows that it expands
}

// products is the pool of products that no call uses.
var products = sync.Pool{New: func() any {
	p := new(product)
	p.team = parallel.NewTeam(p.takeRows, func() { p.nextRow.Store(int64(p.rowCount)) }) // after a failure no rows are left to take
	return p
}}

// release clears all references to memory of callers, and returns p to the pool.
func (p *product) release() {
	p.callerCtx, p.leaseCtx, p.env, p.dst, p.storedRows, p.floatRows, p.rowSource = nil, nil, content.Env{}, nil, nil, nil, nil
	for _, parts := range p.outputsByWorker {
		clear(parts)
	}
	products.Put(p)
}

// contextErr returns the cause of p.callerCtx if that has ended, or else that of p.leaseCtx. It returns nil if neither has.
func (p *product) contextErr() error {
	return cmp.Or(context.Cause(p.callerCtx), context.Cause(p.leaseCtx))
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

// These constants say how rows are divided among workers. Those with Elems in their names count multiplications of two numbers.
const (
	serialElems     = 1 << 18            // fewer in all stay on one core
	grainElems      = 1 << 17            // the least that a worker takes at a time
	maxGrainElems   = 1 << 20            // the most: the processor reads memory ahead of a worker that goes on in order
	sharesPerWorker = 16                 // into which the rows of each worker are divided, between these limits
	tileElems       = grainElems * 3 / 4 // elements that a worker expands at a time: fewer than package dequant shares out to cores
)

// multiplyInParallel multiplies count rows of the matrix, from row first on, and writes to p.dst. It uses several cores for more
// than serialElems multiplications: p.team runs p.takeRows on each. The caller has put exactly these rows into p.storedRows or
// p.floatRows, or has set p.rowSource, which has all rows. It fails if expanding rows does, or when p.callerCtx or p.leaseCtx ends.
func (p *product) multiplyInParallel(first, count int) error {
	p.firstRow, p.rowCount = first, count
	perRow := max(1, p.cols*len(p.activations)) // multiplications
	cores := parallel.Cores()
	// A worker takes 1/sharesPerWorker of one core's rows, but no more than maxGrainElems, and no fewer than grainElems.
	p.rowsAtOnce = max(1, grainElems/perRow, min(maxGrainElems/perRow, count/(sharesPerWorker*cores)))
	if p.rowSource != nil { // the worker expands the rows first
		p.rowsAtOnce = max(1, tileElems/max(1, p.cols))
	}
	workers := 1
	if count > serialElems/perRow {
		workers = min(cores, (count+p.rowsAtOnce-1)/p.rowsAtOnce)
	}
	for len(p.outputsByWorker) < workers {
		p.outputsByWorker, p.rowBuffers = append(p.outputsByWorker, nil), append(p.rowBuffers, nil)
	}
	p.nextRow.Store(0)
	p.workersBegun.Store(0)
	return p.team.Run(workers)
}

// takeRows multiplies rows until none are left: each time the next p.rowsAtOnce rows that no other worker has taken. Each worker
// runs it, with memory at its own number in p.outputsByWorker and p.rowBuffers. It fails if expanding rows does, or when p.callerCtx
// or p.leaseCtx ends.
func (p *product) takeRows() error {
	worker := p.workersBegun.Add(1) - 1 // its number, from 0 on
	parts := p.outputsByWorker[worker]  // for each vector, the part of p.dst that it writes next
	for len(parts) < len(p.activations) {
		parts = append(parts, nil)
	}
	parts = parts[:len(p.activations)]
	p.outputsByWorker[worker] = parts
	for {
		hi := int(p.nextRow.Add(int64(p.rowsAtOnce)))
		lo := hi - p.rowsAtOnce
		if lo >= p.rowCount {
			return nil
		}
		hi = min(hi, p.rowCount)
		if err := p.contextErr(); err != nil {
			return err
		}
		for i := range parts {
			parts[i] = p.dst[i*p.rows+p.firstRow:][lo:hi]
		}
		if err := p.multiplyRows(int(worker), parts, lo, hi); err != nil {
			return err
		}
	}
}

// multiplyRows multiplies rows lo to hi-1 with each vector, and writes the products with vector i to dst[i]. It counts rows from
// p.firstRow. It finds the rows in p.storedRows or p.floatRows. If neither is set, it expands them from p.rowSource into
// p.rowBuffers[worker]. It fails if expanding does.
func (p *product) multiplyRows(worker int, dst [][]float32, lo, hi int) error {
	if p.storedRows != nil {
		size := len(p.storedRows) / p.rowCount // bytes of a row
		return dot.Mat(dst, p.rowType, p.storedRows[lo*size:hi*size], p.activations)
	}
	var floats []float32
	if p.rowSource != nil {
		p.rowBuffers[worker] = content.Grown(p.rowBuffers[worker], uint64((hi-lo)*p.cols))
		floats = p.rowBuffers[worker]
		if err := p.rowSource.Read(p.leaseCtx, p.env, floats, uint64(p.firstRow+lo)*uint64(p.cols)); err != nil {
			return err
		}
	} else {
		floats = p.floatRows[lo*p.cols : hi*p.cols]
	}
	for i, a := range p.activations {
		if err := dot.Floats(dst[i], floats, a); err != nil {
			return err
		}
	}
	return nil
}
