package gguf

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/binary"
	"io"
	"iter"
	"math"
	"reflect"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/layout/internal/tensorwriter"
)

// MostName is the most bytes that the name of a tensor may have for ggml to read it. Decode takes
// more.
const MostName = mostName - 1

// MostDims is the most dimensions of a tensor for ggml to read it. Decode takes more.
const MostDims = mostDims

// Holds reports whether tensors may have type d: whether ggml numbers it.
func Holds(d layout.DType) bool {
	_, ok := d.GGML()
	return ok
}

// Writer writes a GGUF file of version 3 from front to back. It holds the header but no tensor.
//
// Once a method has failed, the file is of no use and every later call fails alike.
type Writer struct{ tensors tensorwriter.Tensors }

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
// Values of metadata are numbers of Go's sized types, bools, strings, slices of these, lists of strings, and [layout.JSONText]. All
// but the key general.alignment, a uint32, are written without a look at their meaning. Tensors begin at
// multiples of the alignment, each at the padded end of the one before it, as ggml demands.
//
// It refuses what Decode would refuse, and dtypes that ggml does not number. Names have up to MostName bytes, shapes
// MostDims dimensions, and alignments are from 8 to 4096.
func NewWriter(w io.Writer, tensors iter.Seq[layout.Tensor], metadata layout.Metadata, opts *Options) (*Writer, error) {
	big := opts != nil && opts.BigEndian
	plan := &headPlan{tensors: tensors, metadata: metadata, align: alignmentOf(metadata), big: big, count: tensorwriter.Count(tensors)}
	if err := plan.measure(); err != nil {
		return nil, err
	}
	planned := tensorwriter.Plan{
		Format: layout.GGUF, Size: plan.size + plan.data, Align: plan.align, Count: plan.count, Tensors: tensorwriter.Sized(tensors),
		Fields: tensorwriter.Fields{Size: "type", Count: "tensor_count"},
	}
	if big {
		planned.Filter = swapped
	}
	file := tensorwriter.New(w, planned)
	if err := file.Head(plan.write); err != nil {
		return nil, err
	}
	return &Writer{tensorwriter.NewTensors(file)}, nil
}

// Size returns how many bytes the whole file will have.
func (w *Writer) Size() uint64 { return w.tensors.Size() }

// Written returns the number of bytes written so far.
func (w *Writer) Written() uint64 { return w.tensors.Written() }

// WriteTensor writes the next tensor, whose bytes are b. It does not copy them.
func (w *Writer) WriteTensor(b []byte) error { return w.tensors.WriteTensor(b) }

// WriteTensorFunc writes the next tensor, whose bytes are all that write hands to dst, in pieces of any
// size. dst may be used until write returns.
func (w *Writer) WriteTensorFunc(write func(dst io.Writer) error) error {
	return w.tensors.WriteTensorFunc(write)
}

// Close makes sure that all tensors are written, and pads the last one. It does not close the writer below.
func (w *Writer) Close() error { return w.tensors.Close() }

// InfoSize returns how many bytes t takes before and among the tensors of a file with this alignment.
func InfoSize(t *layout.Tensor, align uint64) uint64 {
	size, _ := t.DType.Size(t.Shape)
	return width{bytes: 8}.smallestInfo() + uint64(len(t.Name)) + 8*uint64(len(t.Shape)) + padded(min(size, math.MaxInt64), align)
}

// Aligns reports whether files may be written with this alignment.
func Aligns(align uint64) bool {
	return align >= leastAlign && align <= mostAlign && align&(align-1) == 0
}

// alignmentOf returns the alignment that metadata asks for. Decode checks the value.
func alignmentOf(md layout.Metadata) uint64 {
	v, _ := md.Get(keyAlignment)
	if a, ok := v.(uint32); ok && a > 0 && a&(a-1) == 0 {
		return uint64(a)
	}
	return defaultAlign
}

// headPlan is everything before the tensors.
type headPlan struct {
	tensors  iter.Seq[layout.Tensor]
	metadata layout.Metadata
	align    uint64
	big      bool
	count    int
	size     uint64          // its bytes, with the padding
	data     uint64          // those of the tensors, each padded
	check    *layout.Builder // of the tensors, or nil
}

// measure finds the size of the header, and all that would keep it from being read again.
func (h *headPlan) measure() error {
	lim := (*layout.Limits)(nil).WithDefaults()
	h.check = layout.NewChecker(layout.GGUF, uint64(h.count), "offset", lim)
	if !Aligns(h.align) {
		return layout.Errorf(layout.GGUF, 0, keyAlignment, layout.ErrInvalid, "%d is no power of two from %d to %d", h.align, leastAlign, mostAlign)
	}
	e, err := h.encode(nil)
	if err != nil {
		return err
	}
	h.size, h.data = padded(e.N, h.align), e.data
	distinct, err := h.check.Check(h.size + h.data)
	h.check = nil
	if err != nil || distinct && e.N <= lim.HeaderBytes && h.readable() {
		return err
	}
	_, err = h.decode() // which says what is wrong
	return err
}

// readable reports that Decode takes keys and values. It may be in doubt.
func (h *headPlan) readable() bool {
	var few layout.Metadata // which Decode makes something of
	hashes := make([]uint64, len(h.metadata))
	for i, e := range h.metadata {
		hashes[i] = layout.HashName(e.Key)
		if len(e.Key) == 0 || len(e.Key) > mostKey || !utf8.ValidString(e.Key) || strings.IndexByte(e.Key, 0) >= 0 {
			return false
		}
		if _, ok := specialKeys[e.Key]; ok {
			few = append(few, e)
		}
	}
	slices.Sort(hashes)
	if len(slices.Compact(hashes)) < len(h.metadata) {
		return false
	}
	small := headPlan{tensors: func(func(layout.Tensor) bool) {}, metadata: few, align: h.align}
	f, err := small.decode()
	return err == nil && (f.split.count == 0 || int(f.split.tensors) >= h.count)
}

// decode writes the header and reads it again.
func (h *headPlan) decode() (*File, error) {
	var head bytes.Buffer
	w := bufio.NewWriter(&head)
	if h.size == 0 { // not measured
		e, err := h.encode(nil)
		if err != nil {
			return nil, err
		}
		h.size = padded(e.N, h.align)
	}
	if err := cmp.Or(h.write(w), w.Flush()); err != nil {
		return nil, err
	}
	return Decode(tensorwriter.HeadOnly{Head: head.Bytes(), Len: h.size + h.data}, nil)
}

func (h *headPlan) write(w *bufio.Writer) error {
	e, err := h.encode(w)
	if err == nil {
		_, err = w.Write(make([]byte, h.size-e.N))
	}
	return err
}

// encode writes the header but for the padding. A nil w makes it count.
func (h *headPlan) encode(w *bufio.Writer) (*encoder, error) {
	e := &encoder{Encoder: tensorwriter.Encoder{W: w}, align: h.align, order: binary.LittleEndian}
	if h.big {
		e.order = binary.BigEndian
	}
	e.Put(append(e.Buf, magic...))
	e.Put(e.order.AppendUint32(e.Buf, 3))
	e.Put(e.order.AppendUint64(e.Buf, uint64(h.count)))
	e.Put(e.order.AppendUint64(e.Buf, uint64(len(h.metadata))))
	for key, value := range h.metadata.All() {
		e.text(key)
		if err := e.value(key, value); err != nil {
			return e, err
		}
	}
	return e, e.Tensors(h.tensors, h.check, e.tensor)
}

// encoder writes a header, or counts its bytes.
type encoder struct {
	tensorwriter.Encoder
	order interface {
		binary.ByteOrder
		binary.AppendByteOrder
	}
	align uint64
	data  uint64 // bytes of the tensors so far, each padded
}

func (e *encoder) text(s string) {
	e.Put(e.order.AppendUint64(e.Buf, uint64(len(s))))
	e.PutString(s)
}

// value writes the type of a value, and the value.
func (e *encoder) value(key string, value any) error {
	switch value := value.(type) {
	case layout.JSONText:
		return e.json(value)
	case layout.List:
		return e.strings(key, value)
	}
	v := reflect.ValueOf(value)
	if v.IsValid() && v.Kind() == reflect.Slice {
		return e.array(key, v)
	}
	t, ok := typeOf(v)
	if !ok {
		return e.noType(key, value)
	}
	e.Put(e.order.AppendUint32(e.Buf, uint32(t)))
	return e.elements(value)
}

func (e *encoder) json(text layout.JSONText) error {
	n, err := layout.WriteJSON(nil, text.Value)
	if err != nil {
		return err
	}
	e.Put(e.order.AppendUint32(e.Buf, uint32(TypeString)))
	e.Put(e.order.AppendUint64(e.Buf, uint64(n)))
	return e.PutJSON(text.Value)
}

// strings writes an array of strings.
func (e *encoder) strings(key string, list layout.List) error {
	e.Put(e.order.AppendUint32(e.Buf, uint32(TypeArray)))
	e.Put(e.order.AppendUint32(e.Buf, uint32(TypeString)))
	e.Put(e.order.AppendUint64(e.Buf, uint64(list.Len())))
	for v := range list.All() {
		text, ok := v.(string)
		if !ok {
			return e.noType(key, v)
		}
		e.text(text)
	}
	return nil
}

func (e *encoder) array(key string, v reflect.Value) error {
	t, ok := typeOf(reflect.Zero(v.Type().Elem()))
	if !ok {
		return e.noType(key, v.Interface())
	}
	e.Put(e.order.AppendUint32(e.Buf, uint32(TypeArray)))
	e.Put(e.order.AppendUint32(e.Buf, uint32(t)))
	e.Put(e.order.AppendUint64(e.Buf, uint64(v.Len())))
	const piece = 4 << 10
	for ; v.Len() > piece; v = v.Slice(piece, v.Len()) {
		if err := e.elements(v.Slice(0, piece).Interface()); err != nil {
			return err
		}
	}
	return e.elements(v.Interface())
}

// elements writes one value, or a slice of such.
func (e *encoder) elements(value any) error {
	switch v := value.(type) {
	case string:
		e.text(v)
	case []string:
		for _, s := range v {
			e.text(s)
		}
	default:
		b, err := binary.Append(e.Buf, e.order, value)
		if err != nil {
			return err
		}
		e.Put(b)
	}
	return nil
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
	case len(t.Shape) > mostDims:
		return e.errorf("n_dimensions", layout.ErrInvalid, "tensor %s: %d, more than %d", layout.Quote(t.Name), len(t.Shape), mostDims)
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
	b := append(e.order.AppendUint64(e.Buf, uint64(len(t.Name))), t.Name...)
	b = e.order.AppendUint32(b, uint32(len(t.Shape)))
	for _, n := range slices.Backward(t.Shape) {
		b = e.order.AppendUint64(b, uint64(n))
	}
	b = e.order.AppendUint32(b, id)
	e.Put(e.order.AppendUint64(b, e.data))
	e.data += padded(size, e.align)
	return nil
}

func (e *encoder) errorf(field string, sentinel error, format string, args ...any) error {
	return layout.Errorf(layout.GGUF, e.N, field, sentinel, format, args...)
}
