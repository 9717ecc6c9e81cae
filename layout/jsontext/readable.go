package jsontext

import (
	"encoding/json"
	"slices"
	"unicode/utf8"

	"github.com/tensormap/tensormap/layout"
)

// Readable reports that what md is written as can be read by Parse with the default limits. It makes no text. It
// reports false if it is in doubt: two keys may be the same, or a value is of an unusual type.
func Readable(md layout.Metadata) bool {
	sure, err := CheckKeys(md, layout.Unknown, 0, "")
	return sure && err == nil
}

// CheckKeys returns the error of Parse if the keys of md, in what it is written as, are too many. at and field are for
// that error. It makes no text. sure is false if it is in doubt of anything else, as [Readable] may be.
func CheckKeys(md layout.Metadata, f layout.Format, at uint64, field string) (sure bool, err error) {
	r := reader{hashes: make([]uint64, 0, min(len(md), many))}
	members, ok := r.object(layout.Object(md.All()), (*layout.Limits)(nil).WithDefaults().Depth)
	outermost := uint32(len(md))
	if !ok || !tooDense(members, outermost, r.text) {
		return ok, nil
	}
	size, err := layout.WriteJSON(nil, md)
	if err != nil {
		return false, nil
	}
	s := Scanner[string]{Field: field, format: f, base: at}
	s.holds(members, outermost, uint64(size))
	return true, s.Err()
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
	n := uint64(0)
	for key := range object {
		if !utf8.ValidString(key) { // it is mended, and may become another
			return 0, false
		}
		n++
	}
	for parts, part := min(1+n/many, mostParts), uint64(0); part < parts; part++ {
		if !r.distinct(object, parts, part) {
			return 0, false
		}
	}
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

// many is how many keys are compared at a time, unless these are more than mostParts of them: time would grow with the square.
const many, mostParts = 1 << 16, 8

// distinct reports whether the keys whose hashes are in one of these parts differ.
func (r *reader) distinct(object layout.Object, parts, part uint64) bool {
	r.hashes = r.hashes[:0]
	for key := range object {
		if h := layout.HashName(key); h%parts == part {
			r.hashes = append(r.hashes, h)
		}
	}
	n := len(r.hashes)
	slices.Sort(r.hashes)
	return len(slices.Compact(r.hashes)) == n
}

func (r *reader) value(v any, depth uint64) (members uint32, ok bool) {
	switch v := v.(type) {
	case layout.Metadata:
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
