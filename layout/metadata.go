package layout

import (
	"bytes"
	"encoding/json"
	"fmt"
	"iter"
	"math"
	"slices"
)

// Metadata holds the keys and values with which a file describes its model, in the order of the
// file. Values are
//
//   - from JSON: nil, bool, string, [json.Number] (so that no digit is lost), Metadata, and
//     arrays: []string or []json.Number if all elements are of that kind, else []any, which
//     an empty array is too
//   - from typed formats: bool, string, the sized integers and floats of Go, slices of these,
//     and [Blob]
//
// Metadata is memory of its own and stays valid after the model is closed.
type Metadata []Entry

// Blob is a piece of a file that metadata carries as it is, such as the model of a
// tokenizer. In JSON it is base64.
type Blob []byte

// Entry is one key of Metadata and its value.
type Entry struct {
	Key   string
	Value any
}

// Get returns the value of a key, or of further keys in nested objects.
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

// Merge sets all keys of add, as Set does one by one, in time that grows with the number
// of keys of both. An object replaces an object whole.
func (m *Metadata) Merge(add Metadata) {
	keys := newKeyIndex(len(*m) + len(add))
	for i, e := range *m {
		keys.findOrEnter((*m)[:i], e.Key)
	}
	for _, e := range add {
		if i, ok := keys.findOrEnter(*m, e.Key); ok {
			(*m)[i].Value = e.Value
		} else {
			*m = append(*m, e)
		}
	}
}

// keyIndex finds keys of Metadata while it is put together.
type keyIndex struct {
	names *Names // nil if the keys are so few that looking at each is faster
}

// newKeyIndex makes an index of up to n keys.
func newKeyIndex(n int) keyIndex {
	const few = 16
	if n <= few {
		return keyIndex{}
	}
	return keyIndex{NewNames(n)}
}

// findOrEnter returns the position of key in m. If m has no such key, it enters the key at the
// end of m, where the caller appends it.
func (x keyIndex) findOrEnter(m Metadata, key string) (i int, ok bool) {
	if x.names == nil {
		i = slices.IndexFunc(m, func(e Entry) bool { return e.Key == key })
		return i, i >= 0
	}
	hash := HashName(key)
	for p := x.names.Probe(hash); ; {
		i, ok := p.Next()
		if !ok {
			x.names.Add(hash, len(m))
			return len(m), false
		}
		if m[i].Key == key {
			return i, true
		}
	}
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

// MarshalJSON writes the object with its keys in order. It writes floats that JSON cannot hold
// as the strings "NaN", "Infinity" and "-Infinity".
func (m Metadata) MarshalJSON() ([]byte, error) { return EncodeJSON(m) }

// EncodeJSON encodes v on one line, a value of metadata as [Metadata.MarshalJSON] does.
func EncodeJSON(v any) ([]byte, error) {
	var buf bytes.Buffer
	if err := writeJSON(&buf, v); err != nil {
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
	case Blob:
		return encodeJSON(buf, []byte(v))
	case []any:
		return writeArray(buf, v)
	case []uint8: // encoding/json would write base64
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
	case f == 0 && math.Signbit(f):
		buf.WriteString("-0.0") // -0 is an integer to many readers, which have one zero only
		return nil
	}
	return encodeJSON(buf, v)
}

func encodeJSON(buf *bytes.Buffer, v any) error {
	enc := json.NewEncoder(buf)
	enc.SetEscapeHTML(false) // which would only be harder to read
	if err := enc.Encode(v); err != nil {
		return fmt.Errorf("metadata value of type %T: %w", v, err)
	}
	buf.Truncate(buf.Len() - 1) // Encode ends every value with a newline
	return nil
}
