package jsontext

import (
	"encoding/json"
	"slices"
	"unicode/utf8"

	"github.com/tensormap/tensormap/layout"
)

// Readable reports that what md is written as can be read by Parse with the default limits. It makes no text. It
// reports false if it is in doubt: two keys may be the same, keys are many, or a value is of an unusual type.
func Readable(md layout.Metadata) bool {
	r := reader{hashes: make([]uint64, 0, len(md))}
	members, ok := r.object(layout.Object(md.All()), (*layout.Limits)(nil).WithDefaults().Depth)
	return ok && !tooDense(members, uint32(len(md)), r.text)
}

// reader checks values of metadata. It counts the members of objects as Scanner.skip does.
type reader struct {
	hashes []uint64
	text   uint64 // bytes of JSON, at least
}

// object checks an object within depth levels of nesting.
func (r *reader) object(object layout.Object, depth uint64) (members uint32, ok bool) {
	if depth == 0 {
		return 0, false
	}
	first := len(r.hashes)
	for key := range object {
		if !utf8.ValidString(key) { // it is mended, and may become another
			return 0, false
		}
		r.hashes = append(r.hashes, layout.HashName(key))
	}
	own := r.hashes[first:]
	slices.Sort(own)
	n := len(own)
	if len(slices.Compact(own)) < n {
		return 0, false
	}
	r.hashes = r.hashes[:first]
	for key, v := range object {
		within, ok := r.value(v, depth-1)
		if !ok {
			return 0, false
		}
		members += 1 + within
		r.text += uint64(len(key) + len(`"":0,`))
	}
	return members, true
}

func (r *reader) value(v any, depth uint64) (members uint32, ok bool) {
	switch v := v.(type) {
	case layout.Metadata:
		r.hashes = slices.Grow(r.hashes, len(v))
		return r.object(layout.Object(v.All()), depth)
	case layout.Object:
		return r.object(v, depth)
	case layout.List:
		s := Scanner[string]{text: v.String(), most: depth}
		return s.skip(), s.err == nil
	case []any:
		for _, v := range v {
			within, ok := r.value(v, depth-1)
			if depth == 0 || !ok {
				return 0, false
			}
			members = max(members, within)
		}
		return members, depth > 0
	case string:
		r.text += uint64(len(v))
		return 0, true
	case nil, bool, json.Number, layout.Blob, layout.JSONText, float32, float64, int8, int16, int32, int64, uint8, uint16, uint32, uint64:
		return 0, true
	case []string, []json.Number, []bool, []float32, []float64, []int8, []int16, []int32, []int64, []uint8, []uint16, []uint32, []uint64:
		return 0, depth > 0
	}
	return 0, false
}
