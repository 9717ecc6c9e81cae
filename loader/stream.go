package loader

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"slices"
	"sync"

	"github.com/tensormap/tensormap/internal/parallel"
	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/mmapio"
)

// StreamOptions tune Stream. All fields but Buffers may be zero. A nil *StreamOptions has no buffers, so that Stream fails unless there is
// nothing to stream.
type StreamOptions struct {
	// Buffers are two or more slices of the caller's that do not overlap, such as pinned memory of a device. They are lent until
	// Stream returns. Of each, as many bytes are used as the shortest has. Readers fill them in parts of at most 1 MiB, 2 with
	// As, or 8 if a file is read over a network. At most two parts for each reader are in use at a time, over a network all.
	// Other parts of large buffers stand in for those that are retained. With As, half of each part takes what is read before it
	// is converted. Direct reads need buffers of at least 68 KiB. They are fastest into large pages: a disk may be slower the
	// more places of memory a read goes to.
	Buffers [][]byte
	// As is the type of the elements that are handed out: F32, F16 or BF16, as [Tensor.ReadAs] makes them. Integers and booleans
	// without a scale keep their type, which [Piece.DType] says: they are positions or token numbers, not weights. The zero
	// value hands out what [Tensor.Bytes] returns. For a logical tensor that is ErrUnsupported.
	As layout.DType
	// Ordered hands out the tensors in the order of names. Otherwise they come as they are stored, which takes the fewest
	// reads.
	Ordered bool
	// Readers is the number of goroutines that fill buffers. 0 means one for each buffer, and more than that
	// are not started.
	Readers int
	// Backing says how bytes of local files should reach the buffers. A file that cannot be read so is read otherwise,
	// without an error. [StreamResult.Files] says how, and why.
	Backing Backing
	// Progress, if set, is called with the number of bytes that were handed out and that of all bytes: in the caller's
	// goroutine, with done never falling.
	Progress func(done, total uint64)
}

// Backing is a way by which Stream brings bytes of a file into a buffer.
type Backing uint8

const (
	// BackingAuto is BackingDirect for bytes that are not in the page cache, if the file system can, and BackingRead for
	// others.
	BackingAuto Backing = iota
	// BackingMap copies from the mapping, whose pages are first brought into memory by large requests and then released again.
	BackingMap
	// BackingRead reads by system calls, through the page cache, or by requests to a server.
	BackingRead
	// BackingDirect reads past the page cache (O_DIRECT on Linux).
	BackingDirect
)

// String returns the name of b: auto, map, read or direct.
func (b Backing) String() string {
	if names := [...]string{"auto", "map", "read", "direct"}; int(b) < len(names) {
		return names[b]
	}
	return fmt.Sprintf("Backing(%d)", uint8(b))
}

// Piece is consecutive elements of one tensor in a lent buffer. They are whole blocks of DType: at most 1 MiB, or 8 MiB if a file
// is read over a network. A tensor without elements is one piece without bytes. Elements that are decompressed or converted begin
// on a multiple of 64 bytes, others are aligned as in the file. In buffers shorter than 68 KiB none are aligned.
type Piece struct {
	Tensor Tensor
	DType  layout.DType
	Bytes  []byte // little-endian elements, row-major
	Offset uint64 // bytes of the tensor before these, as they are handed out
	Size   uint64 // bytes of the whole tensor as it is handed out: where its last piece ends

	buffer *lent
	turn   uint64
	part   int
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

// StreamedFile says by which way the bytes that were handed out of one file came. Bytes of a logical tensor count for the file of
// its codes. After an error, bytes that were read and not handed out count too.
type StreamedFile struct {
	File   int    // its position in Model.Files
	Mapped uint64 // bytes that were copied from the mapping, or made of it
	Read   uint64 // bytes that were read through the page cache, or by requests
	Direct uint64 // bytes that were read past the page cache
	Why    string // what decided that; "" if nothing of the file was read
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
	return stream(ctx, m, m.tensorsNamed(names, nil), opts, f)
}

// StreamAll streams all tensors, as Stream does.
func (m *Model) StreamAll(ctx context.Context, opts *StreamOptions, f func(p Piece) error) (StreamResult, error) {
	every := func() ([]Tensor, error) { return slices.Collect(m.eachListed(neverClosed, nil)), nil }
	return stream(ctx, m, every, opts, f)
}

// Stream does what Model.Stream does, through the lease. It ends with the context of the lease too.
func (l *Lease) Stream(ctx context.Context, names []string, opts *StreamOptions, f func(p Piece) error) (StreamResult, error) {
	return stream(ctx, l, l.model.tensorsNamed(names, l), opts, f)
}

// tensorsNamed returns a function that finds the named tensors, each once, through the lease l unless that is nil. An
// unknown name is ErrNotFound.
func (m *Model) tensorsNamed(names []string, l *Lease) func() ([]Tensor, error) {
	return func() (tensors []Tensor, err error) {
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
}

// stream hands the tensors that find returns to f, and holds h meanwhile.
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
			err = m.closedError()
		}
		return StreamResult{Bytes: done, Files: p.result()}, err
	})
}

// run fills buffers with all loads, which belong to one tensor at least, and hands the loads' parts to f. It returns how many bytes f
// has taken. It fails with the first error of reading or of f, or when ctx ends.
func (p *streamPlan) run(ctx context.Context, opts *StreamOptions, f func(p Piece) error) (done uint64, err error) {
	reading, stop := context.WithCancelCause(ctx) // once one has failed, the others read in vain
	defer stop(nil)
	var retained sync.WaitGroup // pieces
	readers := len(opts.Buffers)
	if opts.Readers > 0 {
		readers = min(readers, opts.Readers)
	}
	q := newTurns(p.buffers, p.buffersInTurn(readers), &retained)
	next := func(job *parallel.Job) (more bool) {
		q.parts[job].load, more = p.nextLoad()
		return more
	}
	progress := parallel.Progress{Report: opts.Progress, Total: p.total}
	err = parallel.InOrder(ctx, readers, q.free, next, func(jobs iter.Seq[*parallel.Job]) {
		for job := range jobs {
			err := mmapio.Guard(func() error { return p.fillBuffer(reading, &q.parts[job].load, job.Into) })
			if err != nil {
				stop(err)
				err = context.Cause(reading) // the first failure, not that of the readers it cancels
			}
			job.Done(len(job.Into), err)
		}
	}, func(job *parallel.Job) error {
		handed := false
		defer func() {
			if !handed { // an error, a panic, or the goroutine's end
				stop(nil)
			}
		}()
		err := q.parts[job].hand(ctx, func(piece Piece) error {
			err := f(piece)
			if err == nil {
				done += uint64(len(piece.Bytes))
				progress.Add(uint64(len(piece.Bytes)))
			}
			return err
		})
		if handed = err == nil; handed {
			q.endTurn()
		}
		return err
	})
	retained.Wait()
	return done, err
}

// turns gives parts of the caller's buffers to readers. A few parts are in turn: free, filled or handed out. They are the
// same ones again and again, which the processor's cache holds. A part that is retained leaves, and a spare one takes its turn.
type turns struct {
	parts map[*parallel.Job]*lent
	free  chan *parallel.Job

	mu          sync.Mutex
	spare       []*parallel.Job
	unusedTurns int // turns that no part has
}

// newTurns returns the turns of the buffers parts. At most ahead of them are in turn. retained counts pieces that are retained.
func newTurns(parts [][]byte, ahead int, retained *sync.WaitGroup) *turns {
	q := &turns{parts: make(map[*parallel.Job]*lent, len(parts)), free: make(chan *parallel.Job, ahead)}
	for _, b := range parts {
		job := &parallel.Job{Into: b}
		q.parts[job] = &lent{memory: b, retainedPieces: retained, free: func() { q.makeSpare(job) }}
		q.spare = append(q.spare, job)
	}
	for range ahead {
		q.endTurn()
	}
	return q
}

// makeSpare makes the buffer of job, which nobody uses, available for a turn.
func (q *turns) makeSpare(job *parallel.Job) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.spare = append(q.spare, job)
	q.startTurns()
}

// endTurn ends the turn of a buffer that was handed out, so that a spare one can take its place.
func (q *turns) endTurn() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.unusedTurns++
	q.startTurns()
}

// startTurns gives unused turns to spare buffers. The one used last comes first: the processor's cache may hold it.
func (q *turns) startTurns() {
	for n := len(q.spare); n > 0 && q.unusedTurns > 0; n-- {
		q.free <- q.spare[n-1]
		q.spare, q.unusedTurns = q.spare[:n-1], q.unusedTurns-1
	}
}

// lent is a part of a buffer of the caller's.
type lent struct {
	memory         []byte
	free           func()          // makes it available again
	load           bufferLoad      // that fills it
	retainedPieces *sync.WaitGroup // counts those that are retained, of all parts

	mu        sync.Mutex
	turn      uint64 // counts the loads that it has had
	handedOut int    // the part that is handed out
	retained  []bool // of each part of the load
	users     int    // parts that are retained, and hand
}

// hand calls f for each part of the load, and frees the buffer unless parts are retained. It stops with the first
// error of f or the cause of ctx.
func (b *lent) hand(ctx context.Context, f func(p Piece) error) error {
	l := &b.load
	b.mu.Lock()
	b.turn++
	b.handedOut, b.users = 0, 1
	b.retained = append(b.retained[:0], make([]bool, len(l.parts))...)
	turn := b.turn
	b.mu.Unlock()
	defer b.endRetaining() // after an error, a panic, or the goroutine's end too
	for i := range l.parts {
		if err := context.Cause(ctx); err != nil {
			return err
		}
		b.mu.Lock()
		b.handedOut = i
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
	b.endRetaining()
	b.leave()
	return nil
}

// endRetaining makes retain panic from now on: the function that got pieces of the load has returned.
func (b *lent) endRetaining() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.handedOut = len(b.retained)
}

// retain keeps the buffer in use for a part of its load, until release. It panics unless that part is being handed out.
func (b *lent) retain(turn uint64, part int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if turn != b.turn || part != b.handedOut {
		panic("loader: Piece.Retain after the function that got the piece has returned")
	}
	if !b.retained[part] {
		b.retained[part] = true
		b.retainedPieces.Add(1)
		b.users++
	}
}

// release ends what retain began for a part of the buffer's load, if it is retained. The last user's release frees the buffer.
func (b *lent) release(turn uint64, part int) {
	b.mu.Lock()
	retained := turn == b.turn && b.retained[part]
	if retained {
		b.retained[part] = false
	}
	b.mu.Unlock()
	if retained {
		b.leave()
		b.retainedPieces.Done()
	}
}

// leave makes the buffer's users one less. The last one frees it.
func (b *lent) leave() {
	b.mu.Lock()
	b.users--
	last := b.users == 0
	b.mu.Unlock()
	if last {
		b.free()
	}
}
