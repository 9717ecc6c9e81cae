package apr1

import (
	"bytes"
	"encoding/binary"
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
	tokens     int            // in the vocabulary; -1 if there is none
	filterbank filterbankPlace
	metadata   layout.Section // of the container JSON
	cutNames   []int          // tensors whose name the writer has cut inside a character
}

var _ layout.Summarizer = (*File)(nil)

// Decode reads header and index of an APR1 file, and the head of its vocabulary and
// filterbank sections. A nil lim means the defaults.
//
// Errors are *[layout.FormatError]s. Errors about an index entry have the offset of the
// entry or the field. Errors about the index of the container JSON have the
// offset of the index, unless they are about its syntax.
func Decode(in layout.Input, lim *layout.Limits) (*File, error) {
	size := in.Size()
	head, err := layout.Region(in, layout.APR1, 0, "magic", 0, min(head2Size, size))
	if err != nil {
		return nil, err
	}
	d := decoder{in: in, end: size - crcSize, file: &File{lim: lim.WithDefaults(), tokens: -1}}
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
	d.builder.Section("crc32", d.end, d.end, crcSize)
	if d.file.index, err = d.builder.Finish(); err != nil {
		return nil, err
	}
	return d.file, nil
}

// Index describes the file's tensors.
func (f *File) Index() *layout.Index { return f.index }

// container tells the containers apart by their first bytes. In JSON byte 8 is "{". In the others it says whether tensors are compressed, and
// is 0 or 1. The namesake of Binary2 has a header of 64 bytes, whose JSON begins at the last zeros of Binary2.
func container(head []byte) (Container, error) {
	is, need := string(head[:min(len(magic), len(head))]), headSize
	if is == magic2 && len(head) >= headSize {
		need = head2Size
	}
	switch {
	case is == magic && len(head) > atCompressed && head[atCompressed] == '{':
		return JSON, nil
	case len(head) < need:
		return 0, errorf(0, "magic", layout.ErrTruncated, "the file of %d bytes ends inside the header of %d", len(head), need)
	case is == magic:
		return Binary, nil
	case is != magic2:
		return 0, errorf(0, "magic", layout.ErrFormat, "%q, not %q", is, magic)
	}
	if r := head[atReserved2:head2Size]; string(r) != string(make([]byte, len(r))) {
		return 0, errorf(atReserved2, "reserved", layout.ErrFormat,
			"% x, not zeros: neither a late APR1 header nor an APR2 header of 64 bytes with the right checksum", r)
	}
	return Binary2, nil
}

// decoder reads a file.
type decoder struct {
	layout.Cursor // of a part of the file
	in            layout.Input
	end           uint64 // of the file without its checksum
	file          *File
	builder       *layout.Builder

	entries []byte
	scales  []byte // of the quantization int8
	quants  []layout.Quant
	indexAt uint64 // where entries start in the file
	data    layout.Section
	shape   []int // of the container JSON's entry that is being read
}

// newIndex sets d.builder to one for an index of up to count tensors, with the sections before the tensors' data.
func (d *decoder) newIndex(version string, count uint64, sections ...layout.Section) {
	d.builder = layout.NewBuilder(layout.APR1, d.in.Size(), count, "offset", d.file.lim)
	d.builder.Index().Version = version
	d.builder.Index().Flags = d.file.Header.Flags.Names()
	d.builder.Data(d.data.Offset, d.data.Size)
	d.builder.Index().Sections = sections // which have been found to be in the file
}

// decodeBinary reads the containers Binary and Binary2, whose first bytes are head. It fails if they cannot be read here.
func (d *decoder) decodeBinary(head []byte) error {
	h := &d.file.Header
	binary.Decode(head[len(magic):headSize], le, h) // which has that size
	version := uint16(1)
	if d.indexAt = headSize; d.file.Container == Binary2 {
		version, d.indexAt = 2, head2Size
	}
	switch {
	case h.Version != version:
		return errorf(atVersion, "version", layout.ErrUnsupported, "%d, not %d", h.Version, version)
	case int(h.Quantization) >= len(elementTypes):
		return errorf(atQuantization, "quantization", layout.ErrUnsupported, "%d, not 0 (f32), 1 (f16) or 2 (int8)", uint8(h.Quantization))
	case head[atCompressed] > 1:
		return errorf(atCompressed, "compressed", layout.ErrUnsupported, "%d, not 0 or 1 (LZ4)", head[atCompressed])
	case h.Tensors == 0:
		return errorf(atTensors, "n_tensors", layout.ErrInvalid, "0: no model, or a file of the time before the header had this field")
	}
	if err := d.readTable(); err != nil {
		return err
	}
	count := uint64(h.Tensors)
	if h.Flags.Has(HasFilterbank) {
		count++
	}
	sections := []layout.Section{{Name: "header", Size: d.indexAt}, {Name: "index", Offset: d.indexAt, Size: uint64(len(d.entries))}}
	if n := len(d.scales); n > 0 {
		sections = append(sections, layout.Section{Name: "scales", Offset: d.scalesAt(), Size: uint64(n)})
	}
	d.newIndex(strconv.Itoa(int(h.Version)), count, sections...)
	for i := range int(h.Tensors) {
		if err := d.addEntry(i); err != nil {
			return err
		}
	}
	// Sections behind the data. Audit reports bytes between them and the checksum.
	at := d.data.Offset + d.data.Size
	d.Cursor = layout.NewCursor(d.in, layout.APR1, at, d.end-at)
	if h.Flags.Has(HasVocab) {
		d.addVocabulary()
	}
	if h.Flags.Has(HasFilterbank) && d.Err() == nil {
		return d.addFilterbank()
	}
	return d.Err()
}

// readTable reads the index entries and the scales, and sets where the tensors' data is: behind them. Its size is the sum of the sizes in all
// entries. It fails if the file is too short for all that.
func (d *decoder) readTable() error {
	h := &d.file.Header
	n := uint64(h.Tensors) * entrySize
	all, end := n, d.end
	if h.Quantization == Int8 {
		all += 4 * uint64(h.Tensors)
	}
	if d.indexAt+all > end {
		return errorf(atTensors, "n_tensors", layout.ErrTruncated, "%d tensors take an index of %d bytes, but the file has only %d for it", h.Tensors, all, end-min(end, d.indexAt))
	}
	b, err := layout.Region(d.in, layout.APR1, atTensors, "index", d.indexAt, all)
	if err != nil {
		return err
	}
	d.entries, d.scales = b[:n], b[n:]
	d.data = layout.Section{Name: "data", Offset: d.indexAt + all}
	for i := 0; i < len(d.entries); i += entrySize {
		size, left := le.Uint64(d.entries[i+inSize:]), end-d.data.Offset-d.data.Size
		if size > left {
			return errorf(d.indexAt+uint64(i)+inSize, "size", layout.ErrTruncated, "tensor %d: %d bytes, but only %d of the file are left behind %[1]d tensors",
				i/entrySize, size, left)
		}
		d.data.Size += size
	}
	if h.Quantization == Int8 {
		d.quants = make([]layout.Quant, h.Tensors)
	}
	return nil
}

// scalesAt returns the offset in the file of the scales, which follow the index entries.
func (d *decoder) scalesAt() uint64 { return d.indexAt + uint64(len(d.entries)) }

// addEntry reads index entry i and adds its tensor to the index. It fails if a field is invalid.
func (d *decoder) addEntry(i int) error {
	b, h := d.entries[i*entrySize:][:entrySize], &d.file.Header
	at := d.indexAt + uint64(i*entrySize)
	t := d.builder.Next()
	name, _, ended := bytes.Cut(b[:nameSize], []byte{0})
	if !ended {
		return errorf(at, "name", layout.ErrInvalid, "tensor %d: %s does not end with a NUL", i, layout.Quote(name))
	}
	t.Name = d.restoreCut(name, i)
	rank := int(b[inDims])
	if rank > maxDims {
		return errorf(at+inDims, "n_dims", layout.ErrInvalid, "%d, more than %d", rank, maxDims).OfTensor(t.Name)
	}
	t.Shape = d.builder.Dims(rank)
	for i := range t.Shape {
		t.Shape[i] = layout.Dim(uint64(le.Uint32(b[inShape+4*i:])))
	}
	n := le.Uint64(b[inElements:])
	if product, ok := layout.Elements(t.Shape); !ok || product != n {
		return errorf(at+inElements, "n_elements", layout.ErrInvalid, "%d, but the shape is %v", n, t.Shape).OfTensor(t.Name)
	}
	t.DType = elementTypes[h.Quantization]
	offset := le.Uint64(b[inOffset:])
	if offset > d.data.Size {
		return errorf(at+inOffset, "offset", layout.ErrInvalid, "%d is past the end of the data of %d bytes", offset, d.data.Size).OfTensor(t.Name)
	}
	t.Offset, t.Stored = d.data.Offset+offset, le.Uint64(b[inSize:])
	overflow, raw := bits.Mul64(n, uint64(t.DType.BlockBytes()))
	if h.Compressed && t.Stored != raw && raw != 0 && overflow == 0 { // else stored raw, or refused by the builder
		t.Encoding, t.Raw = layout.LZ4, raw
		if !layout.LZ4Holds(t.Stored, raw) {
			return errorf(at+inSize, "size", layout.ErrInvalid, "%d bytes are too few for LZ4 to make %d of them", t.Stored, raw).OfTensor(t.Name)
		}
	}
	if h.Quantization == Int8 {
		t.Quant = &d.quants[i]
		t.Quant.Scale = math.Float32frombits(le.Uint32(d.scales[4*i:]))
		if x := float64(t.Quant.Scale); math.IsNaN(x) || math.IsInf(x, 0) {
			return errorf(d.scalesAt()+4*uint64(i), "scale", layout.ErrInvalid, "%v is not finite", x).OfTensor(t.Name)
		}
	}
	return d.builder.Add(at)
}

// restoreCut returns the name of tensor i. Writers cut names to 47 bytes. A last character that is cut becomes U+FFFD, and i is added to
// File.cutNames.
func (d *decoder) restoreCut(name []byte, i int) []byte {
	for n := len(name) - 1; n >= max(0, len(name)-utf8.UTFMax); n-- {
		if !utf8.RuneStart(name[n]) {
			continue
		}
		if !utf8.FullRune(name[n:]) {
			d.file.cutNames = append(d.file.cutNames, i)
			return append(slices.Clone(name[:n]), string(utf8.RuneError)...)
		}
		break
	}
	return name
}

// filterbankName is the name of the filterbank as a tensor, and its key in metadata.
const filterbankName = "mel_filterbank"

// filterbankPlace says how large the filterbank is and where its values start.
type filterbankPlace struct {
	mels, freqs uint32
	offset      uint64 // of the values, or 0
}

// size returns the number of bytes of the filterbank's float32 values.
func (s filterbankPlace) size() uint64 { return 4 * uint64(s.mels) * uint64(s.freqs) }

// sectionSize reads the size of the section that comes next. It sets d's error if the section is too short for its counts, or leaves
// the file.
func (d *decoder) sectionSize(field string) (size uint64) {
	at := d.Offset()
	size = uint64(d.U32(field))
	switch {
	case d.Err() != nil:
	case size > d.Left():
		d.Fail(at, field, layout.ErrTruncated, "%d bytes, but only %d are left before the checksum", size, d.Left())
	case size < countsSize:
		d.Fail(at, field, layout.ErrInvalid, "%d bytes, fewer than the %d of the counts", size, countsSize)
	}
	return size
}

// addVocabulary enters the vocabulary section, which comes next, and skips its strings. It sets d's error if their numbers do not fit its size.
func (d *decoder) addVocabulary() {
	at := d.Offset()
	size := d.sectionSize("vocabulary_size")
	begin := d.Offset()
	tokens, merges := uint64(d.U32("n_tokens")), uint64(d.U32("n_merges"))
	if d.Err() == nil && 2*tokens+4*merges > size-countsSize {
		d.Fail(begin, "n_tokens", layout.ErrTruncated, "%d tokens and %d merges do not fit the %d bytes of the vocabulary", tokens, merges, size)
	}
	if d.Skip("vocabulary", size-countsSize); d.Err() == nil {
		d.file.vocabulary, d.file.tokens = layout.Section{Name: "vocabulary", Offset: begin, Size: size}, int(tokens)
		d.builder.Section("vocabulary", at, at, sizeSize+size)
	}
}

// addFilterbank enters the filterbank section, which comes next. Its values become a tensor unless one of the file's own has the name.
// It fails if its size is not the size of its dimensions.
func (d *decoder) addFilterbank() error {
	at := d.Offset()
	size := d.sectionSize("filterbank_size")
	place := filterbankPlace{mels: d.U32("n_mels"), freqs: d.U32("n_freqs"), offset: d.Offset()}
	// The product of two u32s does not wrap, but four times it may.
	if values := uint64(place.mels) * uint64(place.freqs); d.Err() == nil && (size%4 != 0 || values != (size-countsSize)/4) {
		d.Fail(at, "filterbank_size", layout.ErrInvalid, "%d bytes, not the size of %d × %d values and their counts", size, place.mels, place.freqs)
	}
	if d.Err() != nil {
		return d.Err()
	}
	d.file.filterbank = place
	section, isTaken := sizeSize+uint64(countsSize), d.builder.Index().Find(filterbankName) >= 0
	if isTaken {
		section += place.size()
	}
	d.builder.Section("filterbank", at, at, section)
	if isTaken {
		return nil
	}
	d.builder.Data(place.offset, place.size())
	t := d.builder.Next()
	t.Name, t.DType, t.Shape = []byte(filterbankName), layout.F32, []int{layout.Dim(uint64(place.mels)), layout.Dim(uint64(place.freqs))}
	t.Offset, t.Stored = place.offset, place.size()
	return d.builder.Add(at)
}
