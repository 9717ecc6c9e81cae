package april

import (
	"strconv"

	"github.com/tensormap/tensormap/layout"
)

// File is a decoded .april file. It implements [layout.File], [layout.Unpacker] and
// [layout.Summarizer].
type File struct {
	Header
	index *layout.Index
	lim   layout.Limits
}

var (
	_ layout.Unpacker   = (*File)(nil)
	_ layout.Summarizer = (*File)(nil)
	_ layout.Configurer = (*File)(nil)
)

// Decode reads the header of an .april file and the descriptions of its networks'
// initializers. It skips elements that are stored as bytes, texts, and the parameters;
// [File.Metadata] reads texts and parameters. The tensors are first the
// networks, then their initializers in the order of the file. A nil lim means the
// defaults.
//
// Errors are *[layout.FormatError]s. A network that is no ONNX model is no error: see
// [Network].
func Decode(in layout.Input, lim *layout.Limits) (*File, error) {
	h, err := decodeHeader(in)
	if err != nil {
		return nil, err
	}
	f := &File{Header: h, lim: lim.WithDefaults()}
	r := &reader{in: in, lim: f.lim}
	for i := range f.Networks {
		if err := r.readNetwork(&f.Networks[i]); err != nil {
			return nil, err
		}
	}
	b := layout.NewBuilder(layout.April, in.Size(), uint64(len(f.Networks)+len(r.found)), "networks", f.lim)
	b.Index().Version = strconv.Itoa(version)
	b.Section("header", atMagic, 0, f.end)
	b.Section("params", f.atParams, f.Params.Offset, f.Params.Size)
	for i := range f.Networks {
		n, t := &f.Networks[i], b.Next()
		t.Name = []byte("networks/" + n.Role)
		t.DType = layout.U8
		t.Shape = append(b.Dims(1)[:0], layout.Dim(n.Size))
		t.Offset, t.Stored = n.Offset, n.Size
		if err := b.Add(f.atNetworks + uint64(i)*entrySize); err != nil {
			return nil, err
		}
	}
	for i := range r.found {
		*b.Next() = r.found[i].Tensor
		if err := b.Add(r.found[i].at); err != nil {
			return nil, err
		}
	}
	if f.index, err = b.Finish(); err != nil {
		return nil, err
	}
	return f, nil
}

// Index describes the file's tensors: the networks' bytes, and their initializers.
func (f *File) Index() *layout.Index { return f.index }

// Header is what a file says of itself before the networks.
type Header struct {
	HeaderSize uint64 // as stated: bytes from offset 20 on; readers ignore it
	Params     Entry
	Networks   []Network

	name, description Entry
	end               uint64 // where the header ends
	atParams          uint64 // where the header states Params
	atNetworks        uint64 // where the header states Networks
}

// decodeHeader reads the header and skips its texts. It fails if the version or the kind of model is another than the one known, or a part
// leaves the file.
func decodeHeader(in layout.Input) (h Header, err error) {
	c := layout.NewCursor(in, layout.April, 0, in.Size())
	if is := c.Take("magic", uint64(len(magic))); c.Err() == nil && string(is) != magic {
		c.Fail(atMagic, "magic", layout.ErrFormat, "%q, not %q", is, magic)
	}
	if v := c.U32("version"); v != version {
		c.Fail(atVersion, "version", layout.ErrUnsupported, "%d, not %d", v, version)
	}
	h.HeaderSize = c.U64("header_size")
	if left := c.Left(); h.HeaderSize > left {
		c.Fail(atHeaderSize, "header_size", layout.ErrTruncated, "%d bytes, but the file has only %d more", h.HeaderSize, left)
	}
	c.Skip("language_tag", languageSize)
	h.name = skipText(&c, "name_length", "name")
	h.description = skipText(&c, "description_length", "description")
	at := c.Offset()
	if model := c.U32("model"); model != modelType {
		c.Fail(at, "model", layout.ErrUnsupported, "model type %d, not %d (%s)", model, modelType, modelTypeName)
	}
	h.atParams = c.Offset()
	h.Params = readEntry(&c, "params")
	at = c.Offset()
	if n := c.U64("network_count"); n != numNetworks {
		c.Fail(at, "network_count", layout.ErrInvalid, "%d networks, not the %d of %s", n, numNetworks, modelTypeName)
	}
	h.atNetworks = c.Offset()
	h.Networks = make([]Network, numNetworks)
	for i := range h.Networks {
		h.Networks[i] = Network{Role: roles[i], Entry: readEntry(&c, "networks")}
	}
	h.end = c.Offset()
	return h, c.Err()
}

// skipText skips a text behind its length, and returns where it is. It sets c's error if the text leaves the file.
func skipText(c *layout.Cursor, lengthField, field string) Entry {
	at := c.Offset()
	e := Entry{Size: c.U64(lengthField)}
	if left := c.Left(); e.Size > left {
		c.Fail(at, lengthField, layout.ErrTruncated, "%d bytes, but only %d are left", e.Size, left)
	}
	e.Offset = c.Offset()
	c.Skip(field, e.Size)
	return e
}

// readEntry reads the offset and size of a part. It sets c's error if the part leaves the file.
func readEntry(c *layout.Cursor, field string) Entry {
	at, size := c.Offset(), c.Offset()+c.Left()
	e := Entry{Offset: c.U64(field), Size: c.U64(field)}
	if !layout.Within(e.Offset, e.Size, size) {
		c.Fail(at, field, layout.ErrTruncated, "%d bytes at %d leave the file of %d bytes", e.Size, e.Offset, size)
	}
	return e
}
