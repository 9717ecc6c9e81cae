package quantize

import (
	"fmt"
	"math"

	"github.com/tensormap/tensormap/dequant"
)

// Int8Scale finds the scale with which a tensor becomes int8s: the largest magnitude / 127, or 1 if
// that is zero. Add may be called for one part of the values after the other.
type Int8Scale struct {
	greatest uint32 // the bits of the largest magnitude, which order as the magnitudes do
}

// Add takes the next values into account.
func (s *Int8Scale) Add(src []float32) {
	for _, x := range src {
		s.greatest = max(s.greatest, math.Float32bits(x)&^signBit)
	}
}

// Scale returns the scale for all values added. If a NaN or an infinity is among them, the error wraps
// dequant.ErrNotFinite.
func (s *Int8Scale) Scale() (float32, error) {
	largest := math.Float32frombits(s.greatest)
	if s.greatest >= infinity {
		return 0, fmt.Errorf("quantize: int8s of a magnitude of %v: %w", largest, dequant.ErrNotFinite)
	}
	if scale := largest / 127; scale != 0 {
		return scale, nil
	}
	return 1, nil
}

// encodeI8Generic writes each float divided by scale as toI8 rounds it. It stops at the end of the shorter one.
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
