package sparse

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"sync"
	"time"

	"github.com/tensormap/tensormap/internal/parallel"
)

// errFull ends a fetch whose bytes the disk does not take.
var errFull = errors.New("the cache takes no more")

// Fetch writes the n bytes at off to the data file, as far as they are missing there. It may also fetch bytes before and after them. cached
// is true if the data file then has the n bytes. cached is false without an error if the data file takes no more, as on a full disk. Fetch
// returns io.ErrUnexpectedEOF for bytes beyond the file's end. After Finish has found a wrong digest, Fetch returns that error. It also
// fails if the source does, or when ctx ends.
func (f *File) Fetch(ctx context.Context, off, n int64) (cached bool, err error) {
	lo, hi, ok := f.chunksOf(off, n)
	if !ok {
		return false, io.ErrUnexpectedEOF
	}
	if err := f.checksumErr.Load(); err != nil {
		return false, *err
	}
	from, _ := f.presentChunks.missing(lo, hi, 1) // a range of 1 chunk: only the first missing one matters
	if from == hi {
		return true, nil
	}
	if f.stopErr.Load() != nil {
		return false, nil
	}
	f.waitingReads.Add(1) // Fill lets this read go first
	defer f.waitingReads.Add(-1)
	if lo == 0 { // fetch the whole head of the file in one go
		hi = max(hi, min(HeadBytes/ChunkBytes, f.presentChunks.end))
	}
	err = f.eachMissing(from, f.endOfReadAhead(from, hi), func(lo, hi int64) error { return f.makePresent(ctx, lo, hi) })
	if errors.Is(err, errFull) {
		return false, nil
	}
	return err == nil, err
}

// maxSeries is the maximum number of series of reads that a File remembers. maxFirstLimit is the maximum that the first read of a series
// counts for, in chunks.
const (
	maxSeries     = 8
	maxFirstLimit = 4
)

// endOfReadAhead returns the end of the range to fetch for a read that lacks chunks [from, hi). It makes few fetches of many small reads in
// order. Reads are a series if each begins at the chunk where the one before has ended. The first read of a series fetches up to hi, and
// gets a limit of hi-from chunks, at most maxFirstLimit. Each later read gets twice the limit of the read before, at most maxFetchChunks.
// It fetches at least that many chunks, up to the file's end. f.limits has the limit of the latest read of each series, by the chunk where
// that read ended.
func (f *File) endOfReadAhead(from, hi int64) int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	limit := min(hi-from, maxFirstLimit)
	if before, ok := f.limits[from]; ok {
		delete(f.limits, from)
		limit = min(2*before, maxFetchChunks)
		hi = min(max(hi, from+limit), f.presentChunks.end)
	}
	for other := range f.limits {
		if len(f.limits) < maxSeries {
			break
		}
		delete(f.limits, other) // any one
	}
	f.limits[hi] = limit
	return hi
}

// fetchesOfRead is the maximum number of fetches that one read runs at once.
const fetchesOfRead = 8

// eachMissing calls fetch for the missing chunks of [lo, hi), in ranges of up to maxFetchChunks chunks. Up to fetchesOfRead goroutines call
// fetch at a time. eachMissing returns the error of the first range that fails.
func (f *File) eachMissing(lo, hi int64, fetch func(lo, hi int64) error) error {
	type chunkRange struct{ lo, hi int64 }
	next := func() (chunkRange, bool) { // parallel.ForEach calls it for one goroutine at a time
		from, to := f.presentChunks.missing(lo, hi, maxFetchChunks)
		lo = to
		return chunkRange{from, to}, from < to
	}
	return parallel.ForEach(fetchesOfRead, next, func(r chunkRange) error { return fetch(r.lo, r.hi) })
}

// makePresent returns once chunks [lo, hi), at most maxFetchChunks, are present. It fetches the missing chunks, unless another read is
// fetching them: then it waits. If that other read is canceled, a waiting read fetches instead. makePresent returns fs.ErrClosed after
// Close. It also fails if the source does, or when ctx ends.
func (f *File) makePresent(ctx context.Context, lo, hi int64) error {
	for {
		if err := context.Cause(ctx); err != nil {
			return err
		}
		first, end := f.rangeToFetch(lo, hi)
		if first == end {
			return nil
		}
		if err := f.fetchOnce(ctx, first, end); err != nil {
			return err
		}
	}
}

// fetchOnce returns once chunks [first, end) are fetched. rangeToFetch has made them a running fetch, which one read runs, and which others
// wait for. If the read that runs it is canceled, another read does. The last read that leaves removes the running fetch. fetchOnce fails
// with the error of fetchRange, or when ctx ends.
func (f *File) fetchOnce(ctx context.Context, first, end int64) error {
	defer func() { // also if the source panics
		f.mu.Lock()
		defer f.mu.Unlock()
		fetch := f.runningFetches[first]
		if fetch.reads--; fetch.reads == 0 {
			delete(f.runningFetches, first)
		}
	}()
	_, err := f.fetches.Do(ctx, first, func(ctx context.Context) (struct{}, error) { return struct{}{}, f.fetchRange(ctx, first, end) })
	return err
}

// runningFetch is a fetch of the chunks before end. reads is the number of reads that want its chunks.
type runningFetch struct {
	end   int64
	reads int
}

// rangeToFetch returns the chunks [first, end) of a running fetch that includes the first missing chunk of [lo, hi). If there is such a
// fetch already, rangeToFetch returns its chunks. Otherwise it makes one, which begins with the missing chunk and ends before the chunks of
// any other. The caller then counts as a read of the fetch, and must call fetchOnce. If no chunk is missing, first and end are equal, and
// the caller must not.
func (f *File) rangeToFetch(lo, hi int64) (first, end int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	first, end = f.presentChunks.missing(lo, hi, maxFetchChunks)
	if first == end {
		return first, end
	}
	for otherFirst, other := range f.runningFetches {
		if otherFirst <= first && first < other.end {
			other.reads++
			return otherFirst, other.end
		}
		if first < otherFirst {
			end = min(end, otherFirst)
		}
	}
	f.runningFetches[first] = &runningFetch{end: end, reads: 1}
	return first, end
}

// fetchRange fetches the missing chunks of [first, end). It locks these chunks against other processes meanwhile. A goroutine in the
// background then syncs the chunks to disk, marks them in the map, and unlocks. fetchRange fails with errFull if the data file cannot be
// written, and with fs.ErrClosed after Close. It also fails if the map cannot be read, if the source does, or when ctx ends.
func (f *File) fetchRange(ctx context.Context, first, end int64) error {
	f.fetching.RLock()
	defer f.fetching.RUnlock()
	if f.fetchCtx.Err() != nil {
		return fs.ErrClosed
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(f.fetchCtx, func() { cancel(fs.ErrClosed) })()
	unlock, err := lockRange(ctx, f.mapFile, headerBytes+first, end-first)
	if err == nil {
		defer f.marking.Go(func() error { // also if the source panics
			defer unlock()
			f.recordInMap(first, end)
			return nil // no read waits for it
		})
		err = f.fetchMissing(ctx, first, end)
	}
	if err != nil && ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// fetchBuffers has buffers of maxFetchBytes bytes, for one fetch each.
var fetchBuffers = sync.Pool{New: func() any { return new([maxFetchBytes]byte) }}

// fetchMissing reads the missing chunks of [lo, hi) from the source, and writes them to the data file. The caller has locked these chunks,
// at most maxFetchChunks. If the data file cannot be written, fetchMissing makes f cache nothing more, and returns errFull. It also fails
// if the marks of other processes cannot be read, or if Options.Fetch or CheckFetched does.
func (f *File) fetchMissing(ctx context.Context, lo, hi int64) error {
	buf := fetchBuffers.Get().(*[maxFetchBytes]byte)
	defer fetchBuffers.Put(buf)
	if _, err := f.readMarks(lo, hi); err != nil { // another process may have fetched some meanwhile
		return err
	}
	for {
		from, to := f.presentChunks.missing(lo, hi, hi-lo)
		if from == to {
			return nil
		}
		off := from * ChunkBytes
		b := buf[:min(to*ChunkBytes, f.opts.Size)-off]
		if err := f.CheckFetched(f.opts.Fetch(ctx, b, off)); err != nil {
			return err
		}
		if _, err := f.data.WriteAt(b, off); err != nil {
			return f.stopCaching(err)
		}
		for i := from; i < to; i++ {
			f.presentChunks.add(i)
		}
	}
}

// stopCaching makes f cache nothing more, because of err. The first call also calls Options.OnFull with err. stopCaching returns errFull
// together with the err of the first call.
func (f *File) stopCaching(err error) error {
	if f.stopErr.CompareAndSwap(nil, &err) && f.opts.OnFull != nil {
		f.opts.OnFull(err)
	}
	return fmt.Errorf("%w: %w", errFull, *f.stopErr.Load())
}

// recordInMap marks in the map the present chunks of [lo, hi), so that other Files can read them. It first syncs the data file to disk. The
// mark of chunk i is the byte 1 at headerBytes+i. recordInMap writes only the bytes of the present chunks: another fetch may mark others
// meanwhile. It does nothing if adoptVersion returns false. After an error it calls stopCaching.
func (f *File) recordInMap(lo, hi int64) {
	var present []int64
	for i := lo; i < hi; i++ {
		if f.presentChunks.has(i) {
			present = append(present, i)
		}
	}
	if len(present) == 0 || !f.adoptVersion() {
		return
	}
	err := f.sync()
	for _, i := range present { // they are synced; another fetch may have added others meanwhile
		if err == nil {
			_, err = f.mapFile.WriteAt([]byte{1}, headerBytes+i)
		}
	}
	if err != nil {
		f.stopCaching(err) // the bytes stay for this process
	}
}

// sync syncs the data file to disk, and returns the error of that. The sync begins after the call: an earlier one may lack the caller's
// writes. Calls that wait at the same time share one sync.
func (f *File) sync() error {
	f.mustSync.Store(true)
	f.syncMu.Lock()
	defer f.syncMu.Unlock()
	if f.mustSync.Swap(false) {
		f.syncErr = f.syncData()
	}
	return f.syncErr
}

// Fill fetches all missing chunks. Before each fetch it waits, for up to maxWait, until no read waits for bytes. progress may be nil. Fill
// calls it with the number of bytes that are present and the file's size, from one goroutine at a time. Fill fails with errFull if the data
// file cannot be written. It also fails if the source does, or when ctx ends.
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
	if why := f.stopErr.Load(); why != nil && f.Have() < f.opts.Size {
		return fmt.Errorf("%w: %w", errFull, *why)
	}
	return f.eachMissing(0, f.presentChunks.end, func(lo, hi int64) error {
		for end := time.Now().Add(maxWait); f.waitingReads.Load() > 0 && time.Now().Before(end) && ctx.Err() == nil; {
			time.Sleep(waitStep)
		}
		err := f.makePresent(ctx, lo, hi)
		if err == nil {
			report()
		}
		return err
	})
}

// Fill looks every waitStep whether reads still wait, for at most maxWait: reads that never pause must not keep it from ending.
const (
	waitStep = 5 * time.Millisecond
	maxWait  = time.Second
)
