package april

import (
	"fmt"
	"math"
	"math/bits"
	"strings"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/tensormap/tensormap/layout"
)

// tensorProto is a TensorProto that is being read.
type tensorProto struct {
	*wire
	r        *reader
	start    uint64 // where in the file the message starts
	end      uint64
	name     int    // where in r.names the name starts: the network's role first
	unnamed  int    // how long r.names is without the tensor's own name
	dims     int    // where in r.dims the shape starts
	seen     uint32 // bits 1<<number of the fields there have been
	dataType int32
	location int32
	rawData  Entry
	// The fields of numbers hold minNumbers to maxNumbers numbers: varints have 1 to 10 bytes. The two are
	// equal for numbers of fixed size.
	minNumbers, maxNumbers uint64
}

// field reads the field f, which tensorFields has.
func (t *tensorProto) field(f *record) {
	kind := &tensorFields[f.num]
	if f.typ != kind.wire && !(kind.packable && f.typ == protowire.BytesType) {
		t.bad(f.at, kind.name, layout.ErrInvalid, "wire type %d", f.typ)
		return
	}
	if !kind.repeated && t.has(1<<f.num) {
		// In protobuf the last one counts. No writer does this, and not all readers would agree on
		// the contents.
		t.bad(f.at, kind.name, layout.ErrDuplicate, "the field is there twice")
		return
	}
	t.seen |= 1 << f.num
	switch f.num {
	case tensorDims:
		t.readDims(f)
	case tensorDataType:
		t.dataType = int32(f.value)
	case tensorDataLocation:
		t.location = int32(f.value)
	case tensorName:
		t.readName(f)
	case tensorRawData:
		t.rawData = Entry{t.at, f.size}
	default:
		if kind.packable {
			t.count(f)
		}
	}
}

// has reports whether one of the fields in a set of bits has been read.
func (t *tensorProto) has(fields uint32) bool { return t.seen&fields != 0 }

// readName appends the tensor's name to those of all initializers.
func (t *tensorProto) readName(f *record) {
	if limit := min(t.r.lim.NameBytes, math.MaxInt32); f.size > limit {
		t.bad(f.at, "name", layout.ErrLimit, "%d bytes, more than %d", f.size, limit)
		return
	}
	t.r.names = append(t.r.names, t.take(f.size)...)
}

// readDims reads a dimension, or several that are packed.
func (t *tensorProto) readDims(f *record) {
	if f.typ == protowire.VarintType {
		t.addDim(f.at, f.value)
		return
	}
	for t.more(f.end) {
		at := t.at
		t.addDim(at, t.varint(f.end))
	}
}

// addDim appends a dimension to those of all initializers. It fails if dim is no valid one, or the rank is over the
// limit.
func (t *tensorProto) addDim(at, dim uint64) {
	switch rank := uint64(len(t.r.dims) - t.dims); {
	case int64(dim) < 0:
		t.bad(at, "dims", layout.ErrInvalid, "dimension %d is %d", rank, int64(dim))
	case dim > math.MaxInt:
		t.bad(at, "dims", layout.ErrInvalid, "dimension %d is %d, beyond %d", rank, dim, math.MaxInt)
	case rank == min(t.r.lim.Rank, math.MaxInt32):
		t.bad(at, "dims", layout.ErrLimit, "more than %d dimensions", rank)
	default:
		t.r.dims = append(t.r.dims, int(dim))
	}
}

// count adds what the record f of a field of numbers can hold.
func (t *tensorProto) count(f *record) {
	kind := &tensorFields[f.num]
	width := numberSize(kind.wire)
	switch {
	case f.typ != protowire.BytesType:
		t.minNumbers, t.maxNumbers = t.minNumbers+1, t.maxNumbers+1
	case width == 0:
		t.minNumbers, t.maxNumbers = t.minNumbers+(f.size+maxVarint-1)/maxVarint, t.maxNumbers+f.size
	case f.size%width != 0:
		t.bad(f.at, kind.name, layout.ErrInvalid, "%d bytes, no multiple of %d", f.size, width)
	default:
		t.minNumbers, t.maxNumbers = t.minNumbers+f.size/width, t.maxNumbers+f.size/width
	}
}

// numberSize returns the size of a packed number in bytes, 0 for a varint.
func numberSize(w protowire.Type) uint64 {
	switch w {
	case protowire.Fixed32Type:
		return 4
	case protowire.Fixed64Type:
		return 8
	}
	return 0
}

// initializer checks the TensorProto as a whole and returns it.
func (t *tensorProto) initializer() initializer {
	init := initializer{at: t.start, name: uint32(len(t.r.names) - t.name), rank: uint32(len(t.r.dims) - t.dims)}
	t.checkFields()
	init.dtype = t.dtype()
	if t.err() != nil {
		return init
	}
	raw, err := init.dtype.Size(t.shape())
	if err != nil {
		t.bad(t.start, "dims", layout.ErrInvalid, "%v", err)
		return init
	}
	t.place(&init, raw)
	return init
}

// place finds the elements, raw bytes of them. It checks that a field of varints can hold as many numbers
// as the shape wants. Their number shows only when they are read.
func (t *tensorProto) place(init *initializer, raw uint64) {
	data := t.seen & dataFields
	field := protowire.Number(bits.TrailingZeros32(data))
	switch {
	case bits.OnesCount32(data) > 1:
		t.bad(t.start, "raw_data", layout.ErrInvalid, "elements in more than one field: %s", fieldNames(data))
	case data == 0 && raw > 0:
		t.bad(t.start, "raw_data", layout.ErrInvalid, "no elements, but %v %v takes %d bytes", init.dtype, t.shape(), raw)
	case data == 0:
		init.offset = t.start
	case field == tensorRawData && t.rawData.Size != raw:
		t.bad(t.rawData.Offset, "raw_data", layout.ErrInvalid, "%d bytes, but %v %v takes %d", t.rawData.Size, init.dtype, t.shape(), raw)
	case field == tensorRawData:
		init.offset, init.stored = t.rawData.Offset, t.rawData.Size
	default:
		t.placeNumbers(init, raw, field)
	}
}

// placeNumbers does the work of place for elements in a field of numbers.
func (t *tensorProto) placeNumbers(init *initializer, raw uint64, field protowire.Number) {
	name := tensorFields[field].name
	if want := fieldOf(init.dtype); field != want {
		t.bad(t.start, name, layout.ErrInvalid, "%v belongs in %s", init.dtype, tensorFields[want].name)
		return
	}
	want := numbersOf(init.dtype, raw)
	if want < t.minNumbers || want > t.maxNumbers {
		t.bad(t.start, name, layout.ErrInvalid, "%d to %d numbers, but %v %v takes %d", t.minNumbers, t.maxNumbers, init.dtype, t.shape(), want)
		return
	}
	init.offset = t.start
	if raw > 0 {
		init.stored, init.encoding = t.end-t.start, layout.Protobuf
	}
}

func (t *tensorProto) shape() []int { return t.r.dims[t.dims:] }

// numbersOf returns how many numbers of its field hold raw bytes of type d: two for a complex.
func numbersOf(d layout.DType, raw uint64) uint64 {
	width := numberSize(tensorFields[fieldOf(d)].wire)
	if width == 0 {
		width = uint64(d.BlockBytes())
	}
	return raw / width
}

// fieldNames lists the fields in a set of bits.
func fieldNames(fields uint32) string {
	var names []string
	for ; fields != 0; fields &= fields - 1 {
		names = append(names, tensorFields[bits.TrailingZeros32(fields)].name)
	}
	return strings.Join(names, ", ")
}

// checkFields makes sure that the tensor has a name, and its elements in one place.
func (t *tensorProto) checkFields() {
	switch {
	case t.has(1<<tensorExternalData) || t.location == 1:
		t.bad(t.start, "external_data", layout.ErrUnsupported, "the elements are in another file")
	case t.location != 0:
		t.bad(t.start, "data_location", layout.ErrUnsupported, "%d, which ONNX does not define", t.location)
	case t.has(1 << tensorSegment):
		t.bad(t.start, "segment", layout.ErrUnsupported, "a part of a tensor")
	case len(t.r.names) == t.unnamed:
		t.bad(t.start, "name", layout.ErrInvalid, "an initializer without a name")
	}
}

// dtype returns the type of the elements. It fails, and returns Invalid, if no DType stands for it.
func (t *tensorProto) dtype() layout.DType {
	name, d := "not a type of ONNX", layout.Invalid
	if id := int(t.dataType); 0 <= id && id < len(dataTypes) {
		name, d = dataTypes[id].name, dataTypes[id].dtype
	}
	if d == layout.Invalid {
		t.bad(t.start, "data_type", layout.ErrUnsupported, "%d (%s)", t.dataType, name)
	}
	return d
}

// bad sets the error of the wire, with the name of the tensor, unless there is one already.
func (t *tensorProto) bad(at uint64, field string, sentinel error, format string, args ...any) {
	reason := fmt.Sprintf(format, args...)
	t.fail(at, field, sentinel, "initializer %s: %s", layout.Quote(t.r.names[t.name:]), reason)
}
