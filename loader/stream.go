package loader

import (
	"cmp"
	"context"
	"iter"
	"slices"
	"sync"

	"github.com/tensormap/tensormap/internal/parallel"
	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/mmapio"
)

// Piece is consecutive elements of one tensor in a lent buffer. They are whole blocks of DType: at most 1 MiB, or 8 MiB if a file
// is read over a network. A tensor without elements is one piece without bytes. Elements that are decompressed or converted begin
// on a multiple of 64 bytes, others are aligned as in the file. In buffers shorter than 68 KiB none are aligned.
type Piece struct {
	Tensor Tensor
	DType  layout.DType
	Bytes  []byte // little-endian elements, row-major
	Offset uint64 // bytes of the tensor before these, as they are handed out
	Size   uint64 // bytes of the whole tensor as it is handed out: where its last piece ends

	buffer *lentBuffer
	turn   uint64 // number of the load in buffer
	part   int    // position in that load
}

// Retain keeps Bytes unchanged until Release, so that a copy of them may go on after the function that got p has returned. Retain
// panics if it is called after that return. Stream returns only when all retained pieces are released, even after an error or the
// end of its context.
//
// While all buffers are retained, Stream waits for a Release, for ever if none comes. A caller that releases pieces only when a
// later one has come must therefore retain less than all buffers hold.
func (p Piece) Retain() { p.buffer.retain(p.turn, p.part) }

// Release gives a retained piece back: Bytes may hold something else from then on. Any goroutine may call it. It does
// nothing for a piece that is not retained, was released already, or is the zero Piece.
func (p Piece) Release() {
	if p.buffer != nil {
		p.buffer.release(p.turn, p.part)
	}
}

// StreamResult says what Stream has done.
type StreamResult struct {
	Bytes uint64         // that f has taken
	Files []StreamedFile // those that have tensors of the call, in the order of Model.Files
}

// Stream reads the named tensors, each once, into lent buffers and hands them to f in pieces. Without names it does nothing,
// whatever opts and f are. It is for weights that go to a device: none of them stay in memory of the process.
//
// Readers fill parts of the buffers by large reads, one for neighbouring tensors, while f uses other parts. Stream calls f in the
// caller's goroutine, for one piece after the other; those of a tensor come in their order. A part is filled again once f has
// returned for all pieces in it, and those that f has retained are released. Beside the buffers, Stream takes less than 32 MiB
// for up to four readers, and half a KiB for each tensor. It takes more for a tensor that can only be unpacked as a whole
// (layout.Encoding.Packed).
//
// Elements are verified, decrypted, decompressed and expanded as by other reads. Less than two buffers, and buffers that overlap
// or cannot hold one block, are ErrRange. A tensor that cannot be handed out as asked is the error of [Tensor.Bytes] or
// [Tensor.ReadAs]. Stream returns these errors before it reads anything. An error of f ends Stream, which returns it as it is. A
// panic or runtime.Goexit of f ends Stream too, and pieces may still be retained then. When ctx ends, Stream returns its cause.
// No reader uses a buffer after Stream has returned.
//
// A file that has become shorter is io.ErrUnexpectedEOF, or mmapio.ErrFault if its mapping was copied. One that
// has changed otherwise since it was opened is ErrChanged, which Stream finds out at its end.
func (m *Model) Stream(ctx context.Context, names []string, opts *StreamOptions, f func(p Piece) error) (StreamResult, error) {
	return stream(ctx, m, func() ([]Tensor, error) { return m.tensorsNamed(names, nil) }, opts, f)
}

// StreamAll streams all tensors, as Stream does.
func (m *Model) StreamAll(ctx context.Context, opts *StreamOptions, f func(p Piece) error) (StreamResult, error) {
	every := func() ([]Tensor, error) { return slices.Collect(m.eachListed(nil, nil)), nil }
	return stream(ctx, m, every, opts, f)
}

// Stream does what Model.Stream does, through the lease. It ends with the context of the lease too.
func (l *Lease) Stream(ctx context.Context, names []string, opts *StreamOptions, f func(p Piece) error) (StreamResult, error) {
	return stream(ctx, l, func() ([]Tensor, error) { return l.model.tensorsNamed(names, l) }, opts, f)
}

// tensorsNamed returns the named tensors, each once. They belong to the lease l, which may be nil. It fails with ErrNotFound for an
// unknown name.
func (m *Model) tensorsNamed(names []string, l *Lease) (tensors []Tensor, err error) {
	seen := make(map[Tensor]bool)
	for _, name := range names {
		t, err := m.lookup(name, l)
		if err != nil {
			return nil, err
		}
		if !seen[t] {
			seen[t] = true
			tensors = append(tensors, t)
		}
	}
	return tensors, nil
}

// stream hands the tensors that find returns to f in pieces. It keeps h, a model or lease, open until it returns. It does nothing if
// find returns no tensors. It fails as Model.Stream says. After an error too, the result says what was read and handed out.
func stream(ctx context.Context, h holder, find func() ([]Tensor, error), opts *StreamOptions, f func(p Piece) error) (StreamResult, error) {
	if opts == nil {
		opts = &StreamOptions{}
	}
	return readWhileOpen(ctx, h, func(ctx context.Context, m *Model) (StreamResult, error) {
		tensors, err := find()
		if err != nil || len(tensors) == 0 {
			return StreamResult{}, err
		}
		if !opts.Ordered {
			sortStored(tensors)
		}
		p, err := newStreamPlan(ctx, m, tensors, opts)
		if err != nil {
			return StreamResult{}, err
		}
		defer p.close()
		done, err := p.run(ctx, opts, f)
		if err == nil {
			err = p.changed()
		}
		if context.Cause(ctx) == ErrClosed {
			err = m.closedError() // which names the model
		}
		return StreamResult{Bytes: done, Files: p.result()}, err
	})
}

// run fills buffers with the loads of the plan, and hands the parts of each load to f as pieces. A load is what fills one buffer; the
// plan has at least one. Readers fill some buffers while f has the parts of another one. run returns once all retained pieces are
// released. done is the number of bytes that f has taken, also after an error. run fails with the first error of reading or of f, or
// with the cause of ctx.
func (p *streamPlan) run(ctx context.Context, opts *StreamOptions, f func(p Piece) error) (done uint64, err error) {
	reading, stopReaders := context.WithCancelCause(ctx) // ends with the first failure
	defer stopReaders(nil)
	var retained sync.WaitGroup // counts retained pieces
	readers := len(opts.Buffers)
	if opts.Readers > 0 {
		readers = min(readers, opts.Readers)
	}
	q := newTurns(p.buffers, p.buffersInTurn(readers), &retained)
	next := func(job *parallel.Job) (more bool) {
		q.buffers[job].load, more = p.nextLoad()
		return more
	}
	fill := func(jobs iter.Seq[*parallel.Job]) { // each reader runs it
		for job := range jobs {
			err := mmapio.Guard(func() error { return p.fillBuffer(reading, &q.buffers[job].load, job.Into) })
			if err != nil {
				stopReaders(err)
				err = context.Cause(reading) // the first failure, not that of a reader that it has stopped
			}
			job.Done(len(job.Into), err)
		}
	}
	progress := parallel.Progress{Report: opts.Progress, Total: p.total}
	handOut := func(job *parallel.Job) error {
		complete := false
		defer func() {
			if !complete { // an error, a panic, or the goroutine's end
				stopReaders(nil)
			}
		}()
		err := q.buffers[job].hand(ctx, func(piece Piece) error {
			err := f(piece)
			if err == nil {
				done += uint64(len(piece.Bytes))
				progress.Add(uint64(len(piece.Bytes)))
			}
			return err
		})
		if complete = err == nil; complete {
			q.endTurn()
		}
		return err
	}
	err = parallel.InOrder(ctx, readers, q.free, next, fill, handOut)
	retained.Wait()
	return done, err
}

// turns gives buffers to readers. There is a fixed number of turns, and a reader fills a buffer only if that has one. A buffer has
// its turn while it is free, being filled, and handed out. Then the buffer that was used last gets the turn: the processor's cache
// may hold it. Buffers with retained pieces get none. A buffer here is a part of one of the caller's.
type turns struct {
	buffers map[*parallel.Job]*lentBuffer
	free    chan *parallel.Job // buffers that have a turn and wait for a reader

	mu          sync.Mutex
	spare       []*parallel.Job // buffers that nobody uses and that have no turn
	unusedTurns int             // turns that no buffer has, since too many have retained pieces
}

// newTurns returns count turns for the buffers. There are at least count buffers, and the last count of them get a turn each. retained
// counts the pieces that are retained.
func newTurns(buffers [][]byte, count int, retained *sync.WaitGroup) *turns {
	q := &turns{buffers: make(map[*parallel.Job]*lentBuffer, len(buffers)), free: make(chan *parallel.Job, count)}
	for _, b := range buffers {
		job := &parallel.Job{Into: b}
		q.buffers[job] = &lentBuffer{memory: b, retainedPieces: retained, makeSpare: func() { q.makeSpare(job) }}
		q.spare = append(q.spare, job)
	}
	q.unusedTurns = count
	q.startTurns()
	return q
}

// makeSpare adds the buffer of job, which nobody uses any more, to the spare ones. If there is an unused turn, the buffer gets it.
func (q *turns) makeSpare(job *parallel.Job) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.spare = append(q.spare, job)
	q.startTurns()
}

// endTurn ends the turn of a buffer that was handed out, and gives the turn to a spare buffer if there is one.
func (q *turns) endTurn() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.unusedTurns++
	q.startTurns()
}

// startTurns gives unused turns to spare buffers, first to the one used last. It puts these buffers into q.free, which has capacity
// for all turns. The caller holds q.mu.
func (q *turns) startTurns() {
	for n := len(q.spare); n > 0 && q.unusedTurns > 0; n-- {
		q.free <- q.spare[n-1]
		q.spare, q.unusedTurns = q.spare[:n-1], q.unusedTurns-1
	}
}

// lentBuffer is a part of a buffer of the caller's, which is filled by one load after the other.
type lentBuffer struct {
	memory         []byte
	makeSpare      func()          // makes it available for another load
	load           bufferLoad      // that fills it now
	retainedPieces *sync.WaitGroup // counts retained pieces of all buffers

	mu          sync.Mutex
	turn        uint64 // number of the load. A piece of an earlier load has a smaller one
	currentPart int    // the part of the load that is handed out now, or noPart
	retained    []bool // of each part of the load: whether it is retained
	users       int    // parts that are retained, and 1 while hand runs
}

// noPart means that no part of a load is being handed out, so that none may be retained.
const noPart = -1

// hand calls f for each part of the load in b, in order. The buffer then becomes spare, so that another load may fill it: at once, or
// when its last retained part is released. hand stops with the first error of f, or with the cause of ctx. After such an error the
// buffer never becomes spare.
func (b *lentBuffer) hand(ctx context.Context, f func(p Piece) error) error {
	l := &b.load
	b.mu.Lock()
	b.turn++
	b.currentPart, b.users = noPart, 1 // this call is a user until it leaves
	b.retained = append(b.retained[:0], make([]bool, len(l.parts))...)
	turn := b.turn
	b.mu.Unlock()
	defer b.endRetaining() // after an error, a panic, or the goroutine's end too
	for i := range l.parts {
		if err := context.Cause(ctx); err != nil {
			return err
		}
		b.mu.Lock()
		b.currentPart = i
		b.mu.Unlock()
		part := &l.parts[i]
		err := f(Piece{
			Tensor: part.tensor.Tensor, DType: cmp.Or(part.tensor.as, part.tensor.DType()), Bytes: b.memory[part.bufferOff:][:part.size:part.size], Offset: part.tensorOff, Size: part.tensor.size,
			buffer: b, turn: turn, part: i,
		})
		if err != nil {
			return err
		}
	}
	b.endRetaining() // before the buffer may be spare, and get another load
	b.leave()
	return nil
}

// endRetaining makes retain panic until the next part is handed out: the function that got pieces of the load has returned.
func (b *lentBuffer) endRetaining() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.currentPart = noPart
}

// retain makes the given part of load number turn a user of the buffer until release. The buffer takes no other load meanwhile. retain
// panics unless that part is being handed out. If the part is retained already, it does nothing.
func (b *lentBuffer) retain(turn uint64, part int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if turn != b.turn || part != b.currentPart {
		panic("loader: Piece.Retain after the function that got the piece has returned")
	}
	if !b.retained[part] {
		b.retained[part] = true
		b.retainedPieces.Add(1)
		b.users++
	}
}

// release ends what retain began for the given part of load number turn. It does nothing if the part is not retained, or if the buffer
// has a later load. If nobody else uses the buffer, it becomes spare.
func (b *lentBuffer) release(turn uint64, part int) {
	b.mu.Lock()
	wasRetained := turn == b.turn && b.retained[part]
	if wasRetained {
		b.retained[part] = false
	}
	b.mu.Unlock()
	if wasRetained {
		b.leave()
		b.retainedPieces.Done()
	}
}

// leave takes one from the buffer's users. If none is left, it makes the buffer spare.
func (b *lentBuffer) leave() {
	b.mu.Lock()
	b.users--
	last := b.users == 0
	b.mu.Unlock()
	if last {
		b.makeSpare()
	}
}
