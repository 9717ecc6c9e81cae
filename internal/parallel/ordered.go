package parallel

import (
	"errors"
	"io"
	"iter"
	"sync"
	"sync/atomic"
)

// PieceBytes is the size of the buffers of [WriteInOrder].
const PieceBytes = 256 << 10

// Pieces returns the number of pieces that n bytes are.
func Pieces(n uint64) uint64 { return (n + PieceBytes - 1) / PieceBytes }

// jobs are ones with memory.
var jobs = sync.Pool{New: func() any { return &Job{memory: new([PieceBytes]byte)} }}

// piecesPerCore is how far the cores may be ahead of the writer. They have work while a write
// takes its time, and the pieces stay in their caches.
const piecesPerCore = 4

// maxCores is the most cores that produce pieces. No writer keeps up with more, and pieces
// that wait take 16 MiB at most.
const maxCores = 16

// Job is a piece to produce: the number I, in memory Into.
type Job struct {
	I    uint64
	Into []byte

	memory *[PieceBytes]byte // for bytes that have been produced and not been written
	n      int
	err    error
}

// Done ends the job with n bytes, or with an error.
func (j *Job) Done(n int, err error) { j.n, j.err = n, err }

var errLeft = errors.New("no worker is left that produces the next piece")

// WriteInOrder writes pieces 0 to n-1 to w from the caller's goroutine, while all cores produce
// those to come. The first error in that order ends it. Every worker ranges
// over its jobs and ends each with Done.
func WriteInOrder(w io.Writer, n uint64, work func(jobs iter.Seq[*Job])) error {
	cores := min(uint64(Workers(n)), maxCores)
	slots := min(cores*piecesPerCore, n)
	ring := make([]chan *Job, slots)    // piece i comes through ring[i%slots]
	leave := make(chan struct{}, slots) // to produce one more
	for i := range ring {
		ring[i] = make(chan *Job, 1)
		leave <- struct{}{}
	}
	var next atomic.Uint64
	failed := make(chan struct{}) // by a panic
	gone := make(chan struct{})   // all workers
	g := Group{Stop: func() { close(failed) }}
	for range cores {
		g.Go(func() error {
			work(func(yield func(*Job) bool) {
				for range leave {
					i := next.Add(1) - 1
					if i >= n {
						return
					}
					j := jobs.Get().(*Job)
					j.I, j.Into, j.n, j.err = i, j.memory[:], 0, nil
					more := yield(j)
					ring[i%slots] <- j
					if !more {
						return
					}
				}
			})
			return nil
		})
	}
	go func() {
		g.workers.Wait()
		close(gone)
	}()
	defer g.Wait() // nobody reads the source once this is over, however it ends
	defer close(leave)
	defer next.Store(n)
	for i := range n {
		var j *Job
		select {
		case j = <-ring[i%slots]:
		case <-failed:
			return nil // Wait panics
		case <-gone:
			select {
			case j = <-ring[i%slots]:
			default:
				return errLeft
			}
		}
		if j.err != nil {
			return j.err
		}
		if _, err := w.Write(j.memory[:j.n]); err != nil {
			return err
		}
		jobs.Put(j)
		leave <- struct{}{}
	}
	return nil
}
