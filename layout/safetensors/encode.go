package safetensors

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"io"
	"math"
	"strconv"
	"unicode/utf8"

	"github.com/tensormap/tensormap/layout"
)

// Writer writes a SafeTensors file from front to back. It holds the header but no tensor.
//
// Once a method has failed, the file is of no use and every later call fails alike.
type Writer struct {
	w     io.Writer
	index *layout.Index
	next  int    // the tensor to come
	pos   uint64 // bytes written
	err   error
}

// NewWriter writes the header of a file with these tensors, of which Name, Shape and DType
// are read, and with metadata, whose values are strings, as __metadata__, which is left out
// where there is none. The tensors' bytes follow in the same order, by one call of
// WriteTensor or WriteTensorFunc each.
//
// The header is filled up with spaces to a multiple of 8, so that the first tensor is aligned
// for any type. As tensors touch, the others are where no tensor of a wider type comes after
// one of a narrower type.
//
// It refuses what Decode would refuse: names and keys that are not unique UTF-8, a tensor
// called __metadata__, dtypes that the format does not know, a header of more than
// 100,000,000 bytes.
func NewWriter(w io.Writer, tensors []layout.Tensor, metadata layout.Metadata) (*Writer, error) {
	wr, head, err := newWriter(w, tensors, metadata)
	if err != nil {
		return nil, err
	}
	return wr, wr.write(head)
}

func newWriter(w io.Writer, tensors []layout.Tensor, metadata layout.Metadata) (*Writer, []byte, error) {
	head, data, err := encodeHeader(tensors, metadata)
	if err != nil {
		return nil, nil, err
	}
	size := uint64(len(head)) + data
	// Decoding makes sure of all that is not checked before, so that nothing is written
	// which cannot be read.
	f, err := Decode(planned{head, size}, nil)
	if err != nil {
		return nil, nil, err
	}
	return &Writer{w: w, index: f.index}, head, nil
}

// encodeHeader is everything before the tensors, and how many bytes these take.
func encodeHeader(tensors []layout.Tensor, metadata layout.Metadata) (head []byte, data uint64, err error) {
	e := encoder{buf: append(make([]byte, sizeBytes), '{')}
	if len(metadata) > 0 {
		if err := e.metadata(metadata); err != nil {
			return nil, 0, err
		}
	}
	for i := range tensors {
		if err := e.tensor(&tensors[i]); err != nil {
			return nil, 0, err
		}
	}
	e.buf = append(e.buf, '}')
	for len(e.buf)%8 != 0 {
		e.buf = append(e.buf, ' ')
	}
	n, most := uint64(len(e.buf)-sizeBytes), (*layout.Limits)(nil).WithDefaults().HeaderBytes
	if n > most {
		return nil, 0, layout.Errorf(layout.SafeTensors, 0, "header_size", layout.ErrLimit, "%d bytes, more than %d", n, most)
	}
	binary.LittleEndian.PutUint64(e.buf, n)
	return e.buf, e.data, nil
}

// encoder appends to a header.
type encoder struct {
	buf  []byte
	data uint64 // bytes of the tensors so far
}

func (e *encoder) metadata(md layout.Metadata) error {
	if err := e.key(metadataKey, metadataKey); err != nil {
		return err
	}
	e.buf = append(e.buf, '{')
	for key, value := range md.All() {
		text, ok := value.(string)
		if !ok {
			return e.errorf(metadataKey, layout.ErrInvalid, "key %s: a value that is not a string", layout.Quote([]byte(key)))
		}
		if err := e.key(metadataKey, key); err != nil {
			return err
		}
		if err := e.text(metadataKey, text); err != nil {
			return err
		}
	}
	e.buf = append(e.buf, '}')
	return nil
}

func (e *encoder) tensor(t *layout.Tensor) error {
	name := layout.Quote(t.Name)
	size, err := t.DType.Size(t.Shape)
	switch {
	case string(t.Name) == metadataKey:
		return e.errorf("name", layout.ErrInvalid, "a tensor cannot be called %s", name)
	case !Holds(t.DType):
		return e.errorf("dtype", layout.ErrUnsupported, "tensor %s: SafeTensors has no dtype for %v", name, t.DType)
	case err != nil:
		return e.errorf("shape", layout.ErrInvalid, "tensor %s: %v", name, err)
	// No operating system gives a file more bytes than int64 counts.
	case size > math.MaxInt64-e.data:
		return e.errorf("data_offsets", layout.ErrLimit, "tensor %s: %d bytes at %d make the file larger than 2^63 bytes", name, size, e.data)
	}
	if err := e.key("name", string(t.Name)); err != nil {
		return err
	}
	e.buf = append(append(append(e.buf, `{"dtype":"`...), t.DType.String()...), `","shape":`...)
	e.numbers(t.Shape...)
	e.buf = append(e.buf, `,"data_offsets":`...)
	e.numbers(e.data, e.data+size)
	e.buf = append(e.buf, '}')
	e.data += size
	return nil
}

// key begins a member of an object.
func (e *encoder) key(field, name string) error {
	if e.buf[len(e.buf)-1] != '{' {
		e.buf = append(e.buf, ',')
	}
	err := e.text(field, name)
	e.buf = append(e.buf, ':')
	return err
}

// text appends a string, which encoding/json would mend where it is not valid.
func (e *encoder) text(field, s string) error {
	if !utf8.ValidString(s) {
		return e.errorf(field, layout.ErrInvalid, "%s is not valid UTF-8", layout.Quote([]byte(s)))
	}
	var text bytes.Buffer
	j := json.NewEncoder(&text)
	j.SetEscapeHTML(false) // which would only be harder to read
	if err := j.Encode(s); err != nil {
		return err
	}
	e.buf = append(e.buf, bytes.TrimSuffix(text.Bytes(), []byte("\n"))...)
	return nil
}

func (e *encoder) numbers(list ...uint64) {
	e.buf = append(e.buf, '[')
	for i, n := range list {
		if i > 0 {
			e.buf = append(e.buf, ',')
		}
		e.buf = strconv.AppendUint(e.buf, n, 10)
	}
	e.buf = append(e.buf, ']')
}

func (e *encoder) errorf(field string, sentinel error, format string, args ...any) error {
	return layout.Errorf(layout.SafeTensors, uint64(len(e.buf)), field, sentinel, format, args...)
}

// planned is a file of which nothing but the header exists yet.
type planned struct {
	head layout.Bytes
	size uint64
}

func (p planned) Size() uint64 { return p.size }

func (p planned) Slice(off, n uint64) ([]byte, error) { return p.head.Slice(off, n) }

// Size is the size in bytes that the whole file will have.
func (w *Writer) Size() uint64 { return w.index.Size }

// WriteTensor writes the next tensor, whose bytes are b. It does not copy them.
func (w *Writer) WriteTensor(b []byte) error {
	return w.WriteTensorFunc(func(dst io.Writer) error {
		_, err := dst.Write(b)
		return err
	})
}

// WriteTensorFunc writes the next tensor, whose bytes are all that write hands to dst: so
// a tensor is written piece by piece by whoever makes or has its bytes. dst may be used
// until write returns.
func (w *Writer) WriteTensorFunc(write func(dst io.Writer) error) error {
	if w.err != nil {
		return w.err
	}
	if w.next == len(w.index.Tensors) {
		return w.fail(w.errorf("name", layout.ErrInvalid, "a tensor more than the %d declared", w.next))
	}
	t := &w.index.Tensors[w.next]
	w.next++
	end := w.pos + t.Stored
	if err := write(&tensorWriter{w, t, end}); err != nil {
		return w.fail(err)
	}
	if w.err != nil {
		return w.err // which write has dropped
	}
	if w.pos != end {
		return w.fail(w.errorf("data_offsets", layout.ErrInvalid, "tensor %s: %d bytes given, but %v %v takes %d",
			layout.Quote(t.Name), t.Stored-(end-w.pos), t.DType, t.Shape, t.Stored))
	}
	return nil
}

// tensorWriter takes the bytes of one tensor, and none more.
type tensorWriter struct {
	w      *Writer
	tensor *layout.Tensor
	end    uint64
}

func (d *tensorWriter) Write(b []byte) (int, error) {
	if d.w.err != nil {
		return 0, d.w.err
	}
	before := d.w.pos
	if uint64(len(b)) > d.end-before {
		return 0, d.w.fail(d.w.errorf("data_offsets", layout.ErrInvalid, "tensor %s: more than its %d bytes given", layout.Quote(d.tensor.Name), d.tensor.Stored))
	}
	err := d.w.write(b)
	return int(d.w.pos - before), err
}

// Close makes sure that all tensors are written. It does not close the writer below.
func (w *Writer) Close() error {
	if w.err != nil {
		return w.err
	}
	if n := len(w.index.Tensors); w.next < n {
		return w.fail(w.errorf("name", layout.ErrTruncated, "%d of %d tensors written", w.next, n))
	}
	w.err = layout.ErrClosed
	return nil
}

func (w *Writer) write(b []byte) error {
	n, err := w.w.Write(b)
	w.pos += uint64(n)
	if err == nil && n < len(b) {
		err = io.ErrShortWrite
	}
	if err != nil {
		return w.fail(err)
	}
	return nil
}

func (w *Writer) errorf(field string, sentinel error, format string, args ...any) error {
	return layout.Errorf(layout.SafeTensors, w.pos, field, sentinel, format, args...)
}

func (w *Writer) fail(err error) error {
	w.err = err
	return err
}
