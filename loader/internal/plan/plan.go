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
	// Align returns the alignment that the file promises its tensors. Neighbours are fewer bytes apart.
	Align() uint64
	// Wrap adds the file's name to an error.
	Wrap(err error) error
}

// Range is bytes of one file that are read at once: of a mapped file, or whole tensors of another file and the padding between them.
type Range struct {
	File     File
	Off, N   uint64
	Tensors  []int  // the numbers that AddTensor was called with; none if the file is mapped
	Resident uint64 // bytes of a mapped file that are in memory, as FindResident has found
}

// Plan lists ranges in the order of Add and AddTensor. Bytes that follow a range in its file, but
// for padding, extend that range.
type Plan struct {
	Ranges   []Range
	Total    uint64 // bytes of all ranges
	MaxRange uint64 // the most bytes of a range, unless one tensor is larger

	limiter *rate.Limiter    // of reading, or nil
	covered map[File]byteSet // of mapped files
}

const (
	maxRange = 16 << 20
	minRange = 64 << 10
)

// New returns an empty Plan for reading at this rate. A rate of 0 does not limit it.
func New(bytesPerSecond uint64) *Plan {
	p := &Plan{MaxRange: maxRange, covered: make(map[File]byteSet)}
	if bytesPerSecond > 0 { // for a steady rate, ranges that take 1/32 s each, within limits
		p.MaxRange = min(max((bytesPerSecond/32)&^(minRange-1), minRange), maxRange) // a multiple of minRange: whole encrypted blocks
		burst := int(min(max(bytesPerSecond/4, p.MaxRange), math.MaxInt32))          // what it makes up for after a time without requests
		p.limiter = rate.NewLimiter(rate.Limit(bytesPerSecond), burst)
		p.limiter.AllowN(time.Now(), burst) // a limiter begins with a full burst
	}
	return p
}

// Add appends n bytes at off of a mapped file to the plan's ranges. It leaves out bytes that earlier calls have added, since a format may
// have one tensor inside another. It cuts more than p.MaxRange bytes into several ranges.
func (p *Plan) Add(f File, off, n uint64) {
	const hasTensors = false // Range.Tensors is for files that are not mapped
	covered := p.covered[f]
	added := covered.insert(byteRange{off, off + n})
	p.covered[f] = covered
	for _, fresh := range added {
		for fresh.off < fresh.end {
			last := p.rangeToExtend(f, fresh.off, 1, hasTensors)
			p.extend(last, min(fresh.end, last.Off+p.MaxRange))
			fresh.off = last.Off + last.N
		}
	}
}

// AddTensor appends the tensor with the given number: n bytes at off of a file that is not mapped. Without bytes it appends nothing.
func (p *Plan) AddTensor(f File, off, n uint64, number int) {
	const hasTensors = true // Range.Tensors gets the number
	if n > 0 {
		last := p.rangeToExtend(f, off, n, hasTensors)
		last.Tensors = append(last.Tensors, number)
		p.extend(last, off+n)
	}
}

// extend makes last end at the offset end of its file.
func (p *Plan) extend(last *Range, end uint64) {
	more := end - (last.Off + last.N)
	last.N += more
	p.Total += more
}

// rangeToExtend returns the range to which n bytes of f from off on are added. If hasTensors is true, that range must have tensors, and
// otherwise it must have none. rangeToExtend returns the last range if that is such a range of f, and if the bytes can follow it without
// exceeding p.MaxRange. Otherwise it appends and returns a new, empty range.
func (p *Plan) rangeToExtend(f File, off, n uint64, hasTensors bool) *Range {
	if k := len(p.Ranges); k > 0 {
		last := &p.Ranges[k-1]
		isSameKind := last.File == f && (last.Tensors != nil) == hasTensors
		if isSameKind && Adjacent(f, last.Off+last.N, off) && off-last.Off+n <= p.MaxRange {
			return last
		}
	}
	p.Ranges = append(p.Ranges, Range{File: f, Off: off})
	return &p.Ranges[len(p.Ranges)-1]
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

// insert adds the bytes of s to the set. It returns the ranges of s that were not in the set before, in ascending order. It returns nil if
// all bytes of s were in it, or if s is empty.
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

// Wait waits until the plan's rate lets n bytes through, which are no more than p.MaxRange. It fails with the cause of ctx if that
// ends first. Limiter.WaitN would fail at once if ctx had a deadline before that time.
func (p *Plan) Wait(ctx context.Context, n uint64) error {
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
