package gguf

import (
	"errors"
	"math"
	"math/bits"
	"slices"
	"strconv"

	"github.com/tensormap/tensormap/layout"
)

// File is a decoded GGUF file.
type File struct {
	index *layout.Index
	lim   layout.Limits
	keys  keys
	split split
	data  uint64 // where the tensors' offsets count from

	originals map[string][]int // shapes of tensors, by their names: see keyOriginal
}

var (
	_ layout.File       = (*File)(nil)
	_ layout.Summarizer = (*File)(nil)
	_ layout.Configurer = (*File)(nil)
	_ layout.Unpacker   = (*File)(nil)
	_ layout.Splitter   = (*File)(nil)
)

// Index describes the file's tensors. Its Align is general.alignment.
func (f *File) Index() *layout.Index { return f.index }

// Decode reads the header, steps through the metadata, and reads the tensor infos. Tensors
// are in the order of the file. A nil lim means the defaults. HeaderBytes bounds everything
// before the tensors.
//
// Errors are *[layout.FormatError]s, which wrap an error of package layout:
//
//   - ErrInvalid, ErrDuplicate, ErrOverlap or ErrMisaligned if the file breaks the rules of the
//     package comment.
//   - ErrTruncated if it ends too early.
//   - ErrUnsupported for a version or type that this package does not read.
//   - ErrLimit for something past a cap of the format or of lim.
//
// Their offset is the start of the field; for a string, of its length or of its text.
func Decode(in layout.Input, lim *layout.Limits) (*File, error) {
	d := decoder{size: in.Size(), align: defaultAlign, noted: make(map[string]any), shapes: make(map[string][]int)}
	d.file = File{lim: lim.WithDefaults(), originals: make(map[string][]int)}
	d.Cursor, d.depth = layout.NewCursor(in, layout.GGUF, 0, min(d.size, d.file.lim.HeaderBytes)), d.file.lim.Depth
	d.readHeader()
	d.stepMetadata()
	infos := d.readInfos()
	if err := d.Err(); err != nil {
		return nil, d.asHeaderLimit(err)
	}
	index, err := d.buildIndex(infos)
	if err != nil {
		return nil, err
	}
	file := d.file // which does not hold the memory of d
	file.index = index
	return &file, nil
}

// decoder reads a file from front to back.
type decoder struct {
	reader
	size uint64
	file File

	version     uint32
	tensorCount uint64
	kvCount     uint64
	align       uint64
	infosAt     uint64           // where the tensor infos begin
	noted       map[string]any   // values that Decode needs, by their keys
	shapes      map[string][]int // shapes under keys that begin with keyOriginal, by the rest of the key
}

// asHeaderLimit returns err, or an ErrHeader in its place if the limit of the header, not the end of the file, made it too short.
func (d *decoder) asHeaderLimit(err error) error {
	e, ok := errors.AsType[*layout.FormatError](err)
	if ok && errors.Is(err, layout.ErrTruncated) && d.size > d.file.lim.HeaderBytes {
		return layout.Errorf(layout.GGUF, e.Offset, e.Field, layout.ErrHeader, "%s; a header may have %d bytes", e.Reason, d.file.lim.HeaderBytes)
	}
	return err
}

// readHeader reads the header. It fails if more tensors or keys are stated than fit the file.
func (d *decoder) readHeader() {
	if b := d.Take("magic", 4); b != nil && string(b) != magic {
		d.Fail(0, "magic", layout.ErrInvalid, "% x, not % x", b, magic)
	}
	v := d.U32("version")
	big := v&0xffff == 0
	if big {
		v = bits.ReverseBytes32(v)
	}
	d.version, d.width = v, width{8, big}
	if v == 1 {
		d.width.bytes = 4
	}
	if d.Err() == nil && (v < 1 || v > 3) {
		d.Fail(atVersion, "version", layout.ErrUnsupported, "%d, not 1 to 3", v)
	}
	at := d.Offset()
	d.tensorCount = d.count("tensor_count")
	kvAt := d.Offset()
	d.kvCount = d.count("metadata_kv_count")
	d.Fits(at, "tensor_count", d.tensorCount, d.width.smallestInfo())
	d.Fits(kvAt, "metadata_kv_count", d.kvCount, d.width.smallestKV())
	if d.tensorCount > d.file.lim.Tensors {
		d.Fail(at, "tensor_count", layout.ErrLimit, "%d tensors, more than %d", d.tensorCount, d.file.lim.Tensors)
	}
}

// info is a tensor info: its name, and its dimensions, type and offset.
type info struct{ name, rest []byte }

// readInfos reads the tensor infos and sets where the tensors' data begins, which is behind the last one. It sets d's error if an info leaves
// the header, or its name or rank is over the limit.
func (d *decoder) readInfos() []info {
	d.infosAt = d.Offset()
	d.Peek("tensor_infos", d.tensorCount*d.width.smallestInfo()) // memory is taken for what is there
	if d.Err() != nil {
		return nil
	}
	infos := make([]info, d.tensorCount)
	for i := range infos {
		at := d.Offset()
		size := d.count("name")
		if size > d.file.lim.NameBytes {
			d.Fail(at, "name", layout.ErrLimit, "%d bytes, more than %d", size, d.file.lim.NameBytes)
		}
		name := d.Take("name", size)
		at = d.Offset()
		dims := uint64(d.u32("n_dimensions"))
		if dims > d.file.lim.Rank {
			d.Fail(at, "n_dimensions", layout.ErrLimit, "tensor %s: %d, more than %d", layout.Quote(name), dims, d.file.lim.Rank)
		}
		if infos[i] = (info{name, d.Take("dimensions", dims*d.width.bytes+typeAndOffset)}); d.Err() != nil {
			return nil
		}
	}
	d.file.data = alignUp(d.Offset(), d.align)
	return infos
}

// alignUp returns n rounded up to a multiple of align, a power of two. Headers are too short for
// the sum to wrap.
func alignUp(n, align uint64) uint64 { return (n + align - 1) &^ (align - 1) }

// buildIndex returns the index of the tensors that infos describe. It fails if one is invalid or overlaps another.
func (d *decoder) buildIndex(infos []info) (*layout.Index, error) {
	b := layout.NewBuilder(layout.GGUF, d.size, d.tensorCount, "offset", d.file.lim)
	ix := b.Index()
	ix.Version, ix.Align = strconv.Itoa(int(d.version)), d.align
	if d.width.big {
		ix.Flags = []string{"BIG_ENDIAN"}
	}
	kvs, end := d.file.keys.at, d.Offset()
	ix.Sections = []layout.Section{
		{Name: "header", Offset: 0, Size: kvs},
		{Name: "metadata_kv", Offset: kvs, Size: d.infosAt - kvs},
		{Name: "tensor_infos", Offset: d.infosAt, Size: end - d.infosAt},
	}
	b.Data(d.file.data, d.size-min(d.file.data, d.size))
	at := d.infosAt
	for _, info := range infos {
		if err := d.fillTensor(b.Next(), b, info, at); err != nil {
			return nil, err
		}
		if err := b.Add(at); err != nil {
			return nil, err
		}
		at += d.width.bytes + uint64(len(info.name)) + 4 + uint64(len(info.rest))
	}
	return b.Finish()
}

// fillTensor sets t, the next tensor of b, from its info, which is at offset at. It fails if a dimension, the type, the size or the offset is
// invalid.
func (d *decoder) fillTensor(t *layout.Tensor, b *layout.Builder, info info, at uint64) error {
	t.Name = info.name
	fail := func(at uint64, field string, sentinel error, format string, args ...any) error {
		return layout.Errorf(layout.GGUF, at, field, sentinel, format, args...).OfTensor(t.Name)
	}
	w, rest := d.width, info.rest
	dimsAt := at + w.bytes + uint64(len(info.name)) + 4
	typeAt := dimsAt + uint64(len(rest)) - typeAndOffset
	t.Shape = b.Dims((len(rest) - typeAndOffset) / int(w.bytes))
	for i := range slices.Backward(t.Shape) {
		dim := w.uint(rest)
		if dim > math.MaxInt { // ggml has them signed too
			return fail(dimsAt, "dimensions", layout.ErrInvalid, "%d is beyond %d", dim, math.MaxInt)
		}
		t.Shape[i], rest = int(dim), rest[w.bytes:]
	}
	id, offset := w.u32(rest), width{8, w.big}.uint(rest[4:])
	var known bool
	if t.DType, known = layout.FromGGML(id); !known {
		return fail(typeAt, "type", layout.ErrUnsupported, "%s", unknownType(id))
	}
	if original := d.original(t.Name); original != nil && fits(original, t) {
		t.Shape = original
	}
	size, err := t.DType.Size(t.Shape)
	switch {
	case err != nil:
		return fail(dimsAt, "dimensions", layout.ErrInvalid, "%v", err)
	case offset%d.align != 0:
		return fail(typeAt+4, "offset", layout.ErrMisaligned, "%d is no multiple of %d", offset, d.align)
	case offset > d.size: // which keeps the sum below from wrapping, too
		return fail(typeAt+4, "offset", layout.ErrTruncated, "%d is past the end of the file of %d bytes", offset, d.size)
	}
	t.Offset, t.Stored = d.file.data+offset, size
	if d.width.big && swapOf(t.DType) != nil {
		t.Encoding, t.Raw = layout.Swapped, size
	}
	return nil
}

// unknownType names a type that ggml has removed or a fork has added, or says that ggml never had it.
func unknownType(id uint32) string {
	number := strconv.FormatUint(uint64(id), 10)
	if what, ok := removedTypes[id]; ok {
		return what + ", which ggml has removed"
	}
	if fork, ok := forkTypes[id]; ok {
		return number + " is " + fork + ", no type of ggml"
	}
	if name, ok := llamaTypes[id]; ok {
		return number + " is " + name + " of ik_llama.cpp, no type of ggml"
	}
	return number + " is no type of ggml"
}

// Types of forks, which number them past ggml's own. Sources: ik_llama.cpp ggml.h; PrismML's llama.cpp ggml.h. Several of
// them have rows with a scale in front, so that rows are not whole blocks.
var (
	llamaTypes = map[uint32]string{
		133: "Q6_0", 134: "IQ1_BN", 135: "IQ2_BN", 137: "IQ2_K", 138: "IQ3_K", 139: "IQ4_K", 140: "IQ5_K", 141: "IQ6_K",
		144: "IQ4_KS", 145: "IQ2_KS", 146: "IQ4_KSS", 152: "IQ5_KS", 153: "IQ2_KT", 154: "IQ3_KT", 155: "IQ4_KT",
		156: "IQ3_KS", 157: "IQ2_KL", 158: "IQ1_KT",
	}
	forkTypes = map[uint32]string{
		43:  "claimed by several forks, each for a type of its own",
		142: "PQ2_0 of PrismML's llama.cpp", 143: "PTQ1_0 of PrismML's llama.cpp",
	}
)

var removedTypes = map[uint32]string{
	4: "Q4_2", 5: "Q4_3", 31: "Q4_0_4_4", 32: "Q4_0_4_8", 33: "Q4_0_8_8",
	36: "IQ4_NL_4_4", 37: "IQ4_NL_4_8", 38: "IQ4_NL_8_8",
}
