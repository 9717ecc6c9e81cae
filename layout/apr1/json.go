package apr1

import (
	"errors"
	"fmt"

	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/layout/jsontext"
)

// jsonHeadSize is the magic and the length of the metadata.
const jsonHeadSize = 8

// decodeJSON reads the index of the container JSON. It fails if the file is too short, or the index is no array of n_tensors tensors.
func (d *decoder) decodeJSON() error {
	if d.end < jsonHeadSize {
		return errorf(0, "magic", layout.ErrTruncated, "a file of %d bytes, fewer than %d", d.in.Size(), jsonHeadSize+crcSize)
	}
	d.Cursor = layout.NewCursor(d.in, layout.APR1, 4, d.end-4)
	n := uint64(d.U32("metadata_len"))
	d.file.metadata = layout.Section{Name: "metadata", Offset: d.Offset(), Size: n}
	d.Skip("metadata_len", n)
	d.indexAt = d.Offset()
	count := uint64(d.U32("n_tensors"))
	at := d.Offset()
	n = uint64(d.U32("index_len"))
	if limit := d.file.lim.HeaderBytes; n > limit {
		d.Fail(at, "index_len", layout.ErrLimit, "%d bytes, more than %d", n, limit)
	}
	text := d.Take("index_len", n)
	if err := d.Err(); err != nil {
		return err
	}
	d.data = layout.Section{Name: "data", Offset: d.Offset(), Size: d.Left()}
	// Fewer fit if entries are too short for a tensor. Such entries are refused before the builder is full.
	d.newIndex("json", min(count, uint64(len(text))/minEntry),
		layout.Section{Name: "header", Offset: 0, Size: jsonHeadSize},
		d.file.metadata,
		layout.Section{Name: "index", Offset: d.indexAt, Size: d.data.Offset - d.indexAt})
	return d.jsonTensors(jsontext.New(text, layout.APR1, d.Offset()-uint64(len(text)), "index", d.file.lim), count)
}

// minEntry is less than the size of any entry of the index with all its keys.
const minEntry = uint64(len(`{"name":"","dtype":"","shape":[],"offset":0,"size":0}`))

// jsonTensors adds the tensors of an index. It fails if an entry is invalid, or they are not as many as count.
func (d *decoder) jsonTensors(index jsontext.Scanner, count uint64) error {
	n := uint64(0)
	for index.Open('[', "an array"); index.More(']'); n++ {
		at := index.Offset()
		t := d.builder.Next()
		d.jsonTensor(&index, at, t)
		if e, failed := errors.AsType[*layout.FormatError](index.Err()); failed {
			e.Reason = fmt.Sprintf("tensor %d: %s", n, e.Reason)
			return e
		}
		if n == count {
			return errorf(d.indexAt, "n_tensors", layout.ErrInvalid, "%d, but the index has more entries", count)
		}
		t.Shape = d.builder.Dims(len(d.shape))
		copy(t.Shape, d.shape)
		if err := d.builder.Add(at); err != nil {
			return err
		}
	}
	if index.End(); index.Err() != nil || n == count {
		return index.Err()
	}
	return errorf(d.indexAt, "n_tensors", layout.ErrInvalid, "%d, but the index has %d entries", count, n)
}

// jsonFields are the keys of an entry.
var jsonFields = []string{"name", "dtype", "shape", "offset", "size"}

// jsonTensor reads an entry of the index, which begins at offset at, into t and d.shape. Errors are left in s.
func (d *decoder) jsonTensor(s *jsontext.Scanner, at uint64, t *layout.Tensor) {
	s.Record(at, "an object", jsonFields, func(i int) {
		s.Next()
		at := s.Offset()
		switch i {
		case 0:
			t.Name = []byte(s.Text())
		case 1:
			name, ok := s.Text(), false
			if t.DType, ok = layout.ParseDType(name); !ok {
				s.Fail(at, layout.ErrUnsupported, "%s is no dtype that is known", layout.Quote(name))
			}
		case 2:
			d.shape = s.Shape(d.shape, d.file.lim.Rank)
		case 3:
			offset := s.Uint()
			if offset > d.data.Size {
				s.Fail(at, layout.ErrTruncated, "%d is past the end of the data of %d bytes", offset, d.data.Size)
			}
			t.Offset = d.data.Offset + offset
		case 4:
			t.Stored = s.Uint()
		}
	})
}
