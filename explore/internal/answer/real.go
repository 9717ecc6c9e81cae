package answer

import (
	"math"
	"strconv"
)

// MarshalJSON encodes r as a number, or as null if it is NaN or infinite. It never fails.
func (r Real) MarshalJSON() ([]byte, error) {
	f := float64(r)
	if math.IsNaN(f) || math.IsInf(f, 0) {
		return []byte("null"), nil
	}
	return strconv.AppendFloat(nil, f, 'g', -1, 64), nil
}

// UnmarshalJSON decodes what MarshalJSON encodes: null becomes NaN. It fails if b is neither null nor a number.
func (r *Real) UnmarshalJSON(b []byte) error {
	if string(b) == "null" {
		*r = Real(math.NaN())
		return nil
	}
	f, err := strconv.ParseFloat(string(b), 64)
	*r = Real(f)
	return err
}
