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

// targetShare is the bytes of a piece that belong to one target.
type targetShare struct {
	target        Target
	paddingBefore uint64 // bytes of the piece between the share before and this one
	targetAt      uint64 // where it begins in the target
	size          uint64 // in bytes
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

// New returns an empty Plan for reading at a rate; 0 does not limit it.
func New(bytesPerSecond uint64) *Plan {
	p := &Plan{maxPiece: maxPiece}
	if bytesPerSecond > 0 { // pieces of 1/32 s, within limits, for a steady rate
		p.maxPiece = min(max(bytesPerSecond/32, minPiece), maxPiece)
		p.limiter = newLimiter(bytesPerSecond, p.maxPiece)
	}
	return p
}

// NewUnlimited returns an empty Plan whose pieces are as long as the files' ranges allow. They are for listing, and too long for
// Read.
func NewUnlimited() *Plan { return &Plan{maxPiece: 1 << 62} }

// Add appends n bytes at off of a mapped file to the plan's pieces. It leaves out bytes that
// earlier calls have added: formats may have one tensor inside another.
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

// AddTarget appends n bytes at off of a file that is not mapped to the plan's pieces. Read reads them into the memory of t.
func (p *Plan) AddTarget(f File, off, n uint64, t Target) { p.add(f, byteRange{off, off + n}, t) }

// add appends the bytes s of f to the last piece, and to new ones where that is full or cannot be extended. t is nil
// for a mapped file; else each piece gets a share for t. It adds the bytes, and those of padding before them, to p.Total.
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

// pieceToExtend returns the piece to which bytes of f from off on are added. It returns the last piece if bytes of f at off can
// follow it and it is not full. hasTargets says whether that piece must have shares of targets, or must have none. Otherwise it
// appends and returns a new, empty piece.
func (p *Plan) pieceToExtend(f File, off uint64, hasTargets bool) *Piece {
	if n := len(p.Pieces); n > 0 {
		last := &p.Pieces[n-1]
		isSameKind := last.File == f && (len(last.shares) > 0) == hasTargets
		if isSameKind && Adjacent(f, last.Off+last.N, off) && off-last.Off < p.maxPiece {
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

// insert adds the bytes of s to the set. It returns the ranges of s that were not in it, ascending, or nil if all were.
func (l *byteSet) insert(s byteRange) (fresh []byteRange) {
	if s.off >= s.end {
		return nil
	}
	// The ranges i to j-1 of the set overlap or touch s. They and s become one range, joined.
	i, _ := slices.BinarySearchFunc(*l, s.off, func(x byteRange, off uint64) int { return cmp.Compare(x.end, off) })
	j := i
	joined, comparedEnd := s, s.off // the bytes of s before comparedEnd are in the set or in fresh
	for ; j < len(*l) && (*l)[j].off <= s.end; j++ {
		x := (*l)[j]
		if comparedEnd < x.off {
			fresh = append(fresh, byteRange{comparedEnd, x.off})
		}
		comparedEnd = max(comparedEnd, x.end)
		joined = byteRange{min(joined.off, x.off), max(joined.end, x.end)}
	}
	if comparedEnd < s.end {
		fresh = append(fresh, byteRange{comparedEnd, s.end})
	}
	*l = slices.Replace(*l, i, j, joined)
	return fresh
}

// newLimiter returns a limiter that lets bytesPerSecond through on average. It begins without a burst. Later it makes up for
// at most a quarter of a second without requests, or for maxRequest bytes if that is more. maxRequest is the most bytes of a
// request.
func newLimiter(bytesPerSecond, maxRequest uint64) *rate.Limiter {
	burst := int(min(max(bytesPerSecond/4, maxRequest), math.MaxInt32))
	l := rate.NewLimiter(rate.Limit(bytesPerSecond), burst)
	l.AllowN(time.Now(), burst) // a limiter begins with a full burst
	return l
}

// wait waits until the limiter lets n bytes through, which are no more than p.maxPiece. It fails with the cause of ctx if that
// ends first. Limiter.WaitN would fail at once if ctx had a deadline before that time.
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
