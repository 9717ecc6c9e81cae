package safetensors

import (
	"encoding/binary"
	"io"
	"iter"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/layout/internal/tensorwriter"
)

// Writer writes a SafeTensors file from front to back. It holds the header but no tensor.
//
// Once a method has failed, the file is of no use and every later call fails alike.
type Writer struct {
	tensorwriter.Tensors
	file *tensorwriter.File
}

// NewWriter writes the header of a file with these tensors, such as slices.Values of a list. It reads their
// Name, Shape and DType, more than once. The values of metadata are strings; without any, __metadata__ is left
// out. The tensors' bytes follow in the same order, by one call of WriteTensor or WriteTensorFunc each.
//
// Spaces fill the header up to a multiple of 8, so that the first tensor is aligned
// for any type. Tensors touch: the others are aligned if no wider type comes after a narrower one.
//
// It refuses what Decode would refuse: names and keys that are not unique UTF-8, a tensor
// called __metadata__, dtypes that the format does not know. A header of more than 100,000,000
// bytes is refused too.
func NewWriter(w io.Writer, tensors iter.Seq[layout.Tensor], metadata layout.Metadata) (*Writer, error) {
	head, data, err := encodeHeader(tensors, metadata)
	if err != nil {
		return nil, err
	}
	// Decoding makes sure of all that is not checked before, so that nothing is written
	// which cannot be read.
	f, err := Decode(tensorwriter.HeadOnly{Head: head, Len: uint64(len(head)) + data}, nil)
	if err != nil {
		return nil, err
	}
	file := tensorwriter.New(w, f.index, 1, tensorwriter.Fields{Size: "data_offsets", Count: "name"})
	if err := file.Write(head); err != nil {
		return nil, err
	}
	return &Writer{tensorwriter.NewTensors(file), file}, nil
}

// Close makes sure that all tensors are written. It does not close the writer below.
func (w *Writer) Close() error {
	err := w.file.Complete()
	if err == nil {
		w.file.Fail(layout.ErrClosed)
	}
	return err
}

// encodeHeader returns everything before the tensors, and how many bytes these take.
func encodeHeader(tensors iter.Seq[layout.Tensor], metadata layout.Metadata) (head []byte, data uint64, err error) {
	e := encoder{buf: append(make([]byte, sizeBytes, sizeOf(tensors, metadata)), '{')}
	if len(metadata) > 0 {
		if err := e.metadata(metadata); err != nil {
			return nil, 0, err
		}
	}
	for t := range tensors {
		if err := e.tensor(&t); err != nil {
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

// sizeOf returns about how many bytes a header takes, with the number before it. A buffer that grew to that
// would take twice as many.
func sizeOf(tensors iter.Seq[layout.Tensor], metadata layout.Metadata) int {
	size, e := 2*sizeBytes+len(`{"`+metadataKey+`":{},}`), encoder{}
	for key, value := range metadata.All() {
		text, _ := value.(string)
		size += len(`"":"",`) + len(key) + len(text) + strings.Count(text, `"`) + strings.Count(text, `\`)
	}
	for t := range tensors {
		if e.buf = append(e.buf[:0], '}'); e.tensor(&t) != nil {
			break // encodeHeader says why
		}
		size += len(e.buf) - 1
	}
	return size
}

// EntrySize returns how many bytes t takes in the header of a file of at most so many bytes. NewWriter
// refuses a tensor for which it returns 0.
func EntrySize(t *layout.Tensor, most uint64) uint64 {
	size, _ := t.DType.Size(t.Shape)
	e := encoder{buf: []byte{'}'}, data: most - min(most, size)} // no offset has more digits
	if e.tensor(t) != nil {
		return 0
	}
	return uint64(len(e.buf) - 1)
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
	size, err := t.DType.Size(t.Shape)
	switch {
	case string(t.Name) == metadataKey:
		return e.errorf("name", layout.ErrInvalid, "a tensor cannot be called %s", layout.Quote(t.Name))
	case !Holds(t.DType):
		return e.errorf("dtype", layout.ErrUnsupported, "tensor %s: SafeTensors has no dtype for %v", layout.Quote(t.Name), t.DType)
	case err != nil:
		return e.errorf("shape", layout.ErrInvalid, "tensor %s: %v", layout.Quote(t.Name), err)
	// No operating system gives a file more bytes than int64 counts.
	case size > math.MaxInt64-e.data:
		return e.errorf("data_offsets", layout.ErrLimit, "tensor %s: %d bytes at %d make the file larger than 2^63 bytes", layout.Quote(t.Name), size, e.data)
	}
	if err := e.key("name", string(t.Name)); err != nil {
		return err
	}
	e.buf = append(append(append(e.buf, `{"dtype":"`...), t.DType.String()...), `","shape":`...)
	e.buf = appendNumbers(e.buf, t.Shape...)
	e.buf = append(e.buf, `,"data_offsets":`...)
	e.buf = appendNumbers(e.buf, e.data, e.data+size)
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

// text appends a string. encoding/json would mend one that is not valid.
func (e *encoder) text(field, s string) error {
	if !utf8.ValidString(s) {
		return e.errorf(field, layout.ErrInvalid, "%s is not valid UTF-8", layout.Quote([]byte(s)))
	}
	b, err := layout.AppendJSON(e.buf, s)
	e.buf = b
	return err
}

// appendNumbers appends an array of numbers. No dimension is negative here.
func appendNumbers[N int | uint64](b []byte, list ...N) []byte {
	b = append(b, '[')
	for i, n := range list {
		if i > 0 {
			b = append(b, ',')
		}
		b = strconv.AppendUint(b, uint64(n), 10)
	}
	return append(b, ']')
}

func (e *encoder) errorf(field string, sentinel error, format string, args ...any) error {
	return layout.Errorf(layout.SafeTensors, uint64(len(e.buf)), field, sentinel, format, args...)
}
