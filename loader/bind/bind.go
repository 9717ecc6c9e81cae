// Package bind fills a struct with the tensors of a model, by tags, and checks their shapes and types.
//
//	type Layer struct {
//		Query loader.Tensor `tensor:"attention.query.weight" shape:"hidden,hidden" dtype:"F32,F16"`
//		Bias  []float32     `tensor:"attention.query.bias,optional" shape:"hidden"`
//	}
//	type Encoder struct {
//		Words  loader.Tensor `tensor:"embeddings.weight|bert.embeddings.weight" shape:"vocab,hidden"`
//		Layers []Layer       `tensor:"layer.%d."`
//	}
//	var e Encoder
//	err := bind.Struct(&e, model, nil)
//
// # Tags
//
// A field with the tag tensor is filled; others are left alone, but for embedded structs. The tag is
// the tensor's name, or, for a struct, the prefix of its fields' names. Several names are divided
// by "|": the first that exists counts. A name that ends in ",optional" may be missing; the field
// then keeps its value. The types of fields are
//
//   - loader.Tensor
//   - []float32, filled by Tensor.Float32s
//   - []byte, filled by Tensor.Bytes
//   - structs of such fields, and pointers to such structs. A pointer stays nil if no tensor has the prefix
//   - slices and arrays of all these types, with %d in the name: one element for each number from 0 on.
//     A slice gets as many elements as the model has; numbers that it skips are a mismatch
//
// The tag shape lists the dimensions, outermost first: a number, a name, a multiple of a name
// ("3*hidden"), or "_" for any. A name stands for the same number wherever it occurs.
//
// The tag dtype lists the types that the code can take, as [layout.DType] names them. A weight of a
// quantized checkpoint has none ([loader.Tensor.Scheme]): leave the tag out to take it.
package bind

import (
	"errors"
	"fmt"
	"iter"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/tensormap/tensormap/internal/nearest"
	"github.com/tensormap/tensormap/loader"
)

// Source has tensors by name: a *loader.Model or a *loader.Lease. Views in a struct live as long as
// the views of its source.
type Source interface {
	// Path returns the path of the model.
	Path() string
	Tensor(name string) (loader.Tensor, error)
	Tensors() iter.Seq[loader.Tensor]
}

// Dims are the numbers that names in shapes stand for.
type Dims map[string]int

// MismatchError says which field does not fit which tensor.
type MismatchError struct {
	Path   string // of the model, unless Err names the file
	Field  string // such as Layers[3].Query
	Tensor string // its name, prefixes included
	Err    error
}

// Error names model, field and tensor. Without Path, Err names the model's file and the tensor itself.
func (e *MismatchError) Error() string {
	if e.Path == "" {
		return fmt.Sprintf("%s: %v", e.Field, e.Err)
	}
	return fmt.Sprintf("%s: %s: tensor %q: %v", e.Path, e.Field, e.Tensor, e.Err)
}

func (e *MismatchError) Unwrap() error { return e.Err }

// ErrMismatch means that a tensor exists, with another shape or type.
var ErrMismatch = errors.New("mismatch")

// Struct fills the struct that dst points to. Where a shape has a name that dims has too, the tensor must
// have that number. Struct adds the numbers that it finds for other names to dims, which may be nil.
//
// The error joins a *MismatchError for every field that does not fit: [loader.ErrNotFound] with the
// nearest names, or [ErrMismatch]. The struct and dims are then as they were. Values are read and
// expanded only if every shape and type fits.
func Struct(dst any, from Source, dims Dims) error {
	v := reflect.ValueOf(dst)
	if v.Kind() != reflect.Pointer || v.IsNil() || v.Elem().Kind() != reflect.Struct {
		return fmt.Errorf("bind: %T is no pointer to a struct", dst)
	}
	b := &binder{from: from, dims: make(Dims), setBy: make(map[string]string), filling: make(map[pointerAt]bool)}
	maps.Copy(b.dims, dims)
	for t := range from.Tensors() {
		b.names = append(b.names, t.Name())
	}
	slices.Sort(b.names)
	filled := reflect.New(v.Elem().Type()).Elem() // a copy, which becomes *dst if all fits
	filled.Set(v.Elem())
	b.fillStruct(filled, "", "")
	for i := 0; i < len(b.reads) && len(b.errs) == 0; i++ {
		b.reads[i]()
	}
	if len(b.errs) > 0 {
		return errors.Join(b.errs...)
	}
	v.Elem().Set(filled)
	if dims != nil {
		maps.Copy(dims, b.dims)
	}
	return nil
}

// binder fills one struct. It notes what does not fit, and reads values once everything does.
type binder struct {
	from  Source
	names []string // of all tensors, sorted
	dims  Dims
	setBy map[string]string // the tensor that has set a dimension
	reads []func()          // of values, once everything fits
	errs  []error
	hints int // searches for near names so far

	filling map[pointerAt]bool // the pointers that lead to the field that is filled
}

// pointerAt is a pointer's type and the prefix of its fields.
type pointerAt struct {
	pointer reflect.Type
	prefix  string
}

// maxHints is the number of missing tensors for which near names are searched.
const maxHints = 8

// fail notes in b.errs that a tensor does not fit a field, or that the field cannot be filled.
func (b *binder) fail(field, tensor string, err error) {
	b.errs = append(b.errs, &MismatchError{b.from.Path(), field, tensor, err})
}

// fillStruct fills the tagged fields of the struct v from tensors whose names begin with prefix. It notes in b.errs the fields that
// cannot be filled. path is the path of v in the outermost struct, such as "Layers[3].", or "" for that struct itself.
func (b *binder) fillStruct(v reflect.Value, path, prefix string) {
	for i := range v.NumField() {
		f := v.Type().Field(i)
		tag, tagged := f.Tag.Lookup("tensor")
		embedded := f.Anonymous && f.Type.Kind() == reflect.Struct // its exported fields can be set
		if !tagged && !embedded {
			continue
		}
		r := fieldRequest{field: path + f.Name, tag: f.Tag}
		tag, r.optional = strings.CutSuffix(tag, ",optional")
		for name := range strings.SplitSeq(tag, "|") { // one or more: an empty tag is the prefix alone
			r.names = append(r.names, prefix+name)
		}
		if !f.IsExported() && !embedded || !fillable(f.Type) {
			b.fail(r.field, r.names[0], fmt.Errorf("bind: a field of type %v cannot be filled", f.Type))
			continue
		}
		b.fillField(v.Field(i), r)
	}
}

// fieldRequest is a field to fill from the first of some names, or prefixes, that exists.
type fieldRequest struct {
	field    string
	names    []string
	optional bool
	tag      reflect.StructTag
}

var (
	tensorType = reflect.TypeFor[loader.Tensor]()
	floatsType = reflect.TypeFor[[]float32]()
	bytesType  = reflect.TypeFor[[]byte]()
)

// isOneTensor reports whether one tensor fills a value of type t.
func isOneTensor(t reflect.Type) bool { return t == tensorType || t == floatsType || t == bytesType }

// fillable reports whether tensors can fill a value of type t: a type that one tensor fills, a struct, a pointer to a struct,
// or a slice or array of such values. It reports false for lists of lists: a name has one %d, for the index in one list.
func fillable(t reflect.Type) bool {
	if !isOneTensor(t) && (t.Kind() == reflect.Slice || t.Kind() == reflect.Array) {
		t = t.Elem()
	}
	if t.Kind() == reflect.Pointer {
		return t.Elem().Kind() == reflect.Struct && t.Elem() != tensorType
	}
	return isOneTensor(t) || t.Kind() == reflect.Struct
}

// fillField fills v, whose type is fillable, as r says, or notes in b.errs why not. A pointer stays nil if no tensor's name begins with one
// of its prefixes. A struct may contain a pointer to its own type, as a field or further inside. The prefix of the inner pointer must
// differ from the prefix of the outer one: with the same prefix, one struct would contain the next without end.
func (b *binder) fillField(v reflect.Value, r fieldRequest) {
	t := v.Type()
	first := max(0, slices.IndexFunc(r.names, b.hasPrefix)) // if no tensor has any of the prefixes, errors name the first one
	switch prefix := r.names[first]; {
	case isOneTensor(t):
		b.fillTensor(v, r)
	case t.Kind() == reflect.Struct:
		b.fillStruct(v, r.field+".", prefix)
	case t.Kind() != reflect.Pointer:
		b.fillList(v, r)
	case b.filling[pointerAt{t, prefix}]:
		b.fail(r.field, prefix, fmt.Errorf("bind: a %v within itself needs a prefix of its own", t))
	case b.hasPrefix(prefix):
		b.filling[pointerAt{t, prefix}] = true
		v.Set(reflect.New(t.Elem()))
		b.fillStruct(v.Elem(), r.field+".", prefix)
		delete(b.filling, pointerAt{t, prefix})
	}
}

// hasPrefix reports whether a tensor's name begins with prefix.
func (b *binder) hasPrefix(prefix string) bool {
	i, _ := slices.BinarySearch(b.names, prefix)
	return i < len(b.names) && strings.HasPrefix(b.names[i], prefix)
}

// fillList fills the slice or array v from the first pattern in r.names that tensors have: element i from the names with i in place of %d.
// It notes in b.errs what cannot be filled. An optional slice without tensors stays as it is.
func (b *binder) fillList(v reflect.Value, r fieldRequest) {
	pattern, n := r.names[0], 0
	for _, name := range r.names {
		count, err := b.countNumbers(name, isOneTensor(v.Type().Elem()))
		if err != nil {
			b.fail(r.field, name, err)
			return
		}
		if count > 0 {
			pattern, n = name, count
			break
		}
	}
	switch {
	case v.Kind() == reflect.Array:
		n = v.Len()
	case n == 0 && r.optional:
		return
	case n == 0:
		b.failMissing(r.field, strings.Replace(pattern, "%d", "0", 1))
		return
	default:
		v.Set(reflect.MakeSlice(v.Type(), n, n))
	}
	for i := range n {
		element := r
		element.field = fmt.Sprintf("%s[%d]", r.field, i)
		element.names = []string{strings.Replace(pattern, "%d", strconv.Itoa(i), 1)}
		b.fillField(v.Index(i), element)
	}
}

// countNumbers returns how many different numbers stand in place of %d in the names that match pattern. If isWholeName is true, a name must
// match as a whole. Otherwise its beginning must match. countNumbers fails with ErrMismatch unless the numbers are 0, 1, 2 and so on without
// a gap. It also fails unless pattern has one %d.
func (b *binder) countNumbers(pattern string, isWholeName bool) (int, error) {
	before, after, _ := strings.Cut(pattern, "%d")
	if strings.Count(pattern, "%d") != 1 {
		return 0, errors.New("bind: the name of several needs one %d")
	}
	numbers := make(map[int]bool)
	highest := -1
	from, _ := slices.BinarySearch(b.names, before)
	for _, name := range b.names[from:] {
		rest, ok := strings.CutPrefix(name, before)
		if !ok {
			break
		}
		digits := rest[:len(rest)-len(strings.TrimLeft(rest, "0123456789"))]
		rest = rest[len(digits):]
		n, err := strconv.Atoi(digits)
		if err != nil || strconv.Itoa(n) != digits || !strings.HasPrefix(rest, after) || isWholeName && rest != after {
			continue
		}
		numbers[n] = true
		highest = max(highest, n)
	}
	for n := range len(numbers) {
		if !numbers[n] {
			return 0, fmt.Errorf("%w: numbers up to %d, but none is %d", ErrMismatch, highest, n)
		}
	}
	return len(numbers), nil
}

// fillTensor fills v, of a type that one tensor fills, from the first tensor of r.names that exists: a loader.Tensor at once, other types
// by a function in b.reads. It notes in b.errs a tensor that cannot be looked up, does not fit, or is missing and not optional.
func (b *binder) fillTensor(v reflect.Value, r fieldRequest) {
	var t loader.Tensor
	var err error
	for _, name := range r.names { // at least one
		if t, err = b.from.Tensor(name); !errors.Is(err, loader.ErrNotFound) {
			break
		}
	}
	switch {
	case errors.Is(err, loader.ErrNotFound) && r.optional:
		return
	case errors.Is(err, loader.ErrNotFound):
		b.failMissing(r.field, r.names[0])
		return
	case err != nil:
		b.errs = append(b.errs, &MismatchError{"", r.field, r.names[0], err}) // err names the file
		return
	}
	if err := errors.Join(b.checkDType(t, r.tag), b.checkShape(t, r.tag)); err != nil {
		b.fail(r.field, t.Name(), err)
		return
	}
	if into, ok := v.Addr().Interface().(*loader.Tensor); ok {
		*into = t
		return
	}
	b.reads = append(b.reads, func() {
		var err error
		switch into := v.Addr().Interface().(type) {
		case *[]float32:
			*into, err = t.Float32s()
		case *[]byte:
			*into, err = t.Bytes()
		}
		if err != nil {
			b.errs = append(b.errs, &MismatchError{"", r.field, t.Name(), err}) // err names the file
		}
	})
}

// failMissing notes in b.errs that no tensor is called name. For the first maxHints missing tensors it adds similar names to the error. To
// find them, it compares name with the names of all tensors.
func (b *binder) failMissing(field, name string) {
	err := loader.ErrNotFound
	if b.hints < maxHints {
		b.hints++
		if near := nearest.Names(slices.Values(b.names), name); len(near) > 0 {
			err = fmt.Errorf("%w; the model has %q", err, near)
		}
	}
	b.fail(field, name, err)
}
