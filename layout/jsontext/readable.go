package jsontext

import (
	"encoding/json"
	"slices"
	"unicode/utf8"

	"github.com/tensormap/tensormap/layout"
)

// Readable reports that what md is written as can be read by Parse with the default limits. It looks at no text. If
// it is in doubt, because two keys may be the same or a value is of an unusual type, it reports false.
func Readable(md layout.Metadata) bool {
	r := reader{make([]uint64, 0, len(md))}
	return r.object(layout.Object(md.All()), (*layout.Limits)(nil).WithDefaults().Depth)
}

// reader checks values of metadata.
type reader struct{ hashes []uint64 }

// object checks an object within depth levels of nesting.
func (r *reader) object(members layout.Object, depth uint64) bool {
	if depth == 0 {
		return false
	}
	first := len(r.hashes)
	for key := range members {
		if !utf8.ValidString(key) { // it is mended, and may become another
			return false
		}
		r.hashes = append(r.hashes, layout.HashName(key))
	}
	own := r.hashes[first:]
	slices.Sort(own)
	n := len(own)
	if len(slices.Compact(own)) < n {
		return false
	}
	r.hashes = r.hashes[:first]
	for _, v := range members {
		if !r.value(v, depth-1) {
			return false
		}
	}
	return true
}

func (r *reader) value(v any, depth uint64) bool {
	switch v := v.(type) {
	case layout.Metadata:
		r.hashes = slices.Grow(r.hashes, len(v))
		return r.object(layout.Object(v.All()), depth)
	case layout.Object:
		return r.object(v, depth)
	case []any:
		return depth > 0 && !slices.ContainsFunc(v, func(v any) bool { return !r.value(v, depth-1) })
	case nil, string, bool, json.Number, layout.Blob, layout.JSONText, float32, float64, int8, int16, int32, int64, uint8, uint16, uint32, uint64:
		return true
	case []string, []json.Number, []bool, []float32, []float64, []int8, []int16, []int32, []int64, []uint8, []uint16, []uint32, []uint64:
		return depth > 0
	}
	return false
}
