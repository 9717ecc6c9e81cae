package convert

import (
	"fmt"
	"reflect"
	"strconv"
	"unicode/utf8"

	"github.com/tensormap/tensormap/layout"
)

// typesOf returns an object with the keys of md and, as values, the names of types that JSON would lose. "bytes" marks a
// Blob, which becomes base64. If withNumbers is set, numbers have types such as "u32", and arrays such as "[i8]". Strings,
// bools and arrays of strings need no type and have no key.
func typesOf(md layout.Metadata, withNumbers bool) layout.Metadata {
	return notes(md, func(v any) any {
		if _, isBlob := v.(layout.Blob); isBlob {
			return "bytes"
		}
		if withNumbers {
			return numberType(v)
		}
		return nil
	})
}

// invalidTexts returns the bytes of strings in md that are not UTF-8, since JSON has U+FFFD for every wrong byte. The result
// has the keys of md that have such strings. Each value is a Blob or, for an array, an object of Blobs by position.
func invalidTexts(md layout.Metadata) layout.Metadata {
	return notes(md, func(v any) any {
		if s, isText := v.(string); isText && !utf8.ValidString(s) {
			return layout.Blob(s)
		}
		return nil
	})
}

// notes returns an object with the keys of v, an object, and the results of note for their values. Objects and lists in v have objects of
// such notes, those of lists by position as decimal keys. It leaves out notes that are nil, and objects without notes.
func notes(v any, note func(v any) any) (all layout.Metadata) {
	add := func(key string, v any) {
		n := note(v)
		if inner := notes(v, note); len(inner) > 0 {
			n = inner
		}
		if n != nil {
			all = append(all, layout.Entry{Key: key, Value: n})
		}
	}
	switch v := v.(type) {
	case layout.Metadata:
		for _, e := range v {
			add(e.Key, e.Value)
		}
	case []any:
		for i, x := range v {
			add(strconv.Itoa(i), x)
		}
	case []string:
		for i, x := range v {
			add(strconv.Itoa(i), x)
		}
	}
	return all
}

// numberTypes names Go's types of numbers. As interfaces the names take no memory for each key that has them.
var numberTypes = map[reflect.Kind]any{
	reflect.Uint8: "u8", reflect.Uint16: "u16", reflect.Uint32: "u32", reflect.Uint64: "u64",
	reflect.Int8: "i8", reflect.Int16: "i16", reflect.Int32: "i32", reflect.Int64: "i64",
	reflect.Float32: "f32", reflect.Float64: "f64",
}

// numberType names the type of a number, such as "u32", or of a slice whose type JSON would lose: "[u32]" and "[bool]", and
// "[string]" if there are no elements. It returns nil for other values, and for named slice types, such as layout.Blob.
func numberType(v any) any {
	t := reflect.TypeOf(v)
	if t == nil || t.Kind() != reflect.Slice {
		return numberTypes[reflect.ValueOf(v).Kind()] // Invalid for a nil v, which has no name
	}
	name := numberTypes[t.Elem().Kind()]
	switch isEmpty := reflect.ValueOf(v).Len() == 0; {
	case t.Name() != "":
		return nil
	case name != nil:
		return fmt.Sprintf("[%v]", name)
	case t.Elem().Kind() == reflect.Bool, t.Elem().Kind() == reflect.String && isEmpty:
		return "[" + t.Elem().String() + "]"
	}
	return nil
}
