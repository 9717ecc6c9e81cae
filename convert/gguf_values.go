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

// typedMetadata returns the keys of a GGUF file with values of GGUF's types. md has these keys as the file had them, or as
// JSON. types and bytes have what JSON lost of them: see typesOf and invalidTexts. rest has the keys whose values fit no type
// of GGUF.
func typedMetadata(md, types, bytes layout.Metadata) (typed, rest layout.Metadata) {
	typeAt, bytesAt := maps.Collect(types.All()), maps.Collect(bytes.All())
	typed = make(layout.Metadata, 0, len(md))
	for _, e := range md {
		name, _ := typeAt[e.Key].(string) // "" if any type will do
		if v, ok := typedValue(restoreBytes(e.Value, bytesAt[e.Key]), name); ok {
			typed = append(typed, layout.Entry{Key: e.Key, Value: v})
		} else {
			rest = append(rest, e)
		}
	}
	return typed, rest
}

// restoreBytes undoes what JSON does to strings that are not UTF-8. It returns v, a string or a list from JSON, with these
// strings as they were. bytes is what invalidTexts has noted of v: a blob for a string, or an object of blobs by
// position for a list. It does not change v.
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

// blob returns the bytes of v, which is a layout.Blob, or a Blob in JSON: base64. It returns false for other values.
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

// typedValue returns v as a value of the GGUF type called name, such as "u32" or "[u32]" for a list. If name is "", any type
// will do. A v that has a type of GGUF then stays as it is. Other values become the first type of untyped that holds them. ok
// is false if no such type holds v.
func typedValue(v any, name string) (typed any, ok bool) {
	list, isTexts := v.([]string)
	isAny := name == "" && !(isTexts && len(list) == 0) // an empty list has no element that tells its type: it needs a name
	if got := typeName(v); got != "" && (isAny || name == got) {
		return v, true
	}
	if list, ok := layout.As[[]string](v); ok && len(list) > 0 && (name == "" || name == "[string]") {
		return list, true // a list from JSON whose elements are all strings
	}
	names := untyped
	if name != "" { // the one type, which a list has for its elements
		elem, wantsList := strings.CutPrefix(name, "[")
		if _, isList := v.([]any); isList != wantsList {
			return nil, false
		}
		names = []string{strings.TrimSuffix(elem, "]")}
	}
	for _, name := range names {
		if asType, known := conversions[name]; known { // it also converts each element of a list
			if typed, ok = asType(v); ok {
				return typed, true
			}
		}
	}
	return nil, false
}

// untyped are the types to try, in this order, for a value without one: 32 bits if all numbers fit, else 64, and f32 for
// fractions.
var untyped = []string{"u32", "i32", "u64", "i64", "f32", "bool"}

// setTyped sets keys in md, the metadata of a GGUF file, to the values in set, which is Options.Set. A text becomes a value
// as parseSetting says. It fails with layout.ErrUnsupported for keys of shards, and with layout.ErrInvalid for texts that do
// not fit their type.
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

// parseSetting reads text as a value of GGUF that replaces old. If old is a string, the value is the whole text. Otherwise
// text is VALUE or TYPE:VALUE, where TYPE is a key of conversions. Without TYPE the value has the type of old. If old is nil
// too, VALUE may be of any type, and is read as JSON. If it is no JSON, or no type of GGUF holds it, the value is the text
// itself. parseSetting returns layout.ErrInvalid if VALUE is not of its type.
func parseSetting(text string, old any) (any, error) {
	name := typeName(old) // the type of the value, or "" if any will do, as where old is nil
	if _, isList := old.([]any); isList {
		name = "[string]"
	}
	if before, after, ok := strings.Cut(text, ":"); ok && name != "string" && conversions[before] != nil {
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
		v = text // no JSON: a float such as NaN, or a text that no type holds
		if f, err := strconv.ParseFloat(text, 64); err == nil {
			v = f
		}
	}
	typed, ok := typedValue(v, name)
	switch {
	case ok:
		return typed, nil
	case name == "": // JSON that no type of GGUF holds
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
