package mmapio

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"testing"
)

type (
	half  uint16 // element types of users' own
	score float32
)

func f32(b []byte, o binary.ByteOrder) float32 { return math.Float32frombits(o.Uint32(b)) }
func f64(b []byte, o binary.ByteOrder) float64 { return math.Float64frombits(o.Uint64(b)) }

func TestViewAndCopy(t *testing.T) {
	testType(t, func(b []byte, o binary.ByteOrder) int8 { return int8(b[0]) })
	testType(t, func(b []byte, o binary.ByteOrder) uint8 { return b[0] })
	testType(t, func(b []byte, o binary.ByteOrder) int16 { return int16(o.Uint16(b)) })
	testType(t, func(b []byte, o binary.ByteOrder) uint16 { return o.Uint16(b) })
	testType(t, func(b []byte, o binary.ByteOrder) int32 { return int32(o.Uint32(b)) })
	testType(t, func(b []byte, o binary.ByteOrder) uint32 { return o.Uint32(b) })
	testType(t, func(b []byte, o binary.ByteOrder) int64 { return int64(o.Uint64(b)) })
	testType(t, func(b []byte, o binary.ByteOrder) uint64 { return o.Uint64(b) })
	testType(t, f32)
	testType(t, f64)
	testType(t, func(b []byte, o binary.ByteOrder) complex64 { return complex(f32(b, o), f32(b[4:], o)) })
	testType(t, func(b []byte, o binary.ByteOrder) complex128 { return complex(f64(b, o), f64(b[8:], o)) })
	testType(t, func(b []byte, o binary.ByteOrder) half { return half(o.Uint16(b)) })
	testType(t, func(b []byte, o binary.ByteOrder) score { return score(f32(b, o)) })
}

// testType compares View and Copy at every alignment with encoding/binary.
func testType[T Number](t *testing.T, decode func([]byte, binary.ByteOrder) T) {
	size := binary.Size(*new(T))
	align := reflect.TypeFor[T]().Align()
	block := AlignedBytes(64 + 9*size)
	copy(block, noise(len(block)))
	t.Run(fmt.Sprintf("%T", *new(T)), func(t *testing.T) {
		for start := range 64 {
			for count := range 9 {
				b := block[start:][:count*size]
				want := make([]T, count)
				swapped := make([]T, count)
				for i := range want {
					want[i] = decode(b[i*size:], binary.LittleEndian)
					swapped[i] = decode(b[i*size:], binary.BigEndian)
				}

				c, err := Copy[T](b)
				if err != nil || !same(c, want) {
					t.Fatalf("Copy at %d = %v, %v; want %v", start, c, err, want)
				}
				if !bytes.Equal(Bytes(c), b) {
					t.Fatalf("Bytes of the copy at %d differ", start)
				}
				checkView(t, b, want, count > 0 && start%align != 0)

				turned := slices.Clone(b)
				reverseEach(turned, wordSize[T]())
				if c, err := Copy[T](turned); err != nil || !same(c, swapped) {
					t.Fatalf("big-endian %v, %v; want %v", c, err, swapped)
				}
			}
			for short := 1; short < size; short++ {
				_, viewErr := View[T](block[start:][:size+short])
				_, copyErr := Copy[T](block[start:][:size+short])
				if !errors.Is(viewErr, ErrLength) || !errors.Is(copyErr, ErrLength) {
					t.Fatalf("%d bytes: View %v, Copy %v", size+short, viewErr, copyErr)
				}
			}
		}
	})
}

func checkView[T Number](t *testing.T, b []byte, want []T, misaligned bool) {
	t.Helper()
	v, err := View[T](b)
	switch {
	case !littleEndian && binary.Size(*new(T)) > 1:
		if !errors.Is(err, ErrByteOrder) {
			t.Fatalf("View on a big-endian machine: %v", err)
		}
	case misaligned:
		if !errors.Is(err, ErrMisaligned) {
			t.Fatalf("View at %#x: %v", address(b), err)
		}
	case err != nil || !same(v, want):
		t.Fatalf("View at %#x = %v, %v; want %v", address(b), v, err, want)
	case v == nil || cap(v) != len(want):
		t.Fatalf("View of %d elements: nil %v, capacity %d", len(want), v == nil, cap(v))
	case len(v) > 0 && address(rawBytes(v)) != address(b):
		t.Fatal("View copied")
	}
}

// same compares elements, NaN being one value: their bits are compared as bytes.
func same[T Number](a, b []T) bool {
	return slices.EqualFunc(a, b, func(x, y T) bool { return x == y || x != x && y != y })
}

func TestEmptyViews(t *testing.T) {
	for _, b := range [][]byte{nil, {}, make([]byte, 8)[3:3]} {
		c, err := Copy[float64](b)
		if c == nil || len(c) != 0 || err != nil {
			t.Errorf("Copy = %v, %v", c, err)
		}
		if v, err := View[uint8](b); v == nil || len(v) != 0 || err != nil {
			t.Errorf("View = %v, %v", v, err)
		}
		if v, err := View[float64](b); littleEndian && (v == nil || len(v) != 0 || err != nil) {
			t.Errorf("View = %v, %v", v, err)
		}
	}
	if b := Bytes[float32](nil); b == nil || len(b) != 0 {
		t.Errorf("Bytes(nil) = %v", b)
	}
}

func TestBytes(t *testing.T) {
	v := make([]uint32, 2, 5)
	v[0], v[1] = 0x04030201, 0x08070605
	b := Bytes(v)
	if !bytes.Equal(b, []byte{1, 2, 3, 4, 5, 6, 7, 8}) || cap(b) != 8 {
		t.Errorf("Bytes = %v, capacity %d", b, cap(b))
	}
	if b[0] = 9; (v[0] == 0x04030209) != littleEndian {
		t.Errorf("after writing the bytes: %#x", v[0])
	}
	c := []complex64{complex(math.Float32frombits(0x04030201), math.Float32frombits(0x08070605))}
	if b := Bytes(c); !bytes.Equal(b, []byte{1, 2, 3, 4, 5, 6, 7, 8}) {
		t.Errorf("Bytes of a complex = %v", b)
	}
}

func TestByteOrder(t *testing.T) {
	if one := binary.NativeEndian.Uint16([]byte{1, 0}); (one == 1) != littleEndian {
		t.Errorf("littleEndian = %v on a machine that reads 1, 0 as %d", littleEndian, one)
	}
}

func TestAlignedBytes(t *testing.T) {
	dirty := noise(1 << 16) // whatever the allocator reuses
	for _, n := range []int{0, 1, 7, 8, 63, 64, 65, 127, 1000, 32767, 32768, 1 << 20} {
		for range 10 {
			b := AlignedBytes(n)
			if len(b) != n || cap(b) != n || b == nil || !IsAligned(b, 64) {
				t.Errorf("AlignedBytes(%d): length %d, capacity %d, address %#x", n, len(b), cap(b), address(b))
			}
			if !bytes.Equal(b, make([]byte, n)) {
				t.Errorf("AlignedBytes(%d) is not zero", n)
			}
			copy(b, dirty)
		}
	}
	for _, n := range []int{-1, -63, math.MinInt, math.MaxInt, math.MaxInt - 10} {
		if recovered(func() { AlignedBytes(n) }) == nil {
			t.Errorf("AlignedBytes(%d) did not panic", n)
		}
	}
}

func TestIsAligned(t *testing.T) {
	b := AlignedBytes(100)
	for _, tt := range []struct {
		start, align int
		want         bool
	}{{0, 64, true}, {0, 1, true}, {32, 64, false}, {32, 32, true}, {1, 2, false}, {1, 1, true}, {6, 4, false}, {6, 2, true}} {
		if got := IsAligned(b[tt.start:], tt.align); got != tt.want {
			t.Errorf("IsAligned(+%d, %d) = %v", tt.start, tt.align, got)
		}
	}
	if !IsAligned(nil, 64) {
		t.Error("nil is misaligned")
	}
}

func FuzzView(f *testing.F) {
	f.Add([]byte("0123456789abcdef"), uint8(0))
	f.Add([]byte{}, uint8(5))
	f.Fuzz(func(t *testing.T, data []byte, shift uint8) {
		b := AlignedBytes(len(data) + int(shift))[shift:]
		copy(b, data)
		c, copyErr := Copy[uint32](b)
		v, viewErr := View[uint32](b)
		if (copyErr != nil) != (len(data)%4 != 0) {
			t.Fatalf("Copy of %d bytes: %v", len(data), copyErr)
		}
		for i := range c {
			if want := binary.LittleEndian.Uint32(data[4*i:]); c[i] != want {
				t.Fatalf("Copy: element %d is %#x, want %#x", i, c[i], want)
			}
		}
		if viewErr == nil && !slices.Equal(v, c) {
			t.Fatal("View and Copy differ")
		}
	})
}
