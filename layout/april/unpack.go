package april

import (
	"encoding/binary"
	"fmt"
	"math"

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
	return f.unpack(in, t, dst)
}

// unpack does what Unpack does. If dst is nil, it only checks the numbers, and takes no memory for them: a file may have holes that read as
// very many.
func (f *File) unpack(in layout.Input, t *layout.Tensor, dst []byte) error {
	e := Entry{t.Offset, t.Stored}
	if !layout.Within(e.Offset, e.Size, in.Size()) {
		return layout.Errorf(layout.April, e.Offset, "initializer", layout.ErrTruncated, "%d bytes leave the file of %d", e.Size, in.Size())
	}
	u := unpacker{wire: newWire(in, "initializer", e, f.lim), t: t, num: fieldOf(t.DType), left: numbersOf(t.DType, t.Raw), dst: dst}
	u.lo, u.hi = numberRange(t.DType)
	for r := range u.records(e.end()) {
		if r.num == u.num {
			u.readNumbers(&r)
		}
	}
	if u.left > 0 {
		u.failInitializer(e.Offset, "%d numbers fewer than %v %v takes", u.left, t.DType, t.Shape)
	}
	return u.Err()
}

// numberRange returns the least and the greatest number of its field that an element of type d may be.
// Floats are their bits there, and an int64 holds the bits of a uint64.
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
	lo, hi int64            // bounds of numbers that are varints
	left   uint64           // numbers that are still to come
	dst    []byte           // for their elements, or nil
}

// stepBytes is how many bytes of numbers of fixed size are read at a time.
const stepBytes = 64 << 10

// readNumbers unpacks the elements that are in r, a record of the field. Errors are left in the wire.
func (u *unpacker) readNumbers(r *record) {
	kind := tensorFields[u.num].wire
	width := numberSizes[kind]
	switch {
	case r.typ != kind && r.typ != protowire.BytesType:
		u.failInitializer(r.at, "wire type %d", r.typ)
	case r.typ == protowire.VarintType:
		u.putElement(r.at, r.value)
	case width == 0:
		for u.hasMore(r.end) {
			at := u.Offset()
			u.putElement(at, u.varint(r.end))
		}
	case r.size%width != 0 || r.size/width > u.left:
		u.failInitializer(r.at, "%d bytes of numbers of %d, where %d numbers are left to come", r.size, width, u.left)
	default: // which are elements as they are
		u.left -= r.size / width
		for u.hasMore(r.end) {
			u.dst = u.dst[copy(u.dst, u.Take(u.message, min(r.end-u.Offset(), stepBytes))):]
		}
	}
}

// putElement puts into dst the element that v, a varint at offset at of the file, stands for. It sets the wire's error if v is out of the
// type's range or one number too many.
func (u *unpacker) putElement(at, v uint64) {
	x := int64(v)
	if u.num == tensorInt32Data {
		x = int64(int32(v)) // protobuf reads an int32 so, however long its varint is
	}
	switch {
	case u.Err() != nil:
	case u.left == 0:
		u.failInitializer(at, "more numbers than %v %v takes", u.t.DType, u.t.Shape)
	case x < u.lo || x > u.hi:
		u.failInitializer(at, "%d is no %v", x, u.t.DType)
	default:
		var b [8]byte
		binary.LittleEndian.PutUint64(b[:], uint64(x))
		u.left--
		u.dst = u.dst[copy(u.dst, b[:u.t.DType.BlockBytes()]):]
	}
}

// failInitializer sets the error of the wire, with the name of the tensor, unless there is one already.
func (u *unpacker) failInitializer(at uint64, format string, args ...any) {
	u.refuse(at, tensorFields[u.num].name, layout.ErrInvalid, "initializer %s: %s", layout.Quote(u.t.Name), fmt.Sprintf(format, args...))
}
