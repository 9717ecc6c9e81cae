package layout

import (
	"bytes"
	"encoding/json"
	"fmt"
	"iter"
	"math"
)

// Metadata is what a file says about its model: keys and values in the order of the
// file. Values are
//
//   - from JSON: nil, bool, string, [json.Number] (so that no digit is lost), []any, Metadata
//   - from typed formats: bool, string, the sized integers and floats of Go, and slices of these
//
// Metadata is memory of its own and stays valid after the model is closed.
type Metadata []Entry

// Entry is one key of Metadata and its value.
type Entry struct {
	Key   string
	Value any
}

// Get finds a value by its key, and further keys into nested objects.
func (m Metadata) Get(key string, nested ...string) (any, bool) {
	for _, e := range m {
		if e.Key != key {
			continue
		}
		if len(nested) == 0 {
			return e.Value, true
		}
		inner, ok := e.Value.(Metadata)
		if !ok {
			return nil, false
		}
		return inner.Get(nested[0], nested[1:]...)
	}
	return nil, false
}

// Set replaces the value of key, or adds the key at the end.
func (m *Metadata) Set(key string, value any) {
	for i := range *m {
		if (*m)[i].Key == key {
			(*m)[i].Value = value
			return
		}
	}
	*m = append(*m, Entry{key, value})
}

// All iterates over keys and values in the order of the file.
func (m Metadata) All() iter.Seq2[string, any] {
	return func(yield func(string, any) bool) {
		for _, e := range m {
			if !yield(e.Key, e.Value) {
				return
			}
		}
	}
}

// MarshalJSON writes the object with its keys in order. Floats that JSON cannot hold
// are written as the strings "NaN", "Infinity" and "-Infinity".
func (m Metadata) MarshalJSON() ([]byte, error) {
	var buf bytes.Buffer
	if err := writeJSON(&buf, m); err != nil {
		return nil, err
	}
	return buf.Bytes(), nil
}

func writeJSON(buf *bytes.Buffer, v any) error {
	switch v := v.(type) {
	case Metadata:
		buf.WriteByte('{')
		for i, e := range v {
			if i > 0 {
				buf.WriteByte(',')
			}
			if err := writeJSON(buf, e.Key); err != nil {
				return err
			}
			buf.WriteByte(':')
			if err := writeJSON(buf, e.Value); err != nil {
				return err
			}
		}
		buf.WriteByte('}')
		return nil
	case []any:
		return writeArray(buf, v)
	case []uint8: // which encoding/json takes for a blob, and writes in base64
		return writeArray(buf, v)
	case []float32:
		return writeArray(buf, v)
	case []float64:
		return writeArray(buf, v)
	case float32:
		return writeFloat(buf, float64(v), v)
	case float64:
		return writeFloat(buf, v, v)
	}
	return encodeJSON(buf, v)
}

func writeArray[T any](buf *bytes.Buffer, v []T) error {
	buf.WriteByte('[')
	for i := range v {
		if i > 0 {
			buf.WriteByte(',')
		}
		if err := writeJSON(buf, v[i]); err != nil {
			return err
		}
	}
	buf.WriteByte(']')
	return nil
}

func writeFloat(buf *bytes.Buffer, f float64, v any) error {
	switch {
	case math.IsNaN(f):
		v = "NaN"
	case math.IsInf(f, 1):
		v = "Infinity"
	case math.IsInf(f, -1):
		v = "-Infinity"
	}
	return encodeJSON(buf, v)
}

func encodeJSON(buf *bytes.Buffer, v any) error {
	enc := json.NewEncoder(buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return fmt.Errorf("metadata value of type %T: %w", v, err)
	}
	buf.Truncate(buf.Len() - 1) // Encode ends every value with a newline
	return nil
}
