package april

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/tensormap/tensormap/layout"
)

// Unpack writes the elements of t to dst as little-endian bytes, row-major. t is an initializer whose
// TensorProto holds them in a field of numbers. The length of dst must be t.Raw.
// Numbers that do not fit the type, too few and too many of them are *[layout.FormatError]s.
func (f *File) Unpack(in layout.Input, t *layout.Tensor, dst []byte) error {
	switch {
	case t.Encoding != layout.Protobuf:
		return fmt.Errorf("%w: unpacking of elements stored as %v", layout.ErrUnsupported, t.Encoding)
	case uint64(len(dst)) != t.Raw:
		return fmt.Errorf("%w: a buffer of %d bytes for %d", layout.ErrInvalid, len(dst), t.Raw)
	}
	var u unpacker
	return u.unpack(in, f.lim, t, func(b []byte) { dst = dst[copy(dst, b):] })
}

// unpack calls emit for the elements of t, in order and a range at a time. It fails if they are too few, too many, or no values of t's
// type. u may have unpacked another tensor before.
func (u *unpacker) unpack(in layout.Input, lim layout.Limits, t *layout.Tensor, emit func([]byte)) error {
	e := Entry{t.Offset, t.Stored}
	if !layout.Within(e.Offset, e.Size, in.Size()) {
		return errorf(e.Offset, "initializer", layout.ErrTruncated, "%d bytes leave the file of %d", e.Size, in.Size())
	}
	field := fieldOf(t.DType)
	*u = unpacker{
		wire: newWire(in, "initializer", e, lim),
		t:    t,
		num:  field,
		kind: tensorFields[field].wire,
		left: numbersOf(t.DType, t.Raw),
		emit: emit,
		buf:  slices.Grow(u.buf[:0], int(min(t.Raw, 8*piece))),
	}
	u.lo, u.hi = numberRange(t.DType)
	u.read(e.end())
	if u.left > 0 {
		u.failInitializer(e.Offset, "%d numbers fewer than %v %v takes", u.left, t.DType, t.Shape)
	}
	return u.Err()
}

// numberRange returns the least and the greatest number of its field that an element of type d may be.
// Floats are their bits there, and an int64 holds those of a uint64.
func numberRange(d layout.DType) (lo, hi int64) {
	bits := 8 * d.BlockBytes()
	switch {
	case bits == 64:
		return math.MinInt64, math.MaxInt64
	case d.Kind() == layout.KindBool:
		return 0, 1
	case d.Kind() == layout.KindInt:
		return -1 << (bits - 1), 1<<(bits-1) - 1
	}
	return 0, 1<<bits - 1
}

// unpacker turns the numbers of one field into elements.
type unpacker struct {
	wire
	t      *layout.Tensor
	num    protowire.Number // the field
	kind   protowire.Type   // of one number
	lo, hi int64
	left   uint64 // numbers that are still to come
	emit   func([]byte)
	buf    []byte // elements made from varints
}

// piece is how many bytes of packed numbers are read at a time.
const piece = 1 << 10

// read calls emit for the elements of all numbers in the message that ends at end. Errors are left in the wire.
func (u *unpacker) read(end uint64) {
	for u.next(end) {
		switch r := u.rec; {
		case r.num != u.num:
			u.skip(r.size)
		case r.typ == protowire.VarintType && r.typ == u.kind:
			u.buf = u.appendElement(u.buf[:0], r.at, r.value)
			u.emit(u.buf)
		case r.typ == protowire.BytesType && u.kind == protowire.VarintType:
			u.readPackedVarints(r.end)
		case r.typ == protowire.BytesType || r.typ == u.kind:
			u.readFixed(r)
		default:
			u.failInitializer(r.at, "wire type %d", r.typ)
		}
	}
}

// readFixed calls emit for the numbers of fixed size in r: they are elements as they are. It sets the wire's error if they are too many.
func (u *unpacker) readFixed(r record) {
	width := numberSize(u.kind)
	if n := r.size / width; r.size%width != 0 || n > u.left {
		u.failInitializer(r.at, "%d bytes of numbers of %d, where %d numbers are left to come", r.size, width, u.left)
		return
	}
	u.left -= r.size / width
	for u.hasMore(r.end) {
		u.emit(u.take(min(r.end-u.Offset(), 64*piece)))
	}
}

// readPackedVarints calls emit for the elements of the packed varints that end at end.
func (u *unpacker) readPackedVarints(end uint64) {
	for u.hasMore(end) {
		n := u.readVarints(u.Offset(), u.Peek(u.message, min(end-u.Offset(), piece)))
		u.skip(uint64(n))
	}
}

// readVarints calls emit for the elements of the varints in b, which start at offset at of the file. It returns how many bytes they take. A
// last one that is cut off stays unread. If it is the first too, that is an error.
func (u *unpacker) readVarints(at uint64, b []byte) (n int) {
	out := u.buf[:0]
	for n < len(b) && u.Err() == nil {
		v, size := protowire.ConsumeVarint(b[n:])
		if size < 0 && n == 0 {
			u.failInitializer(at, "a varint that does not end")
		}
		if size < 0 {
			break
		}
		out = u.appendElement(out, at+uint64(n), v)
		n += size
	}
	u.buf = out
	u.emit(out)
	return n
}

// appendElement appends to out the element that v, a number at offset at of the file, stands for. It sets the wire's error if v is out of the
// type's range or one number too many.
func (u *unpacker) appendElement(out []byte, at, v uint64) []byte {
	x := int64(v)
	if u.num == tensorInt32Data {
		x = int64(int32(v)) // protobuf reads an int32 so, however long its varint is
	}
	switch {
	case u.left == 0:
		u.failInitializer(at, "more numbers than %v %v takes", u.t.DType, u.t.Shape)
		return out
	case x < u.lo || x > u.hi:
		u.failInitializer(at, "%d is no %v", x, u.t.DType)
		return out
	}
	u.left--
	switch u.t.DType.BlockBytes() {
	case 1:
		return append(out, byte(x))
	case 2:
		return binary.LittleEndian.AppendUint16(out, uint16(x))
	case 4:
		return binary.LittleEndian.AppendUint32(out, uint32(x))
	default:
		return binary.LittleEndian.AppendUint64(out, uint64(x))
	}
}

// failInitializer sets the error of the wire, with the name of the tensor, unless there is one already.
func (u *unpacker) failInitializer(at uint64, format string, args ...any) {
	reason := fmt.Sprintf(format, args...)
	u.refuse(at, tensorFields[u.num].name, layout.ErrInvalid, "initializer %s: %s", layout.Quote(u.t.Name), reason)
}
