package layouttest

import (
	"cmp"
	"slices"
	"testing"

	"github.com/tensormap/tensormap/layout"
)

// CheckIndex checks the promises of the index of a file with the bytes data. Every tensor is
// found by its name. No other has that name. It takes as many bytes as its type and shape say, lies
// in the file, and nothing overlaps.
func CheckIndex(t testing.TB, ix *layout.Index, data layout.Bytes) {
	t.Helper()
	if ix.Size != uint64(len(data)) {
		t.Errorf("an index of %d bytes, not %d", ix.Size, len(data))
	}
	claims := slices.Clone(ix.Sections) // and tensors
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
		claim := layout.Section{Name: "tensor " + name, Offset: x.Offset, Size: x.Stored}
		if !layout.Within(x.Offset, x.Stored, data.Size()) {
			t.Errorf("%+v leaves the file of %d bytes", claim, len(data))
		}
		if !x.Alias {
			claims = append(claims, claim)
		}
	}
	slices.SortFunc(claims, func(a, b layout.Section) int { return cmp.Compare(a.Offset, b.Offset) })
	end := uint64(0)
	for _, s := range claims {
		if s.Size > 0 && s.Offset < end || !layout.Within(s.Offset, s.Size, data.Size()) {
			t.Errorf("%+v leaves the file of %d bytes, or overlaps what ends at %d", s, len(data), end)
		}
		end = max(end, s.Offset+s.Size)
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
