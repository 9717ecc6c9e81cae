// Package content has the bytes of one tensor's elements, wherever and however they are stored: in a mapped file, behind a
// reader, compressed, packed, in a cache. A [Content] is made once, when a tensor is first touched. Its readers
// do not ask what it is.
//
// Methods touch mapped memory: their callers run them under [mmapio.Guard].
package content

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"math"

	"github.com/tensormap/tensormap/internal/parallel"
	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/loader/internal/cache"
	"github.com/tensormap/tensormap/loader/internal/file"
	"github.com/tensormap/tensormap/mmapio"
)

// Content is bytes of known number. Its methods may be called concurrently. contenttest.Run tests an implementation.
type Content interface {
	Size() uint64
	// View returns the n bytes at off without copying, or nil if only ReadAt has them. They may have to be
	// fetched and verified first.
	View(ctx context.Context, env Env, off, n uint64) ([]byte, error)
	// ReadAt fills p with the bytes from off on, or fails. Callers have tried View, which may have them in a cache.
	ReadAt(ctx context.Context, env Env, p []byte, off uint64) error
	// Probe reads the last byte of what is stored. sizeIsSure is true if that proves that all other bytes exist too: memory
	// for all may then be taken at once. Otherwise a server or a file may claim any size, and memory is taken as bytes arrive.
	Probe(ctx context.Context) (sizeIsSure bool, err error)
	Cost() Cost
}

// Env is what one call carries down in addition to its context. It is passed by value.
type Env struct {
	// Pins keep in the cache what the call puts there: for the call's lease, or for the call alone. With nil the cache may
	// evict between two reads what both need, so that it is made twice.
	Pins *cache.Pins
}

// Cost tells how a Content is best read.
type Cost struct {
	ReadBytes uint64 // how many bytes one read of many should have; 0 if View has them all
	OnlyWhole bool   // a part costs as much as the whole
	MayWait   bool   // reading may wait for a network
}

// InPlace reports whether the bytes are in memory, mapped or not: View has them.
func (c Cost) InPlace() bool { return c.ReadBytes == 0 }

// ShortReads reports whether a short read costs no more than its bytes: View has them, and nothing has to be fetched first.
func (c Cost) ShortReads() bool { return c.InPlace() && !c.MayWait }

// LargeReads reports whether few large reads cost less than many short ones: each is a request, or decrypts blocks.
func (c Cost) LargeReads() bool { return c.MayWait || c.ReadBytes >= RemoteRead }

// How many bytes one read should have: by a system call; of a compressed tensor in memory, which ReadAt decompresses on all cores; and by
// a request, or from encrypted blocks.
const (
	LocalRead  = 1 << 20
	LZ4Read    = 4 << 20
	RemoteRead = 16 << 20
)

// Stored is Length bytes at Off of a file.
type Stored struct {
	*file.File
	Off, Length uint64
	Large       bool // ReadAt reads them in few large requests, and View never has them
}

// Size returns the number of bytes.
func (s *Stored) Size() uint64 { return s.Length }

// View returns the n bytes at off without copying, by the file's View. It returns nil without an error for Large bytes, even of a mapped
// file, and for a file that is not in memory. The caller then uses ReadAt. It fails if the bytes leave the file, or if fetching or
// verifying them does.
func (s *Stored) View(ctx context.Context, _ Env, off, n uint64) ([]byte, error) {
	if s.Large {
		return nil, nil
	}
	return s.File.View(ctx, s.Off+off, n)
}

// ReadAt fills p with the bytes from off on, which lie within Length. It fails if the file's ReadAt does.
func (s *Stored) ReadAt(ctx context.Context, _ Env, p []byte, off uint64) error {
	return s.File.ReadAt(ctx, p, s.Off+off)
}

// Probe makes sure that the last byte exists. sizeIsSure is as in [file.File.Probe].
func (s *Stored) Probe(ctx context.Context) (sizeIsSure bool, err error) {
	return s.File.Probe(ctx, s.Off, s.Length)
}

// Cost says how to read the bytes. ReadBytes is 0 if View has them: their file is in memory and they are not Large. For Large or remote
// bytes it is RemoteRead, and reading may wait for a network. For other bytes it is LocalRead.
func (s *Stored) Cost() Cost {
	switch {
	case s.InPlace() && !s.Large:
		return Cost{MayWait: s.Fetches()}
	case s.Large || s.Remote():
		return Cost{ReadBytes: RemoteRead, MayWait: true}
	}
	return Cost{ReadBytes: LocalRead}
}

// Memory is bytes at hand.
type Memory []byte

// Size returns the number of bytes.
func (m Memory) Size() uint64 { return uint64(len(m)) }

// View returns the n bytes at off, or an error if they leave m.
func (m Memory) View(_ context.Context, _ Env, off, n uint64) ([]byte, error) {
	return layout.Bytes(m).Slice(off, n)
}

// ReadAt copies the bytes from off on to p, or returns an error if m has too few.
func (m Memory) ReadAt(_ context.Context, _ Env, p []byte, off uint64) error {
	b, err := layout.Bytes(m).Slice(off, uint64(len(p)))
	copy(p, b)
	return err
}

// Probe reports true, since m has all its bytes.
func (m Memory) Probe(context.Context) (sizeIsSure bool, err error) { return true, nil }

// Cost tells that View has all bytes.
func (m Memory) Cost() Cost { return Cost{} }

// Limit bounds the memory of one tensor, in bytes.
type Limit uint64

// ErrTooLarge is the error of a Limit.
var ErrTooLarge = errors.New("too large to hold in memory at once")

// Allow returns ErrTooLarge if count elements of size bytes, which is not 0, are more than the limit, else nil.
func (l Limit) Allow(count, size uint64) error {
	if limit := min(uint64(l), math.MaxInt); count > limit/size {
		return fmt.Errorf("%w: %d × %d bytes, more than %d; Dequantize, DequantizeRows, Values and WriteTo need no such memory",
			ErrTooLarge, count, size, limit)
	}
	return nil
}

// Read fills p with the bytes of c from off on: it copies what View has, or else reads them. It fails if reading does.
func Read(ctx context.Context, env Env, c Content, p []byte, off uint64) error {
	b, err := c.View(ctx, env, off, uint64(len(p)))
	if b == nil && err == nil {
		return c.ReadAt(ctx, env, p, off)
	}
	copy(p, b)
	return err
}

// Bytes returns all bytes of c: a view if c has one, else an aligned copy that is the caller's. If Probe is sure of the size, it allocates
// all memory at once. Otherwise the size may be forged, and it allocates memory as bytes arrive. It fails if reading does, or with
// ErrTooLarge for a copy larger than limit.
func Bytes(ctx context.Context, env Env, c Content, limit Limit) ([]byte, error) {
	b, err := c.View(ctx, env, 0, c.Size())
	if b == nil && err == nil {
		if err = limit.Allow(c.Size(), 1); err == nil {
			b, err = mmapio.Gather(toGather(ctx, env, c))
		}
	}
	return b, err
}

// toGather returns what [mmapio.Gather] copies all bytes of c by: their number, Probe and ReadAt.
func toGather(ctx context.Context, env Env, c Content) (n uint64, probe func() (sizeIsSure bool, err error), read func(dst []byte, at uint64) error) {
	return c.Size(), func() (bool, error) { return c.Probe(ctx) }, func(dst []byte, at uint64) error { return c.ReadAt(ctx, env, dst, at) }
}

// Write writes all bytes of c to w. If c has a view, it writes that by one call. Otherwise it reads the bytes into buffers. All cores read
// at once, unless c is small or wants large reads, as from a server. If c has no bytes, Write calls ReadAt, which may find the tensor
// damaged. It fails if reading or w does.
func Write(ctx context.Context, env Env, c Content, w io.Writer) error {
	size, cost := c.Size(), c.Cost()
	b, err := c.View(ctx, env, 0, size)
	if err != nil {
		return err
	}
	if b != nil {
		_, err := w.Write(b)
		return err
	}
	if size == 0 {
		return c.ReadAt(ctx, env, nil, 0) // for its checks alone
	}
	if cost.LargeReads() || size <= parallel.JobBytes || parallel.Cores() == 1 { // one read after the other
		buf := make([]byte, min(max(cost.ReadBytes, LocalRead), size))
		for off := uint64(0); off < size; {
			b := buf[:min(uint64(len(buf)), size-off)]
			if err := c.ReadAt(ctx, env, b, off); err != nil {
				return err
			}
			if _, err := w.Write(b); err != nil {
				return err
			}
			off += uint64(len(b))
		}
		return nil
	}
	return parallel.WriteInOrder(w, parallel.Jobs(size), func(jobs iter.Seq[*parallel.Job]) {
		for job := range jobs {
			at := job.I * parallel.JobBytes
			b := job.Into[:min(parallel.JobBytes, size-at)]
			job.Done(len(b), c.ReadAt(ctx, env, b, at))
		}
	})
}
