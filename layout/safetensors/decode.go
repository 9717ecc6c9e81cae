package safetensors

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"slices"

	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/layout/jsontext"
)

// File is a decoded SafeTensors file.
type File struct {
	index    *layout.Index
	header   uint64         // size of the header
	indented uint64         // its bytes of white space before '{'
	metadata layout.Section // of __metadata__'s value in the file; empty without it
	lim      layout.Limits
}

var _ layout.File = (*File)(nil)

// Index describes the tensors, in the order of the header.
func (f *File) Index() *layout.Index { return f.index }

// Decode reads the header. Tensors are in the order of the header. A nil lim means the
// defaults. Errors are *layout.FormatError, which wrap an error of package layout:
//
//   - ErrInvalid, ErrDuplicate or ErrOverlap if the header breaks the rules of the package comment.
//   - ErrTruncated if the file is too short for it.
//   - ErrUnsupported for a dtype that the format does not know.
//   - ErrLimit for something past lim, and ErrHeader if that is the header.
func Decode(in layout.Input, lim *layout.Limits) (*File, error) {
	limits := lim.WithDefaults()
	limits.Depth = max(limits.Depth, 3) // which the shapes of tensors need
	header, err := readHeader(in, limits)
	if err != nil {
		return nil, err
	}
	d := decoder{
		Scanner: jsontext.New(header, layout.SafeTensors, sizeBytes, headerField, limits),
		lim:     limits,
		data:    layout.Section{Offset: sizeBytes + uint64(len(header)), Size: in.Size() - sizeBytes - uint64(len(header))},
	}
	d.newIndex(in.Size(), header)
	if err := d.readTensors(); err != nil {
		return nil, err
	}
	index, err := d.finish()
	if err != nil {
		return nil, err
	}
	indented := len(header) - len(bytes.TrimLeft(header, jsonSpace))
	return &File{index: index, header: uint64(len(header)), indented: uint64(indented), metadata: d.metadata, lim: limits}, nil
}

// readHeader reads the header, without the 8 bytes of its size. It fails if that leaves the file or is over the
// limit.
func readHeader(in layout.Input, lim layout.Limits) ([]byte, error) {
	b, err := layout.Region(in, layout.SafeTensors, 0, "header_size", 0, sizeBytes)
	if err != nil {
		return nil, err
	}
	size := binary.LittleEndian.Uint64(b)
	if size > lim.HeaderBytes {
		return nil, layout.Errorf(layout.SafeTensors, 0, "header_size", layout.ErrHeader, "%d bytes, more than %d", size, lim.HeaderBytes)
	}
	return layout.Region(in, layout.SafeTensors, 0, "header_size", sizeBytes, size)
}

// decoder reads the header's tensors into an index.
type decoder struct {
	jsontext.Scanner
	lim      layout.Limits
	build    *layout.Builder
	data     layout.Section
	metadata layout.Section
	name     []byte // of the tensor being read
	shape    []int  // of the tensor being read
}

// newIndex sets d.build to a builder with memory for as many tensors as the header can have.
func (d *decoder) newIndex(fileSize uint64, header []byte) {
	// One brace is the header's own, and in real headers the others are the tensors'.
	braces := uint64(bytes.Count(header, []byte{'{'}))
	count := min(max(braces, 1)-1, uint64(len(header)/smallest), d.lim.Tensors)
	d.build = layout.NewBuilder(layout.SafeTensors, fileSize, count, offsetsField, d.lim)
	d.build.Data(d.data.Offset, d.data.Size)
	d.build.Section(headerField, 0, 0, d.data.Offset)
}

// readTensors reads the header's object into the index. It fails at the first tensor that is invalid.
func (d *decoder) readTensors() error {
	for d.Open('{', "'{'"); d.More('}'); {
		name, at := d.Key()
		if name == metadataKey {
			d.readMetadata(at)
		} else if err := d.readTensor(name, at); err != nil {
			return err
		}
	}
	d.End()
	return d.Err()
}

// readMetadata notes where __metadata__ is, whose key stands at offset at. It fails if a value is no string.
func (d *decoder) readMetadata(at uint64) {
	d.Field = metadataKey
	if d.metadata.Size > 0 {
		d.Fail(at, layout.ErrDuplicate, "key %q occurs twice", metadataKey)
	}
	d.Next()
	d.metadata.Offset = d.Offset()
	readStrings(&d.Scanner)
	d.metadata.Size = d.Offset() - d.metadata.Offset
	d.Field = headerField
}

// readStrings steps over an object of strings, or null. It sets s's error for any other value.
func readStrings(s *jsontext.Scanner) {
	if s.Next() == 'n' {
		s.Skip()
		return
	}
	for name := range s.Members("an object of strings") {
		if s.Next() != '"' {
			s.Unexpected("the string of key " + layout.Quote(name))
		}
	}
}

// readTensor reads the description of the tensor called name, whose key is at offset at, and adds it to the index. It fails if the description
// is invalid.
func (d *decoder) readTensor(name string, at uint64) error {
	t := d.build.Next()
	d.name = append(d.name[:0], name...)
	t.Name = d.name
	if !d.fastTensor(t) {
		if err := d.anyTensor(t, at); err != nil {
			return err
		}
	}
	t.Shape = d.build.Dims(len(d.shape))
	copy(t.Shape, d.shape)
	return d.build.Add(at)
}

// fields are the keys of a tensor.
var fields = []string{"dtype", "shape", offsetsField}

// anyTensor reads into t and d.shape a tensor in any notation of JSON. It fails if the tensor, or its key at offset at, is invalid.
func (d *decoder) anyTensor(t *layout.Tensor, at uint64) error {
	if err := d.Err(); err != nil {
		return err // about the key
	}
	d.Record(at, "a tensor's '{'", fields, func(i int) {
		switch i {
		case 0:
			d.Next()
			at, name := d.Offset(), d.Text()
			if t.DType = dtypeNamed(name); t.DType == layout.Invalid {
				d.Fail(at, layout.ErrUnsupported, "unknown dtype %s", layout.Quote(name))
			}
		case 1:
			d.shape = d.Shape(d.shape, d.lim.Rank)
		case 2:
			t.Offset, t.Stored = d.readOffsets()
		}
	})
	err, failed := errors.AsType[*layout.FormatError](d.Err())
	if failed {
		return err.OfTensor(t.Name)
	}
	return nil
}

// readOffsets reads [begin, end], positions in the data, and returns an offset in the file and a size. It sets d's error if there are not two
// of them, they are in the wrong order, or leave the file.
func (d *decoder) readOffsets() (off, size uint64) {
	d.Next()
	at := d.Offset()
	var offsets [2]uint64
	n := 0
	for d.Open('[', "an array"); d.More(']'); n++ {
		if n == len(offsets) {
			d.Fail(d.Offset(), layout.ErrInvalid, "more than %d elements", n)
			return 0, 0
		}
		offsets[n] = d.Uint()
	}
	begin, end := offsets[0], offsets[1]
	switch {
	case n < len(offsets):
		d.Fail(at, layout.ErrInvalid, "%d elements instead of %d", n, len(offsets))
	case begin > end:
		d.Fail(at, layout.ErrInvalid, "begins at %d but ends at %d", begin, end)
	case end > d.data.Size:
		d.Fail(at, layout.ErrTruncated, "ends at %d of %d bytes of data", end, d.data.Size)
	}
	return d.data.Offset + begin, end - begin
}

// finish returns the index. It fails if tensors overlap, or leave a byte of the data to none. Sorted by position, they have to begin at 0, and
// each at the end of the one before it. The reference demands the same of empty ones too.
func (d *decoder) finish() (*layout.Index, error) {
	index, err := d.build.Finish() // has found overlaps
	if err != nil {
		return nil, err
	}
	sorted := make([]*layout.Tensor, len(index.Tensors))
	for i := range sorted {
		sorted[i] = &index.Tensors[i]
	}
	slices.SortFunc(sorted, func(x, y *layout.Tensor) int {
		return cmp.Or(cmp.Compare(x.Offset, y.Offset), cmp.Compare(x.Stored, y.Stored))
	})
	end := uint64(0)
	for _, t := range sorted {
		begin := t.Offset - d.data.Offset
		if begin != end {
			return nil, d.dataErrorf(end, "tensor %s begins at %d, but the one before it ends at %d", layout.Quote(t.Name), begin, end)
		}
		end += t.Stored
	}
	if end != d.data.Size {
		return nil, d.dataErrorf(end, "the tensors end at %d of %d bytes of data", end, d.data.Size)
	}
	return index, nil
}

// dataErrorf returns an error about the byte at offset at of the data.
func (d *decoder) dataErrorf(at uint64, format string, args ...any) error {
	return layout.Errorf(layout.SafeTensors, d.data.Offset+at, offsetsField, layout.ErrInvalid, format, args...)
}
