package bind

import (
	"fmt"
	"math/bits"
	"reflect"
	"strconv"
	"strings"

	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/loader"
)

// checkDType returns nil if the dtypes that tag lists include the dtype of t, or if tag lists none. Otherwise it returns ErrMismatch. It
// returns another error if a name in the list, before the dtype of t, is no dtype.
func (b *binder) checkDType(t loader.Tensor, tag reflect.StructTag) error {
	list, ok := tag.Lookup("dtype")
	if !ok {
		return nil
	}
	for name := range strings.SplitSeq(list, ",") {
		d, ok := layout.ParseDType(strings.TrimSpace(name))
		if !ok {
			return fmt.Errorf("bind: the tag dtype names %q, which is none", name)
		}
		if d == t.DType() {
			return nil
		}
	}
	if form := t.Scheme(); form != nil {
		return fmt.Errorf("%w: the tensor is quantized (%s) and has no dtype, want %s", ErrMismatch, form.Scheme, list)
	}
	return fmt.Errorf("%w: dtype %v, want %s", ErrMismatch, t.DType(), list)
}

// checkShape returns nil if the shape in tag fits the shape of t, or if tag has none. Otherwise it returns ErrMismatch. Names in the tag
// that have no number yet get one from t: see checkDim.
func (b *binder) checkShape(t loader.Tensor, tag reflect.StructTag) error {
	list, ok := tag.Lookup("shape")
	if !ok {
		return nil
	}
	var want []string
	if list != "" {
		want = strings.Split(list, ",")
	}
	shape := t.Shape()
	if len(want) != len(shape) {
		return fmt.Errorf("%w: shape %v, want (%s)", ErrMismatch, shape, list)
	}
	for i, n := range shape {
		if why := b.checkDim(strings.TrimSpace(want[i]), n, t.Name()); why != "" {
			return fmt.Errorf("%w: shape %v, want (%s): %s", ErrMismatch, shape, list, why)
		}
	}
	return nil
}

// checkDim returns why n is not the dimension that want describes, or "" if it is. want is "_" for any number, a number, a name, or a
// multiple of a name such as 3*hidden. A name that b.dims lacks gets the number with which n fits.
func (b *binder) checkDim(want string, n int, tensor string) string {
	number, err := strconv.Atoi(want)
	switch {
	case want == "_" || err == nil && n == number:
		return ""
	case err == nil:
		return fmt.Sprintf("%d is not %d", n, number)
	}
	factor, name := 1, want
	if before, after, ok := strings.Cut(want, "*"); ok {
		if factor, err = strconv.Atoi(before); err != nil || factor <= 0 {
			return fmt.Sprintf("the tag's %q is no dimension", want)
		}
		name = after
	}
	known, isKnown := b.dims[name]
	hi, product := bits.Mul64(uint64(factor), uint64(known))
	switch {
	case !isKnown && n%factor != 0:
		return fmt.Sprintf("%d is no multiple of %d", n, factor)
	case !isKnown:
		b.dims[name], b.setBy[name] = n/factor, tensor
		return ""
	case hi == 0 && product == uint64(n):
		return ""
	}
	why := fmt.Sprintf("%s is %d", name, known)
	if by := b.setBy[name]; by != "" {
		why += fmt.Sprintf(" in %q", by)
	}
	if name != want {
		return fmt.Sprintf("%d is not %s, and %s", n, want, why)
	}
	return fmt.Sprintf("%d, but %s", n, why)
}
