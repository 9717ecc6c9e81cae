package safetensors

import (
	"cmp"
	"slices"

	"github.com/tensormap/tensormap/layout"
)

// finish returns the index once the tensors are known to cover the data.
func (d *decoder) finish() (*layout.Index, error) {
	index, err := d.build.Finish() // has found overlaps
	if err != nil {
		return nil, err
	}
	end := d.end
	if !d.touching {
		if end, err = d.checkTouching(index.Tensors); err != nil {
			return nil, err
		}
	}
	if end != d.data.size {
		return nil, d.spanErrorf(end, "the tensors end at %d of %d bytes of data", end, d.data.size)
	}
	return index, nil
}

// checkTouching makes sure that of the tensors, in the order of their positions, the
// first begins at 0 and each of the others where the one before it ends, which is what
// the reference demands of empty ones too. It returns the end of the last.
func (d *decoder) checkTouching(tensors []layout.Tensor) (end uint64, err error) {
	sorted := make([]*layout.Tensor, len(tensors))
	for i := range tensors {
		sorted[i] = &tensors[i]
	}
	slices.SortFunc(sorted, func(x, y *layout.Tensor) int {
		return cmp.Or(cmp.Compare(x.Offset, y.Offset), cmp.Compare(x.Stored, y.Stored))
	})
	for _, t := range sorted {
		begin := t.Offset - d.data.off
		if begin != end {
			return 0, d.spanErrorf(end, "tensor %s begins at %d, but the one before it ends at %d", layout.Quote(t.Name), begin, end)
		}
		end += t.Stored
	}
	return end, nil
}

func (d *decoder) spanErrorf(at uint64, format string, args ...any) error {
	return layout.Errorf(layout.SafeTensors, d.data.off+at, "data_offsets", layout.ErrInvalid, format, args...)
}
