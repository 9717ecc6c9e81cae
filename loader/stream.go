package loader

import (
	"cmp"
	"context"
	"iter"
	"slices"
	"sync"
	"sync/atomic"

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
	Offset uint64 // bytes of the tensor before Bytes, as they are handed out
	Size   uint64 // bytes of the whole tensor as it is handed out: where its last piece ends

	lent *lentPiece
}

// Retain keeps Bytes unchanged until Release, so that a copy of them may go on after the function that got p has returned. Retain
// panics if it is called after that return. Stream returns only when all retained pieces are released, even after an error or the
// end of its context.
//
// While all slots of the buffers have retained pieces, Stream waits for a Release, for ever if none comes. A caller that releases pieces
// only when a later one has come must therefore retain less than all slots hold.
func (p Piece) Retain() {
	s := p.lent.slot
	s.mu.Lock()
	defer s.mu.Unlock()
	if !p.lent.isHanded {
		panic("loader: Piece.Retain after the function that got the piece has returned")
	}
	if !p.lent.isRetained.Swap(true) {
		s.retained.Add(1)
		s.users++
	}
}

// Release gives a retained piece back: Bytes may hold something else from then on. Any goroutine may call it. It does
// nothing for a piece that is not retained, was released already, or is the zero Piece.
func (p Piece) Release() {
	if p.lent != nil && p.lent.isRetained.Swap(false) {
		p.lent.slot.removeUser(0)
		p.lent.slot.retained.Done()
	}
}

// StreamResult says what Stream has done.
type StreamResult struct {
	Bytes uint64         // bytes that f has taken
	Files []StreamedFile // files that have tensors of the call, in the order of Model.Files
}

// Stream reads the named tensors, each once, into lent buffers and hands them to f in pieces. Without names it does nothing,
// whatever opts and f are. It is for weights that go to a device: none of them stay in memory of the process.
//
// Readers fill slots of the buffers by large reads, one for neighbouring tensors, while f uses other slots. Stream calls f in the
// caller's goroutine, for one piece after the other; pieces of a tensor come in their order. A slot is filled again once f has
// returned for all pieces in it, and pieces that f has retained are released. In addition to the buffers, Stream takes less than 32 MiB
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
	return stream(ctx, m, nil, func() ([]Tensor, error) { return m.tensorsNamed(names, nil) }, opts, f)
}

// StreamAll does for all tensors of m what Stream does for named ones.
func (m *Model) StreamAll(ctx context.Context, opts *StreamOptions, f func(p Piece) error) (StreamResult, error) {
	every := func() ([]Tensor, error) { return slices.Collect(m.eachListed(nil, nil)), nil }
	return stream(ctx, m, nil, every, opts, f)
}

// Stream does what Model.Stream does, through the lease. It ends with the context of the lease too.
func (l *Lease) Stream(ctx context.Context, names []string, opts *StreamOptions, f func(p Piece) error) (StreamResult, error) {
	return stream(ctx, l.model, l, func() ([]Tensor, error) { return l.model.tensorsNamed(names, l) }, opts, f)
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

// stream hands the tensors that find returns to f in pieces. It holds the lease l open until it returns, or the model if l is nil. It does
// nothing if find returns no tensors. It fails if find, planning, reading or f does, when ctx ends, or if a file has changed. Even after an
// error, the result says what was read and handed out.
func stream(ctx context.Context, m *Model, l *Lease, find func() ([]Tensor, error), opts *StreamOptions, f func(p Piece) error) (StreamResult, error) {
	if opts == nil {
		opts = &StreamOptions{}
	}
	return readWhileOpen(ctx, m, l, func(ctx context.Context) (StreamResult, error) {
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
			err = checkFilesUnchanged(tensors)
		}
		return StreamResult{Bytes: done, Files: p.result()}, err
	})
}

// run fills slots of the buffers with the loads of the plan: a load is the pieces that fill one slot. It hands the pieces of each load to f.
// Readers fill some slots while f has the pieces of another one. run returns once all retained pieces are released. done is the number of
// bytes that f has taken, also after an error. run fails with the first error of reading or of f, or with the cause of ctx.
func (p *streamPlan) run(ctx context.Context, opts *StreamOptions, f func(p Piece) error) (done uint64, err error) {
	reading, stopReaders := context.WithCancelCause(ctx) // ends with the first failure
	defer stopReaders(nil)
	readers := len(opts.Buffers)
	if opts.Readers > 0 {
		readers = min(readers, opts.Readers)
	}
	maxInUse := len(p.slots) // how many slots may be filled or handed out at once: all if reads may wait for a network, to read ahead
	if !p.mayWait {
		maxInUse = min(maxInUse, 2*readers)
	}
	lender := newLender(p.slots, maxInUse)
	next := func(job *parallel.Job) (more bool) {
		lender.slots[job].load, more = p.nextLoad()
		return more
	}
	fill := func(jobs iter.Seq[*parallel.Job]) { // each reader runs it
		for job := range jobs {
			err := mmapio.Guard(func() error { return p.fillSlot(reading, lender.slots[job].load, job.Into) })
			if err != nil {
				stopReaders(err)
				err = context.Cause(reading) // the first failure, not the failure of a reader that it has stopped
			}
			job.Done(len(job.Into), err)
		}
	}
	progress := parallel.Progress{Report: opts.Progress, Total: p.total}
	handOut := func(job *parallel.Job) error {
		s, complete := lender.slots[job], false
		defer s.removeUser(1)
		defer func() {
			if !complete { // an error, a panic, or the goroutine's end
				stopReaders(nil)
			}
		}()
		for i := range s.load {
			piece := &s.load[i]
			err := context.Cause(ctx)
			if err == nil {
				err = s.lend(piece, f)
			}
			if err != nil {
				return err
			}
			done += piece.size
			progress.Add(piece.size)
			p.handedOut(piece)
		}
		complete = true
		return nil
	}
	err = parallel.InOrder(ctx, readers, lender.toFill, next, fill, handOut)
	lender.retained.Wait()
	return done, err
}

// lender lends slots to readers. A slot is memory in one of the caller's buffers. A fixed number of permits bounds how many slots are
// in use at once. A slot has a permit while it waits for a reader, is filled, and is handed out. Then an idle slot gets the permit: the
// one used last, since the processor's cache may have it. A slot is idle if it has neither a permit nor retained pieces.
type lender struct {
	slots    map[*parallel.Job]*lentSlot
	toFill   chan *parallel.Job // slots that have a permit and wait for a reader
	retained sync.WaitGroup     // pieces

	mu           sync.Mutex  // guards the following, users of slots, and isHanded of pieces
	idle         []*lentSlot // the one used last is at the end
	sparePermits int         // permits that no slot has, since none is idle
}

// lentSlot is memory that is filled by one load after the other. All slots share the lender.
type lentSlot struct {
	*lender
	job   *parallel.Job
	load  []plannedPiece // the pieces that fill the slot now
	users int            // retained pieces, and one more while the slot has a permit
}

// lentPiece is a piece in a slot.
type lentPiece struct {
	slot       *lentSlot
	isHanded   bool // f has it now
	isRetained atomic.Bool
}

// newLender returns a lender of the slots with the given number of permits: at most as many as there are slots.
func newLender(slots [][]byte, permits int) *lender {
	l := &lender{slots: make(map[*parallel.Job]*lentSlot, len(slots)), toFill: make(chan *parallel.Job, permits), sparePermits: permits}
	for _, b := range slots {
		job := &parallel.Job{Into: b}
		l.slots[job] = &lentSlot{lender: l, job: job, users: 1}
		l.slots[job].removeUser(0) // makes the slot idle, or gives it a permit
	}
	return l
}

// removeUser takes one from s.users: the permit of s if permits is 1, or a retained piece if permits is 0. If no users are left, s becomes
// idle. The lender gets the permit of s as a spare one. removeUser then gives the lender's spare permits to its idle slots, beginning with
// the slot used last. These slots go to toFill, whose capacity is the number of permits.
func (s *lentSlot) removeUser(permits int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sparePermits += permits
	if s.users--; s.users == 0 {
		s.idle = append(s.idle, s)
	}
	for last := len(s.idle) - 1; last >= 0 && s.sparePermits > 0; last-- {
		next := s.idle[last]
		s.idle, s.sparePermits = s.idle[:last], s.sparePermits-1
		next.users++
		s.toFill <- next.job
	}
}

// lend calls f with a piece of the slot's load. f may call Retain of the piece only until f returns. lend returns the error of f.
func (s *lentSlot) lend(piece *plannedPiece, f func(p Piece) error) error {
	t, lent := piece.tensor, &lentPiece{slot: s, isHanded: true}
	defer func() { // after a panic, or the goroutine's end, too
		s.mu.Lock()
		defer s.mu.Unlock()
		lent.isHanded = false
	}()
	return f(Piece{t.Tensor, cmp.Or(t.as, t.DType()), s.job.Into[piece.slotOff:][:piece.size:piece.size], piece.off, t.size, lent})
}
