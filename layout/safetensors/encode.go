package safetensors

import (
	"encoding/binary"
	"io"
	"iter"
	"math"
	"strconv"
	"unicode/utf8"

	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/layout/internal/tensorwriter"
)

// Writer writes a SafeTensors file from front to back. It holds the header but no tensor.
//
// Once a method has failed, the file is of no use and every later call fails alike.
type Writer struct{ file *tensorwriter.File }

// NewWriter writes the header of a file with these tensors, such as slices.Values of a list. It reads their
// Name, Shape and DType. The values of metadata are strings; without any, __metadata__ is left
// out. The tensors' bytes follow in the same order, by one call of WriteTensor or WriteTensorFunc each.
//
// Spaces fill the header up to a multiple of 8, so that the first tensor is aligned
// for any type. Tensors touch: the others are aligned if no wider type comes after a narrower one.
//
// It refuses what Decode would refuse: names and keys that are not unique UTF-8, a tensor
// called __metadata__, dtypes that the format does not know. A header of more than 100,000,000
// bytes is refused too.
func NewWriter(w io.Writer, tensors iter.Seq[layout.Tensor], metadata layout.Metadata) (*Writer, error) {
	e := encoder{b: append(make([]byte, sizeBytes), '{')}
	if err := e.header(tensors, metadata); err != nil {
		return nil, err
	}
	plan := tensorwriter.Plan{Format: layout.SafeTensors, Size: uint64(len(e.b)) + e.data, Align: 1, SizeField: "data_offsets", CountField: "name"}
	file, err := tensorwriter.Begin(w, plan, e.b, func(in layout.Input, _ *layout.Limits) (layout.File, error) {
		f, err := Decode(in, nil)
		if err == nil {
			_, err = f.Metadata(in)
		}
		return f, err
	})
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

// Close ends the file. It does not close the writer that NewWriter was given. It fails with
// [layout.ErrTruncated] if tensors are missing, and if writing does. Later calls fail with [layout.ErrClosed].
func (w *Writer) Close() error { return w.file.Close() }

// EntrySize returns how many bytes t takes in the header of a file of at most limit bytes. NewWriter
// refuses a tensor for which it returns 0.
func EntrySize(t *layout.Tensor, limit uint64) uint64 {
	size, _ := t.DType.Size(t.Shape)
	e := encoder{data: limit - min(limit, size)} // no offset has more digits
	if e.tensor(t) != nil {
		return 0
	}
	return uint64(len(e.b))
}

// encoder makes the head of a file.
type encoder struct {
	b    []byte
	data uint64 // bytes of the tensors so far
}

// header appends the header, with spaces up to a multiple of 8, and writes its size in front. It fails as metadata and tensor do.
func (e *encoder) header(tensors iter.Seq[layout.Tensor], metadata layout.Metadata) error {
	if len(metadata) > 0 {
		if err := e.metadata(metadata); err != nil {
			return err
		}
	}
	for t := range tensors {
		if err := e.tensor(&t); err != nil {
			return err
		}
	}
	e.b = append(e.b, '}')
	e.b = append(e.b, "       "[:-len(e.b)&7]...)
	binary.LittleEndian.PutUint64(e.b, uint64(len(e.b)-sizeBytes))
	return nil
}

// metadata appends __metadata__. It fails for a value that is no string, and for text that is not UTF-8.
func (e *encoder) metadata(md layout.Metadata) error {
	for key, value := range md.All() {
		text, ok := value.(string)
		switch {
		case !ok:
			return e.errorf(metadataKey, layout.ErrInvalid, "key %s: a value that is not a string", layout.Quote(key))
		case !utf8.ValidString(key):
			return e.errorf(metadataKey, layout.ErrInvalid, "%s is not valid UTF-8", layout.Quote(key))
		case !utf8.ValidString(text):
			return e.errorf(metadataKey, layout.ErrInvalid, "%s is not valid UTF-8", layout.Quote(text))
		}
	}
	text, err := layout.EncodeJSON(md)
	e.key(metadataKey)
	e.b = append(e.b, text...)
	return err
}

// tensor appends the description of t, the next tensor. It fails if the format cannot hold the tensor, or the file would be too large.
func (e *encoder) tensor(t *layout.Tensor) error {
	size, err := t.DType.Size(t.Shape)
	switch {
	case !utf8.Valid(t.Name):
		return e.errorf("name", layout.ErrInvalid, "%s is not valid UTF-8", layout.Quote(t.Name))
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
	e.key(string(t.Name))
	e.b = append(append(append(e.b, `{"dtype":"`...), t.DType.String()...), `","shape":`...)
	e.b = append(appendNumbers(e.b, t.Shape...), `,"data_offsets":`...)
	e.b = append(appendNumbers(e.b, e.data, e.data+size), '}')
	e.data += size
	return nil
}

// key appends the key of a member of the header, behind a comma unless it is the first.
func (e *encoder) key(name string) {
	if len(e.b) != sizeBytes+1 {
		e.b = append(e.b, ',')
	}
	text, _ := layout.EncodeJSON(name) // no string fails
	e.b = append(append(e.b, text...), ':')
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

// errorf returns the error that a field cannot be written where the head ends now.
func (e *encoder) errorf(field string, sentinel error, format string, args ...any) error {
	return layout.Errorf(layout.SafeTensors, uint64(len(e.b)), field, sentinel, format, args...)
}
