package april

import "github.com/tensormap/tensormap/layout"

// Header is what a file says of itself before the networks.
type Header struct {
	HeaderSize uint64 // as stated, which readers ignore: bytes from offset 20 on
	Model      ModelType
	Params     Entry
	Networks   []Entry

	name, description Entry
	end               uint64 // where the header ends
	atParams          uint64 // where the header states Params
	atNetworks        uint64 // where the header states Networks
}

// decodeHeader reads the header but for its texts, which it steps over.
func decodeHeader(in layout.Input) (h Header, err error) {
	c := layout.NewCursor(in, layout.April, 0, in.Size())
	h.prefix(&c)
	h.body(&c)
	h.end = c.Offset()
	return h, c.Err()
}

func (h *Header) prefix(c *layout.Cursor) {
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
}

func (h *Header) body(c *layout.Cursor) {
	c.Skip("language_tag", languageSize)
	h.name = text(c, "name_length", "name")
	h.description = text(c, "description_length", "description")
	at := c.Offset()
	h.Model = ModelType(c.U32("model"))
	if h.Model != LSTMTransducerStateless {
		c.Fail(at, "model", layout.ErrUnsupported, "model type %d, not %d (%v)", uint32(h.Model), uint32(LSTMTransducerStateless), LSTMTransducerStateless)
	}
	h.atParams = c.Offset()
	h.Params = entry(c, "params")
	at = c.Offset()
	if n := c.U64("network_count"); n != numNetworks {
		c.Fail(at, "network_count", layout.ErrInvalid, "%d networks, not the %d of %v", n, numNetworks, LSTMTransducerStateless)
	}
	h.atNetworks = c.Offset()
	h.Networks = make([]Entry, numNetworks)
	for i := range h.Networks {
		h.Networks[i] = entry(c, "networks")
	}
}

// text steps over a text and says where it is.
func text(c *layout.Cursor, lengthField, field string) Entry {
	at := c.Offset()
	e := Entry{Size: c.U64(lengthField)}
	if left := c.Left(); e.Size > left {
		c.Fail(at, lengthField, layout.ErrTruncated, "%d bytes, but only %d are left", e.Size, left)
	}
	e.Offset = c.Offset()
	c.Skip(field, e.Size)
	return e
}

// entry reads an Entry, which must lie in the file.
func entry(c *layout.Cursor, field string) Entry {
	at, size := c.Offset(), c.Offset()+c.Left()
	e := Entry{Offset: c.U64(field), Size: c.U64(field)}
	if !layout.Within(e.Offset, e.Size, size) {
		c.Fail(at, field, layout.ErrTruncated, "%d bytes at %d leave the file of %d bytes", e.Size, e.Offset, size)
	}
	return e
}
