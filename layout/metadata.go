package layout

import "iter"

// Metadata holds the keys and values with which a file describes its model, in the order of the
// file. Values are
//
//   - from JSON: nil, bool, string, [json.Number] (so that no digit is lost), Metadata and []any
//   - from typed formats: bool, string, the sized integers and floats of Go, slices of one such type,
//     and [Blob]
//
// Metadata is memory of its own and stays valid after the model is closed.
type Metadata []Entry

// Blob is bytes of a file that metadata carries as it is, such as the model of a
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
	at := make(map[string]int, len(*m)+len(add)) // positions by key
	for i, e := range *m {
		if _, twice := at[e.Key]; !twice {
			at[e.Key] = i
		}
	}
	for _, e := range add {
		if i, ok := at[e.Key]; ok {
			(*m)[i].Value = e.Value
		} else {
			at[e.Key] = len(*m)
			*m = append(*m, e)
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
