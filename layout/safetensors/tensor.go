package safetensors

import (
	"errors"
	"strings"

	"github.com/tensormap/tensormap/layout"
)

// tensor reads the description of the tensor called k.
func (d *decoder) tensor(k key) error {
	t := d.build.Next()
	t.Name = k.name
	if !d.usual(t) {
		if err := d.anyTensor(t, k); err != nil {
			return err
		}
	}
	t.Shape = d.build.Dims(len(d.shape))
	copy(t.Shape, d.shape)
	begin := t.Offset - d.data.off
	d.touching = d.touching && begin == d.end
	d.end = begin + t.Stored
	return d.build.Add(d.offset(k.at))
}

// anyTensor reads a tensor in any notation of JSON.
func (d *decoder) anyTensor(t *layout.Tensor, name key) error {
	var seen, in fields
	err := d.object("a tensor's '{'", func(k key) error {
		in = fieldNamed(k.name)
		if err := d.value(in, t); err != nil {
			return err
		}
		seen |= in
		in = 0
		return nil
	})
	if missing := requiredFields &^ seen; err == nil && missing != 0 {
		in = missing & -missing
		err = d.errorf(name.at, layout.ErrInvalid, "no %v", missing)
	}
	return aboutTensor(err, name.name, in)
}

// fields is a set of keys of a tensor.
type fields uint8

const (
	dtypeField fields = 1 << iota
	shapeField
	offsetsField

	requiredFields = dtypeField | shapeField | offsetsField
)

var fieldNames = [...]string{"dtype", "shape", "data_offsets"}

// fieldNamed is the key as a set, which is empty if the format does not know it.
func fieldNamed(name []byte) fields {
	for i, n := range fieldNames {
		if string(name) == n {
			return 1 << i
		}
	}
	return 0
}

// String lists the names of the keys.
func (f fields) String() string {
	var names []string
	for i, n := range fieldNames {
		if f>>i&1 != 0 {
			names = append(names, n)
		}
	}
	return strings.Join(names, ", ")
}

// value reads the value of key f of t.
func (d *decoder) value(f fields, t *layout.Tensor) (err error) {
	switch f {
	case dtypeField:
		t.DType, err = d.dtype()
	case shapeField:
		err = d.dims()
	case offsetsField:
		t.Offset, t.Stored, err = d.offsets()
	default:
		err = d.ignore(2, d.lim.Depth)
	}
	return err
}

func (d *decoder) dtype() (layout.DType, error) {
	if d.next() != '"' {
		return 0, d.unexpected("a string")
	}
	start := d.i
	name, err := d.text()
	if err != nil {
		return 0, err
	}
	dtype := dtypeNamed(name)
	if dtype == layout.Invalid {
		return 0, d.errorf(start, layout.ErrUnsupported, "unknown dtype %s", layout.Quote(name))
	}
	return dtype, nil
}

// dims reads a shape into d.shape.
func (d *decoder) dims() error {
	d.shape = d.shape[:0]
	return d.array(func() error {
		if uint64(len(d.shape)) == d.lim.Rank {
			return d.errorf(d.i, layout.ErrLimit, "more than %d dimensions", d.lim.Rank)
		}
		n, err := d.uint()
		d.shape = append(d.shape, n)
		return err
	})
}

// offsets reads [begin, end], positions in the data, and makes of them a position in
// the file and a size.
func (d *decoder) offsets() (off, size uint64, err error) {
	d.next()
	start := d.i
	var span [2]uint64
	n := 0
	err = d.array(func() (err error) {
		if n == len(span) {
			return d.errorf(d.i, layout.ErrInvalid, "more than %d elements", n)
		}
		span[n], err = d.uint()
		n++
		return err
	})
	if err != nil {
		return 0, 0, err
	}
	begin, end := span[0], span[1]
	switch {
	case n < len(span):
		return 0, 0, d.errorf(start, layout.ErrInvalid, "%d elements instead of %d", n, len(span))
	case begin > end:
		return 0, 0, d.errorf(start, layout.ErrInvalid, "begins at %d but ends at %d", begin, end)
	case end > d.data.size:
		return 0, 0, d.errorf(start, layout.ErrTruncated, "ends at %d of %d bytes of data", end, d.data.size)
	}
	return d.data.off + begin, end - begin, nil
}

// aboutTensor completes an error, if there is one, with the tensor that it is about and
// the key in whose value it occurred.
func aboutTensor(err error, name []byte, f fields) error {
	if e, ok := errors.AsType[*layout.FormatError](err); ok {
		e.Reason = "tensor " + layout.Quote(name) + ": " + e.Reason
	}
	if f == 0 {
		return err
	}
	return withField(err, f.String())
}
