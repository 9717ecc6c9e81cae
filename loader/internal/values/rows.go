package values

import (
	"context"

	"github.com/tensormap/tensormap/loader/internal/content"
)

// Rows is the rows of other values in another order. Nothing is moved: a row is found by its index.
type Rows struct {
	Values
	Cols  uint64
	Order []uint32 // of each row, its position among those of Values
}

func (r *Rows) Elements() uint64 { return uint64(len(r.Order)) * r.Cols }

// Read fills dst with the values from element first on. Rows that follow each other in Values too are read at once. It
// fails if Values does.
func (r *Rows) Read(ctx context.Context, env content.Env, dst []float32, first uint64) error {
	for len(dst) > 0 {
		row, col := uint64(r.Order[first/r.Cols]), first%r.Cols
		n := min(uint64(len(dst)), r.Cols-col)
		for n < uint64(len(dst)) && col == 0 && r.isNextRow(first+n, row+n/r.Cols) {
			n = min(uint64(len(dst)), n+r.Cols)
		}
		if err := r.Values.Read(ctx, env, dst[:n], row*r.Cols+col); err != nil {
			return err
		}
		dst, first = dst[n:], first+n
	}
	return nil
}

// isNextRow reports whether the row that begins at element i of r is the given row of Values.
func (r *Rows) isNextRow(i, row uint64) bool { return uint64(r.Order[i/r.Cols]) == row }

// Blocks returns the stored rows of Values with r.Order, by which the caller puts their products in order. ok is
// false if Values has none.
func (r *Rows) Blocks(ctx context.Context, env content.Env) (b Blocks, ok bool, err error) {
	b, ok, err = r.Values.Blocks(ctx, env)
	b.Order = r.Order
	return b, ok && err == nil, err
}
