package convert

import (
	"encoding/json"
	"slices"
	"strconv"

	"github.com/tensormap/tensormap/layout"
)

// object returns the object that m has under key, or nil if there is none. It is m's own: clone it before a change.
func object(m layout.Metadata, key string) layout.Metadata {
	v, _ := m.Get(key)
	o, _ := v.(layout.Metadata)
	return o
}

// textAt returns the string that m has under key or, with nested, under these keys of the objects below key. It returns "" if
// there is none.
func textAt(m layout.Metadata, key string, nested ...string) string {
	v, _ := m.Get(key, nested...)
	s, _ := v.(string)
	return s
}

// setObject sets key to o, or removes key if o is empty.
func setObject(m *layout.Metadata, key string, o layout.Metadata) {
	if len(o) > 0 {
		m.Set(key, o)
	} else {
		*m = slices.DeleteFunc(*m, func(e layout.Entry) bool { return e.Key == key })
	}
}

// without returns a copy of m that lacks keys.
func without(m layout.Metadata, keys ...string) layout.Metadata {
	return slices.DeleteFunc(slices.Clone(m), func(e layout.Entry) bool { return slices.Contains(keys, e.Key) })
}

// merged returns value if value or old is no object. Otherwise it returns a new object with the keys of both. A key in both
// has the value that it has in value.
func merged(old, value any) any {
	add, isObject := value.(layout.Metadata)
	was, wasObject := old.(layout.Metadata)
	if !isObject || !wasObject {
		return value
	}
	both := slices.Clone(was)
	both.Merge(add)
	return both
}

// decimal returns the shortest decimal that reads back as f, a float of 32 or 64 bits.
func decimal(f float64, bits int) json.Number {
	return json.Number(strconv.FormatFloat(f, 'g', -1, bits))
}
