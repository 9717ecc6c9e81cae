package convert

import (
	"reflect"
	"strconv"
	"unicode/utf8"

	"github.com/tensormap/tensormap/layout"
)

// typesOf returns an object with the keys of md and, as values, the names of types that JSON would lose. A Blob, which
// becomes base64, has the name "bytes". If withNumbers is set, numbers have names such as "u32", and lists such as "[i8]".
// Strings, bools and lists of strings have no key, since JSON keeps their types. An empty list of strings is an exception:
// with withNumbers it has the name "[string]".
func typesOf(md layout.Metadata, withNumbers bool) layout.Metadata {
	return notes(md, func(v any) any {
		switch v := v.(type) {
		case layout.Blob:
			return "bytes"
		case string, bool:
			return nil
		case []string:
			if len(v) > 0 { // else the list is empty, and JSON does not tell the type of its elements
				return nil
			}
		}
		if withNumbers {
			return typeNames[reflect.TypeOf(v)]
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

// notes calls note for each value in v, an object or a list, and returns the results as an object with the same keys. For a
// list, the keys are the positions in decimal. If a value is an object or a list itself, notes looks inside. Results from
// inside, if there are any, become an object that replaces the value's own result. notes leaves out nil results.
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

// typeNames has the names of GGUF's types, such as "u32", by the types of Go that hold them. It has the names of lists too, such as
// "[u32]". As interfaces the names take no memory for each key that has them.
var typeNames = make(map[reflect.Type]any)

// conversions has a function for each of GGUF's types, by name. The function returns a value as that type, or a list as a
// slice of that type. It reports false if the type cannot hold the value.
var conversions = make(map[string]func(v any) (any, bool))

// init fills typeNames and conversions with the types of GGUF's metadata, each by the Go type that holds it and by its name.
func init() {
	addType[uint8]("u8")
	addType[uint16]("u16")
	addType[uint32]("u32")
	addType[uint64]("u64")
	addType[int8]("i8")
	addType[int16]("i16")
	addType[int32]("i32")
	addType[int64]("i64")
	addType[float32]("f32")
	addType[float64]("f64")
	addType[bool]("bool")
	addType[string]("string")
}

// addType adds the type of GGUF called name to typeNames and conversions. T is the type of Go that holds its values.
func addType[T any](name string) {
	typeNames[reflect.TypeFor[T]()], typeNames[reflect.TypeFor[[]T]()] = name, "["+name+"]"
	conversions[name] = asTyped[T]
}

// asTyped returns v as a T or, if v is a list, as a []T. It reports false if T cannot hold v or one of its elements: see
// layout.As.
func asTyped[T any](v any) (any, bool) {
	if _, isList := v.([]any); isList {
		return layout.As[[]T](v)
	}
	return layout.As[T](v)
}

// typeName returns the name of v's type in GGUF, such as "u32" or "[u32]". It returns "" if v has no type of GGUF.
func typeName(v any) string {
	name, _ := typeNames[reflect.TypeOf(v)].(string)
	return name
}
