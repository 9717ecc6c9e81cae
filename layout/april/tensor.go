package april

import (
	"cmp"
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
	lim layout.Limits
	layout.Tensor
	start    uint64 // where in the file the message starts
	end      uint64
	seen     uint32 // bits 1<<number of the fields there have been
	dataType int32
	location int32
	rawData  Entry
	// The fields of numbers hold minNumbers to maxNumbers numbers: varints have 1 to 10 bytes. The two are
	// equal for numbers of fixed size.
	minNumbers, maxNumbers uint64
}

// readTensor reads the TensorProto from start to end, in the network of the given role, and describes it for the index. If it sets the
// wire's error, the description means nothing.
func readTensor(w *wire, lim layout.Limits, role string, start, end uint64) layout.Tensor {
	t := tensorProto{wire: w, lim: lim, start: start, end: end}
	t.Tensor = layout.Tensor{Name: append([]byte(role), '/'), Shape: []int{}, Alias: true}
	unnamed := len(t.Name)
	for r := range w.records(end) {
		if n := int(r.num); n < len(tensorFields) && tensorFields[n].name != "" {
			t.readField(&r)
		}
	}
	if len(t.Name) == unnamed {
		t.failInitializer(start, "name", layout.ErrInvalid, "an initializer without a name")
	}
	t.describe()
	return t.Tensor
}

// readField reads the field f, one of tensorFields. It sets the wire's error if the wire type is wrong, or a single field is there twice.
func (t *tensorProto) readField(f *record) {
	kind := &tensorFields[f.num]
	if f.typ != kind.wire && !(kind.repeated && f.typ == protowire.BytesType) {
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
	switch {
	case f.num == tensorDims && f.typ == protowire.VarintType:
		t.addDim(f.at, f.value)
	case f.num == tensorDims:
		for t.hasMore(f.end) {
			at := t.wire.Offset()
			t.addDim(at, t.varint(f.end))
		}
	case f.num == tensorDataType:
		t.dataType = int32(f.value)
	case f.num == tensorDataLocation:
		t.location = int32(f.value)
	case f.num == tensorName && f.size > min(t.lim.NameBytes, math.MaxInt32):
		t.failInitializer(f.at, "name", layout.ErrLimit, "%d bytes, more than %d", f.size, min(t.lim.NameBytes, math.MaxInt32))
	case f.num == tensorName:
		t.Name = append(t.Name, t.Take("name", f.size)...) // behind the role
	case f.num == tensorRawData:
		t.rawData = Entry{t.wire.Offset(), f.size}
	case kind.repeated && kind.wire != protowire.BytesType:
		t.countNumbers(f)
	}
}

// has reports whether a field has been read whose bit, 1<<number, is set in fields.
func (t *tensorProto) has(fields uint32) bool { return t.seen&fields != 0 }

// addDim appends a dimension to the shape. It fails if dim is no valid one, or the rank is over the limit.
func (t *tensorProto) addDim(at, dim uint64) {
	switch rank := uint64(len(t.Shape)); {
	case dim > math.MaxInt:
		t.failInitializer(at, "dims", layout.ErrInvalid, "dimension %d is %d", rank, int64(dim))
	case rank == min(t.lim.Rank, math.MaxInt32):
		t.failInitializer(at, "dims", layout.ErrLimit, "more than %d dimensions", rank)
	default:
		t.Shape = append(t.Shape, int(dim))
	}
}

// countNumbers adds to minNumbers and maxNumbers how many numbers the record f of a field of numbers can hold.
func (t *tensorProto) countNumbers(f *record) {
	kind := &tensorFields[f.num]
	least, most, width := uint64(1), uint64(1), numberSizes[kind.wire]
	switch {
	case f.typ != protowire.BytesType:
	case width == 0:
		least, most = (f.size+maxVarint-1)/maxVarint, f.size
	case f.size%width != 0:
		t.failInitializer(f.at, kind.name, layout.ErrInvalid, "%d bytes, no multiple of %d", f.size, width)
	default:
		least, most = f.size/width, f.size/width
	}
	t.minNumbers, t.maxNumbers = t.minNumbers+least, t.maxNumbers+most
}

// describe sets type, sizes and place of the tensor, once all fields have been read. It fails if the elements are in another file, or have a
// type without a DType. It also fails if they are in no field or more than one, or are too few or too many. How many numbers a field
// of varints holds shows only when they are read: it must be able to hold as many as the shape wants.
func (t *tensorProto) describe() {
	if id := int(t.dataType); 0 <= id && id < len(dataTypes) {
		t.DType = dataTypes[id]
	}
	switch {
	case t.has(1<<tensorExternalData) || t.location == 1:
		t.failInitializer(t.start, "external_data", layout.ErrUnsupported, "the elements are in another file")
	case t.location != 0:
		t.failInitializer(t.start, "data_location", layout.ErrUnsupported, "%d, which ONNX does not define", t.location)
	case t.has(1 << tensorSegment):
		t.failInitializer(t.start, "segment", layout.ErrUnsupported, "a part of a tensor")
	case t.DType == layout.Invalid:
		t.failInitializer(t.start, "data_type", layout.ErrUnsupported, "%d (%s)", t.dataType, cmp.Or(unsupported[t.dataType], "not a type of ONNX"))
	}
	if t.Err() != nil {
		return
	}
	var err error
	if t.Raw, err = t.DType.Size(t.Shape); err != nil {
		t.failInitializer(t.start, "dims", layout.ErrInvalid, "%v", err)
		return
	}
	t.Tensor.Offset = t.start
	data := t.seen & dataFields
	field, want := protowire.Number(bits.TrailingZeros32(data)), fieldOf(t.DType)
	switch numbers := numbersOf(t.DType, t.Raw); {
	case bits.OnesCount32(data) > 1:
		t.failInitializer(t.start, "raw_data", layout.ErrInvalid, "elements in more than one field: %s", fieldNames(data))
	case data == 0 && t.Raw > 0:
		t.failInitializer(t.start, "raw_data", layout.ErrInvalid, "no elements, but %v %v takes %d bytes", t.DType, t.Shape, t.Raw)
	case data == 0:
	case field == tensorRawData && t.rawData.Size != t.Raw:
		t.failInitializer(t.rawData.Offset, "raw_data", layout.ErrInvalid, "%d bytes, but %v %v takes %d", t.rawData.Size, t.DType, t.Shape, t.Raw)
	case field == tensorRawData:
		t.Tensor.Offset, t.Stored = t.rawData.Offset, t.rawData.Size
	case field != want:
		t.failInitializer(t.start, tensorFields[field].name, layout.ErrInvalid, "%v belongs in %s", t.DType, tensorFields[want].name)
	case numbers < t.minNumbers || numbers > t.maxNumbers:
		t.failInitializer(t.start, tensorFields[field].name, layout.ErrInvalid, "%d to %d numbers, but %v %v takes %d",
			t.minNumbers, t.maxNumbers, t.DType, t.Shape, numbers)
	case t.Raw > 0: // the whole TensorProto stands for the numbers
		t.Stored, t.Encoding = t.end-t.start, layout.Protobuf
	}
}

// numbersOf returns how many numbers of its field hold raw bytes of type d: two for a complex.
func numbersOf(d layout.DType, raw uint64) uint64 {
	width := numberSizes[tensorFields[fieldOf(d)].wire]
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

// failInitializer sets the error of the wire, with the name of the tensor, unless there is one already.
func (t *tensorProto) failInitializer(at uint64, field string, sentinel error, format string, args ...any) {
	t.refuse(at, field, sentinel, "initializer %s: %s", layout.Quote(t.Name), fmt.Sprintf(format, args...))
}
