package answer

import (
	"encoding/json"
	"strings"
)

// Value is an element as dump prints it: its shortest text. Its JSON is a number. It is a string that Number of JavaScript takes
// for "NaN", "Infinity", "-Infinity", and for integers of more than 15 digits, which Number rounds.
type Value string

// MarshalJSON encodes v, or null if it is empty. It never fails.
func (v Value) MarshalJSON() ([]byte, error) {
	const exact = 15 // digits that a float64 holds
	switch digits := strings.TrimLeft(string(v), "-"); {
	case v == "":
		return []byte("null"), nil
	case v == "NaN":
	case strings.HasSuffix(digits, "Inf"):
		v = Value(strings.TrimPrefix(string(v[:1]), "+") + "Infinity")
	case len(digits) <= exact || strings.ContainsAny(digits, ".e"):
		return []byte(v), nil
	}
	return json.Marshal(string(v))
}

// UnmarshalJSON decodes what MarshalJSON encodes. It fails if b is no number, string or null.
func (v *Value) UnmarshalJSON(b []byte) error {
	var text json.Number
	if err := json.Unmarshal(b, &text); err == nil {
		*v = Value(text)
		return nil
	}
	return json.Unmarshal(b, (*string)(v))
}
