package layout

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

// Get returns the value of a key, or of further keys in nested objects, as a T: see [As]. The error is ErrNotFound, or
// ErrInvalid if the value is of another type.
func Get[T any](m Metadata, key string, nested ...string) (x T, err error) {
	name := strings.Join(append([]string{key}, nested...), ".")
	v, ok := m.Get(key, nested...)
	if !ok {
		return x, fmt.Errorf("%q: %w", name, ErrNotFound)
	}
	if x, ok = As[T](v); !ok {
		return x, fmt.Errorf("%q: %w: a %T, want %T", name, ErrInvalid, v, x)
	}
	return x, nil
}

// As returns a value of Metadata, or one that a File of a format returns, as a T. Numbers become every integer type that
// holds them, and every float type that has them in its range. "NaN", "Infinity" and "-Infinity" are floats, as
// [Metadata.MarshalJSON] writes them. Arrays become slices, if all elements become elements. Every other value is only what it is.
// A slice may be memory of v.
func As[T any](v any) (x T, ok bool) {
	if x, ok = v.(T); ok {
		return x, true
	}
	if !convert(reflect.ValueOf(&x).Elem(), v) {
		return *new(T), false
	}
	return x, true
}

// convert sets dst to v, as As says. It reports false if v is of another type, and dst may have changed then.
func convert(dst reflect.Value, v any) bool {
	src := reflect.ValueOf(v)
	if !src.IsValid() { // null
		return dst.Kind() == reflect.Interface
	}
	number, isNumber := v.(json.Number)
	switch dst.Kind() {
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		n, err := int64(0), error(nil)
		switch {
		case isNumber:
			n, err = strconv.ParseInt(string(number), 10, 64)
		case src.CanInt():
			n = src.Int()
		case src.CanUint() && int64(src.Uint()) >= 0:
			n = int64(src.Uint())
		default:
			return false
		}
		dst.SetInt(n)
		return err == nil && dst.Int() == n
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		n, err := uint64(0), error(nil)
		switch {
		case isNumber:
			n, err = strconv.ParseUint(string(number), 10, 64)
		case src.CanInt() && src.Int() >= 0:
			n = uint64(src.Int())
		case src.CanUint():
			n = src.Uint()
		default:
			return false
		}
		dst.SetUint(n)
		return err == nil && dst.Uint() == n
	case reflect.Float32, reflect.Float64:
		f, err := 0.0, error(nil)
		switch {
		case isNumber, src.Kind() == reflect.String && slices.Contains([]string{"NaN", "Infinity", "-Infinity"}, src.String()):
			f, err = strconv.ParseFloat(src.String(), dst.Type().Bits())
		case src.CanInt():
			f = float64(src.Int())
		case src.CanUint():
			f = float64(src.Uint())
		case src.CanFloat():
			f = src.Float()
		default:
			return false
		}
		dst.SetFloat(f)
		return err == nil && !dst.OverflowFloat(f)
	case reflect.Slice:
		return convertList(dst, src)
	}
	if !src.Type().AssignableTo(dst.Type()) {
		return false
	}
	dst.Set(src)
	return true
}

// convertList sets the slice dst to the elements of the slice src. It reports false if src is no slice, or an element is of another type.
func convertList(dst, src reflect.Value) bool {
	switch {
	case src.Kind() != reflect.Slice || src.Type() == reflect.TypeFor[Metadata]():
		return false
	case src.Type().ConvertibleTo(dst.Type()):
		dst.Set(src.Convert(dst.Type()))
		return true
	}
	dst.Set(reflect.MakeSlice(dst.Type(), src.Len(), src.Len()))
	for i := range src.Len() {
		if !convert(dst.Index(i), src.Index(i).Interface()) {
			return false
		}
	}
	return true
}
