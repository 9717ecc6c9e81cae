package apr1

import (
	"bytes"
	"math"
	"math/bits"
	"slices"
	"strconv"
	"unicode/utf8"

	"github.com/tensormap/tensormap/layout"
)

// File is a decoded APR1 file. It implements [layout.File] and [layout.Summarizer].
type File struct {
	Container Container
	// Header is zero for the container JSON, whose metadata takes its place.
	Header Header

	index      *layout.Index
	lim        layout.Limits
	vocabulary layout.Section // without the size before it; empty if there is none
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
// Errors are *[layout.FormatError]s. Those about an index entry have the offset of the
// entry or the field. Those about the index of the container JSON have the
// offset of the index, unless they are about its syntax.
func Decode(in layout.Input, lim *layout.Limits) (*File, error) {
	size := in.Size()
	head, err := layout.Region(in, layout.APR1, 0, "magic", 0, min(head2Size, size))
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
	d.builder.Section("crc32", d.end(), d.end(), crcSize)
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
	case is == magic2:
		return Binary2, checkHead2(head)
	default:
		return 0, errorf(0, "magic", layout.ErrFormat, "%q, not %q", is, magic)
	}
}

// startsJSON reports whether head starts the container JSON. In the others byte 8 says
// whether tensors are compressed, and is 0 or 1.
func startsJSON(head []byte) bool {
	return len(head) > atCompressed && string(head[:4]) == magic && head[atCompressed] == '{'
}

// checkHead2 tells the container Binary2 from the namesake with a 64-byte header. The JSON of that
// begins at the last zeros of Binary2.
func checkHead2(head []byte) error {
	if len(head) < head2Size {
		return errorf(0, "magic", layout.ErrTruncated, "the file of %d bytes ends inside the header of %d", len(head), head2Size)
	}
	if r := head[atReserved2:head2Size]; string(r) != string(make([]byte, len(r))) {
		return errorf(atReserved2, "reserved", layout.ErrFormat,
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

// begin starts the index of a file of up to count tensors, which has these sections before its data.
func (d *decoder) begin(version string, count uint64, sections ...layout.Section) (err error) {
	d.builder, err = layout.NewBuilder(layout.APR1, d.size, count, "offset", d.file.lim)
	if err != nil {
		return err
	}
	d.builder.Index().Version = version
	d.builder.Index().Flags = d.file.Header.Flags.Names()
	d.builder.Data(d.data.Offset, d.data.Size)
	for _, s := range sections {
		d.builder.Section(s.Name, 0, s.Offset, s.Size)
	}
	return nil
}

// end returns where the checksum starts, which ends every file.
func (d *decoder) end() uint64 { return d.size - crcSize }

// check makes sure that this package can read files with the header.
func (h *Header) check(head []byte, c Container) error {
	version := uint16(1)
	if c == Binary2 {
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

// decodeBinary reads the containers Binary and Binary2, whose first bytes are head.
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
	sections := []layout.Section{
		{Name: "header", Offset: 0, Size: d.indexAt},
		{Name: "index", Offset: d.indexAt, Size: uint64(len(d.entries))},
		{Name: "scales", Offset: d.scalesAt(), Size: uint64(len(d.scales))},
	}
	if len(d.scales) == 0 {
		sections = sections[:2]
	}
	if err := d.begin(strconv.Itoa(int(h.Version)), count, sections...); err != nil {
		return err
	}
	for i := range int(h.Tensors) {
		if err := d.entry(i); err != nil {
			return err
		}
	}
	return d.trailingSections()
}

// table reads index and scales, and finds where the data is.
func (d *decoder) table() error {
	h := &d.file.Header
	d.indexAt = headSize
	if d.file.Container == Binary2 {
		d.indexAt = head2Size
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
	return d.locateData(d.indexAt + all)
}

// locateData finds the end of the data that starts at off. Only the sizes of the tensors tell it: they are
// packed.
func (d *decoder) locateData(off uint64) error {
	d.data = layout.Section{Name: "data", Offset: off}
	limit := d.end() - off
	for i := 0; i < len(d.entries); i += entrySize {
		size := le.Uint64(d.entries[i+inSize:])
		if size > limit-d.data.Size {
			return errorf(d.indexAt+uint64(i)+inSize, "size", layout.ErrTruncated, "tensor %d: %d bytes, but only %d of the file are left behind %d tensors",
				i/entrySize, size, limit-d.data.Size, i/entrySize)
		}
		d.data.Size += size
	}
	return nil
}

func (d *decoder) scalesAt() uint64 { return d.indexAt + uint64(len(d.entries)) }

// entry reads index entry i.
func (d *decoder) entry(i int) error {
	b := d.entries[i*entrySize:][:entrySize]
	at := d.indexAt + uint64(i*entrySize)
	t := d.builder.Next()
	var err error
	if t.Name, err = d.name(b[:nameSize], at, i); err != nil {
		return err
	}
	if err = d.shape(t, b, at); err != nil {
		return err
	}
	if err = d.place(t, b, at); err != nil {
		return err
	}
	if err = d.scale(t, i); err != nil {
		return err
	}
	return d.builder.Add(at)
}

// name reads the NUL-terminated name of tensor i. Writers cut names to 47 bytes. A character that is
// cut becomes U+FFFD.
func (d *decoder) name(b []byte, at uint64, i int) ([]byte, error) {
	n := bytes.IndexByte(b, 0)
	if n < 0 {
		return nil, errorf(at, "name", layout.ErrInvalid, "tensor %d: %s does not end with a NUL", i, layout.Quote(b))
	}
	name := b[:n:n]
	whole := completeLength(name)
	if whole < n {
		d.file.cut = append(d.file.cut, i)
		name = append(slices.Clone(name[:whole]), string(utf8.RuneError)...)
	}
	return name, nil
}

// completeLength returns the length of name without the first bytes of a character that goes on behind it.
func completeLength(name []byte) int {
	n := len(name)
	last := n - 1
	for last > max(0, n-utf8.UTFMax) && !utf8.RuneStart(name[last]) {
		last--
	}
	if last >= 0 && !utf8.FullRune(name[last:]) {
		return last
	}
	return n
}

// shape reads the shape of t from its entry b, which starts at offset at. It fails if the shape has another number of
// elements than the entry states.
func (d *decoder) shape(t *layout.Tensor, b []byte, at uint64) error {
	rank := int(b[inDims])
	if rank > maxDims {
		return tensorErrorf(t, at+inDims, "n_dims", layout.ErrInvalid, "%d, more than %d", rank, maxDims)
	}
	t.Shape = d.builder.Dims(rank)
	for i := range t.Shape {
		t.Shape[i] = layout.Dim(uint64(le.Uint32(b[inShape+4*i:])))
	}
	n := le.Uint64(b[inElements:])
	if product, ok := layout.Elements(t.Shape); !ok || product != n {
		return tensorErrorf(t, at+inElements, "n_elements", layout.ErrInvalid, "%d, but the shape is %v", n, t.Shape)
	}
	return nil
}

// place reads type and position of t, whose shape is known.
func (d *decoder) place(t *layout.Tensor, b []byte, at uint64) error {
	offset := le.Uint64(b[inOffset:])
	if offset > d.data.Size {
		// Also keeps the sum below from wrapping.
		return tensorErrorf(t, at+inOffset, "offset", layout.ErrInvalid, "%d is past the end of the data of %d bytes", offset, d.data.Size)
	}
	t.DType = quantizations[d.file.Header.Quantization].dtype
	t.Offset, t.Stored = d.data.Offset+offset, le.Uint64(b[inSize:])
	overflow, raw := bits.Mul64(le.Uint64(b[inElements:]), uint64(t.DType.BlockBytes()))
	if !d.file.Header.Compressed || t.Stored == raw || raw == 0 || overflow != 0 {
		return nil // stored raw, or else refused by the builder
	}
	t.Encoding, t.Raw = layout.LZ4, raw
	if least := (raw-1)/maxExpansion + 1; t.Stored < least {
		return tensorErrorf(t, at+inSize, "size", layout.ErrInvalid, "%d bytes stored, too few for LZ4 to make %d of them", t.Stored, raw)
	}
	return nil
}

// scale reads the scale of t, tensor i, if the file has a table of them.
func (d *decoder) scale(t *layout.Tensor, i int) error {
	if d.file.Header.Quantization != Int8 {
		return nil
	}
	scale := math.Float32frombits(le.Uint32(d.scales[4*i:]))
	if x := float64(scale); math.IsNaN(x) || math.IsInf(x, 0) {
		return tensorErrorf(t, d.scalesAt()+4*uint64(i), "scale", layout.ErrInvalid, "%v is not finite", scale)
	}
	if d.quants == nil {
		d.quants = make([]layout.Quant, len(d.scales)/4)
	}
	t.Quant = &d.quants[i]
	t.Quant.Scale = scale
	return nil
}

// filterbankName is the name of the filterbank as a tensor, and its key in metadata.
const filterbankName = "mel_filterbank"

// filterbankSpan is where the filterbank is.
type filterbankSpan struct {
	mels, freqs uint32
	offset      uint64 // of the values, or 0
}

func (s filterbankSpan) size() uint64 { return 4 * uint64(s.mels) * uint64(s.freqs) }

// trailingSections finds the sections behind the data. Audit reports bytes between them and the checksum.
func (d *decoder) trailingSections() error {
	at := d.data.Offset + d.data.Size
	c := layout.NewCursor(d.in, layout.APR1, at, d.end()-at)
	if d.file.Header.Flags.Has(HasVocab) {
		if err := d.vocabulary(&c); err != nil {
			return err
		}
	}
	if d.file.Header.Flags.Has(HasFilterbank) {
		return d.filterbank(&c)
	}
	return nil
}

// sectionSize reads the size of a section, and makes sure that it fits.
func sectionSize(c *layout.Cursor, field string) (size uint64) {
	at := c.Offset()
	size = uint64(c.U32(field))
	switch {
	case c.Err() != nil:
	case size > c.Left():
		c.Fail(at, field, layout.ErrTruncated, "%d bytes, but only %d are left before the checksum", size, c.Left())
	case size < countsSize:
		c.Fail(at, field, layout.ErrInvalid, "%d bytes, fewer than the %d of the counts", size, countsSize)
	}
	return size
}

// vocabulary finds the vocabulary section. It does not read the strings.
func (d *decoder) vocabulary(c *layout.Cursor) error {
	at := c.Offset()
	size := sectionSize(c, "vocabulary_size")
	begin := c.Offset()
	tokens, merges := uint64(c.U32("n_tokens")), uint64(c.U32("n_merges"))
	if c.Err() == nil && 2*tokens+4*merges > size-countsSize {
		c.Fail(begin, "n_tokens", layout.ErrTruncated, "%d tokens and %d merges do not fit the %d bytes of the vocabulary", tokens, merges, size)
	}
	c.Skip("vocabulary", size-countsSize)
	if err := c.Err(); err != nil {
		return err
	}
	d.file.vocabulary = layout.Section{Name: "vocabulary", Offset: begin, Size: size}
	d.builder.Section("vocabulary", at, at, sizeSize+size)
	return nil
}

// filterbank finds the filterbank section. It makes a tensor of it unless one of the
// file's own has the name.
func (d *decoder) filterbank(c *layout.Cursor) error {
	at := c.Offset()
	size := sectionSize(c, "filterbank_size")
	span := filterbankSpan{mels: c.U32("n_mels"), freqs: c.U32("n_freqs"), offset: c.Offset()}
	// The product of two u32s does not wrap, but four times it may.
	if values := uint64(span.mels) * uint64(span.freqs); c.Err() == nil && (size%4 != 0 || values != (size-countsSize)/4) {
		c.Fail(at, "filterbank_size", layout.ErrInvalid, "%d bytes, not those of %d × %d values and their counts", size, span.mels, span.freqs)
	}
	if err := c.Err(); err != nil {
		return err
	}
	d.file.filterbank = span
	head := sizeSize + uint64(countsSize)
	if d.builder.Index().Find(filterbankName) >= 0 {
		d.builder.Section("filterbank", at, at, head+span.size())
		return nil
	}
	d.builder.Section("filterbank", at, at, head)
	d.builder.Data(span.offset, span.size())
	t := d.builder.Next()
	t.Name, t.DType, t.Shape = []byte(filterbankName), layout.F32, []int{layout.Dim(uint64(span.mels)), layout.Dim(uint64(span.freqs))}
	t.Offset, t.Stored = span.offset, span.size()
	return d.builder.Add(at)
}
