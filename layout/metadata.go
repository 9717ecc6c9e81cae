package layout

import (
	"iter"
	"slices"
)

// Metadata holds the keys and values with which a file describes its model, in the order of the
// file. Values are
//
//   - from JSON: nil, bool, string, [json.Number] (so that no digit is lost), Metadata and []any
//   - from typed formats: bool, string, the sized integers and floats of Go, slices of one such type,
//     and [Blob]
//
// Metadata is memory of its own and stays valid after the model is closed.
type Metadata []Entry

// Blob is a piece of a file that metadata carries as it is, such as the model of a
// tokenizer. In JSON it is base64.
type Blob []byte

// JSONText is a string of metadata that is to be written: the JSON of Value. It is made as it is written.
type JSONText struct{ Value any }

// Object is an object of metadata that is to be written. Its members are made as they are written.
type Object iter.Seq2[string, any]

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
	if len(add) == 0 {
		return // without an index of what is there
	}
	const maxLinear = 16 // as many keys are found faster one by one
	var names *Names
	if n := len(*m) + len(add); n > maxLinear {
		names = NewNames(n)
	}
	for i, e := range *m {
		(*m)[:i].findOrEnter(names, e.Key)
	}
	for _, e := range add {
		if i := m.findOrEnter(names, e.Key); i >= 0 {
			(*m)[i].Value = e.Value
		} else {
			*m = append(*m, e)
		}
	}
}

// findOrEnter returns the position of key in m, which names finds unless it is nil. It returns -1 for a new key, and enters
// it at the end of m, where the caller appends it.
func (m Metadata) findOrEnter(names *Names, key string) int {
	if names == nil {
		return slices.IndexFunc(m, func(e Entry) bool { return e.Key == key })
	}
	return names.Enter(HashName(key), len(m), func(i int) bool { return m[i].Key == key })
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
