package convert

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/tensormap/tensormap/layout"
)

// typesOf yields the types of the values of md that JSON does not tell, in the shape of md.
// "bytes" marks base64. If numbers is set, numbers have types such as "u32" and "f32", and
// arrays such as "[i8]". Strings, bools and arrays of strings need none.
func typesOf(md layout.Metadata, numbers bool) layout.Object {
	return func(yield func(string, any) bool) {
		for _, e := range md {
			if t := typeOf(e.Value, numbers); t != nil && !yield(e.Key, t) {
				return
			}
		}
	}
}

// hasMembers reports whether o has any.
func hasMembers(o layout.Object) bool {
	for range o {
		return true
	}
	return false
}

// typeOf returns nil for a value that needs no type.
func typeOf(v any, numbers bool) any {
	switch v := v.(type) {
	case layout.Blob:
		return "bytes"
	case layout.Metadata:
		if types := typesOf(v, numbers); hasMembers(types) {
			return types
		}
		return nil
	case []any:
		return present(elements(v, func(v any) any { return typeOf(v, numbers) }))
	}
	if numbers {
		return numberType(v)
	}
	return nil
}

// numberTypes names Go's types of numbers. As values of metadata the names take no memory a key.
var numberTypes = map[string]any{
	"uint8": "u8", "uint16": "u16", "uint32": "u32", "uint64": "u64",
	"int8": "i8", "int16": "i16", "int32": "i32", "int64": "i64",
	"float32": "f32", "float64": "f64",
}

// numberType names the type of a number, or of an array that may have no elements to tell it by. It
// returns nil for other values.
func numberType(v any) any {
	elem, array := strings.CutPrefix(fmt.Sprintf("%T", v), "[]")
	name := numberTypes[elem]
	switch {
	case !array || name == nil && elem != "bool" && elem != "string":
		return name
	case elem == "string" && len(v.([]string)) > 0:
		return nil
	}
	return fmt.Sprintf("[%v]", cmp.Or(name, any(elem)))
}

// bytesOf returns the bytes of the strings of md that are not UTF-8, since JSON has U+FFFD for
// every wrong byte. The result has the shape of md, with elements of arrays by their positions.
func bytesOf(md layout.Metadata) layout.Metadata {
	all := layout.Metadata{}
	for key, value := range md.All() {
		if b := bytesIn(value); b != nil {
			all = append(all, layout.Entry{Key: key, Value: b})
		}
	}
	return all
}

func bytesIn(v any) any {
	switch v := v.(type) {
	case string:
		if !utf8.ValidString(v) {
			return layout.Blob(v)
		}
	case layout.Metadata:
		return present(bytesOf(v))
	case []any:
		return present(elements(v, bytesIn))
	case []string:
		return present(elements(v, func(s string) any { return bytesIn(s) }))
	}
	return nil
}

// elements collects what f returns for the elements of a list, by their positions, unless nil.
func elements[T any](list []T, f func(T) any) layout.Metadata {
	some := layout.Metadata{}
	for i, v := range list {
		if x := f(v); x != nil {
			some = append(some, layout.Entry{Key: strconv.Itoa(i), Value: x})
		}
	}
	return some
}

// present returns md, or nil if it has no keys.
func present(md layout.Metadata) any {
	if len(md) == 0 {
		return nil
	}
	return md
}
