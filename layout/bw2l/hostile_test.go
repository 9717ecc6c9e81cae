package bw2l_test

import (
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/tensormap/tensormap/internal/test/testmode"
	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/layout/bw2l"
	"github.com/tensormap/tensormap/layout/internal/layouttest"
)

func TestTruncated(t *testing.T) {
	for _, x := range format.Fixtures(t) {
		needed := len(x.Data)
		if f, err := bw2l.Decode(x.Data, nil); err == nil && len(f.Sections) > 0 {
			last := f.Sections[len(f.Sections)-1]
			needed = int(last.Offset + last.Size)
		}
		for n, cut := range layouttest.Prefixes(x.Data) {
			if f := format.Use(t, cut); f != nil && n < needed {
				t.Errorf("%s: the first %d of %d bytes are a file", x.Name, n, len(x.Data))
			}
		}
	}
}

// TestCorrupted writes bytes and integers that hurt over all that is there, counts, lengths
// and sizes among it.
func TestCorrupted(t *testing.T) {
	for _, name := range []string{"libw2l-v1", "libw2l-v2", "empties1", "empties2", "odd"} { // small, and of all kinds
		for _, width := range []int{1, 8} {
			for _, damaged := range layouttest.Overwritten(format.Read(t, name), width, layouttest.Extremes(width)...) {
				format.Use(t, damaged)
			}
		}
	}
}

// What a byte of a file may cost in an index, and in metadata. The index takes 23, and under
// the race detector, which makes small allocations larger, 29.
const (
	indexPerByte    = 32
	metadataPerByte = 16
)

// TestBoundedAllocation makes sure that no field, whatever it says, makes Decode allocate
// more than a few times the file.
func TestBoundedAllocation(t *testing.T) {
	bound := layouttest.Bound{PerByte: indexPerByte, Fixed: 8 << 10}
	for _, name := range []string{"v1", "v2", "empties1", "odd"} {
		values := []uint64{math.MaxInt8, math.MaxInt16, math.MaxInt32, math.MaxUint64}
		for _, damaged := range layouttest.Overwritten(format.Read(t, name), 8, values...) {
			bound.Check(t, name, len(damaged), func() { bw2l.Decode(damaged, nil) })
		}
	}
}

// worst are files of as many of the smallest records as there can be.
var worst = map[string]func(n int) layout.Bytes{
	"arrays of version 1": func(n int) layout.Bytes {
		return file(1, section("layers", "layers", layers(layer1("", 1, 0, slices.Repeat([]string{array("i8", 0, nil, "")}, n)...))))
	},
	"arrays of version 2": func(n int) layout.Bytes {
		return file(2, section("layers", "layers", layers(layer2("", slices.Repeat([]string{array("i8", 0, []uint64{}, "")}, n)...))))
	},
	"layers of version 1": func(n int) layout.Bytes {
		return file(1, section("layers", "layers", layers(slices.Repeat([]string{layer1("", 1, 0)}, n)...)))
	},
	"layers of version 2": func(n int) layout.Bytes {
		return file(2, section("layers", "layers", layers(slices.Repeat([]string{layer2("")}, n)...)))
	},
	"layers of one array": func(n int) layout.Bytes {
		return file(2, section("layers", "layers", layers(slices.Repeat([]string{layer2("", array("i8", 0, []uint64{}, ""))}, n)...)))
	},
	"sections":        func(n int) layout.Bytes { return file(1, numbered(n, "x", "")...) },
	"empty texts":     func(n int) layout.Bytes { return file(1, numbered(n, "utf8", "")...) },
	"empty objects":   func(n int) layout.Bytes { return file(1, numbered(n, "keyval", "")...) },
	"array sections":  func(n int) layout.Bytes { return file(1, numbered(n, "array", array("i8", 0, nil, ""))...) },
	"layers sections": func(n int) layout.Bytes { return file(1, numbered(n, "layers", layers())...) },
	"keys": func(n int) layout.Bytes {
		var pairs strings.Builder
		for i := range n {
			pairs.WriteString(str8(base128(i)) + str64(""))
		}
		return file(1, section("flags", "keyval", pairs.String()))
	},
	"one key": func(n int) layout.Bytes {
		return file(1, section("flags", "keyval", strings.Repeat(str8("")+str64(""), n)))
	},
	"no UTF-8": func(n int) layout.Bytes {
		return file(1, section("flags", "keyval", strings.Repeat(str8("")+str64("\xff"), n)))
	},
}

func numbered(n int, kind, data string) []string {
	all := make([]string, n)
	for i := range all {
		all[i] = section(base128(i), kind, data)
	}
	return all
}

// base128 is a number in few characters of ASCII, none of them NUL.
func base128(i int) (s string) {
	for ; i > 0; i /= 127 {
		s += string(rune(1 + i%127))
	}
	return s
}

func TestAllocationOfSmallRecords(t *testing.T) {
	testmode.Sequential(t)
	for name, make := range worst {
		data := make(50_000)
		var f *bw2l.File
		perByte := uint64(indexPerByte)
		if name == "layers of version 2" {
			perByte = 14 // 16 zeros are one, and a file has them for nothing
		}
		layouttest.Bound{PerByte: perByte}.Check(t, name, len(data), func() { f = format.MustDecode(t, data) })
		layouttest.Bound{PerByte: metadataPerByte, Fixed: 8 << 20}.Check(t, name+": metadata", len(data), func() {
			if _, err := f.Metadata(data); err != nil {
				t.Error(err)
			}
		})
		layouttest.Bound{PerByte: metadataPerByte, Fixed: 8 << 20}.Check(t, name+": audit", len(data), func() { f.Audit(data) })
	}
}
