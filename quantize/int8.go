package quantize

import (
	"fmt"
	"math"

	"github.com/tensormap/tensormap/dequant"
)

// Int8Scale finds the scale with which a tensor becomes int8s: the largest magnitude / 127, or 1 if
// that is zero. The values may come in pieces.
type Int8Scale struct {
	most uint32 // the bits of the largest magnitude, which order as the magnitudes do
}

// Add takes the next values into account.
func (s *Int8Scale) Add(src []float32) {
	for _, x := range src {
		s.most = max(s.most, math.Float32bits(x)&^signBit)
	}
}

// Scale returns the scale for all values added. If a NaN or an infinity is among them, the error wraps
// dequant.ErrNotFinite.
func (s *Int8Scale) Scale() (float32, error) {
	most := math.Float32frombits(s.most)
	if s.most >= infinity {
		return 0, fmt.Errorf("quantize: int8s of a magnitude of %v: %w", most, dequant.ErrNotFinite)
	}
	if scale := most / 127; scale != 0 {
		return scale, nil
	}
	return 1, nil
}

func encodeI8Generic(dst []byte, src []float32, scale float32) {
	for i := range min(len(dst), len(src)) {
		dst[i] = byte(toI8(src[i] / scale))
	}
}

// toI8 rounds half away from zero and clamps to ±127; NaN becomes 0.
func toI8(f float32) int8 {
	switch {
	case -127 < f && f < 127:
		x := float64(f)
		return int8(x + math.Copysign(0.5, x)) // as in roundHalfAway
	case f > 0:
		return 127
	case f < 0:
		return -127
	}
	return 0
}
