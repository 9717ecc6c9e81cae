package mmapio

import (
	"cmp"
	"fmt"
	"math"
)

// Trusted is the number of bytes of memory that are taken on a file's word. More are taken
// once the file's last byte has been read, and as the bytes arrive.
const Trusted = 16 << 20

const (
	growth   = 4       // times as much memory is taken as has arrived
	multiple = 1 << 16 // elements are a whole number of blocks of any dtype
)

// Gather returns n elements, the first on a 64-byte boundary. read fills dst with the elements from number at on, in their order. If all
// take more than [Trusted] bytes, Gather asks probe whether they are sure to exist, and then takes memory for all at once. Otherwise
// it takes four times as much each time that has been filled. A source that has less than it claims thus costs five times what it
// has, or Trusted. Gather fails if probe or read does, or with ErrTooLarge for more than the machine's memory.
func Gather[T Number](n uint64, probe func() (sure bool, err error), read func(dst []T, at uint64) error) ([]T, error) {
	size := uint64(elementSize[T]())
	sure := n <= Trusted/size
	if !sure {
		var err error
		if sure, err = probe(); err != nil {
			return nil, err
		}
		if n > cmp.Or(Memory(), math.MaxInt)/size {
			return nil, errTooLarge(n, size)
		}
	}
	next := n
	for !sure && next > Trusted/size {
		next = (next + growth*multiple - 1) / (growth * multiple) * multiple
	}
	var all []T
	for at := uint64(0); ; at, next = next, min(n, growth*next) {
		more := take[T](next)
		if more == nil {
			return nil, errTooLarge(n, size)
		}
		copy(more, all)
		all = more
		if err := read(all[at:], at); err != nil {
			return nil, err
		}
		if next == n {
			return all, nil
		}
	}
}

// errTooLarge returns the error that no memory can hold n elements of size bytes.
func errTooLarge(n, size uint64) error { return fmt.Errorf("%w: %d × %d bytes", ErrTooLarge, n, size) }

// take returns memory for n elements, or nil if the address space cannot hold them.
func take[T Number](n uint64) (b []T) {
	defer func() { recover() }() // the runtime's own limit is lower than an int's
	return Aligned[T](int(n))
}
