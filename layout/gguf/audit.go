package gguf

import (
	"slices"
	"unicode/utf8"

	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/layout/findings"
)

// Checksums returns none: the format has none.
func (f *File) Checksums(layout.Input) ([]layout.Checksum, error) { return nil, nil }

// Audit fails a file whose metadata cannot be read. It warns of files that ggml's own reader
// would refuse, of text that is not UTF-8, and of bytes that belong to nothing.
func (f *File) Audit(in layout.Input) []layout.Finding {
	a := audit{findings.New(layout.GGUF), f}
	a.keys(in)
	a.tensors()
	a.order()
	a.gaps()
	return a.All()
}

type audit struct {
	findings.List
	file *File
}

// keys fails values that cannot be read. It warns of keys and values that ggml refuses, and of text that is not
// UTF-8.
func (a *audit) keys(in layout.Input) {
	k := &a.file.keys
	for i := range k.kvs {
		key := k.key(i)
		at, _ := k.value(i)
		if slices.ContainsFunc(key, func(c byte) bool { return c >= utf8.RuneSelf }) {
			a.Warn(at, "key", layout.ErrInvalid, "%s is not ASCII", layout.Quote(key))
		}
		v, _, err := a.file.Get(in, string(key))
		a.Fail(err)
		if _, ok := v.([]any); ok {
			a.Warn(at, "value", layout.ErrInvalid, "key %s: an array of arrays, which ggml refuses", layout.Quote(key))
		}
		if n, bad := badText(v); bad > 0 {
			a.Warn(at, "value", layout.ErrInvalid, "key %s: %d of %d strings are not valid UTF-8", layout.Quote(key), bad, n)
		}
	}
}

// badText counts the strings of a value and the strings that are not UTF-8.
func badText(v any) (n, bad int) {
	list, _ := v.([]string)
	if text, ok := v.(string); ok {
		list = []string{text}
	}
	for _, s := range list {
		if !utf8.ValidString(s) {
			bad++
		}
	}
	return len(list), bad
}

// tensors warns of names and ranks that ggml refuses, and of shapes in the metadata that no tensor can have.
func (a *audit) tensors() {
	align := a.file.index.Align
	if align < minAlign || align > maxAlign {
		a.Warn(0, keyAlignment, layout.ErrInvalid, "%d is not from %d to %d, as writers have it", align, minAlign, maxAlign)
	}
	for i := range a.file.index.Tensors {
		t := &a.file.index.Tensors[i]
		if len(t.Name) > MaxName {
			a.Warn(t.Offset, "name", layout.ErrInvalid, "tensor %s: %d bytes, and ggml takes fewer than %d", layout.Quote(t.Name), len(t.Name), MaxName+1)
		}
		original := a.file.originals[string(t.Name)]
		switch {
		case original == nil && len(t.Shape) > MaxDims:
			a.Warn(t.Offset, "n_dimensions", layout.ErrInvalid, "tensor %s: %d, and ggml takes up to %d", layout.Quote(t.Name), len(t.Shape), MaxDims)
		case original != nil && !slices.Equal(original, t.Shape):
			a.Warn(t.Offset, "dimensions", layout.ErrInvalid,
				"tensor %s: stored as %v, and %s says %v, which has other elements or no whole blocks of %v in a row",
				layout.Quote(t.Name), t.Shape, layout.Quote(append([]byte(keyOriginal), t.Name...)), original, t.DType)
		}
	}
}

// order warns of tensors with offsets that ggml refuses: it wants each to begin at the aligned end of the one before it in the table.
func (a *audit) order() {
	var first *layout.Tensor
	strays, wanted := 0, uint64(0)
	end := a.file.data
	for i := range a.file.index.Tensors {
		t := &a.file.index.Tensors[i]
		if t.Offset != end {
			if strays++; strays == 1 {
				first, wanted = t, end
			}
		}
		end = alignUp(t.Offset+t.Stored, a.file.index.Align)
	}
	if strays > 0 {
		a.Warn(first.Offset, "offset", layout.ErrInvalid, "%d of %d tensors do not begin where ggml demands; the first is %s, at %d and not %d",
			strays, len(a.file.index.Tensors), layout.Quote(first.Name), first.Offset, wanted)
	}
}

// gaps warns of bytes between tensors, or behind the last, that are more than padding.
func (a *audit) gaps() {
	ix := a.file.index
	end := alignUp(a.Gaps(ix, ix.Align), ix.Align)
	if end < ix.Size {
		a.Warn(end, "tensor_data", layout.ErrInvalid, "%d bytes lie behind the last tensor", ix.Size-end)
	}
}
