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

// MostName is the most bytes that the name of a tensor may have for ggml to read it. Decode takes
// one more.
const MostName = mostName - 1

// MostDims is the most dimensions of a tensor.
const MostDims = mostDims

// Holds reports whether tensors may have type d: whether ggml numbers it.
func Holds(d layout.DType) bool {
	_, ok := d.GGML()
	return ok
}

// Writer writes a GGUF file of version 3 from front to back. It holds the header but no tensor.
//
// Once a method has failed, the file is of no use and every later call fails alike.
type Writer struct {
	tensorwriter.Tensors
	file *tensorwriter.File
	end  uint64 // with the padding behind the last tensor
	big  bool
	next int // of a big-endian file: the tensor to come
}

// Options tune a Writer. Nil and the zero value mean the defaults.
type Options struct {
	// BigEndian writes all numbers of the file with their highest byte first. Tensors are given as ever, and
	// turned round. Types that File.Unpack refuses are ErrUnsupported.
	BigEndian bool
}

// NewWriter writes everything before the tensors of a file. It takes such as slices.Values of a list, and reads
// their Name, Shape and DType, more than once. Their bytes follow in the same order, by one call of WriteTensor
// or WriteTensorFunc each.
//
// Values of metadata are numbers of Go's sized types, bools, strings, and slices of these. All
// but the key general.alignment, a uint32, are written without a look at their meaning. Tensors begin at
// multiples of the alignment, each at the padded end of the one before it, as ggml demands.
//
// It refuses what Decode would refuse, dtypes that ggml does not number, and names of more than
// MostName bytes.
func NewWriter(w io.Writer, tensors iter.Seq[layout.Tensor], metadata layout.Metadata, opts *Options) (*Writer, error) {
	e := encoder{align: alignmentOf(metadata), order: binary.LittleEndian}
	big := opts != nil && opts.BigEndian
	if big {
		e.order = binary.BigEndian
	}
	if err := e.header(tensors, metadata); err != nil {
		return nil, err
	}
	end := uint64(len(e.buf)) + e.data
	// Decoding makes sure of all that is not checked before, so that nothing is written
	// which cannot be read.
	f, err := Decode(tensorwriter.HeadOnly{Head: e.buf, Len: end}, nil)
	if err != nil {
		return nil, err
	}
	file := tensorwriter.New(w, f.index, f.index.Align, tensorwriter.Fields{Size: "type", Count: "tensor_count"})
	if err := file.Write(e.buf); err != nil {
		return nil, err
	}
	return &Writer{Tensors: tensorwriter.NewTensors(file), file: file, end: end, big: big}, nil
}

// WriteTensor writes the next tensor, whose bytes are b.
func (w *Writer) WriteTensor(b []byte) error {
	if !w.big {
		return w.Tensors.WriteTensor(b)
	}
	return w.WriteTensorFunc(func(dst io.Writer) error {
		_, err := dst.Write(b)
		return err
	})
}

// WriteTensorFunc writes the next tensor, whose bytes are all that write hands to dst, in pieces of any
// size. dst may be used until write returns.
func (w *Writer) WriteTensorFunc(write func(dst io.Writer) error) error {
	at := w.next
	w.next++
	if !w.big || at >= len(w.file.Index().Tensors) {
		return w.Tensors.WriteTensorFunc(write)
	}
	t := &w.file.Index().Tensors[at]
	s := swapOf(t.DType)
	if s == nil {
		return w.Tensors.WriteTensorFunc(write)
	}
	return w.Tensors.WriteTensorFunc(func(dst io.Writer) error {
		turned := swapWriter{dst: dst, swap: s, block: t.DType.BlockBytes()}
		if err := write(&turned); err != nil {
			return err
		}
		return turned.flush()
	})
}

// Close makes sure that all tensors are written, and pads the last one. It does not close the writer
// below.
func (w *Writer) Close() error {
	if err := w.file.Complete(); err != nil {
		return err
	}
	if err := w.file.Pad(w.end); err != nil {
		return err
	}
	w.file.Fail(layout.ErrClosed)
	return nil
}

// InfoSize returns how many bytes t takes before and among the tensors of a file with this alignment.
func InfoSize(t *layout.Tensor, align uint64) uint64 {
	size, _ := t.DType.Size(t.Shape)
	return width{bytes: 8}.smallestInfo() + uint64(len(t.Name)) + 8*uint64(len(t.Shape)) + padded(min(size, math.MaxInt64), align)
}

// alignmentOf returns the alignment that metadata asks for. Decode checks the value.
func alignmentOf(md layout.Metadata) uint64 {
	v, _ := md.Get(keyAlignment)
	if a, ok := v.(uint32); ok && a > 0 && a&(a-1) == 0 {
		return uint64(a)
	}
	return defaultAlign
}

// Sizes of what precedes texts: of the length of one, and of the most that a key has but its text and arrays.
const (
	lengthsSize = 8
	mostValue   = lengthsSize + 4 + 4 + lengthsSize
)

// encoder appends to a header.
type encoder struct {
	buf   []byte
	order interface {
		binary.ByteOrder
		binary.AppendByteOrder
	}
	align uint64
	data  uint64 // bytes of the tensors so far, each padded
}

func (e *encoder) header(tensors iter.Seq[layout.Tensor], md layout.Metadata) error {
	size, count := uint64(0), uint64(0)
	for t := range tensors {
		size += width{bytes: 8}.smallestInfo() + uint64(len(t.Name)) + 8*uint64(len(t.Shape))
		count++
	}
	for key, value := range md.All() {
		size += uint64(len(key) + mostValue)
		switch v := value.(type) {
		case string:
			size += uint64(len(v))
		case []string:
			size += lengthsSize * uint64(len(v))
			for _, s := range v {
				size += uint64(len(s))
			}
		}
	}
	e.buf = append(make([]byte, 0, size+mostAlign), magic...) // and what arrays of numbers take
	e.buf = e.order.AppendUint32(e.buf, 3)
	e.buf = e.order.AppendUint64(e.buf, count)
	e.buf = e.order.AppendUint64(e.buf, uint64(len(md)))
	for key, value := range md.All() {
		e.text(key)
		if err := e.value(key, value); err != nil {
			return err
		}
	}
	for t := range tensors {
		if err := e.tensor(&t); err != nil {
			return err
		}
	}
	e.buf = append(e.buf, make([]byte, padded(uint64(len(e.buf)), e.align)-uint64(len(e.buf)))...)
	return nil
}

func (e *encoder) text(s string) {
	e.buf = append(e.order.AppendUint64(e.buf, uint64(len(s))), s...)
}

// value appends the type of a value, and the value.
func (e *encoder) value(key string, value any) error {
	v := reflect.ValueOf(value)
	if v.IsValid() && v.Kind() == reflect.Slice {
		return e.array(key, v)
	}
	t, ok := typeOf(v)
	if !ok {
		return e.noType(key, value)
	}
	e.buf = e.order.AppendUint32(e.buf, uint32(t))
	return e.elements(t, value)
}

func (e *encoder) array(key string, v reflect.Value) error {
	t, ok := typeOf(reflect.Zero(v.Type().Elem()))
	if !ok {
		return e.noType(key, v.Interface())
	}
	e.buf = e.order.AppendUint32(e.buf, uint32(TypeArray))
	e.buf = e.order.AppendUint32(e.buf, uint32(t))
	e.buf = e.order.AppendUint64(e.buf, uint64(v.Len()))
	return e.elements(t, v.Interface())
}

// elements appends one value of type t, or a slice of such.
func (e *encoder) elements(t Type, value any) (err error) {
	switch v := value.(type) {
	case string:
		e.text(v)
	case []string:
		for _, s := range v {
			e.text(s)
		}
	default:
		e.buf, err = binary.Append(e.buf, e.order, value)
	}
	return err
}

func typeOf(v reflect.Value) (Type, bool) {
	if !v.IsValid() {
		return 0, false
	}
	if v.Type() == reflect.TypeFor[string]() {
		return TypeString, true
	}
	t, ok := typeByGo[v.Type()]
	return t, ok
}

func (e *encoder) noType(key string, value any) error {
	return e.errorf("value_type", layout.ErrUnsupported, "key %s: GGUF has no type for a value of Go's type %T", layout.Quote([]byte(key)), value)
}

func (e *encoder) tensor(t *layout.Tensor) error {
	id, ok := t.DType.GGML()
	size, err := t.DType.Size(t.Shape)
	switch {
	case len(t.Name) > MostName:
		return e.errorf("name", layout.ErrLimit, "tensor %s: %d bytes, and ggml reads names of up to %d", layout.Quote(t.Name), len(t.Name), MostName)
	case !ok:
		return e.errorf("type", layout.ErrUnsupported, "tensor %s: ggml has no type for %v", layout.Quote(t.Name), t.DType)
	case e.order == binary.BigEndian && swapOf(t.DType) == noSwap:
		return e.errorf("type", layout.ErrUnsupported, "tensor %s: %v in a big-endian file", layout.Quote(t.Name), t.DType)
	case err != nil:
		return e.errorf("dimensions", layout.ErrInvalid, "tensor %s: %v", layout.Quote(t.Name), err)
	// No operating system gives a file more bytes than int64 counts.
	case size > math.MaxInt64-mostAlign-e.data:
		return e.errorf("offset", layout.ErrLimit, "tensor %s: %d bytes at %d make the file larger than 2^63 bytes", layout.Quote(t.Name), size, e.data)
	}
	e.text(string(t.Name))
	e.buf = e.order.AppendUint32(e.buf, uint32(len(t.Shape)))
	for _, n := range slices.Backward(t.Shape) {
		e.buf = e.order.AppendUint64(e.buf, uint64(n))
	}
	e.buf = e.order.AppendUint32(e.buf, id)
	e.buf = e.order.AppendUint64(e.buf, e.data)
	e.data += padded(size, e.align)
	return nil
}

func (e *encoder) errorf(field string, sentinel error, format string, args ...any) error {
	return layout.Errorf(layout.GGUF, uint64(len(e.buf)), field, sentinel, format, args...)
}
