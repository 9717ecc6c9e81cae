package bw2l_test

import (
	"encoding/binary"
	"math"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/layout/bw2l"
)

func TestTruncated(t *testing.T) {
	for _, name := range fixtureNames(t) {
		data := fixture(t, name)
		needed := len(data)
		if f, err := bw2l.Decode(data, nil); err == nil && len(f.Sections) > 0 {
			last := f.Sections[len(f.Sections)-1]
			needed = int(last.Offset + last.Size)
		}
		for n := range data {
			if f := tryAll(t, data[:n:n]); f != nil && n < needed {
				t.Errorf("%s: the first %d of %d bytes are a file", name, n, len(data))
			}
		}
	}
}

// TestCorrupted writes bytes and integers that hurt over all that is there, counts, lengths
// and sizes among it.
func TestCorrupted(t *testing.T) {
	integers := []uint64{0, 1, math.MaxInt32, math.MaxUint32, 1 << 63, math.MaxUint64}
	for _, name := range []string{"libw2l-v1", "libw2l-v2", "empties1", "empties2", "odd"} { // small, and of all kinds
		whole := fixture(t, name)
		for at := range whole {
			data := slices.Clone(whole)
			for _, v := range []byte{0x00, 0x01, 0x7f, 0x80, 0xff} {
				data[at] = v
				tryAll(t, data)
			}
			data[at] = whole[at]
			for _, v := range integers {
				copy(data[at:], binary.LittleEndian.AppendUint64(nil, v))
				tryAll(t, data)
			}
		}
	}
}

// bounds of what a byte of a file may cost.
const (
	indexPerByte    = 24
	metadataPerByte = 24
	fixedCost       = 8 << 10
)

// TestBoundedAllocation makes sure that no field, whatever it says, makes Decode allocate
// more than a few times the file.
func TestBoundedAllocation(t *testing.T) {
	for _, name := range []string{"v1", "v2", "empties1", "odd"} {
		whole := fixture(t, name)
		for at := range whole {
			data := slices.Clone(whole)
			for _, v := range []uint64{math.MaxInt8, math.MaxInt16, math.MaxInt32, math.MaxUint64} {
				copy(data[at:], binary.LittleEndian.AppendUint64(nil, v))
				got := allocated(func() { bw2l.Decode(data, nil) })
				if limit := uint64(indexPerByte*len(data) + fixedCost); got > limit {
					t.Fatalf("%s: %d at %d made Decode allocate %d, more than %d", name, v, at, got, limit)
				}
			}
		}
	}
}

func allocated(do func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	do()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
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
	for name, make := range worst {
		data := make(50_000)
		var f *bw2l.File
		got := float64(allocated(func() { f = mustDecode(t, data) })) / float64(len(data))
		md := float64(allocated(func() {
			if _, err := f.Metadata(data); err != nil {
				t.Error(err)
			}
		})) / float64(len(data))
		audit := float64(allocated(func() { f.Audit(data) })) / float64(len(data))
		t.Logf("%s: a byte of the file costs %.1f in Decode, %.1f in Metadata, %.1f in Audit", name, got, md, audit)
		if got > indexPerByte || md > metadataPerByte || audit > 2*metadataPerByte {
			t.Errorf("%s: more than %d, %d and %d", name, indexPerByte, metadataPerByte, 2*metadataPerByte)
		}
	}
}
