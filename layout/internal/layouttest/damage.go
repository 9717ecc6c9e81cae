package layouttest

import (
	"encoding/binary"
	"iter"
	"math"
	"slices"
	"strings"

	"github.com/tensormap/tensormap/internal/test/testmode"
	"github.com/tensormap/tensormap/layout"
)

// Prefixes yields data cut short at every length, each with its length and without capacity beyond it.
func Prefixes(data layout.Bytes) iter.Seq2[int, layout.Bytes] {
	return func(yield func(int, layout.Bytes) bool) {
		for n := range data {
			if !yield(n, data[:n:n]) {
				return
			}
		}
	}
}

// Overwritten yields copies of data in which one number of width bytes, 1 to 8, has another
// value: each of values, at each offset at which it fits. A copy comes with the offset, and
// lasts until the next one.
func Overwritten(data layout.Bytes, width int, values ...uint64) iter.Seq2[int, layout.Bytes] {
	return damaged(data, width, len(values), func(field []byte, i int) {
		var b [8]byte
		binary.LittleEndian.PutUint64(b[:], values[i])
		copy(field, b[:])
	})
}

// Flipped yields copies of data in which one byte differs by the bits of one of masks, like
// the masks of Overwritten. Without masks the byte takes every other value.
func Flipped(data layout.Bytes, masks ...byte) iter.Seq2[int, layout.Bytes] {
	if len(masks) == 0 {
		for m := range math.MaxUint8 {
			masks = append(masks, byte(m+1))
		}
	}
	return damaged(data, 1, len(masks), func(field []byte, i int) { field[0] ^= masks[i] })
}

// damaged yields copies of data in which one field of width bytes is damaged, in the given number of ways each. Under the race detector,
// which finds nothing in decoders, it damages the fields at every 13th offset.
func damaged(data layout.Bytes, width, ways int, damage func(field []byte, way int)) iter.Seq2[int, layout.Bytes] {
	return func(yield func(int, layout.Bytes) bool) {
		work, step := append(layout.Bytes(nil), data...), 1
		if testmode.Races() {
			step = 13
		}
		for at := 0; at+width <= len(data); at += step {
			for way := range ways {
				damage(work[at:at+width], way)
				if !yield(at, work) {
					return
				}
				copy(work[at:], data[at:at+width])
			}
		}
	}
}

// Extremes returns the numbers of width bytes, 1, 2, 4 or 8, at which counts, sizes and offsets go
// wrong: 0, and the ends of signs and words.
func Extremes(width int) []uint64 {
	list, largest := []uint64{0, 1}, uint64(math.MaxUint64)>>(64-8*width)
	if width == 8 {
		list = append(Extremes(4), 1<<32)
	}
	return append(list, largest>>1, largest>>1+1, largest)
}

// Patched returns data with other bytes. patches are pairs of an offset and a string.
func Patched(data layout.Bytes, patches ...any) layout.Bytes {
	data = slices.Clone(data)
	for i := 0; i < len(patches); i += 2 {
		copy(data[patches[i].(int):], patches[i+1].(string))
	}
	return data
}

// Zeros returns n bytes of zero.
func Zeros(n int) string { return strings.Repeat("\x00", n) }
