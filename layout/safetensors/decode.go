package safetensors

import (
	"bytes"
	"encoding/binary"
	"errors"

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

// Decode reads the header. Tensors are in the order of the header. A nil lim means the
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

// withField is err about a field that the format names.
func withField(err error, field string) error {
	if e, ok := errors.AsType[*layout.FormatError](err); ok {
		e.Field = field
	}
	return err
}
