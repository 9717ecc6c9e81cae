package scheme

import (
	"context"
	"fmt"

	"github.com/tensormap/tensormap/layout"
)

// A Weight is a tensor that a checkpoint stores as several: its codes, and what they need to become values.
type Weight struct {
	// Name is the name of the weight, which may be the name of its codes.
	Name []byte
	// Shape is the shape of the values.
	Shape []int
	// Parts are the tensors that hold the weight, the codes first.
	Parts []Part
	// Err says why the weight cannot be decoded. Name is then the name of the codes, Parts holds only
	// the codes, and there is neither Shape nor Form.
	Err error

	*Form
}

// A Part is a stored tensor of a weight.
type Part struct {
	Role   Role
	Tensor uint32 // position in the table
}

// Part returns the position of the tensor that has a role. ok is false without one.
func (w *Weight) Part(r Role) (tensor uint32, ok bool) {
	for _, p := range w.Parts {
		if p.Role == r {
			return p.Tensor, true
		}
	}
	return 0, false
}

// A Form says how the codes of a weight become values. A code's scale and offset are the scale and offset of its group. Rows and
// Cols are the dimensions of one matrix: a weight of more dimensions is several matrices, back to back.
type Form struct {
	// Scheme names the convention, such as awq.
	Scheme string

	layout.Grouped
	// HasOffsets says that each group has an offset of its own: a zero point, or a bias.
	HasOffsets bool
	// Ordered says that the scales of some groups can be read without the scales of the others.
	Ordered bool

	scaleType  layout.DType // of the stored scales, which may be floats of 8 bits in a tensor of U8
	groupIndex columnGroups // how the group of each column is stored
	reader     scaleReader  // of scales; nil if scales and offsets are what is stored
	checker    checker      // of parts that say how codes are read; nil without any
}

// A scaleReader reads scales in the way of one scheme. It is comparable, as forms are.
type scaleReader interface {
	// readScales fills dst.Scales with scales, beginning with the scale of the group number from. It fills dst.Offsets, which is as long
	// if f.HasOffsets. Otherwise dst.Offsets is empty, and readScales may append one offset for all groups.
	readScales(ctx context.Context, p Parts, f *Form, dst *Scales, from uint64) error
}

// A checker checks a part that says how codes are read. It is comparable, as forms are.
type checker interface {
	check(ctx context.Context, p Parts, f *Form) error
}

// Scales are what the groups of a weight have, in the order [matrix][group of rows][group of columns].
type Scales struct {
	Scales  []float32
	Offsets []float32 // of each group; one for all; or none
	GroupOf []int32   // the group of each column; nil if groups are consecutive
	// ZeroIndex says how a group index of nothing but zeros was taken, since programs differ about it. It is "" if there is no such index.
	ZeroIndex string
}

// Parts reads the stored parts of a weight, for the time of one call. Errors name the part.
type Parts interface {
	// Floats fills dst with the values of a part from element first on. It reads elements as type d, or as their own type if d
	// is storedType.
	Floats(ctx context.Context, r Role, d layout.DType, dst []float32, first uint64) error
	// Constants returns all values of a small part, which are cached.
	Constants(ctx context.Context, r Role) ([]float32, error)
	// Bytes returns all bytes of a part.
	Bytes(ctx context.Context, r Role) ([]byte, error)
	// Wrap adds the name of a part to an error.
	Wrap(r Role, err error) error
}

// storedType asks Parts.Floats to read elements as the type that their tensor has.
const storedType = layout.Invalid

// ReadScales reads the scales of groups [from, from+len(dst.Scales)) into dst.Scales, and their offsets into dst.Offsets. If f.HasOffsets,
// the caller makes dst.Offsets as long as dst.Scales. Otherwise it has room for one offset, which some schemes use for all groups.
// ReadScales shortens dst.Offsets to the offsets that exist. If f is not Ordered, from is 0 and dst takes all groups. ReadScales fails if
// reading does. It also fails for zero points and group indexes that are wrong, or that other programs interpret in two ways.
func (f *Form) ReadScales(ctx context.Context, p Parts, dst *Scales, from uint64) error {
	dst.Offsets = dst.Offsets[:0]
	if f.HasOffsets {
		dst.Offsets = dst.Offsets[:len(dst.Scales)]
	}
	read := readStored
	if f.reader != nil {
		read = f.reader.readScales
	}
	if err := read(ctx, p, f, dst, from); err != nil {
		return err
	}
	return f.groupIndex.read(ctx, p, f, dst)
}

// Check reads the parts that say how codes are read, if the scheme has such parts. Callers check once before they read codes. It fails
// if reading does, or if such a part has an order of codes, or a table of their values, that is not decoded.
func (f *Form) Check(ctx context.Context, p Parts) error {
	if f.checker == nil {
		return nil
	}
	return f.checker.check(ctx, p, f)
}

// CheckScales returns an error if a scale of type F8_E4M3 or F8_E8M0 is NaN, or if reading fails. It does not read scales of other types.
func (f *Form) CheckScales(ctx context.Context, p Parts) error {
	if f.scaleType != layout.F8_E4M3 && f.scaleType != layout.F8_E8M0 {
		return nil
	}
	b, err := p.Bytes(ctx, Scale)
	if err != nil {
		return err
	}
	for i, v := range b {
		if v == 0xff || v == 0x7f && f.scaleType == layout.F8_E4M3 { // E8M0 has one NaN, E4M3 has two
			return p.Wrap(Scale, invalidf("scale %d is NaN (%#x as %v)", i, v, f.scaleType))
		}
	}
	return nil
}

// Role is what a part is to its weight.
type Role uint8

// The roles.
const (
	Codes       Role = iota
	Scale            // the scale of each group
	ZeroPoint        // the zero point of each group
	Bias             // what is added to the values of each group
	GlobalScale      // the scale of scales
	GroupIndex       // the group of each column
	Shape            // the weight's shape
	QuantMap         // the values that codes stand for
	NestedScale      // the scale of each block of scales
	NestedMap        // the values that codes of scales stand for
	QuantState       // a description in JSON
	Layout           // how codes are arranged
	InputScale       // of the weight's input, not of the weight
	Setting          // another parameter of the writer
)

var roles = [...]string{"codes", "scale", "zero_point", "bias", "global_scale", "g_idx", "shape", "quant_map", "nested_scale", "nested_map", "quant_state", "format", "input_scale", "setting"}

// String returns the role's name as inspect prints it.
func (r Role) String() string {
	if int(r) >= len(roles) {
		return fmt.Sprintf("Role(%d)", uint8(r))
	}
	return roles[r]
}

// MarshalText returns what String does.
func (r Role) MarshalText() ([]byte, error) { return []byte(r.String()), nil }

// invalidf returns an error that wraps layout.ErrInvalid: parts do not fit each other, or what the configuration says.
func invalidf(format string, args ...any) error {
	return fmt.Errorf("%w: %s", layout.ErrInvalid, fmt.Sprintf(format, args...))
}

// unsupportedf returns an error that wraps layout.ErrUnsupported: the weight may be valid and is not decoded.
func unsupportedf(format string, args ...any) error {
	return fmt.Errorf("%w: %s", layout.ErrUnsupported, fmt.Sprintf(format, args...))
}
