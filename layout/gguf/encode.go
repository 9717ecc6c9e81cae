package gguf

import (
	"encoding/binary"
	"io"
	"iter"
	"math"
	"reflect"
	"slices"

	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/layout/internal/tensorwriter"
)

// ggml reads tensors whose names have up to MaxName bytes, and up to MaxDims dimensions. Decode takes more.
const (
	MaxName = 63
	MaxDims = 4
)

// Holds reports whether tensors may have type d: whether ggml numbers it.
func Holds(d layout.DType) bool {
	_, ok := d.GGML()
	return ok
}

// Writer writes a GGUF file of version 3 from front to back. It holds the header but no tensor.
//
// Once a method has failed, the file is of no use and every later call fails alike.
type Writer struct{ file *tensorwriter.File }

// Options tune a Writer. Nil and the zero value mean the defaults.
type Options struct {
	// BigEndian writes all numbers of the file with their highest byte first. Tensors are given as ever, and
	// turned round. Types that File.Unpack refuses are ErrUnsupported.
	BigEndian bool
}

// NewWriter writes everything before the tensors of a file. It goes through tensors twice, such as slices.Values of a
// list, and reads their Name, Shape and DType. Their bytes follow in the same order, by one call of WriteTensor
// or WriteTensorFunc each.
//
// Values of metadata are numbers of Go's sized types, bools, strings, and slices of one such type. All
// but the key general.alignment, a uint32, are written without a look at their meaning. Tensors begin at
// multiples of the alignment, each at the padded end of the one before it, as ggml demands.
//
// It refuses what Decode would refuse, and dtypes that ggml does not number. Names have up to MaxName bytes, shapes
// MaxDims dimensions, and alignments are from 8 to 4096.
func NewWriter(w io.Writer, tensors iter.Seq[layout.Tensor], metadata layout.Metadata, opts *Options) (*Writer, error) {
	e := encoder{align: alignmentOf(metadata), order: binary.LittleEndian}
	plan := tensorwriter.Plan{Format: layout.GGUF, Align: e.align, SizeField: "type", CountField: "tensor_count"}
	if opts != nil && opts.BigEndian {
		e.order, plan.Filter = binary.BigEndian, swapFilter
	}
	if err := e.head(tensors, metadata); err != nil {
		return nil, err
	}
	plan.Size = uint64(len(e.b)) + e.data
	file, err := tensorwriter.Begin(w, plan, e.b, layout.AsDecoder(Decode))
	if err != nil {
		return nil, err
	}
	return &Writer{file}, nil
}

// WriteTensor writes the next tensor that NewWriter was given. b has its bytes, little-endian; it may be used again after the call.
// WriteTensor fails with [layout.ErrInvalid] if b is not as long as the tensor's DType and Shape say, or no tensor is left. It also fails
// if writing does.
func (w *Writer) WriteTensor(b []byte) error { return w.file.WriteTensor(b) }

// WriteTensorFunc writes the next tensor, whose bytes are all that write hands to dst, in writes of any size. dst may be used until write
// returns. WriteTensorFunc fails as WriteTensor does, or with the error of write.
func (w *Writer) WriteTensorFunc(write func(dst io.Writer) error) error {
	return w.file.WriteTensorFunc(write)
}

// Size returns how many bytes the whole file will have.
func (w *Writer) Size() uint64 { return w.file.Plan.Size }

// Written returns how many bytes of the file have been written so far.
func (w *Writer) Written() uint64 { return w.file.Written }

// Close writes the zeros behind the last tensor, up to the alignment. It does not close the writer that NewWriter was given. It fails with
// [layout.ErrTruncated] if tensors are missing, and if writing does. Later calls fail with [layout.ErrClosed].
func (w *Writer) Close() error { return w.file.Close() }

// InfoSize returns how many bytes t takes before and among the tensors of a file with this alignment.
func InfoSize(t *layout.Tensor, align uint64) uint64 {
	size, _ := t.DType.Size(t.Shape)
	return width{bytes: 8}.smallestInfo() + uint64(len(t.Name)) + 8*uint64(len(t.Shape)) + alignUp(min(size, math.MaxInt64), align)
}

// Aligns reports whether files may be written with this alignment.
func Aligns(align uint64) bool {
	return align >= minAlign && align <= maxAlign && align&(align-1) == 0
}

// alignmentOf returns the alignment that md states, or the default if it states none that is a power of two.
func alignmentOf(md layout.Metadata) uint64 {
	v, _ := md.Get(keyAlignment)
	if a, ok := v.(uint32); ok && a > 0 && a&(a-1) == 0 {
		return uint64(a)
	}
	return defaultAlign
}

// encoder makes the head of a file.
type encoder struct {
	b     []byte
	order interface {
		binary.ByteOrder
		binary.AppendByteOrder
	}
	align uint64
	data  uint64 // bytes of the tensors so far, each padded
}

// head appends everything before the tensors' data, padding included. It fails for an alignment, a value or a tensor that the format
// cannot hold.
func (e *encoder) head(tensors iter.Seq[layout.Tensor], metadata layout.Metadata) error {
	if !Aligns(e.align) {
		return layout.Errorf(layout.GGUF, 0, keyAlignment, layout.ErrInvalid, "%d is no power of two from %d to %d", e.align, minAlign, maxAlign)
	}
	e.b = e.order.AppendUint32(append(e.b, magic...), 3)
	e.u64(0) // tensor_count, once it is known
	e.u64(uint64(len(metadata)))
	for key, value := range metadata.All() {
		e.text(key)
		if err := e.value(key, value); err != nil {
			return err
		}
	}
	infos := uint64(0)
	for t := range tensors {
		infos += InfoSize(&layout.Tensor{Name: t.Name, Shape: t.Shape}, 1)
	}
	e.b = slices.Grow(e.b, int(infos+e.align)) // growing in steps would take the memory twice
	count := uint64(0)
	for t := range tensors {
		if err := e.tensor(&t); err != nil {
			return err
		}
		count++
	}
	e.order.PutUint64(e.b[atTensorCount:], count)
	e.b = append(e.b, make([]byte, alignUp(uint64(len(e.b)), e.align)-uint64(len(e.b)))...)
	return nil
}

// u32 appends a number of 32 bits in the byte order of the file.
func (e *encoder) u32(n uint32) { e.b = e.order.AppendUint32(e.b, n) }

// u64 appends a number of 64 bits in the byte order of the file.
func (e *encoder) u64(n uint64) { e.b = e.order.AppendUint64(e.b, n) }

// text appends a string and its length.
func (e *encoder) text(s string) {
	e.u64(uint64(len(s)))
	e.b = append(e.b, s...)
}

// value appends the type of a value, and the value. It fails if GGUF has no such type. key is for errors.
func (e *encoder) value(key string, value any) error {
	elem := reflect.TypeOf(value)
	isArray := elem != nil && elem.Kind() == reflect.Slice
	if isArray {
		elem = elem.Elem()
		e.u32(uint32(TypeArray))
	}
	t := slices.IndexFunc(types[:], func(t typeInfo) bool { return elem != nil && t.goType == elem })
	if t < 0 {
		return e.errorf("value_type", layout.ErrUnsupported, "key %s: GGUF has no type for a value of Go's type %T", layout.Quote(key), value)
	}
	e.u32(uint32(t))
	if isArray {
		e.u64(uint64(reflect.ValueOf(value).Len()))
	}
	switch v := value.(type) {
	case string:
		e.text(v)
	case []string:
		for _, s := range v {
			e.text(s)
		}
	default:
		b, err := binary.Append(e.b, e.order, value)
		if err != nil {
			return err
		}
		e.b = b
	}
	return nil
}

// tensor appends the tensor info of t, the next tensor. It fails if ggml could not read the tensor, or the file would be too large.
func (e *encoder) tensor(t *layout.Tensor) error {
	id, ok := t.DType.GGML()
	size, err := t.DType.Size(t.Shape)
	switch {
	case len(t.Name) > MaxName:
		return e.errorf("name", layout.ErrLimit, "tensor %s: %d bytes, and ggml reads names of up to %d", layout.Quote(t.Name), len(t.Name), MaxName)
	case len(t.Shape) > MaxDims:
		return e.errorf("n_dimensions", layout.ErrInvalid, "tensor %s: %d, more than %d", layout.Quote(t.Name), len(t.Shape), MaxDims)
	case !ok:
		return e.errorf("type", layout.ErrUnsupported, "tensor %s: ggml has no type for %v", layout.Quote(t.Name), t.DType)
	case e.order == binary.BigEndian && swapOf(t.DType) == noSwap:
		return e.errorf("type", layout.ErrUnsupported, "tensor %s: %v in a big-endian file", layout.Quote(t.Name), t.DType)
	case err != nil:
		return e.errorf("dimensions", layout.ErrInvalid, "tensor %s: %v", layout.Quote(t.Name), err)
	// No operating system gives a file more bytes than int64 counts.
	case size > math.MaxInt64-maxAlign-e.data:
		return e.errorf("offset", layout.ErrLimit, "tensor %s: %d bytes at %d make the file larger than 2^63 bytes", layout.Quote(t.Name), size, e.data)
	}
	e.text(string(t.Name))
	e.u32(uint32(len(t.Shape)))
	for _, n := range slices.Backward(t.Shape) {
		e.u64(uint64(n))
	}
	e.u32(id)
	e.u64(e.data)
	e.data += alignUp(size, e.align)
	return nil
}

// errorf returns the error that a field cannot be written where the head ends now.
func (e *encoder) errorf(field string, sentinel error, format string, args ...any) error {
	return layout.Errorf(layout.GGUF, uint64(len(e.b)), field, sentinel, format, args...)
}
