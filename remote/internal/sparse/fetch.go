package sparse

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tensormap/tensormap/internal/parallel"
)

// errFull ends a fetch whose bytes the disk does not take.
var errFull = errors.New("the cache takes no more")

// Bring writes the n bytes at off to the data file, unless they are there. cached is false if the disk is
// full and some of them are not there. It ends with ctx.
func (f *File) Bring(ctx context.Context, off, n int64) (cached bool, err error) {
	if off < 0 || n < 0 || off > f.opts.Size || n > f.opts.Size-off {
		return false, io.ErrUnexpectedEOF
	}
	if err := f.wrong.Load(); err != nil {
		return false, *err
	}
	if n == 0 {
		return true, nil
	}
	lo, hi := off/ChunkBytes, chunksOf(off+n)
	from, _ := f.there.missing(lo, hi, 1)
	if from == hi {
		return true, nil
	}
	if f.full.Load() != nil {
		return false, nil
	}
	f.asked.Add(1)
	defer f.asked.Add(-1)
	if lo == 0 {
		hi = max(hi, min(HeadBytes/ChunkBytes, f.there.n))
	}
	err = f.bringChunks(ctx, from, f.ahead(from, hi), func() {}, func() {})
	if errors.Is(err, errFull) {
		return false, nil
	}
	return err == nil, err
}

// stream is reads that follow each other: the next would begin at end. The last one was allowed to bring
// most chunks.
type stream struct{ end, most int64 }

// maxStreams is how many places of the file are read from one end to the other at once.
const maxStreams = 8

// firstAhead bounds the chunks that the first read of a stream counts as.
const firstAhead = 4

// ahead returns the end of the chunks to bring for a read that lacks [from, hi). A read that begins where
// another has ended brings twice as many, up to a part. So many small reads in order are few fetches.
func (f *File) ahead(from, hi int64) int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	i := slices.IndexFunc(f.streams, func(s stream) bool { return s.end == from })
	if i < 0 {
		if len(f.streams) == maxStreams {
			f.streams = f.streams[1:]
		}
		f.streams = append(f.streams, stream{hi, min(hi-from, firstAhead)})
		return hi
	}
	most := min(2*f.streams[i].most, partChunks)
	hi = min(max(hi, from+most), f.there.n)
	f.streams = append(slices.Delete(f.streams, i, i+1), stream{hi, most})
	return hi
}

// bringChunks brings chunks [lo, hi), several parts at a time. It calls before and after around
// each.
func (f *File) bringChunks(ctx context.Context, lo, hi int64, before, after func()) error {
	type run struct{ lo, hi int64 }
	next := func() (run, bool) {
		from, to := f.there.missing(lo, hi, partChunks)
		lo = to
		return run{from, to}, from < to
	}
	return parallel.Each(f.opts.Parallel, next, func(runs iter.Seq[run]) error {
		for r := range runs {
			before()
			if err := f.bringRun(ctx, r.lo, r.hi); err != nil {
				return err
			}
			after()
		}
		return nil
	})
}

// flight is a fetch under way.
type flight struct {
	lo, hi  int64
	waiting int // reads; the fetch is given up when none is left
	cancel  context.CancelCauseFunc
	done    chan struct{}
	err     error
	panic   any // of the source
}

// bringRun brings chunks [lo, hi), at most one part, or waits for those who do.
func (f *File) bringRun(ctx context.Context, lo, hi int64) error {
	for {
		if err := context.Cause(ctx); err != nil {
			return err
		}
		f.mu.Lock()
		from, to := f.there.missing(lo, hi, partChunks)
		if from == to {
			f.mu.Unlock()
			return nil
		}
		fl := f.underWay(from, &to)
		if fl == nil {
			if f.life.Err() != nil {
				f.mu.Unlock()
				return fs.ErrClosed
			}
			fl = f.launch(from, to)
		}
		fl.waiting++
		f.mu.Unlock()
		if err := f.wait(ctx, fl); err != nil {
			return err
		}
	}
}

// underWay returns the flight that brings chunk from. Without one it returns nil, and lowers *to to the
// beginning of the next flight.
func (f *File) underWay(from int64, to *int64) *flight {
	for _, fl := range f.flights {
		if fl.lo <= from && from < fl.hi {
			return fl
		}
		if from < fl.lo && fl.lo < *to {
			*to = fl.lo
		}
	}
	return nil
}

// wait waits for fl, or leaves with ctx.
func (f *File) wait(ctx context.Context, fl *flight) error {
	var err error
	select {
	case <-fl.done:
		if fl.panic != nil {
			panic(fl.panic)
		}
		return fl.err
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if fl.panic != nil { // both at once
		panic(fl.panic)
	}
	if fl.waiting--; fl.waiting == 0 {
		fl.cancel(err)
		f.forget(fl) // another read begins anew
	}
	return err
}

// forget takes fl out of the flights under way, unless another has its place by now. Its caller holds mu.
func (f *File) forget(fl *flight) {
	if f.flights[fl.lo] == fl {
		delete(f.flights, fl.lo)
	}
}

// launch starts to fetch chunks [lo, hi). Its caller holds mu.
func (f *File) launch(lo, hi int64) *flight {
	ctx, cancel := context.WithCancelCause(f.life)
	fl := &flight{lo: lo, hi: hi, cancel: cancel, done: make(chan struct{})}
	f.flights[lo] = fl
	f.running.Go(func() error {
		defer cancel(nil)
		keep := f.land(ctx, fl)
		keep()
		return nil
	})
	return fl
}

// land fetches the chunks of fl, and ends it with the result. It panics as the source has if no read waits for that.
func (f *File) land(ctx context.Context, fl *flight) (keep func()) {
	keep = func() {}
	defer func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		if fl.panic = recover(); fl.err != nil && f.life.Err() != nil {
			fl.err = fs.ErrClosed
		}
		f.forget(fl)
		close(fl.done)
		if fl.panic != nil && fl.waiting == 0 {
			panic(fl.panic)
		}
	}()
	keep, fl.err = f.fetch(ctx, fl.lo, fl.hi)
	return keep
}

// parts are buffers of one part.
var parts = sync.Pool{New: func() any { return new([partBytes]byte) }}

// fetch brings chunks [lo, hi) from the source to the data file. keep then makes them durable, and
// lets other processes know.
func (f *File) fetch(ctx context.Context, lo, hi int64) (keep func(), err error) {
	unlock, err := lockRange(ctx, f.marks, headerBytes+lo, hi-lo)
	if err != nil {
		return func() {}, err
	}
	defer func() {
		if keep == nil { // for an error, or a panic of the source
			unlock()
			keep = func() {}
		}
	}()
	if err := f.reload(lo, hi); err != nil { // another process may have been here
		return nil, err
	}
	buf := parts.Get().(*[partBytes]byte)
	defer parts.Put(buf)
	for from, to := f.there.missing(lo, hi, hi-lo); from < to && err == nil; from, to = f.there.missing(from, hi, hi-lo) {
		err = f.fetchRun(ctx, buf, from, to)
	}
	return func() {
		defer unlock()
		f.mark(lo, hi)
	}, err
}

func (f *File) fetchRun(ctx context.Context, buf *[partBytes]byte, from, to int64) error {
	off := from * ChunkBytes
	b := buf[:min(to*ChunkBytes, f.opts.Size)-off]
	if err := f.get(ctx, b, off); err != nil {
		return err
	}
	if _, err := f.data.WriteAt(b, off); err != nil {
		return f.noRoom(err)
	}
	for i := from; i < to; i++ {
		f.there.add(i)
	}
	return nil
}

// noRoom makes the file keep nothing more.
func (f *File) noRoom(err error) error {
	if f.full.CompareAndSwap(nil, &err) && f.opts.Full != nil {
		f.opts.Full(err)
	}
	return fmt.Errorf("%w: %w", errFull, *f.full.Load())
}

// mark makes the chunks of [lo, hi) that are there durable, and says so in the map.
func (f *File) mark(lo, hi int64) {
	var there []int64
	for i := lo; i < hi; i++ {
		if f.there.has(i) {
			there = append(there, i)
		}
	}
	if len(there) == 0 || !f.believed() {
		return
	}
	err := f.disk.commit()
	for len(there) > 0 && err == nil { // another process may have marked what is between
		n := 1
		for n < len(there) && there[n] == there[0]+int64(n) {
			n++
		}
		_, err = f.marks.WriteAt(bytes.Repeat([]byte{1}, n), headerBytes+there[0])
		there = there[n:]
	}
	if err != nil {
		f.noRoom(err) // the bytes stay for this process
	}
}

// committer makes what has been written durable: one sync serves all who wait for one.
type committer struct {
	sync func() error

	begun atomic.Int64 // syncs
	run   sync.Mutex   // held by a sync, and for err
	err   error        // of the latest
}

// commit returns when a sync that has begun after its call has ended.
func (c *committer) commit() error {
	before := c.begun.Load()
	c.run.Lock()
	defer c.run.Unlock()
	if c.begun.Load() == before {
		c.begun.Add(1)
		c.err = c.sync()
	}
	return c.err
}

// Fill brings all that is not there yet. It gives way to reads that wait. progress, if set, hears
// how many bytes are there, from one goroutine at a time.
func (f *File) Fill(ctx context.Context, progress func(have, size int64)) error {
	var mu sync.Mutex
	report := func() {
		if progress != nil {
			mu.Lock()
			defer mu.Unlock()
			progress(f.Have(), f.opts.Size)
		}
	}
	report()
	if why := f.full.Load(); why != nil && f.Have() < f.opts.Size {
		return fmt.Errorf("%w: %w", errFull, *why)
	}
	giveWay := func() {
		for end := time.Now().Add(giveWayMost); f.asked.Load() > 0 && time.Now().Before(end) && ctx.Err() == nil; {
			time.Sleep(giveWayStep)
		}
	}
	return f.bringChunks(ctx, 0, f.there.n, giveWay, report)
}

// Fill looks every giveWayStep whether reads still wait. It waits giveWayMost for them: a source
// that never rests must not keep it from ending.
const (
	giveWayStep = 5 * time.Millisecond
	giveWayMost = time.Second
)
