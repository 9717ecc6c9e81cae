//go:build unix && !linux

package mmapio

import (
	"errors"

	"golang.org/x/sys/unix"
)

var kernelAdvice = map[Advice]int{
	Normal:     unix.MADV_NORMAL,
	Sequential: unix.MADV_SEQUENTIAL,
	Random:     unix.MADV_RANDOM,
	WillNeed:   unix.MADV_WILLNEED,
	DontNeed:   unix.MADV_DONTNEED,
}

func populate([]byte) error { return errors.ErrUnsupported }

func resident(_ []byte, lo, hi uint64) (count uint64, err error) { return 0, errors.ErrUnsupported }

func tellsResidency(fd int, owner uint32) bool { return false }
