package values

import (
	"context"

	"github.com/tensormap/tensormap/loader/internal/content"
)

// Scaled is other values times a factor for each matrix.
type Scaled struct {
	Values
	MatrixSize uint64 // elements that share a factor, not 0
	Factors    func(ctx context.Context, env content.Env) ([]float32, error)
	// WrapError adds the name of the other values to an error about them.
	WrapError func(error) error
}

// Blocks always reports false: package dot knows no factor for each of several matrices in a tensor, and callers use Read.
func (s *Scaled) Blocks(context.Context, content.Env) (b Blocks, ok bool, err error) {
	return b, false, nil
}

// Read fills dst with the values from element first on, each times the factor of its matrix. Factors must return a factor for
// each matrix. Read fails if Factors or reading does.
func (s *Scaled) Read(ctx context.Context, env content.Env, dst []float32, first uint64) error {
	if len(dst) == 0 {
		return nil
	}
	factors, err := s.Factors(ctx, env)
	if err != nil {
		return err
	}
	if err := s.Values.Read(ctx, env, dst, first); err != nil {
		return s.WrapError(err)
	}
	for len(dst) > 0 {
		n, factor := min(uint64(len(dst)), s.MatrixSize-first%s.MatrixSize), factors[first/s.MatrixSize]
		for i := range dst[:n] {
			dst[i] *= factor
		}
		dst, first = dst[n:], first+n
	}
	return nil
}
