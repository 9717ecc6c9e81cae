package safetensors

import (
	"bytes"
	"encoding/binary"
	"errors"
	"strings"

	"github.com/tensormap/tensormap/layout"
)

// File is a decoded SafeTensors file.
type File struct {
	index    *layout.Index
	header   uint64 // size of the header
	metadata span   // of __metadata__'s value in the file; empty without it
}

type span struct{ off, size uint64 }

var _ layout.File = (*File)(nil)

// Decode reads the header. Tensors are in the order of the header; their names are
// slices of in, save those that the header writes with escapes. A nil lim means the
// defaults. Errors are *layout.FormatError: a header that is not as the package
// comment says (ErrInvalid, ErrDuplicate, ErrOverlap), a file too short for it
// (ErrTruncated), a dtype that the format does not know (ErrUnsupported), or something
// past lim (ErrLimit).
func Decode(in layout.Input, lim *layout.Limits) (*File, error) {
	limits := lim.WithDefaults()
	header, err := readHeader(in, limits)
	if err != nil {
		return nil, err
	}
	d := decoder{
		scanner: scanner{b: header, base: sizeBytes},
		lim:     limits,
		data:    span{sizeBytes + uint64(len(header)), in.Size() - sizeBytes - uint64(len(header))},
	}
	if err := d.begin(in.Size()); err != nil {
		return nil, err
	}
	if err := d.tensors(); err != nil {
		return nil, err
	}
	index, err := d.finish()
	if err != nil {
		return nil, err
	}
	return &File{index: index, header: uint64(len(header)), metadata: d.metadata}, nil
}

func readHeader(in layout.Input, lim layout.Limits) ([]byte, error) {
	b, err := layout.Region(in, layout.SafeTensors, 0, "header_size", 0, sizeBytes)
	if err != nil {
		return nil, err
	}
	size := binary.LittleEndian.Uint64(b)
	if size > lim.HeaderBytes {
		return nil, layout.Errorf(layout.SafeTensors, 0, "header_size", layout.ErrLimit, "%d bytes, more than %d", size, lim.HeaderBytes)
	}
	return layout.Region(in, layout.SafeTensors, 0, "header_size", sizeBytes, size)
}

// decoder reads the header's tensors into an index.
type decoder struct {
	scanner
	lim      layout.Limits
	build    *layout.Builder
	data     span
	metadata span
	shape    []uint64 // of the tensor being read

	// end is where the tensor read last ends, in the data, and touching stays true
	// while every tensor begins there, as in nearly every real file.
	end      uint64
	touching bool
}

func (d *decoder) begin(fileSize uint64) error {
	// One brace is the header's own, and in real headers the others are the tensors'.
	braces := uint64(bytes.Count(d.b, []byte{'{'}))
	count := min(max(braces, 1)-1, uint64(len(d.b)/smallest), d.lim.Tensors)
	b, err := layout.NewBuilder(layout.SafeTensors, fileSize, count, "data_offsets", d.lim)
	if err != nil {
		return err
	}
	b.Data(d.data.off, d.data.size)
	d.build, d.touching = b, true
	return b.Section("header", 0, 0, d.data.off)
}

// tensors reads the header's object.
func (d *decoder) tensors() error {
	if len(d.b) == 0 || d.b[0] != '{' {
		return d.unexpected("'{'")
	}
	d.i++
	for first := true; ; first = false {
		more, err := d.more('}', first)
		if err != nil {
			return err
		}
		if !more {
			break
		}
		k, err := d.key()
		if err != nil {
			return err
		}
		if err := d.member(k); err != nil {
			return err
		}
	}
	if d.next(); d.i < len(d.b) {
		return d.unexpected("white space")
	}
	return nil
}

func (d *decoder) member(k key) error {
	if string(k.name) != metadataKey {
		return d.tensor(k)
	}
	if d.metadata.size > 0 {
		return withField(d.errorf(k.at, layout.ErrDuplicate, "key %q occurs twice", k.name), metadataKey)
	}
	d.next()
	start := d.i
	if err := d.strings(nil); err != nil {
		return withField(err, metadataKey)
	}
	d.metadata = span{d.offset(start), uint64(d.i - start)}
	return nil
}

// The keys of a tensor, as bits.
type fields uint8

const (
	dtypeField fields = 1 << iota
	shapeField
	offsetsField
	otherField

	requiredFields = dtypeField | shapeField | offsetsField
)

var fieldNames = []struct {
	bit  fields
	name string
}{
	{dtypeField, "dtype"},
	{shapeField, "shape"},
	{offsetsField, "data_offsets"},
}

func (f fields) String() string {
	var names []string
	for _, n := range fieldNames {
		if f&n.bit != 0 {
			names = append(names, n.name)
		}
	}
	return strings.Join(names, ", ")
}

// tensor reads the description of tensor k.
func (d *decoder) tensor(k key) error {
	t := layout.Tensor{Name: k.name}
	if d.usual(&t) {
		return d.add(&t, k)
	}
	if err := d.open('{', "a tensor's '{'"); err != nil {
		return aboutTensor(err, k.name, 0)
	}
	var seen fields
	for first := true; ; first = false {
		more, err := d.more('}', first)
		if err != nil {
			return aboutTensor(err, k.name, 0)
		}
		if !more {
			break
		}
		f, err := d.field(seen)
		if err == nil {
			err = d.value(f, &t)
		}
		if err != nil {
			return aboutTensor(err, k.name, f)
		}
		seen |= f
	}
	if missing := requiredFields &^ seen; missing != 0 {
		return aboutTensor(d.errorf(k.at, layout.ErrInvalid, "no %v", missing), k.name, missing)
	}
	if seen&otherField != 0 {
		if err := d.distinct(0); err != nil {
			return aboutTensor(err, k.name, 0)
		}
	}
	return d.add(&t, k)
}

// field reads a key of a tensor.
func (d *decoder) field(seen fields) (fields, error) {
	d.next()
	start := d.i
	f := d.plainField()
	if f == 0 {
		k, err := d.key()
		if err != nil {
			return 0, err
		}
		if f = fieldNamed(k.name); f == otherField {
			d.remember(k)
			return f, nil
		}
	}
	if seen&f != 0 {
		return f, d.errorf(start, layout.ErrDuplicate, "key \"%v\" occurs twice", f)
	}
	return f, nil
}

// plainField reads a key and its colon where they are written as all writers do, without
// escapes and spaces; else it is 0 and nothing was read.
func (d *decoder) plainField() fields {
	switch {
	case d.skip(`"dtype":`):
		return dtypeField
	case d.skip(`"shape":`):
		return shapeField
	case d.skip(`"data_offsets":`):
		return offsetsField
	}
	return 0
}

func fieldNamed(name []byte) fields {
	for _, n := range fieldNames {
		if string(name) == n.name {
			return n.bit
		}
	}
	return otherField
}

// value reads field f of t.
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
	if err := d.open('[', "an array"); err != nil {
		return err
	}
	d.shape = d.shape[:0]
	for {
		more, err := d.more(']', len(d.shape) == 0)
		if err != nil || !more {
			return err
		}
		n, err := d.uint()
		if err != nil {
			return err
		}
		if uint64(len(d.shape)) == d.lim.Rank {
			return d.errorf(d.i, layout.ErrLimit, "more than %d dimensions", d.lim.Rank)
		}
		d.shape = append(d.shape, n)
	}
}

// offsets reads [begin, end], positions in the data, and makes of them a position in
// the file and a size.
func (d *decoder) offsets() (off, size uint64, err error) {
	if err := d.open('[', "an array"); err != nil {
		return 0, 0, err
	}
	start := d.i
	begin, err := d.uint()
	if err != nil {
		return 0, 0, err
	}
	if err := d.open(',', "','"); err != nil {
		return 0, 0, err
	}
	end, err := d.uint()
	if err != nil {
		return 0, 0, err
	}
	if err := d.open(']', "']'"); err != nil {
		return 0, 0, err
	}
	switch {
	case begin > end:
		return 0, 0, d.errorf(start, layout.ErrInvalid, "begins at %d but ends at %d", begin, end)
	case end > d.data.size:
		return 0, 0, d.errorf(start, layout.ErrTruncated, "ends at %d of %d bytes of data", end, d.data.size)
	}
	return d.data.off + begin, end - begin, nil
}

func (d *decoder) add(t *layout.Tensor, k key) error {
	t.Shape = d.build.Dims(len(d.shape))
	copy(t.Shape, d.shape)
	begin := t.Offset - d.data.off
	d.touching = d.touching && begin == d.end
	d.end = begin + t.Stored
	return d.build.Add(*t, d.offset(k.at))
}

// aboutTensor completes an error with the tensor that it is about and the field in
// which it occurred, if it was in one that the format names.
func aboutTensor(err error, name []byte, f fields) error {
	if e, ok := errors.AsType[*layout.FormatError](err); ok {
		e.Reason = "tensor " + layout.Quote(name) + ": " + e.Reason
	}
	if f&requiredFields == 0 {
		return err
	}
	return withField(err, f.String())
}

func withField(err error, field string) error {
	if e, ok := errors.AsType[*layout.FormatError](err); ok {
		e.Field = field
	}
	return err
}
