package safetensors

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/binary"
	"io"
	"iter"
	"math"
	"strconv"
	"unicode/utf8"

	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/layout/internal/tensorwriter"
	"github.com/tensormap/tensormap/layout/jsontext"
)

// Writer writes a SafeTensors file from front to back. It holds the header but no tensor.
//
// Once a method has failed, the file is of no use and every later call fails alike.
type Writer struct{ tensors tensorwriter.Tensors }

// NewWriter writes the header of a file with these tensors, such as slices.Values of a list. It reads their
// Name, Shape and DType, more than once. The values of metadata are strings, or [layout.JSONText]; without any, __metadata__ is left
// out. The tensors' bytes follow in the same order, by one call of WriteTensor or WriteTensorFunc each.
//
// Spaces fill the header up to a multiple of 8, so that the first tensor is aligned
// for any type. Tensors touch: the others are aligned if no wider type comes after a narrower one.
//
// It refuses what Decode would refuse: names and keys that are not unique UTF-8, a tensor
// called __metadata__, dtypes that the format does not know. A header of more than 100,000,000
// bytes is refused too.
func NewWriter(w io.Writer, tensors iter.Seq[layout.Tensor], metadata layout.Metadata) (*Writer, error) {
	count := tensorwriter.Count(tensors)
	plan := &header{tensors: tensors, metadata: metadata, check: layout.NewChecker(layout.SafeTensors, uint64(count), offsetsField, (*layout.Limits)(nil).WithDefaults())}
	if err := plan.measure(); err != nil {
		return nil, err
	}
	file := tensorwriter.New(w, tensorwriter.Plan{
		Format: layout.SafeTensors, Size: plan.size + plan.data, Align: 1, Count: count, Tensors: tensorwriter.Sized(tensors),
		Fields: tensorwriter.Fields{Size: "data_offsets", Count: "name"},
	})
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

// header is everything before the tensors.
type header struct {
	tensors  iter.Seq[layout.Tensor]
	metadata layout.Metadata
	size     uint64          // its bytes
	data     uint64          // those of the tensors
	check    *layout.Builder // of the tensors, or nil
}

// measure finds the size of the header, and all that would keep it from being read again.
func (h *header) measure() error {
	e, err := h.encode(nil)
	if err != nil {
		return err
	}
	h.size, h.data = (e.N+7)&^7, e.data
	n, most := h.size-sizeBytes, (*layout.Limits)(nil).WithDefaults().HeaderBytes
	if n > most {
		return layout.Errorf(layout.SafeTensors, 0, "header_size", layout.ErrLimit, "%d bytes, more than %d", n, most)
	}
	distinct, err := h.check.Check(h.size + h.data)
	h.check = nil
	if err != nil || distinct && jsontext.Readable(h.metadata) {
		return err
	}
	var head bytes.Buffer
	w := bufio.NewWriter(&head)
	if err := cmp.Or(h.write(w), w.Flush()); err != nil {
		return err
	}
	in := tensorwriter.HeadOnly{Head: head.Bytes(), Len: h.size + h.data}
	f, err := Decode(in, nil)
	if err == nil {
		_, err = f.Metadata(in)
	}
	return err // which says what is wrong
}

func (h *header) write(w *bufio.Writer) error {
	e, err := h.encode(w)
	if err == nil {
		_, err = w.WriteString("       "[:h.size-e.N])
	}
	return err
}

// encode writes the header but for the spaces at its end. A nil w makes it count.
func (h *header) encode(w *bufio.Writer) (*encoder, error) {
	e := &encoder{Encoder: tensorwriter.Encoder{W: w}, fresh: true}
	e.Put(append(binary.LittleEndian.AppendUint64(e.Buf, h.size-sizeBytes), '{'))
	if len(h.metadata) > 0 {
		if err := e.metadata(h.metadata); err != nil {
			return e, err
		}
	}
	if err := e.Tensors(h.tensors, h.check, e.tensor); err != nil {
		return e, err
	}
	e.Put(append(e.Buf, '}'))
	return e, nil
}

// EntrySize returns how many bytes t takes in the header of a file of at most so many bytes. NewWriter
// refuses a tensor for which it returns 0.
func EntrySize(t *layout.Tensor, most uint64) uint64 {
	size, _ := t.DType.Size(t.Shape)
	e := encoder{data: most - min(most, size)} // no offset has more digits
	if e.tensor(t) != nil {
		return 0
	}
	return e.N
}

// encoder writes a header, or counts its bytes.
type encoder struct {
	tensorwriter.Encoder
	fresh bool   // nothing of the innermost object is
	data  uint64 // bytes of the tensors so far
}

func (e *encoder) metadata(md layout.Metadata) error {
	if err := e.key(metadataKey, metadataKey); err != nil {
		return err
	}
	e.Put(append(e.Buf, '{'))
	e.fresh = true
	for key, value := range md.All() {
		text, ok := value.(string)
		made, isJSON := value.(layout.JSONText)
		if !ok && !isJSON {
			return e.errorf(metadataKey, layout.ErrInvalid, "key %s: a value that is not a string", layout.Quote([]byte(key)))
		}
		if err := e.key(metadataKey, key); err != nil {
			return err
		}
		err := error(nil)
		if isJSON {
			err = e.PutJSON(made)
		} else {
			err = e.text(metadataKey, text)
		}
		if err != nil {
			return err
		}
	}
	e.Put(append(e.Buf, '}'))
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
	b := append(append(append(e.Buf, `{"dtype":"`...), t.DType.String()...), `","shape":`...)
	b = appendNumbers(b, t.Shape...)
	b = append(b, `,"data_offsets":`...)
	b = appendNumbers(b, e.data, e.data+size)
	e.Put(append(b, '}'))
	e.data += size
	return nil
}

// key begins a member of an object.
func (e *encoder) key(field, name string) error {
	if !e.fresh {
		e.Put(append(e.Buf, ','))
	}
	e.fresh = false
	err := e.text(field, name)
	e.Put(append(e.Buf, ':'))
	return err
}

// text writes a string. encoding/json would mend one that is not valid.
func (e *encoder) text(field, s string) error {
	if !utf8.ValidString(s) {
		return e.errorf(field, layout.ErrInvalid, "%s is not valid UTF-8", layout.Quote([]byte(s)))
	}
	const few = 4 << 10
	if len(s) > few || !layout.PlainJSON(s) {
		return e.PutJSON(s)
	}
	e.Put(append(append(append(e.Buf, '"'), s...), '"'))
	return nil
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
	return layout.Errorf(layout.SafeTensors, e.N, field, sentinel, format, args...)
}
