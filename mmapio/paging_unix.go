//go:build unix && !linux

package mmapio

import "errors"

const hugePage = -1 // no such advice

func populate([]byte) error { return errors.ErrUnsupported }

func resident(_ []byte, lo, hi uint64) (count uint64, err error) { return 0, errors.ErrUnsupported }

func tellsResidency(fd int, owner uint32) bool { return false }
