package convert

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/layout/jsontext"
)

// typedMetadata returns the keys of a GGUF file with values of GGUF's types, from md as the file or
// JSON has it. types and strings are what typesOf and bytesOf say of it. rest holds what has no type.
// It copies md only if a value has to change.
func typedMetadata(md layout.Metadata, types any, strings layout.Metadata) (typed, rest layout.Metadata) {
	typeAt, stop := besideObject(md, types)
	defer stop()
	bytesAt := beside(md, strings)
	same := true
	for i, e := range md {
		name, _ := typeAt(e.Key).(string)
		raw := bytesAt(e.Key)
		if same && raw == nil && hasType(e.Value, name) {
			continue
		}
		if same {
			same, typed = false, append(make(layout.Metadata, 0, len(md)), md[:i]...)
		}
		if v, err := typedValue(withBytes(e.Value, raw), name); err == nil {
			typed = append(typed, layout.Entry{Key: e.Key, Value: v})
		} else {
			rest = append(rest, e)
		}
	}
	if same {
		return slices.Clip(md), nil
	}
	return typed, rest
}

// besideObject does what beside does. If the object is made as it is read, it has the keys in the order of all.
func besideObject(all layout.Metadata, of any) (at func(key string) any, stop func()) {
	made, ok := of.(layout.Object)
	if !ok {
		md, _ := of.(layout.Metadata)
		return beside(all, md), func() {}
	}
	next, stop := iter.Pull2(iter.Seq2[string, any](made))
	name, value, ok := next()
	return func(key string) (v any) {
		if ok && name == key {
			v = value
			name, value, ok = next()
		}
		return v
	}, stop
}

// beside returns a function that finds the values of keys in md. It is asked for the keys of all, in their
// order. If md has its keys in the same order, as typesOf writes them, this takes no memory.
func beside(all, md layout.Metadata) func(key string) any {
	n := 0
	for i := range all {
		if n < len(md) && md[n].Key == all[i].Key {
			n++
		}
	}
	if n < len(md) {
		values := make(map[string]any, len(md))
		for _, e := range md {
			values[e.Key] = e.Value
		}
		return func(key string) any { return values[key] }
	}
	n = 0
	return func(key string) any {
		if n == len(md) || md[n].Key != key {
			return nil
		}
		n++
		return md[n-1].Value
	}
}

// withBytes returns v with the bytes of its strings that JSON could not hold.
func withBytes(v, raw any) any {
	switch v := v.(type) {
	case string:
		if b, ok := blobOf(raw); ok {
			return b
		}
	case []string:
		places, _ := raw.(layout.Metadata)
		if len(places) == 0 {
			return v
		}
		v = slices.Clone(v)
		for place, raw := range places.All() {
			b, ok := blobOf(raw)
			if i, err := strconv.Atoi(place); ok && err == nil && 0 <= i && i < len(v) {
				v[i] = b
			}
		}
		return v
	}
	return v
}

func blobOf(raw any) (string, bool) {
	switch raw := raw.(type) {
	case layout.Blob:
		return string(raw), true
	case string:
		b, err := base64.StdEncoding.DecodeString(raw)
		return string(b), err == nil
	}
	return "", false
}

// typedValue returns v as the type that numberType names, or as the type that fits v if the
// name is empty.
func typedValue(v any, name string) (any, error) {
	if hasType(v, name) {
		return v, nil
	}
	elem, array := strings.CutPrefix(name, "[")
	if array {
		elem = strings.TrimSuffix(elem, "]")
	}
	texts, bools, isArray := partsOf(v)
	switch {
	case array != isArray && name != "", texts == nil && bools == nil:
	case elem == "bool", elem == "" && bools != nil:
		if len(bools) > 0 || len(texts) == 0 {
			return append([]bool{}, bools...), nil
		}
	case elem == "string":
		if len(texts) == 0 {
			return []string{}, nil
		}
	case bools != nil:
	default:
		if elem == "" {
			elem = fittingType(texts)
		}
		if t, ok := numbers[elem]; ok {
			v, err := parseNumbers(t, texts, isArray)
			if err != nil {
				return nil, fmt.Errorf("%w: no value of type %s: %w", layout.ErrInvalid, elem, errors.Unwrap(err))
			}
			return v, nil
		}
	}
	return nil, fmt.Errorf("%w: a value of GGUF of type %q", layout.ErrUnsupported, name)
}

// hasType reports whether v has the type called name, or one of GGUF's if the name is empty.
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

// partsOf returns the texts of numbers or the bools of a JSON array, or the text of one number. NaN and infinities
// are strings.
func partsOf(v any) (texts []string, bools []bool, array bool) {
	list := reflect.ValueOf([]any{v})
	switch v.(type) {
	case []any, []string, []json.Number:
		list, array = reflect.ValueOf(v), true
	}
	texts = []string{}
	for i := range list.Len() {
		switch x := list.Index(i).Interface().(type) {
		case json.Number:
			texts = append(texts, string(x))
		case string:
			texts = append(texts, x)
		case bool:
			bools = append(bools, x)
		default:
			return nil, nil, array
		}
	}
	switch {
	case len(bools) == 0:
		return texts, nil, array
	case len(texts) == 0:
		return nil, bools, array
	}
	return nil, nil, array
}

// fittingType names the type of numbers that no one has given a type: of 32 bits where these hold
// them.
func fittingType(texts []string) string {
	for _, name := range []string{"u32", "i32", "u64", "i64"} {
		if _, err := parseNumbers(numbers[name], texts, true); err == nil {
			return name
		}
	}
	return "f32"
}

// numbers has GGUF's types of numbers by the names of numberTypes.
var numbers = map[string]reflect.Type{
	"u8": reflect.TypeFor[uint8](), "u16": reflect.TypeFor[uint16](), "u32": reflect.TypeFor[uint32](), "u64": reflect.TypeFor[uint64](),
	"i8": reflect.TypeFor[int8](), "i16": reflect.TypeFor[int16](), "i32": reflect.TypeFor[int32](), "i64": reflect.TypeFor[int64](),
	"f32": reflect.TypeFor[float32](), "f64": reflect.TypeFor[float64](),
}

// parseNumbers returns a slice of numbers of type t, or the first of them.
func parseNumbers(t reflect.Type, texts []string, array bool) (any, error) {
	list := reflect.MakeSlice(reflect.SliceOf(t), len(texts), len(texts))
	for i, text := range texts {
		var u uint64
		var n int64
		var f float64
		var err error
		switch x := list.Index(i); {
		case x.CanUint():
			u, err = strconv.ParseUint(text, 10, t.Bits())
			x.SetUint(u)
		case x.CanInt():
			n, err = strconv.ParseInt(text, 10, t.Bits())
			x.SetInt(n)
		default:
			f, err = strconv.ParseFloat(text, t.Bits())
			x.SetFloat(f)
		}
		if err != nil {
			return nil, err
		}
	}
	if array {
		return list.Interface(), nil
	}
	return list.Index(0).Interface(), nil
}

// set enters Options.Set into the keys of a GGUF file. A key that is there keeps its type.
func (opts *Options) set(md *layout.Metadata) error {
	for key, value := range opts.Set.All() {
		if isSplit(key) {
			return fmt.Errorf("metadata %s: %w: it says how a model is divided among files, which the size of shards decides", key, layout.ErrUnsupported)
		}
		text, ok := value.(string)
		if !ok {
			md.Set(key, value)
			continue
		}
		old, _ := md.Get(key)
		v, err := parseSetting(text, old)
		if err != nil {
			return fmt.Errorf("metadata %s=%s: %w", key, text, err)
		}
		md.Set(key, v)
	}
	return nil
}

// untyped returns Options.Set for a format whose metadata is JSON: texts that are JSON are read as such.
func untyped(set layout.Metadata) layout.Metadata {
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

func parseJSON(text string) (any, error) {
	return jsontext.ParseValue(text, layout.Unknown, 0, "metadata", (*layout.Limits)(nil).WithDefaults())
}

// parseSetting reads TYPE:VALUE or VALUE as a value of GGUF. old is the value that it replaces, or nil.
func parseSetting(text string, old any) (any, error) {
	name, _ := numberType(old).(string)
	switch old.(type) {
	case string:
		return text, nil
	case bool:
		name = "bool"
	case []string:
		name = "[string]"
	}
	if before, after, ok := strings.Cut(text, ":"); ok && (numbers[before] != nil || before == "string" || before == "bool") {
		if name, text = before, after; name == "string" {
			return text, nil
		}
	}
	v, err := parseJSON(text)
	switch {
	case err == nil && name == "":
		if typed, err := typedValue(v, ""); err == nil {
			return typed, nil
		}
		return text, nil
	case name == "":
		return text, nil
	case err != nil:
		v = text // NaN
	}
	typed, err := typedValue(v, name)
	if errors.Is(err, layout.ErrUnsupported) {
		err = fmt.Errorf("%w: no value of type %s", layout.ErrInvalid, name)
	}
	return typed, err
}
