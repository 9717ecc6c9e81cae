// Package plan reads many ranges of files in few large requests, at a rate.
package plan

import (
	"cmp"
	"context"
	"math"
	"slices"
	"time"

	"golang.org/x/time/rate"
)

// File is a file to read. The same file is always the same value.
type File interface {
	// Resident returns how many of the n bytes at off of a mapped file are in memory, or errors.ErrUnsupported.
	Resident(off, n uint64) (uint64, error)
	// Warm brings n bytes at off of a mapped file into memory. cold says that some may not be there.
	Warm(ctx context.Context, off, n uint64, cold bool) error
	// Align returns the alignment that the file promises its tensors. Neighbours are fewer bytes apart.
	Align() uint64
	// Fill reads from off on into buffers that lie one behind the other.
	Fill(ctx context.Context, buffers []Padded, off uint64) error
	// Wrap adds the file's name to an error.
	Wrap(err error) error
}

// Padded is memory for the bytes that follow Gap bytes of padding.
type Padded struct {
	Gap uint64
	B   []byte
}

// Target is memory for a range of bytes. Its parts may arrive in any order.
type Target interface {
	// Memory returns memory for n bytes, at bytes after the range begins: nil if they are not
	// needed.
	Memory(at, n uint64) ([]byte, error)
	// Filled is told that b, memory that Memory returned, has its bytes. It waits for nothing once ctx has ended.
	Filled(ctx context.Context, at uint64, b []byte) error
}

// Piece is bytes of one file that are read at once.
type Piece struct {
	File   File
	Off, N uint64

	resident uint64        // bytes of a mapped file that are in memory before anything is read
	shares   []targetShare // the shares of targets; none if the file is mapped
}

// targetShare is the share of a piece that belongs to one target.
type targetShare struct {
	target        Target
	paddingBefore uint64 // bytes of padding before it
	targetAt      uint64 // where it begins in the target
	size          uint64
	memory        []byte // memory for it; nil if it is not needed
}

// Plan lists pieces in the order of Add. A range that follows its predecessor in the file, but
// for padding, shares its piece.
type Plan struct {
	Pieces []Piece
	Total  uint64 // bytes of all pieces

	maxPiece uint64            // bytes of a piece
	limiter  *rate.Limiter     // of reading, or nil
	covered  map[File]*byteSet // of mapped files
}

const (
	maxPiece = 16 << 20
	minPiece = 64 << 10
)

// New returns a Plan for reading at a rate; 0 does not limit it.
func New(bytesPerSecond uint64) *Plan {
	p := &Plan{maxPiece: maxPiece}
	if bytesPerSecond > 0 { // pieces of 1/32 s, within limits, for a steady rate
		p.maxPiece = min(max(bytesPerSecond/32, minPiece), maxPiece)
		p.limiter = newLimiter(bytesPerSecond, p.maxPiece)
	}
	return p
}

// NewUnlimited returns a Plan that nobody reads by, whose pieces are as large as can be.
func NewUnlimited() *Plan { return &Plan{maxPiece: 1 << 62} }

// Add appends n bytes at off of a mapped file, without the bytes that ranges before them have
// covered: formats may have one tensor inside another.
func (p *Plan) Add(f File, off, n uint64) {
	covered := p.covered[f]
	if covered == nil {
		if p.covered == nil {
			p.covered = make(map[File]*byteSet)
		}
		covered = new(byteSet)
		p.covered[f] = covered
	}
	for _, fresh := range covered.insert(byteRange{off, off + n}) {
		p.add(f, fresh, nil)
	}
}

// AddTarget appends n bytes at off of a file that is not mapped, for t.
func (p *Plan) AddTarget(f File, off, n uint64, t Target) { p.add(f, byteRange{off, off + n}, t) }

// add appends the bytes s of f to the last piece, or to new ones where it is full or ends too far before s. t is nil
// for a mapped file; else each piece notes which bytes are t's.
func (p *Plan) add(f File, s byteRange, t Target) {
	for off := s.off; off < s.end; {
		last := p.pieceToExtend(f, off, t != nil)
		gap := off - (last.Off + last.N) // bytes of padding between
		n := min(s.end, last.Off+p.maxPiece) - off
		if t != nil {
			last.shares = append(last.shares, targetShare{target: t, targetAt: off - s.off, paddingBefore: gap, size: n})
		}
		last.N += gap + n
		p.Total += gap + n
		off += n
	}
}

// pieceToExtend returns the piece to which bytes of f from off on are added: the last one if it ends there or a little
// before, is not full, and has targets as given. Otherwise it appends a new, empty piece.
func (p *Plan) pieceToExtend(f File, off uint64, targets bool) *Piece {
	if n := len(p.Pieces); n > 0 {
		last := &p.Pieces[n-1]
		if last.File == f && (len(last.shares) > 0) == targets && Adjacent(f, last.Off+last.N, off) && off-last.Off < p.maxPiece {
			return last
		}
	}
	p.Pieces = append(p.Pieces, Piece{File: f, Off: off})
	return &p.Pieces[len(p.Pieces)-1]
}

// Adjacent reports whether nothing but padding can lie between offsets end and off of f. Padding is shorter than the
// alignment that f promises, or than 64 bytes if that is more, and at most a page.
func Adjacent(f interface{ Align() uint64 }, end, off uint64) bool {
	return off >= end && off-end < min(max(64, f.Align()), 4096)
}

// byteRange is the bytes of a file from off up to end.
type byteRange struct{ off, end uint64 }

// byteSet is a set of bytes of a file: ascending ranges that neither overlap nor touch.
type byteSet []byteRange

// insert puts the bytes of s into the set. It returns the ranges of s that were not in it, ascending.
func (l *byteSet) insert(s byteRange) (fresh []byteRange) {
	if s.off >= s.end {
		return nil
	}
	// The ranges from i to j-1 overlap or touch s. They and s become one, whole; at is where s is not yet compared.
	i, _ := slices.BinarySearchFunc(*l, s.off, func(x byteRange, off uint64) int { return cmp.Compare(x.end, off) })
	j := i
	whole, at := s, s.off
	for ; j < len(*l) && (*l)[j].off <= s.end; j++ {
		x := (*l)[j]
		if at < x.off {
			fresh = append(fresh, byteRange{at, x.off})
		}
		at = max(at, x.end)
		whole = byteRange{min(whole.off, x.off), max(whole.end, x.end)}
	}
	if at < s.end {
		fresh = append(fresh, byteRange{at, s.end})
	}
	*l = slices.Replace(*l, i, j, whole)
	return fresh
}

// newLimiter returns a limiter that lets bytesPerSecond through on average, and never more since it was made. At most a
// quarter of a second without requests is made up for later. maxRequest is the most bytes of a request.
func newLimiter(bytesPerSecond, maxRequest uint64) *rate.Limiter {
	burst := int(min(max(bytesPerSecond/4, maxRequest), math.MaxInt32))
	l := rate.NewLimiter(rate.Limit(bytesPerSecond), burst)
	l.AllowN(time.Now(), burst) // a limiter begins with a full burst
	return l
}

// wait returns nil once the limiter lets n bytes through, which are no more than p.maxPiece, or the cause of ctx once that
// ends. Limiter.WaitN would fail at once if ctx had a deadline before that time.
func (p *Plan) wait(ctx context.Context, n uint64) error {
	if p.limiter == nil || n == 0 {
		return context.Cause(ctx)
	}
	select {
	case <-time.After(p.limiter.ReserveN(time.Now(), int(n)).Delay()):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
