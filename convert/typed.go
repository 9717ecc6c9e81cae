package convert

import (
	"strconv"
	"unicode/utf8"

	"github.com/tensormap/tensormap/layout"
)

// typesOf returns the types of the values of md that JSON does not tell, in the shape of md.
// "bytes" marks base64. If numbers is set, numbers have types such as "u32" and "f32", and
// arrays such as "[i8]". Strings, bools and arrays of strings need none.
func typesOf(md layout.Metadata, numbers bool) layout.Metadata {
	types := layout.Metadata{}
	for key, value := range md.All() {
		if t := typeOf(value, numbers); t != nil {
			types = append(types, layout.Entry{Key: key, Value: t})
		}
	}
	return types
}

// typeOf returns nil for a value that needs no type.
func typeOf(v any, numbers bool) any {
	switch v := v.(type) {
	case layout.Blob:
		return "bytes"
	case layout.Metadata:
		return present(typesOf(v, numbers))
	case []any:
		return present(elements(v, func(v any) any { return typeOf(v, numbers) }))
	}
	if name := numberType(v); numbers && name != "" {
		return name
	}
	return nil
}

// numberType names the type of a number, or of an array that may have no elements to tell it by.
func numberType(v any) string {
	switch v := v.(type) {
	case uint8:
		return "u8"
	case int8:
		return "i8"
	case uint16:
		return "u16"
	case int16:
		return "i16"
	case uint32:
		return "u32"
	case int32:
		return "i32"
	case uint64:
		return "u64"
	case int64:
		return "i64"
	case float32:
		return "f32"
	case float64:
		return "f64"
	case []uint8:
		return "[u8]"
	case []int8:
		return "[i8]"
	case []uint16:
		return "[u16]"
	case []int16:
		return "[i16]"
	case []uint32:
		return "[u32]"
	case []int32:
		return "[i32]"
	case []uint64:
		return "[u64]"
	case []int64:
		return "[i64]"
	case []float32:
		return "[f32]"
	case []float64:
		return "[f64]"
	case []bool:
		return "[bool]"
	case []string:
		if len(v) == 0 {
			return "[string]"
		}
	}
	return ""
}

// bytesOf returns the bytes of those strings of md that are not UTF-8, since JSON has U+FFFD for
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
