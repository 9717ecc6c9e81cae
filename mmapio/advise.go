package mmapio

import (
	"errors"
	"fmt"
	"os"
)

// Advice tells the kernel how a range will be used.
type Advice uint8

const (
	Normal     Advice = iota // take back Sequential or Random
	Sequential               // read far ahead
	Random                   // do not read ahead
	WillNeed                 // start reading the range now
	DontNeed                 // release the range's memory; touching it reads the file again
	HugePage                 // use large pages, see the package comment
)

var adviceNames = [...]string{"normal", "sequential", "random", "will need", "don't need", "huge page"}

// String returns the name of the advice.
func (a Advice) String() string {
	if int(a) < len(adviceNames) {
		return adviceNames[a]
	}
	return fmt.Sprintf("Advice(%d)", uint8(a))
}

// Advise gives the kernel advice about n bytes at off. The range is widened to
// whole pages, but shrunk for DontNeed, so that the neighbours keep theirs
// (locked pages refuse it, except on Windows).
// Where the mapping is not Mapped there is nobody to advise, and nothing
// happens. Advice the kernel does not know is errors.ErrUnsupported.
func (m *Mapping) Advise(a Advice, off, n uint64) error {
	return m.onPages("advise", off, n, nil, func(b *backing, lo, hi uint64) error {
		if a == DontNeed {
			if lo, hi = shrinkToPages(off, n, m.size); lo >= hi {
				return nil
			}
		}
		if err := madvise(b.data[lo:hi], a); err != nil {
			return fmt.Errorf("%v: %w", a, err)
		}
		return nil
	})
}

// Populate reads n bytes at off into memory and maps their pages, so that
// touching them does not wait. A page that cannot be had is a *FaultError.
// Where the mapping is not Mapped nothing happens. On Linux 5.14 and later the
// wait is a system call, which leaves the processor to other goroutines.
func (m *Mapping) Populate(off, n uint64) error {
	return m.onPages("populate", off, n, nil, func(b *backing, lo, hi uint64) error {
		pages := b.data[lo:hi]
		if populate(pages) == nil {
			return nil
		}
		// An older kernel, or a page that cannot be had. The kernel does not
		// say which page; touching them does.
		return Guard(func() error {
			touch(pages)
			return nil
		})
	})
}

// Lock keeps the pages of n bytes at off in memory until Unlock or Close.
// Locks do not count: one Unlock undoes any number of them, and pages shared
// with a neighbouring range are unlocked with it. Systems limit how much may be
// locked. Where the mapping is not Mapped the error is errors.ErrUnsupported.
func (m *Mapping) Lock(off, n uint64) error {
	return m.onPages("lock", off, n, errors.ErrUnsupported, func(b *backing, lo, hi uint64) error { return mlock(b.data[lo:hi]) })
}

// Unlock undoes Lock.
func (m *Mapping) Unlock(off, n uint64) error {
	return m.onPages("unlock", off, n, errors.ErrUnsupported, func(b *backing, lo, hi uint64) error { return munlock(b.data[lo:hi]) })
}

// Resident returns how many of the n bytes at off are in memory, whoever
// read them. The system knows whole pages; only their bytes in the
// range count. Linux tells the truth only to users who own or may write the file,
// and tells others that all of it is resident. For these others, for a mapping
// that is not Mapped, and on other systems, the error is errors.ErrUnsupported.
func (m *Mapping) Resident(off, n uint64) (count uint64, err error) {
	err = m.onPages("resident", off, n, errors.ErrUnsupported, func(b *backing, lo, hi uint64) error {
		all, err := resident(b.data[lo:hi], off-lo, off-lo+n)
		if err == nil && all == n && !b.tellsResidency { // less than all is the truth
			return fmt.Errorf("%w: the file's owner alone may know", errors.ErrUnsupported)
		}
		count = all
		return err
	})
	return count, err
}

var pageSize = uint64(os.Getpagesize())

// onPages runs f on the pages from lo to hi that hold the n bytes at off, if any. If the mapping is not Mapped it returns unmapped instead.
func (m *Mapping) onPages(op string, off, n uint64, unmapped error, f func(b *backing, lo, hi uint64) error) error {
	return m.withBacking(op, off, n, func(b *backing) error {
		switch lo, hi := widenToPages(off, n, m.size); {
		case lo >= hi:
			return nil
		case !m.mapped.Load():
			return unmapped
		default:
			return f(b, lo, hi)
		}
	})
}

// Pages returns the whole pages that hold the n bytes at off, and the offset of the first. Its length is a multiple of the page
// size: behind the end of the file are zeros. It is read-only memory that lives until Close, as of Slice. The error is
// errors.ErrUnsupported where the mapping is not Mapped.
func (m *Mapping) Pages(off, n uint64) (b []byte, at uint64, err error) {
	err = m.onPages("map", off, n, errors.ErrUnsupported, func(live *backing, lo, hi uint64) error {
		b, at = wholePages(live.data[lo:hi]), lo
		return nil
	})
	return b, at, err
}

// widenToPages widens a range within size to whole pages. The file's last page may
// be a part of one: the kernel completes it.
func widenToPages(off, n, size uint64) (lo, hi uint64) {
	if n == 0 {
		return off, off
	}
	return pageFloor(off), min(pageCeil(off+n), size)
}

// shrinkToPages shrinks a range within size to the pages that lie wholly in it.
func shrinkToPages(off, n, size uint64) (lo, hi uint64) {
	if off+n == size {
		return pageCeil(off), size
	}
	return pageCeil(off), pageFloor(off + n)
}

// pageFloor returns off rounded down to a page.
func pageFloor(off uint64) uint64 { return off - off%pageSize }

// pageCeil returns off rounded up to a page.
func pageCeil(off uint64) uint64 { return pageFloor(off + pageSize - 1) }

// touch reads a byte of every page of b, which starts on one. It returns what
// it read, and is not inlined, so that the loads stay.
//
//go:noinline
func touch(b []byte) (sum byte) {
	for at := uint64(0); at < uint64(len(b)); at += pageSize {
		sum ^= b[at]
	}
	return sum
}
