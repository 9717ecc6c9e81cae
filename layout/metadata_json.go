package layout

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"iter"
	"math"
	"reflect"
	"strconv"
	"strings"
	"unicode/utf8"
)

// MarshalJSON writes the object with its keys in order. It writes floats that JSON cannot hold
// as the strings "NaN", "Infinity" and "-Infinity".
func (m Metadata) MarshalJSON() ([]byte, error) { return EncodeJSON(m) }

// EncodeJSON encodes v on one line, a value of metadata as [Metadata.MarshalJSON] does.
func EncodeJSON(v any) ([]byte, error) {
	b, err := AppendJSON(nil, v)
	if err != nil {
		return nil, err
	}
	return b, nil
}

// WriteJSON writes what EncodeJSON returns to dst, unless that is nil, and returns the number of its bytes. Errors of dst show when
// it is flushed.
func WriteJSON(dst *bufio.Writer, v any) (n int, err error) {
	b, err := EncodeJSON(v)
	if dst != nil {
		dst.Write(b)
	}
	return len(b), err
}

// AppendJSON appends to b what EncodeJSON returns.
func AppendJSON(b []byte, v any) ([]byte, error) {
	switch v := v.(type) {
	case Metadata:
		return appendObject(b, v.All())
	case Object:
		return appendObject(b, iter.Seq2[string, any](v))
	case string:
		return appendString(b, v), nil
	case JSONText:
		text, err := EncodeJSON(v.Value)
		return appendString(b, string(text)), err
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

// appendObject appends an object with these members.
func appendObject(b []byte, members iter.Seq2[string, any]) (_ []byte, err error) {
	b = append(b, '{')
	start := len(b)
	for key, value := range members {
		if len(b) > start {
			b = append(b, ',')
		}
		if b, err = AppendJSON(append(appendString(b, key), ':'), value); err != nil {
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
		if b, err = AppendJSON(b, list.Index(i).Interface()); err != nil {
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

// appendString appends s between quotes, with the escapes of encoding/json but those for HTML. Bytes that are not UTF-8 become \ufffd.
func appendString(b []byte, s string) []byte {
	b = append(b, '"')
	if PlainJSON(s) {
		return append(append(b, s...), '"')
	}
	const special, letters = "\"\\\b\f\n\r\t", `"\bfnrt`
	for i, r := range s {
		switch c := strings.IndexRune(special, r); {
		case r == utf8.RuneError && !strings.HasPrefix(s[i:], string(r)):
			b = append(b, `\ufffd`...)
		case c >= 0:
			b = append(b, '\\', letters[c])
		case r < ' ', r == '\u2028', r == '\u2029':
			b = fmt.Appendf(b, `\u%04x`, r)
		default:
			b = utf8.AppendRune(b, r)
		}
	}
	return append(b, '"')
}

// PlainJSON reports whether s stands in JSON as it is, between quotes.
func PlainJSON(s string) bool {
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
