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

// Bring returns once the n bytes at off are in the data file: it fetches those that are missing, and may fetch more.
// cached is false if the disk is full and bytes are missing. It fails when ctx ends, or for bytes beyond the file's
// end.
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
	from, _ := f.present.missing(lo, hi, 1)
	if from == hi {
		return true, nil
	}
	if f.full.Load() != nil {
		return false, nil
	}
	f.asked.Add(1)
	defer f.asked.Add(-1)
	if lo == 0 { // the file's beginning comes at once
		hi = max(hi, min(HeadBytes/ChunkBytes, f.present.n))
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

// ahead returns the end of the chunks to fetch for a read that lacks chunks [from, hi): hi, or more if the read begins
// where an earlier one has ended. It is then allowed twice as many chunks as that one, up to partChunks. So many small
// reads in order are few fetches. ahead notes where this read ends.
func (f *File) ahead(from, hi int64) int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	i := slices.IndexFunc(f.streams, func(s stream) bool { return s.end == from })
	if i < 0 {
		if len(f.streams) == maxStreams { // forget the oldest
			f.streams = f.streams[1:]
		}
		f.streams = append(f.streams, stream{hi, min(hi-from, firstAhead)})
		return hi
	}
	most := min(2*f.streams[i].most, partChunks)
	hi = min(max(hi, from+most), f.present.n)
	f.streams = append(slices.Delete(f.streams, i, i+1), stream{hi, most})
	return hi
}

// bringChunks fetches those of chunks [lo, hi) that are missing, in ranges of up to partChunks, several at a time. It
// calls before and after around each range, from several goroutines.
func (f *File) bringChunks(ctx context.Context, lo, hi int64, before, after func()) error {
	type run struct{ lo, hi int64 }
	next := func() (run, bool) {
		from, to := f.present.missing(lo, hi, partChunks)
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

// bringRun returns once chunks [lo, hi), at most partChunks, are present. It starts a fetch, or waits for the fetches
// of other reads that bring some of them. It fails with the fetch's error, when ctx ends, or with fs.ErrClosed after
// Close.
func (f *File) bringRun(ctx context.Context, lo, hi int64) error {
	for {
		if err := context.Cause(ctx); err != nil {
			return err
		}
		f.mu.Lock()
		from, to := f.present.missing(lo, hi, partChunks)
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

// underWay returns the running fetch that brings chunk from. If there is none it returns nil, and lowers *to to the
// first chunk after from that a running fetch brings. Its caller has locked f.mu.
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

// wait returns the error of the fetch fl when it has ended, or panics as the source has. If ctx ends before, wait
// returns its cause; it cancels the fetch if no other read waits for it.
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
	if fl.panic != nil { // the fetch has ended with ctx
		panic(fl.panic)
	}
	if fl.waiting--; fl.waiting == 0 {
		fl.cancel(err)
		f.forget(fl) // another read begins anew
	}
	return err
}

// forget removes fl from the running fetches, unless another fetch of its first chunk has replaced it. Its caller has
// locked f.mu.
func (f *File) forget(fl *flight) {
	if f.flights[fl.lo] == fl {
		delete(f.flights, fl.lo)
	}
}

// launch starts to fetch chunks [lo, hi) in the background, and returns the fetch. Its caller has locked f.mu.
func (f *File) launch(lo, hi int64) *flight {
	ctx, cancel := context.WithCancelCause(f.life)
	fl := &flight{lo: lo, hi: hi, cancel: cancel, done: make(chan struct{})}
	f.flights[lo] = fl
	f.running.Go(func() error {
		defer cancel(nil)
		markDurable := f.runFlight(ctx, fl)
		markDurable() // no read waits for this
		return nil
	})
	return fl
}

// runFlight fetches the chunks of fl, and wakes the reads that wait, with the error or the source's panic. If no read
// waits, it panics itself. The caller calls markDurable: see fetch.
func (f *File) runFlight(ctx context.Context, fl *flight) (markDurable func()) {
	markDurable = func() {}
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
	markDurable, fl.err = f.fetch(ctx, fl.lo, fl.hi)
	return markDurable
}

// parts are buffers of partBytes, for one fetch each.
var parts = sync.Pool{New: func() any { return new([partBytes]byte) }}

// fetch reads the missing ones of chunks [lo, hi) from the source, and writes them to the data file, under a lock
// against other processes. The caller then calls markDurable, also after an error. It syncs the chunks to disk, notes
// them in the map file for other processes, and unlocks.
func (f *File) fetch(ctx context.Context, lo, hi int64) (markDurable func(), err error) {
	unlock, err := lockRange(ctx, f.mapFile, headerBytes+lo, hi-lo)
	if err != nil {
		return func() {}, err
	}
	defer func() {
		if markDurable == nil { // for an error, or a panic of the source
			unlock()
			markDurable = func() {}
		}
	}()
	if err := f.reload(lo, hi); err != nil { // another process may have been here
		return nil, err
	}
	buf := parts.Get().(*[partBytes]byte)
	defer parts.Put(buf)
	for from, to := f.present.missing(lo, hi, hi-lo); from < to && err == nil; from, to = f.present.missing(from, hi, hi-lo) {
		err = f.fetchRun(ctx, buf, from, to)
	}
	return func() {
		defer unlock()
		f.mark(lo, hi)
	}, err
}

// fetchRun reads chunks [from, to) from the source into buf, writes them to the data file, and notes that they are
// present. If the write fails, it makes f cache nothing more, and returns errFull.
func (f *File) fetchRun(ctx context.Context, buf *[partBytes]byte, from, to int64) error {
	off := from * ChunkBytes
	b := buf[:min(to*ChunkBytes, f.opts.Size)-off]
	if err := f.get(ctx, b, off); err != nil {
		return err
	}
	if _, err := f.data.WriteAt(b, off); err != nil {
		return f.stopCaching(err)
	}
	for i := from; i < to; i++ {
		f.present.add(i)
	}
	return nil
}

// stopCaching makes f cache nothing more, because of err, and tells Options.Full so at the first call. It returns
// errFull with the first such error.
func (f *File) stopCaching(err error) error {
	if f.full.CompareAndSwap(nil, &err) && f.opts.Full != nil {
		f.opts.Full(err)
	}
	return fmt.Errorf("%w: %w", errFull, *f.full.Load())
}

// mark syncs the data file to disk, and then notes in the map file those of chunks [lo, hi) that are present. It does
// nothing if no other File may read them: the source told no version. After an error f caches nothing more.
func (f *File) mark(lo, hi int64) {
	var present []int64
	for i := lo; i < hi; i++ {
		if f.present.has(i) {
			present = append(present, i)
		}
	}
	if len(present) == 0 || !f.trustsMap() {
		return
	}
	err := f.disk.commit()
	for len(present) > 0 && err == nil { // one write for each range of consecutive chunks
		n := 1
		for n < len(present) && present[n] == present[0]+int64(n) {
			n++
		}
		_, err = f.mapFile.WriteAt(bytes.Repeat([]byte{1}, n), headerBytes+present[0])
		present = present[n:]
	}
	if err != nil {
		f.stopCaching(err) // the bytes stay for this process
	}
}

// committer makes what has been written durable: one sync serves all who wait for one.
type committer struct {
	sync func() error

	begun atomic.Int64 // syncs
	run   sync.Mutex   // held by a sync, and for err
	err   error        // of the latest
}

// commit returns the error of a sync that began after the call of commit. Callers that wait at once share one sync.
func (c *committer) commit() error {
	before := c.begun.Load()
	c.run.Lock()
	defer c.run.Unlock()
	if c.begun.Load() == before { // else one began while this call waited for the lock
		c.begun.Add(1)
		c.err = c.sync()
	}
	return c.err
}

// Fill fetches all missing chunks. Before each fetch it waits a while for reads that wait for bytes. progress, if set,
// is called with the number of bytes that are present, by one goroutine at a time.
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
	return f.bringChunks(ctx, 0, f.present.n, giveWay, report)
}

// Fill looks every giveWayStep whether reads still wait. It waits giveWayMost for them: a source
// that never rests must not keep it from ending.
const (
	giveWayStep = 5 * time.Millisecond
	giveWayMost = time.Second
)
