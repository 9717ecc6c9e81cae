package convert

import (
	"fmt"
	"reflect"
	"strconv"
	"unicode/utf8"

	"github.com/tensormap/tensormap/layout"
)

// typesOf returns the types of the values of md that JSON does not tell, in the shape of md.
// "bytes" marks base64. If withNumbers is set, numbers have types such as "u32" and "f32", and
// arrays such as "[i8]". Strings, bools and arrays of strings need none.
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

// numberType names the type of a number, or of a slice that its elements do not tell: of numbers, of bools, or of no
// strings. It returns nil for other values.
func numberType(v any) any {
	t := reflect.TypeOf(v)
	if t == nil || t.Kind() != reflect.Slice {
		return numberTypes[reflect.ValueOf(v).Kind()]
	}
	name := numberTypes[t.Elem().Kind()]
	switch isEmpty := reflect.ValueOf(v).Len() == 0; {
	case t.Name() != "": // a Blob, for one
		return nil
	case name != nil:
		return fmt.Sprintf("[%v]", name)
	case t.Elem().Kind() == reflect.Bool, t.Elem().Kind() == reflect.String && isEmpty:
		return "[" + t.Elem().String() + "]"
	}
	return nil
}

// bytesOf returns the bytes of the strings of md that are not UTF-8, since JSON has U+FFFD for
// every wrong byte. The result has the shape of md, with elements of arrays by their positions.
func bytesOf(md layout.Metadata) layout.Metadata { return inShapeOf(md, bytesIn) }

// inShapeOf returns an object of the results of f for the values of md, without those that are nil.
func inShapeOf(md layout.Metadata, f func(v any) any) (all layout.Metadata) {
	for _, e := range md {
		if x := f(e.Value); x != nil {
			all = append(all, layout.Entry{Key: e.Key, Value: x})
		}
	}
	return all
}

// unlessEmpty returns md, or nil without a type if md is empty.
func unlessEmpty(md layout.Metadata) any {
	if len(md) == 0 {
		return nil
	}
	return md
}

// bytesIn returns what bytesOf has of one value: a Blob, an object, or nil if all strings in it are UTF-8.
func bytesIn(v any) any {
	switch v := v.(type) {
	case string:
		if !utf8.ValidString(v) {
			return layout.Blob(v)
		}
	case layout.Metadata:
		return unlessEmpty(bytesOf(v))
	case []any:
		return byPosition(v, bytesIn)
	case []string:
		return byPosition(v, func(s string) any { return bytesIn(s) })
	}
	return nil
}

// byPosition returns an object of the results of f for the elements of a list, by their positions. It leaves out
// nil, and returns nil if there is nothing else.
func byPosition[T any](list []T, f func(T) any) any {
	var some layout.Metadata
	for i, v := range list {
		if x := f(v); x != nil {
			some = append(some, layout.Entry{Key: strconv.Itoa(i), Value: x})
		}
	}
	return unlessEmpty(some)
}
