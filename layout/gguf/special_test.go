package gguf

import (
	"testing"

	"github.com/tensormap/tensormap/layout"
)

// splitFile is a file of one tensor, with what it says about a split.
func splitFile(say func(*assembler), keys uint64) layout.Bytes {
	var a assembler
	a.header(1, keys)
	say(&a)
	a.tensor("a", 0, 0, 1)
	return a.data(4)
}

// The first key's value begins at 24 + 8 + len(key) + 4.
func TestSplitKeys(t *testing.T) {
	u16 := func(key string, v uint16) func(*assembler) {
		return func(a *assembler) { a.key(key, TypeUint16); a.u16(v) }
	}
	i32 := func(key string, v int32) func(*assembler) {
		return func(a *assembler) { a.key(key, TypeInt32); a.u32(uint32(v)) }
	}
	for name, c := range map[string]struct {
		keys  []func(*assembler)
		split bool
		field string // of the error, if there is one
		at    uint64
	}{
		"last of three":       {[]func(*assembler){u16("split.count", 3), u16("split.no", 2), i32("split.tensors.count", 1)}, true, "", 0},
		"one file":            {[]func(*assembler){u16("split.count", 1), u16("split.no", 0), i32("split.tensors.count", 1)}, false, "", 0},
		"merged":              {[]func(*assembler){u16("split.count", 0)}, false, "", 0},
		"no count":            {[]func(*assembler){u16("split.no", 2)}, false, "", 0},
		"no number":           {[]func(*assembler){u16("split.count", 2), i32("split.tensors.count", 1)}, false, "split.no", 47},
		"no tensors":          {[]func(*assembler){u16("split.count", 2), u16("split.no", 0)}, false, "split.tensors.count", 47},
		"beyond the last":     {[]func(*assembler){u16("split.no", 3), u16("split.count", 3), i32("split.tensors.count", 1)}, false, "split.no", 44},
		"too few tensors":     {[]func(*assembler){i32("split.tensors.count", 0), u16("split.no", 0), u16("split.count", 3)}, false, "split.tensors.count", 55},
		"negative":            {[]func(*assembler){i32("split.tensors.count", -1), u16("split.no", 0), u16("split.count", 3)}, false, "split.tensors.count", 55},
		"of the wrong type":   {[]func(*assembler){i32("split.count", 2)}, false, "split.count", 43},
		"number of the wrong": {[]func(*assembler){i32("split.no", 2)}, false, "split.no", 40},
	} {
		b := splitFile(func(a *assembler) {
			for _, key := range c.keys {
				key(a)
			}
		}, uint64(len(c.keys)))
		f, err := Decode(b, nil)
		if c.field != "" {
			t.Log(name, err)
			format.CheckError(t, err, layout.ErrInvalid, c.field, c.at, "")
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		no, count, tensors, ok := f.Split()
		if ok != c.split || ok && (no != 2 || count != 3 || tensors != 1) {
			t.Errorf("%s: %d, %d, %d, %t", name, no, count, tensors, ok)
		}
	}
}
