package apr1

import (
	"encoding/json"
	"strconv"

	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/layout/jsontext"
)

// jsonHeadSize is the magic and the length of the metadata.
const jsonHeadSize = 8

// decodeJSON reads the container JSON.
func (d *decoder) decodeJSON() error {
	if least := uint64(jsonHeadSize + crcSize); d.size < least {
		return errorf(0, "magic", layout.ErrTruncated, "a file of %d bytes, fewer than %d", d.size, least)
	}
	c := layout.NewCursor(d.in, layout.APR1, 4, d.end()-4)
	n := uint64(c.U32("metadata_len"))
	d.file.metadata = layout.Section{Name: "metadata", Offset: c.Offset(), Size: n}
	c.Skip("metadata_len", n)
	d.indexAt = c.Offset()
	count := uint64(c.U32("n_tensors"))
	text := d.jsonIndex(&c)
	if err := c.Err(); err != nil {
		return err
	}
	d.data = layout.Section{Name: "data", Offset: c.Offset(), Size: c.Left()}
	entries, err := parseIndex(text, c.Offset()-uint64(len(text)), d.file.lim)
	if err != nil {
		return err
	}
	if count != uint64(len(entries)) {
		return errorf(d.indexAt, "n_tensors", layout.ErrInvalid, "%d, but the index has %d entries", count, len(entries))
	}
	return d.jsonTensors(entries, uint64(len(text)))
}

// jsonIndex reads index_len and the index, whose length it limits.
func (d *decoder) jsonIndex(c *layout.Cursor) []byte {
	at := c.Offset()
	n := uint64(c.U32("index_len"))
	if most := d.file.lim.HeaderBytes; n > most {
		c.Fail(at, "index_len", layout.ErrLimit, "%d bytes, more than %d", n, most)
	}
	return c.Take("index_len", n)
}

// parseIndex parses the index, a JSON array at offset at. The parser takes objects, so the
// array is made the value of a key; that nothing but the array is there is looked at after.
func parseIndex(text []byte, at uint64, lim layout.Limits) ([]any, error) {
	const before, after = `{"index":`, `}`
	object := make([]byte, 0, len(before)+len(text)+len(after))
	object = append(append(append(object, before...), text...), after...)
	lim.HeaderBytes = uint64(len(object)) // jsonIndex has looked at it
	lim.Depth = max(lim.Depth, lim.Depth+1)
	md, err := jsontext.Parse(object, layout.APR1, at-uint64(len(before)), "index", lim)
	if err != nil {
		return nil, err
	}
	entries, ok := md[0].Value.([]any)
	if !ok || len(md) != 1 {
		return nil, errorf(at, "index", layout.ErrInvalid, "not one JSON array of objects")
	}
	return entries, nil
}

// leastEntry is fewer bytes than an entry of the index with all its keys can have.
const leastEntry = uint64(len(`{"name":"","dtype":"","shape":[],"offset":0,"size":0}`))

// jsonTensors makes tensors of the entries of the index, whose text has textSize bytes.
func (d *decoder) jsonTensors(entries []any, textSize uint64) error {
	// Entries that are too short for a tensor are refused below, before there is no room.
	if err := d.describe("json", min(uint64(len(entries)), textSize/leastEntry)); err != nil {
		return err
	}
	d.builder.Data(d.data.Offset, d.data.Size)
	for _, s := range []layout.Section{
		{Name: "header", Offset: 0, Size: jsonHeadSize},
		d.file.metadata,
		{Name: "index", Offset: d.indexAt, Size: d.data.Offset - d.indexAt},
	} {
		if err := d.builder.Section(s.Name, 0, s.Offset, s.Size); err != nil {
			return err
		}
	}
	e := jsonEntry{at: d.data.Offset - textSize}
	for i, v := range entries {
		var ok bool
		if e.fields, ok = v.(layout.Metadata); !ok {
			return errorf(e.at, "index", layout.ErrInvalid, "entry %d is not an object", i)
		}
		e.i = i
		if err := e.read(d.builder.Next(), d); err != nil {
			return err
		}
		if err := d.builder.Add(e.at); err != nil {
			return err
		}
	}
	return nil
}

// jsonEntry is entry i of the index. The first thing wrong with it stays in err.
type jsonEntry struct {
	fields layout.Metadata
	i      int
	at     uint64 // where the index is
	name   []byte // the builder copies it
	err    error
}

func (e *jsonEntry) read(t *layout.Tensor, d *decoder) error {
	name, _ := e.text("name")
	e.name = append(e.name[:0], name...)
	t.Name = e.name
	dtype, _ := e.text("dtype")
	var ok bool
	if t.DType, ok = layout.ParseDType(dtype); !ok {
		e.fail("dtype", layout.ErrUnsupported, "%s is no dtype that is known", strconv.Quote(dtype))
	}
	t.Shape = e.shape(d.builder)
	t.Stored = e.number("size")
	offset := e.number("offset")
	if offset > d.data.Size {
		e.fail("offset", layout.ErrTruncated, "%d is past the end of the data of %d bytes", offset, d.data.Size)
	}
	t.Offset = d.data.Offset + offset
	return e.err
}

func (e *jsonEntry) text(key string) (string, bool) {
	v, _ := e.fields.Get(key)
	s, ok := v.(string)
	if !ok {
		e.fail(key, layout.ErrInvalid, "missing, or not a string")
	}
	return s, ok
}

func (e *jsonEntry) number(key string) uint64 {
	v, _ := e.fields.Get(key)
	s, _ := v.(json.Number)
	return e.parse(key, s)
}

func (e *jsonEntry) parse(key string, s json.Number) uint64 {
	n, err := strconv.ParseUint(string(s), 10, 64)
	if err != nil {
		e.fail(key, layout.ErrInvalid, "missing, or not an integer from 0 to 2^64-1")
	}
	return n
}

func (e *jsonEntry) shape(b *layout.Builder) []uint64 {
	v, _ := e.fields.Get("shape")
	numbers, ok := v.([]json.Number)
	if empty, isEmpty := v.([]any); !ok && (!isEmpty || len(empty) > 0) {
		e.fail("shape", layout.ErrInvalid, "missing, or not an array of integers")
	}
	dims := b.Dims(len(numbers))
	for i, s := range numbers {
		dims[i] = e.parse("shape", s)
	}
	return dims
}

func (e *jsonEntry) fail(field string, sentinel error, format string, args ...any) {
	if e.err == nil {
		err := errorf(e.at, field, sentinel, format, args...)
		err.Reason = "tensor " + strconv.Itoa(e.i) + ": " + err.Reason
		e.err = err
	}
}
