package layouttest

import (
	"cmp"
	"slices"
	"testing"

	"github.com/tensormap/tensormap/layout"
)

// span is a part of a file that something claims.
type span struct {
	off, size uint64
	what      string
}

// CheckIndex checks the promises of the index of a file with the bytes data. Every tensor is
// found by its name. No other has that name. It takes as many bytes as its type and shape say, lies
// in the file, and nothing overlaps.
func CheckIndex(t testing.TB, ix *layout.Index, data layout.Bytes) {
	t.Helper()
	if ix.Size != uint64(len(data)) {
		t.Errorf("an index of %d bytes, not %d", ix.Size, len(data))
	}
	var spans []span
	for _, s := range ix.Sections {
		spans = append(spans, span{s.Offset, s.Size, "section " + s.Name})
	}
	names := make(map[string]bool, len(ix.Tensors))
	for i := range ix.Tensors {
		x := &ix.Tensors[i]
		name := string(x.Name)
		if names[name] || ix.Find(name) != i {
			t.Errorf("tensor %d: %q is not found, or another has its name", i, name)
		}
		names[name] = true
		if !rightSize(x) {
			t.Errorf("tensor %d: %v bytes of %v %v are %v bytes raw", i, x.Stored, x.DType, x.Shape, x.Raw)
		}
		if s := (span{x.Offset, x.Stored, "tensor " + name}); !x.Alias {
			spans = append(spans, s)
		} else if !layout.Within(x.Offset, x.Stored, data.Size()) {
			t.Errorf("%+v leaves the file of %d bytes", s, len(data))
		}
	}
	checkSpans(t, spans, data)
}

// checkSpans fails t if a span leaves data, or two overlap.
func checkSpans(t testing.TB, spans []span, data layout.Bytes) {
	t.Helper()
	for _, s := range spans {
		if !layout.Within(s.off, s.size, data.Size()) {
			t.Errorf("%+v leaves the file of %d bytes", s, len(data))
		}
	}
	spans = slices.DeleteFunc(spans, func(s span) bool { return s.size == 0 })
	slices.SortFunc(spans, func(a, b span) int { return cmp.Compare(a.off, b.off) })
	for i := 1; i < len(spans); i++ { // of spans that overlap some two are neighbours
		if before, s := spans[i-1], spans[i]; before.off+before.size > s.off {
			t.Errorf("%+v and %+v overlap", before, s)
		}
	}
}

// rightSize computes the sizes of a tensor as the formats' tables have them.
func rightSize(x *layout.Tensor) bool {
	n := uint64(1)
	for _, d := range x.Shape {
		n *= uint64(d)
	}
	elems, size := uint64(x.DType.BlockElems()), uint64(x.DType.BlockBytes())
	switch {
	case x.DType == layout.APR_Q8 && n > 0:
		n, elems, size = n+4, 1, 1
	case x.DType == layout.APR_Q4:
		n, elems = (n+31)/32, 1
	}
	right := n%elems == 0 && n/elems*size == x.Raw
	switch x.Encoding {
	case layout.Raw, layout.Swapped:
		return right && x.Stored == x.Raw
	case layout.Protobuf:
		return right && x.Raw/8 <= x.Stored // a byte stands for a number of eight at most
	case layout.LZ4:
		return right && x.Raw/255 <= x.Stored // as far as LZ4 compresses
	}
	return right
}
