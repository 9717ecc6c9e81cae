package values

import (
	"context"

	"github.com/tensormap/tensormap/loader/internal/content"
)

// Rows is the rows of other values in another order. Nothing is moved: a row is found by its index.
type Rows struct {
	Values
	Cols  uint64   // values in a row, not 0
	Order []uint32 // Order[i] is the position in Values of row i
}

// Elements returns the number of values of all rows.
func (r *Rows) Elements() uint64 { return uint64(len(r.Order)) * r.Cols }

// Read fills dst with the values from element first on. One call of Values.Read reads all rows that follow each other both in r and in
// Values. Read fails if Values.Read does.
func (r *Rows) Read(ctx context.Context, env content.Env, dst []float32, first uint64) error {
	for len(dst) > 0 {
		stored, col := r.storedRow(first), first%r.Cols
		n := min(uint64(len(dst)), r.Cols-col)
		for n < uint64(len(dst)) && col == 0 && r.storedRow(first+n) == stored+n/r.Cols { // the next row follows in Values too
			n = min(uint64(len(dst)), n+r.Cols)
		}
		if err := r.Values.Read(ctx, env, dst[:n], stored*r.Cols+col); err != nil {
			return err
		}
		dst, first = dst[n:], first+n
	}
	return nil
}

// storedRow returns the position in Values of the row that has element i of r.
func (r *Rows) storedRow(i uint64) uint64 { return uint64(r.Order[i/r.Cols]) }

// Blocks returns the stored rows of r.Values, with r.Order as their order. A caller that multiplies the stored rows places the products
// by that order. ok is false if r.Values has no stored rows. It fails if r.Values.Blocks does.
func (r *Rows) Blocks(ctx context.Context, env content.Env) (b Blocks, ok bool, err error) {
	b, ok, err = r.Values.Blocks(ctx, env)
	b.Order = r.Order
	return b, ok && err == nil, err
}
