package convert

import (
	"encoding/base64"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/layout/jsontext"
)

// typedMetadata returns the keys of a GGUF file with values of GGUF's types. md has these keys as the file had them, or
// as JSON, which types and bytes complete: see typesOf and invalidTexts. rest has the keys whose values fit no type of GGUF.
func typedMetadata(md, types, bytes layout.Metadata) (typed, rest layout.Metadata) {
	typeAt, bytesAt := maps.Collect(types.All()), maps.Collect(bytes.All())
	typed = make(layout.Metadata, 0, len(md))
	for _, e := range md {
		name, _ := typeAt[e.Key].(string)
		if v, ok := typedValue(restoreBytes(e.Value, bytesAt[e.Key]), name); ok {
			typed = append(typed, layout.Entry{Key: e.Key, Value: v})
		} else {
			rest = append(rest, e)
		}
	}
	return typed, rest
}

// restoreBytes returns v, a string or a list from JSON, with the strings that are not UTF-8 as they were. bytes has them, as
// invalidTextsIn returns them: a blob for a string, or an object of blobs by position for a list.
func restoreBytes(v, bytes any) any {
	switch v := v.(type) {
	case string:
		if s, ok := blob(bytes); ok {
			return s
		}
	case []any:
		at, _ := bytes.(layout.Metadata)
		list := slices.Clone(v)
		for _, e := range at {
			i, err := strconv.Atoi(e.Key)
			if s, ok := blob(e.Value); ok && err == nil && i >= 0 && i < len(list) {
				list[i] = s
			}
		}
		return list
	}
	return v
}

// blob returns the bytes of v, a layout.Blob or a Blob's base64 in JSON. It reports false for other values.
func blob(v any) (string, bool) {
	switch v := v.(type) {
	case layout.Blob:
		return string(v), true
	case string:
		b, err := base64.StdEncoding.DecodeString(v)
		return string(b), err == nil
	}
	return "", false
}

// typedValue returns v as the type called name, such as "u32" or "[u32]". Without a name it returns a v of GGUF's types
// as it is, any other as the first type of untyped that holds it. It reports false if no such type holds v.
func typedValue(v any, name string) (typed any, ok bool) {
	if hasType(v, name) {
		return v, true
	}
	if list, ok := layout.As[[]string](v); ok && len(list) > 0 && (name == "" || name == "[string]") {
		return list, true
	}
	names := untyped
	if name != "" {
		elem, wantsList := strings.CutPrefix(name, "[")
		if _, isList := v.([]any); isList != wantsList {
			return nil, false
		}
		names = []string{strings.TrimSuffix(elem, "]")}
	}
	for _, name := range names {
		if to, known := conversions[name]; known {
			if typed, ok = to(v); ok {
				return typed, true
			}
		}
	}
	return nil, false
}

// untyped are the types for a value without one, in this order: of 32 bits if all numbers fit, else of 64, and f32
// for fractions.
var untyped = []string{"u32", "i32", "u64", "i64", "f32", "bool"}

// conversions has, by the names of GGUF's types, what makes such a value or list of any other.
var conversions = map[string]func(v any) (any, bool){
	"u8": to[uint8], "u16": to[uint16], "u32": to[uint32], "u64": to[uint64],
	"i8": to[int8], "i16": to[int16], "i32": to[int32], "i64": to[int64],
	"f32": to[float32], "f64": to[float64], "bool": to[bool], "string": to[string],
}

// to returns v as a T or, if v is a list, as a []T. It reports false if T cannot hold v or one of its elements: see layout.As.
func to[T any](v any) (any, bool) {
	if _, isList := v.([]any); isList {
		return layout.As[[]T](v)
	}
	return layout.As[T](v)
}

// hasType reports whether v is of the Go type for GGUF's type called name or, if name is "", for any type of GGUF.
func hasType(v any, name string) bool {
	switch x := v.(type) {
	case string:
		return name == "" || name == "string"
	case bool:
		return name == "" || name == "bool"
	case []string:
		return len(x) > 0 && name == "" || name == "[string]"
	}
	return numberType(v) != nil && (name == "" || name == numberType(v))
}

// setTyped sets keys of md, those of a GGUF file, as Options.Set says. A text becomes a value of the type that the key
// has, if it is there. Keys of shards are layout.ErrUnsupported, texts that do not fit their type an error too.
func setTyped(md *layout.Metadata, set layout.Metadata) error {
	for _, e := range set {
		if isSplit(e) {
			return fmt.Errorf("metadata %s: %w: it says how a model is divided among files, which the size of shards decides", e.Key, layout.ErrUnsupported)
		}
		value := e.Value
		if text, ok := value.(string); ok {
			old, _ := md.Get(e.Key)
			var err error
			if value, err = parseSetting(text, old); err != nil {
				return fmt.Errorf("metadata %s=%s: %w", e.Key, text, err)
			}
		}
		md.Set(e.Key, value)
	}
	return nil
}

// parseSetting reads text, TYPE:VALUE or VALUE, as a value of GGUF. Without TYPE the value is of the type of old, the
// value that it replaces. If old is nil, it is JSON or a string. A VALUE that is not of its type is layout.ErrInvalid.
func parseSetting(text string, old any) (any, error) {
	name, _ := numberType(old).(string)
	switch old.(type) {
	case string:
		return text, nil
	case bool:
		name = "bool"
	case []string, []any:
		name = "[string]"
	}
	if before, after, ok := strings.Cut(text, ":"); ok && conversions[before] != nil {
		name, text = before, after
	}
	if name == "string" {
		return text, nil
	}
	v, err := parseJSON(text)
	if err != nil && name == "" {
		return text, nil
	}
	if err != nil {
		v = text // no JSON: a string, or a float such as NaN
		if f, err := strconv.ParseFloat(text, 64); err == nil {
			v = f
		}
	}
	typed, ok := typedValue(v, name)
	switch {
	case ok:
		return typed, nil
	case name == "":
		return text, nil
	}
	return nil, fmt.Errorf("%w: no value of type %s", layout.ErrInvalid, name)
}

// parseSettings returns a copy of set, which is Options.Set, in which texts that are JSON became the values that they
// stand for. It serves formats whose metadata is JSON.
func parseSettings(set layout.Metadata) layout.Metadata {
	set = slices.Clone(set)
	for i := range set {
		if text, ok := set[i].Value.(string); ok {
			if v, err := parseJSON(text); err == nil {
				set[i].Value = v
			}
		}
	}
	return set
}

// parseJSON reads any value of JSON, within the limits for metadata.
func parseJSON(text string) (any, error) {
	return jsontext.ParseValue(text, layout.Unknown, 0, "metadata", (*layout.Limits)(nil).WithDefaults())
}
