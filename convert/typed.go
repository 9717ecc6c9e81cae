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
	return inShapeOf(md, func(v any) any { return typeOf(v, withNumbers) })
}

// typeOf returns the type of one value as typesOf has it: a name, or an object of names for an object or a list. It
// returns nil for a value that needs none.
func typeOf(v any, withNumbers bool) any {
	switch v := v.(type) {
	case layout.Blob:
		return "bytes"
	case layout.Metadata:
		return unlessEmpty(typesOf(v, withNumbers))
	case []any:
		return byPosition(v, func(v any) any { return typeOf(v, withNumbers) })
	}
	if withNumbers {
		return numberType(v)
	}
	return nil
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

// invalidTexts returns the bytes of strings in md that are not UTF-8, since JSON has U+FFFD for every wrong byte. The result
// has the keys of md that have such strings. Each value is a Blob or, for an array, an object of Blobs by position.
func invalidTexts(md layout.Metadata) layout.Metadata { return inShapeOf(md, invalidTextsIn) }

// inShapeOf returns an object with the keys of md and the results of f for their values. It leaves out keys whose result is
// nil.
func inShapeOf(md layout.Metadata, f func(v any) any) (all layout.Metadata) {
	for _, e := range md {
		if x := f(e.Value); x != nil {
			all = append(all, layout.Entry{Key: e.Key, Value: x})
		}
	}
	return all
}

// unlessEmpty returns md, or the nil interface if md is empty.
func unlessEmpty(md layout.Metadata) any {
	if len(md) == 0 {
		return nil
	}
	return md
}

// invalidTextsIn returns the bytes of v, a string that is not UTF-8, as a Blob. For an object or a list it returns an object
// of such Blobs. It returns nil if v has no such string.
func invalidTextsIn(v any) any {
	switch v := v.(type) {
	case string:
		if !utf8.ValidString(v) {
			return layout.Blob(v)
		}
	case layout.Metadata:
		return unlessEmpty(invalidTexts(v))
	case []any:
		return byPosition(v, invalidTextsIn)
	case []string:
		return byPosition(v, func(s string) any { return invalidTextsIn(s) })
	}
	return nil
}

// byPosition returns an object of the results of f for the elements of list, by their positions as decimal keys. It leaves
// out results that are nil, and returns nil if all are.
func byPosition[T any](list []T, f func(T) any) any {
	var some layout.Metadata
	for i, v := range list {
		if x := f(v); x != nil {
			some = append(some, layout.Entry{Key: strconv.Itoa(i), Value: x})
		}
	}
	return unlessEmpty(some)
}
