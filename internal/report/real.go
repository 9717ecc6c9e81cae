package report

import (
	"math"
	"strconv"
	"strings"
)

// Real is a float64 whose JSON is null if it is NaN, which stands for no value, and a string if it is infinite.
type Real float64

// MarshalJSON encodes r: as a number, as null if it is NaN, as a string if it is infinite. It never fails.
func (r Real) MarshalJSON() ([]byte, error) {
	switch f := float64(r); {
	case math.IsNaN(f):
		return []byte("null"), nil
	case math.IsInf(f, 1):
		return []byte(`"Infinity"`), nil
	case math.IsInf(f, -1):
		return []byte(`"-Infinity"`), nil
	default:
		return strconv.AppendFloat(nil, f, 'g', -1, 64), nil
	}
}

// UnmarshalJSON decodes what MarshalJSON encodes. It fails if b is nothing of that.
func (r *Real) UnmarshalJSON(b []byte) error {
	if string(b) == "null" {
		*r = Real(math.NaN())
		return nil
	}
	f, err := strconv.ParseFloat(strings.Trim(string(b), `"`), 64)
	*r = Real(f)
	return err
}
