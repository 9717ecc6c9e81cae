package layout

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"strconv"
	"unicode/utf8"
)

// MarshalJSON writes the object with its keys in order. It writes floats that JSON cannot hold
// as the strings "NaN", "Infinity" and "-Infinity".
func (m Metadata) MarshalJSON() ([]byte, error) { return EncodeJSON(m) }

// EncodeJSON encodes v on one line, a value of metadata as [Metadata.MarshalJSON] does.
func EncodeJSON(v any) ([]byte, error) {
	b, err := appendJSON(nil, v)
	if err != nil {
		return nil, err
	}
	return b, nil
}

// appendJSON appends to b what EncodeJSON returns.
func appendJSON(b []byte, v any) ([]byte, error) {
	switch v := v.(type) {
	case Metadata:
		return appendObject(b, v)
	case string:
		return appendString(b, v), nil
	case Blob:
		if v == nil {
			return append(b, "null"...), nil
		}
		return append(base64.StdEncoding.AppendEncode(append(b, '"'), v), '"'), nil
	case float32:
		return appendFloat(b, float64(v), v)
	case float64:
		return appendFloat(b, v, v)
	case json.Number:
		if v != "" && v[0] != '"' && json.Valid([]byte(v)) {
			return append(b, v...), nil
		}
		return appendStandard(b, v)
	case nil:
		return append(b, "null"...), nil
	}
	switch x := reflect.ValueOf(v); x.Kind() {
	case reflect.Bool:
		return strconv.AppendBool(b, x.Bool()), nil
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return strconv.AppendInt(b, x.Int(), 10), nil
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return strconv.AppendUint(b, x.Uint(), 10), nil
	case reflect.Slice:
		return appendArray(b, x)
	}
	return appendStandard(b, v)
}

// appendObject appends md as an object.
func appendObject(b []byte, md Metadata) (_ []byte, err error) {
	b = append(b, '{')
	for i, e := range md {
		if i > 0 {
			b = append(b, ',')
		}
		if b, err = appendJSON(append(appendString(b, e.Key), ':'), e.Value); err != nil {
			return b, err
		}
	}
	return append(b, '}'), nil
}

// appendArray appends a slice of any type. A nil slice is null, as in encoding/json; bytes are numbers.
func appendArray(b []byte, list reflect.Value) (_ []byte, err error) {
	if list.IsNil() {
		return append(b, "null"...), nil
	}
	b = append(b, '[')
	for i := range list.Len() {
		if i > 0 {
			b = append(b, ',')
		}
		if b, err = appendJSON(b, list.Index(i).Interface()); err != nil {
			return b, err
		}
	}
	return append(b, ']'), nil
}

// appendFloat appends v, a float of any size, whose value is f.
func appendFloat(b []byte, f float64, v any) ([]byte, error) {
	switch {
	case math.IsNaN(f):
		return append(b, `"NaN"`...), nil
	case math.IsInf(f, 1):
		return append(b, `"Infinity"`...), nil
	case math.IsInf(f, -1):
		return append(b, `"-Infinity"`...), nil
	case f == 0 && math.Signbit(f):
		return append(b, "-0.0"...), nil // -0 is an integer to many readers, which have one zero only
	}
	return appendStandard(b, v)
}

// appendString appends s between quotes, with the escapes of encoding/json but the escapes for HTML. Bytes that are not UTF-8 become \ufffd.
func appendString(b []byte, s string) []byte {
	if isPlainJSON(s) {
		return append(append(append(b, '"'), s...), '"')
	}
	b, _ = appendStandard(b, s) // no string fails
	return b
}

// isPlainJSON reports whether s stands in JSON as it is, between quotes.
func isPlainJSON(s string) bool {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c >= utf8.RuneSelf || c == '"' || c == '\\' {
			return false
		}
	}
	return true
}

// appendStandard appends what encoding/json writes, without escapes for HTML.
func appendStandard(b []byte, v any) ([]byte, error) {
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(v); err != nil {
		return b, fmt.Errorf("metadata value of type %T: %w", v, err)
	}
	return append(b, bytes.TrimSuffix(text.Bytes(), []byte("\n"))...), nil // Encode ends every value with one
}
