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
	lim      layout.Limits
	start    uint64 // where in the file the message starts
	end      uint64
	name     []byte // behind the role of the network
	prefix   int    // how long name is without the tensor's own name
	shape    []int
	seen     uint32 // bits 1<<number of the fields there have been
	dataType int32
	location int32
	rawData  Entry
	// The fields of numbers hold minNumbers to maxNumbers numbers: varints have 1 to 10 bytes. The two are
	// equal for numbers of fixed size.
	minNumbers, maxNumbers uint64
}

// readField reads the field f, one of tensorFields. It sets the wire's error if the wire type is wrong, or a single field is there twice.
func (t *tensorProto) readField(f *record) {
	kind := &tensorFields[f.num]
	if f.typ != kind.wire && !(kind.packable && f.typ == protowire.BytesType) {
		t.failInitializer(f.at, kind.name, layout.ErrInvalid, "wire type %d", f.typ)
		return
	}
	if !kind.repeated && t.has(1<<f.num) {
		// In protobuf the last one counts. No writer does this, and not all readers would agree on
		// the contents.
		t.failInitializer(f.at, kind.name, layout.ErrDuplicate, "the field is there twice")
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
		t.rawData = Entry{t.Offset(), f.size}
	default:
		if kind.packable {
			t.countNumbers(f)
		}
	}
}

// has reports whether a field has been read whose bit, 1<<number, is set in fields.
func (t *tensorProto) has(fields uint32) bool { return t.seen&fields != 0 }

// readName appends the tensor's own name to that of its network.
func (t *tensorProto) readName(f *record) {
	if limit := min(t.lim.NameBytes, math.MaxInt32); f.size > limit {
		t.failInitializer(f.at, "name", layout.ErrLimit, "%d bytes, more than %d", f.size, limit)
		return
	}
	t.name = append(t.name, t.take(f.size)...)
}

// readDims reads a dimension, or several that are packed.
func (t *tensorProto) readDims(f *record) {
	if f.typ == protowire.VarintType {
		t.addDim(f.at, f.value)
		return
	}
	for t.hasMore(f.end) {
		at := t.Offset()
		t.addDim(at, t.varint(f.end))
	}
}

// addDim appends a dimension to the shape. It fails if dim is no valid one, or the rank is over the limit.
func (t *tensorProto) addDim(at, dim uint64) {
	switch rank := uint64(len(t.shape)); {
	case int64(dim) < 0:
		t.failInitializer(at, "dims", layout.ErrInvalid, "dimension %d is %d", rank, int64(dim))
	case dim > math.MaxInt:
		t.failInitializer(at, "dims", layout.ErrInvalid, "dimension %d is %d, beyond %d", rank, dim, math.MaxInt)
	case rank == min(t.lim.Rank, math.MaxInt32):
		t.failInitializer(at, "dims", layout.ErrLimit, "more than %d dimensions", rank)
	default:
		t.shape = append(t.shape, int(dim))
	}
}

// countNumbers adds to minNumbers and maxNumbers how many numbers the record f of a field of numbers can hold.
func (t *tensorProto) countNumbers(f *record) {
	kind := &tensorFields[f.num]
	width := numberSize(kind.wire)
	switch {
	case f.typ != protowire.BytesType:
		t.minNumbers, t.maxNumbers = t.minNumbers+1, t.maxNumbers+1
	case width == 0:
		t.minNumbers, t.maxNumbers = t.minNumbers+(f.size+maxVarint-1)/maxVarint, t.maxNumbers+f.size
	case f.size%width != 0:
		t.failInitializer(f.at, kind.name, layout.ErrInvalid, "%d bytes, no multiple of %d", f.size, width)
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

// describe checks the TensorProto, once all fields have been read, and returns its description for the index. If it sets the wire's
// error, the description means nothing.
func (t *tensorProto) describe() layout.Tensor {
	x := layout.Tensor{Name: t.name, Shape: t.shape, Alias: true}
	t.checkFields()
	x.DType = t.dtype()
	if t.Err() != nil {
		return x
	}
	var err error
	if x.Raw, err = x.DType.Size(t.shape); err != nil {
		t.failInitializer(t.start, "dims", layout.ErrInvalid, "%v", err)
		return x
	}
	t.locate(&x)
	return x
}

// locate sets where the elements of x are. It fails if no field has them, or more than one, or too few or too many. How many numbers
// a field of varints holds shows only when they are read: locate checks that it can hold as many as the shape wants.
func (t *tensorProto) locate(x *layout.Tensor) {
	data := t.seen & dataFields
	field := protowire.Number(bits.TrailingZeros32(data))
	switch {
	case bits.OnesCount32(data) > 1:
		t.failInitializer(t.start, "raw_data", layout.ErrInvalid, "elements in more than one field: %s", fieldNames(data))
	case data == 0 && x.Raw > 0:
		t.failInitializer(t.start, "raw_data", layout.ErrInvalid, "no elements, but %v %v takes %d bytes", x.DType, x.Shape, x.Raw)
	case data == 0:
		x.Offset = t.start
	case field == tensorRawData && t.rawData.Size != x.Raw:
		t.failInitializer(t.rawData.Offset, "raw_data", layout.ErrInvalid, "%d bytes, but %v %v takes %d", t.rawData.Size, x.DType, x.Shape, x.Raw)
	case field == tensorRawData:
		x.Offset, x.Stored = t.rawData.Offset, t.rawData.Size
	default:
		t.locateNumbers(x, field)
	}
}

// locateNumbers does what locate does for elements in a field of numbers: the whole TensorProto then stands for them.
func (t *tensorProto) locateNumbers(x *layout.Tensor, field protowire.Number) {
	name := tensorFields[field].name
	if want := fieldOf(x.DType); field != want {
		t.failInitializer(t.start, name, layout.ErrInvalid, "%v belongs in %s", x.DType, tensorFields[want].name)
		return
	}
	want := numbersOf(x.DType, x.Raw)
	if want < t.minNumbers || want > t.maxNumbers {
		t.failInitializer(t.start, name, layout.ErrInvalid, "%d to %d numbers, but %v %v takes %d", t.minNumbers, t.maxNumbers, x.DType, x.Shape, want)
		return
	}
	x.Offset = t.start
	if x.Raw > 0 {
		x.Stored, x.Encoding = t.end-t.start, layout.Protobuf
	}
}

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

// checkFields sets the wire's error if the tensor has no name, or its elements are in another file or a part only.
func (t *tensorProto) checkFields() {
	switch {
	case t.has(1<<tensorExternalData) || t.location == 1:
		t.failInitializer(t.start, "external_data", layout.ErrUnsupported, "the elements are in another file")
	case t.location != 0:
		t.failInitializer(t.start, "data_location", layout.ErrUnsupported, "%d, which ONNX does not define", t.location)
	case t.has(1 << tensorSegment):
		t.failInitializer(t.start, "segment", layout.ErrUnsupported, "a part of a tensor")
	case len(t.name) == t.prefix:
		t.failInitializer(t.start, "name", layout.ErrInvalid, "an initializer without a name")
	}
}

// dtype returns the type of the elements. It fails, and returns Invalid, if no DType stands for it.
func (t *tensorProto) dtype() layout.DType {
	name, d := "not a type of ONNX", layout.Invalid
	if id := int(t.dataType); 0 <= id && id < len(dataTypes) {
		name, d = dataTypes[id].name, dataTypes[id].dtype
	}
	if d == layout.Invalid {
		t.failInitializer(t.start, "data_type", layout.ErrUnsupported, "%d (%s)", t.dataType, name)
	}
	return d
}

// failInitializer sets the error of the wire, with the name of the tensor, unless there is one already.
func (t *tensorProto) failInitializer(at uint64, field string, sentinel error, format string, args ...any) {
	reason := fmt.Sprintf(format, args...)
	t.refuse(at, field, sentinel, "initializer %s: %s", layout.Quote(t.name), reason)
}
