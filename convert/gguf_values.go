package convert

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"maps"
	"math"
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
	typeAt, stop := beside(md, types)
	defer stop()
	bytesAt, stop := beside(md, strings)
	defer stop()
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

// beside returns a function that finds the values of keys in of, if it is an object. It is asked for the keys of all, in
// their order. If of has its keys in the same order, as typesOf makes and writes them, this takes no memory.
func beside(all layout.Metadata, of any) (at func(key string) any, stop func()) {
	members, ordered := of.(layout.Object) // made as it is read
	if !ordered {
		md, _ := of.(layout.Metadata)
		if members = layout.Object(md.All()); !hasOrderOf(all, md) {
			values := maps.Collect(md.All())
			return func(key string) any { return values[key] }, func() {}
		}
	}
	next, stop := iter.Pull2(iter.Seq2[string, any](members))
	name, value, ok := next()
	return func(key string) (v any) {
		if ok && name == key {
			v = value
			name, value, ok = next()
		}
		return v
	}, stop
}

// hasOrderOf reports whether all has the keys of md, in the same order.
func hasOrderOf(all, md layout.Metadata) bool {
	n := 0
	for i := range all {
		if n < len(md) && md[n].Key == all[i].Key {
			n++
		}
	}
	return n == len(md)
}

// withBytes returns v with the bytes of its strings that JSON could not hold. Slices of strings are of GGUF files, and have
// them.
func withBytes(v, raw any) any {
	switch v := v.(type) {
	case string:
		if b, ok := blobOf(raw); ok {
			return b
		}
	case []any:
		if places, _ := raw.(layout.Metadata); len(places) > 0 {
			return mended(v, places)
		}
	}
	return v
}

// mended returns the strings of list. Some of them, by their positions in rising order, have bytes that JSON could not hold.
func mended(list []any, bytes layout.Metadata) []any {
	list = slices.Clone(list)
	for _, e := range bytes {
		if i, err := strconv.Atoi(e.Key); err == nil && 0 <= i && i < len(list) {
			if b, ok := blobOf(e.Value); ok {
				list[i] = b
			}
		}
	}
	return list
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
	if texts, ok := layout.As[[]string](v); ok && len(texts) > 0 && (name == "" || name == "[string]") {
		return texts, nil
	}
	elem, array := strings.CutPrefix(name, "[")
	if array {
		elem = strings.TrimSuffix(elem, "]")
	}
	p := partsOf(v)
	switch {
	case array != p.array && name != "", p.others, p.bools && p.texts:
	case elem == "bool", elem == "" && p.bools:
		if !p.texts {
			bools := make([]bool, 0, p.n)
			for v := range p.all {
				bools = append(bools, v.(bool))
			}
			return bools, nil
		}
	case elem == "string":
		if p.n == 0 {
			return []string{}, nil
		}
	case p.bools:
	default:
		if elem == "" {
			elem = fittingType(p)
		}
		if t, ok := numbers[elem]; ok {
			v, err := parseNumbers(t, p)
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

// parts are the elements of an array, or one value.
type parts struct {
	all                  iter.Seq[any]
	n                    int
	array                bool
	texts, bools, others bool // whether there are such; texts are numbers, too
}

// partsOf looks at the elements of an array, or at one value. NaN and infinities are strings.
func partsOf(v any) parts {
	p := parts{all: slices.Values([]any{v}), n: 1}
	if list, ok := v.([]any); ok {
		p = parts{all: slices.Values(list), n: len(list), array: true}
	}
	for v := range p.all {
		switch v.(type) {
		case json.Number, string:
			p.texts = true
		case bool:
			p.bools = true
		default:
			p.others = true
		}
	}
	return p
}

// textOf returns the text of a number.
func textOf(v any) string {
	if text, ok := v.(string); ok {
		return text
	}
	return string(v.(json.Number))
}

// fittingType names the type of numbers that no one has given a type: of 32 bits if these hold
// them.
func fittingType(p parts) string {
	var low int64
	var high uint64
	signed := false
	for v := range p.all {
		text := textOf(v)
		if u, err := strconv.ParseUint(text, 10, 64); err == nil {
			high = max(high, u)
		} else if n, err := strconv.ParseInt(text, 10, 64); err == nil {
			low, signed = min(low, n), true
		} else {
			return "f32"
		}
	}
	switch {
	case !signed && high <= math.MaxUint32:
		return "u32"
	case low >= math.MinInt32 && high <= math.MaxInt32:
		return "i32"
	case !signed:
		return "u64"
	case high <= math.MaxInt64:
		return "i64"
	}
	return "f32"
}

// numbers has GGUF's types of numbers by the names of numberTypes.
var numbers = map[string]reflect.Type{
	"u8": reflect.TypeFor[uint8](), "u16": reflect.TypeFor[uint16](), "u32": reflect.TypeFor[uint32](), "u64": reflect.TypeFor[uint64](),
	"i8": reflect.TypeFor[int8](), "i16": reflect.TypeFor[int16](), "i32": reflect.TypeFor[int32](), "i64": reflect.TypeFor[int64](),
	"f32": reflect.TypeFor[float32](), "f64": reflect.TypeFor[float64](),
}

// parseNumbers returns a slice of numbers of type t, or the only one.
func parseNumbers(t reflect.Type, p parts) (any, error) {
	list := reflect.MakeSlice(reflect.SliceOf(t), p.n, p.n)
	i := 0
	for v := range p.all {
		text := textOf(v)
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
		i++
	}
	if p.array {
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
	case []string, []any:
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
