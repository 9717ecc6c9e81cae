package apr1

import (
	"strconv"

	"github.com/tensormap/tensormap/layout"
)

// File is a decoded APR1 file. It implements [layout.File] and [layout.Summarizer].
type File struct {
	Container Container
	// Header is zero for the container JSON, whose metadata takes its place.
	Header Header

	index      *layout.Index
	lim        layout.Limits
	vocabulary layout.Section // without the size before it; empty where there is none
	filterbank filterbankSpan
	metadata   layout.Section // of the container JSON
	cut        []int          // tensors whose name the writer has cut inside a character
}

var (
	_ layout.File       = (*File)(nil)
	_ layout.Summarizer = (*File)(nil)
)

// Decode reads header and index of an APR1 file, and the head of its vocabulary and
// filterbank sections. A nil lim means the defaults.
//
// Errors are *[layout.FormatError]s. Those about an index entry have the offset where the
// entry, or the field, starts; those about the JSON index of the container JSON have the
// offset where the index starts, unless they are about its syntax.
func Decode(in layout.Input, lim *layout.Limits) (*File, error) {
	size := in.Size()
	head, err := layout.Region(in, layout.APR1, 0, "magic", 0, min(lateHeadSize, size))
	if err != nil {
		return nil, err
	}
	d := decoder{in: in, size: size, file: &File{lim: lim.WithDefaults()}}
	if d.file.Container, err = container(head); err != nil {
		return nil, err
	}
	if d.file.Container == JSON {
		err = d.decodeJSON()
	} else {
		err = d.decodeBinary(head)
	}
	if err != nil {
		return nil, err
	}
	if err := d.builder.Section("crc32", d.end(), d.end(), crcSize); err != nil {
		return nil, err
	}
	if d.file.index, err = d.builder.Finish(); err != nil {
		return nil, err
	}
	return d.file, nil
}

// Index describes the file's tensors.
func (f *File) Index() *layout.Index { return f.index }

// container tells the containers apart by their first bytes.
func container(head []byte) (Container, error) {
	if len(head) < headSize && !startsJSON(head) {
		return 0, errorf(0, "magic", layout.ErrTruncated, "the file of %d bytes ends inside the header of %d", len(head), headSize)
	}
	switch is := string(head[:4]); {
	case startsJSON(head):
		return JSON, nil
	case is == magic:
		return Binary, nil
	case is == magicLate:
		return Late, checkLate(head)
	default:
		return 0, errorf(0, "magic", layout.ErrFormat, "%q, not %q", is, magic)
	}
}

// startsJSON reports whether head starts the container JSON. In the others byte 8 says
// whether tensors are compressed, and is 0 or 1.
func startsJSON(head []byte) bool {
	return len(head) > atCompressed && string(head[:4]) == magic && head[atCompressed] == '{'
}

// checkLate tells the container Late from the namesake with a 64-byte header, whose JSON
// begins where Late has the last of its zeros.
func checkLate(head []byte) error {
	if len(head) < lateHeadSize {
		return errorf(0, "magic", layout.ErrTruncated, "the file of %d bytes ends inside the header of %d", len(head), lateHeadSize)
	}
	if r := head[atLateReserved:lateHeadSize]; string(r) != string(make([]byte, len(r))) {
		return errorf(atLateReserved, "reserved", layout.ErrFormat,
			"% x, not zeros: neither a late APR1 header nor an APR2 header of 64 bytes with the right checksum", r)
	}
	return nil
}

// decoder reads a file.
type decoder struct {
	in      layout.Input
	size    uint64 // of the file
	file    *File
	builder *layout.Builder

	entries []byte
	scales  []byte // of the quantization int8
	quants  []layout.Quant
	indexAt uint64 // where entries start in the file
	data    layout.Section
}

// describe starts the index of a file of up to count tensors.
func (d *decoder) describe(version string, count uint64) (err error) {
	d.builder, err = layout.NewBuilder(layout.APR1, d.size, count, "offset", d.file.lim)
	if err != nil {
		return err
	}
	d.builder.Index().Version = version
	d.builder.Index().Flags = d.file.Header.Flags.Names()
	return nil
}

// end is where the checksum, which ends every file, starts. The header, which is longer, is
// known to be there.
func (d *decoder) end() uint64 { return d.size - crcSize }

// check makes sure that the header is one that this package can read.
func (h *Header) check(head []byte, c Container) error {
	version := uint16(1)
	if c == Late {
		version = 2
	}
	switch {
	case h.Version != version:
		return errorf(atVersion, "version", layout.ErrUnsupported, "%d, not %d", h.Version, version)
	case !h.Quantization.known():
		return errorf(atQuantization, "quantization", layout.ErrUnsupported, "%d, not 0 (f32), 1 (f16) or 2 (int8)", uint8(h.Quantization))
	case head[atCompressed] > 1:
		return errorf(atCompressed, "compressed", layout.ErrUnsupported, "%d, not 0 or 1 (LZ4)", head[atCompressed])
	case h.Tensors == 0:
		return errorf(atTensors, "n_tensors", layout.ErrInvalid, "0: no model, or a file of the time before the header had this field")
	}
	return nil
}

func (d *decoder) decodeBinary(head []byte) error {
	h := &d.file.Header
	*h = readHeader(head)
	if err := h.check(head, d.file.Container); err != nil {
		return err
	}
	if err := d.table(); err != nil {
		return err
	}
	count := uint64(h.Tensors)
	if h.Flags.Has(HasFilterbank) {
		count++
	}
	if err := d.describe(strconv.Itoa(int(h.Version)), count); err != nil {
		return err
	}
	if err := d.sections(); err != nil {
		return err
	}
	for i := range int(h.Tensors) {
		if err := d.entry(i); err != nil {
			return err
		}
	}
	return d.tail()
}

// table reads index and scales, and finds where the data is.
func (d *decoder) table() error {
	h := &d.file.Header
	d.indexAt = headSize
	if d.file.Container == Late {
		d.indexAt = lateHeadSize
	}
	n := uint64(h.Tensors) * entrySize
	all := n
	if h.Quantization == Int8 {
		all += 4 * uint64(h.Tensors)
	}
	if end := d.end(); d.indexAt+all > end {
		return errorf(atTensors, "n_tensors", layout.ErrTruncated, "%d tensors take an index of %d bytes, but the file has only %d for it", h.Tensors, all, end-min(end, d.indexAt))
	}
	b, err := layout.Region(d.in, layout.APR1, atTensors, "index", d.indexAt, all)
	if err != nil {
		return err
	}
	d.entries, d.scales = b[:n], b[n:]
	return d.measure(d.indexAt + all)
}

// measure finds the end of the data that starts at off: the specification has no other
// statement of it than the sizes of the tensors, which are packed.
func (d *decoder) measure(off uint64) error {
	d.data = layout.Section{Name: "data", Offset: off}
	most := d.end() - off
	for i := 0; i < len(d.entries); i += entrySize {
		size := le.Uint64(d.entries[i+inSize:])
		if size > most-d.data.Size {
			return errorf(d.indexAt+uint64(i)+inSize, "size", layout.ErrTruncated, "tensor %d: %d bytes, but only %d of the file are left behind %d tensors",
				i/entrySize, size, most-d.data.Size, i/entrySize)
		}
		d.data.Size += size
	}
	return nil
}

// sections tells the builder of the parts before the tail.
func (d *decoder) sections() error {
	d.builder.Data(d.data.Offset, d.data.Size)
	scalesAt := d.indexAt + uint64(len(d.entries))
	for _, s := range []layout.Section{
		{Name: "header", Offset: 0, Size: d.indexAt},
		{Name: "index", Offset: d.indexAt, Size: uint64(len(d.entries))},
		{Name: "scales", Offset: scalesAt, Size: uint64(len(d.scales))},
	} {
		if s.Size == 0 {
			continue
		}
		if err := d.builder.Section(s.Name, 0, s.Offset, s.Size); err != nil {
			return err
		}
	}
	return nil
}
