package mmapio

import (
	"encoding/binary"
	"fmt"
	"math"
	"reflect"
	"slices"
	"unsafe"
)

// But for the system calls of map_windows.go, this is the only file of the package that imports unsafe.

// Number is the element types whose every bit pattern is a value. Booleans
// are not among them: a byte other than 0 and 1 is no bool.
type Number interface {
	~int8 | ~int16 | ~int32 | ~int64 |
		~uint8 | ~uint16 | ~uint32 | ~uint64 |
		~float32 | ~float64 | ~complex64 | ~complex128
}

// alignment is the boundary, in bytes, on which copies start: a cache line,
// and the widest vector register.
const alignment = 64

var littleEndian = binary.NativeEndian.Uint16([]byte{1, 0}) == 1

// View reinterprets b as elements of T without copying. The view has b's
// lifetime and must not be written where b must not; its capacity is its
// length. It fails with ErrLength, ErrByteOrder or ErrMisaligned (by Go's
// alignment of T, which is at most the element's size). A view of no bytes is
// empty, not nil, and never misaligned.
func View[T Number](b []byte) ([]T, error) {
	var t T
	if err := checkViewable(b, int(unsafe.Sizeof(t)), int(unsafe.Alignof(t))); err != nil {
		return nil, err
	}
	if len(b) == 0 {
		return []T{}, nil
	}
	return unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(b))), len(b)/int(unsafe.Sizeof(t))), nil
}

// checkViewable returns the error with which View fails for elements of this size and alignment, or nil.
func checkViewable(b []byte, size, align int) error {
	switch {
	case len(b)%size != 0:
		return fmt.Errorf("%w: %d bytes, %d an element", ErrLength, len(b), size)
	case !littleEndian && size > 1:
		return ErrByteOrder
	case len(b) > 0 && !IsAligned(b, align):
		return fmt.Errorf("%w: address %#x, alignment %d", ErrMisaligned, address(b), align)
	}
	return nil
}

// Copy decodes little-endian elements of T from b, at any alignment and on any
// machine, into memory of the caller's own. It fails with ErrLength only. A
// copy of no bytes is empty, not nil.
func Copy[T Number](b []byte) ([]T, error) {
	size := elementSize[T]()
	if len(b)%size != 0 {
		return nil, checkViewable(b, size, 1)
	}
	v := make([]T, len(b)/size)
	raw := rawBytes(v)
	copy(raw, b)
	if !littleEndian {
		reverseEach(raw, wordSize[T]())
	}
	return v, nil
}

// Bytes returns the elements of v as little-endian bytes: on little-endian
// machines v's own memory, so that writing to either changes both; on
// big-endian machines a copy. The capacity is the length.
func Bytes[T Number](v []T) []byte {
	if littleEndian {
		return rawBytes(v)
	}
	raw := slices.Clone(rawBytes(v))
	reverseEach(raw, wordSize[T]())
	return raw
}

// String returns b as a string without copying. b must never be written again.
func String(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }

// IsAligned reports whether b's first byte lies on a multiple of align, which
// must be positive.
func IsAligned(b []byte, align int) bool {
	return address(b)%uintptr(align) == 0
}

// AlignUp returns b from its first byte on that lies on a multiple of align, a power of two. It returns nil if b has none.
func AlignUp(b []byte, align int) []byte {
	skip := int(-address(b) & uintptr(align-1))
	if skip >= len(b) {
		return nil
	}
	return b[skip:]
}

// Overlap reports whether a and b have bytes in common.
func Overlap(a, b []byte) bool {
	return len(a) > 0 && len(b) > 0 && (address(b)-address(a) < uintptr(len(a)) || address(a)-address(b) < uintptr(len(b)))
}

// AlignedBytes returns n zero bytes of capacity n that start on a 64-byte
// boundary. As make does, it panics if n is negative or too large.
func AlignedBytes(n int) []byte { return Aligned[byte](n) }

// Aligned returns n zero elements, as AlignedBytes does bytes. They are in the machine's
// own order.
func Aligned[T Number](n int) []T {
	size := elementSize[T]()
	if n < 0 || n > (math.MaxInt-alignment)/size {
		panic(fmt.Sprintf("mmapio: Aligned of length %d", n))
	}
	b := make([]byte, n*size+alignment-1)
	b = b[int(-address(b)%alignment):]
	return unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(b))), n)
}

// elementSize returns the size of a T in bytes.
func elementSize[T Number]() int {
	var t T
	return int(unsafe.Sizeof(t))
}

// rawBytes returns v's own bytes in the machine's order.
func rawBytes[T Number](v []T) []byte {
	if len(v) == 0 {
		return []byte{}
	}
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(v))), len(v)*int(unsafe.Sizeof(v[0])))
}

// wordSize returns how many bytes of a T have one order: all of them, or half
// if T is complex.
func wordSize[T Number]() int {
	t := reflect.TypeFor[T]()
	if k := t.Kind(); k == reflect.Complex64 || k == reflect.Complex128 {
		return int(t.Size()) / 2
	}
	return int(t.Size())
}

// reverseEach turns every word of b, whose length is a multiple of word, around.
func reverseEach(b []byte, word int) {
	for w := range slices.Chunk(b, word) {
		slices.Reverse(w)
	}
}

// address returns where b starts. The number is only compared, or handed to
// the kernel for memory that the garbage collector does not manage.
func address(b []byte) uintptr {
	return uintptr(unsafe.Pointer(unsafe.SliceData(b)))
}

// wholePages returns b, which begins a page of a mapping, up to the end of its last page.
func wholePages(b []byte) []byte {
	n := pageCeil(uint64(len(b)))
	return unsafe.Slice(unsafe.SliceData(b), n)[:n:n]
}
