package loader

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/layout/scheme"
	"github.com/tensormap/tensormap/loader/internal/unsealed"
	"github.com/tensormap/tensormap/mmapio"
)

// Tensor is a handle on one tensor of a model. It is small, is passed by value, and stays valid.
// After Close its description is still there, and methods that read return ErrClosed. The zero Tensor
// equals what package bind leaves in a field without a tensor. Only comparing it makes sense: its
// methods panic.
type Tensor struct {
	desc   *layout.Tensor // of a logical tensor, that of its codes; its Name is a copy that nobody writes to
	file   *file
	lease  *Lease // through which it was taken, or nil
	weight uint32 // one more than the position of the weight that the tensor is, or 0 for a tensor as it is stored
}

// Name returns the tensor's name in its model.
func (t Tensor) Name() string {
	if t.weight != 0 {
		return mmapio.String(t.inScheme().Name)
	}
	return mmapio.String(t.desc.Name)
}

// DType returns the type of the stored elements. A logical tensor has none: it is layout.Invalid.
func (t Tensor) DType() layout.DType {
	if t.logical() {
		return layout.Invalid
	}
	return t.desc.DType
}

// Shape returns the dimensions in elements, the outermost first. A scalar has none. It must not be
// modified.
func (t Tensor) Shape() []int {
	if t.logical() {
		return t.inScheme().Shape
	}
	return t.desc.Shape
}

// Elements returns the product of the shape.
func (t Tensor) Elements() uint64 {
	n, _ := layout.Elements(t.Shape()) // cannot overflow: its bytes were computed from it
	return n
}

// Offset returns the offset of the stored bytes in the tensor's file: for a logical tensor, of its
// codes.
func (t Tensor) Offset() uint64 { return t.desc.Offset }

// StoredBytes returns the number of bytes in the file, of a logical tensor in all of its parts.
func (t Tensor) StoredBytes() uint64 {
	switch {
	case t.logical():
		return t.summed(Tensor.StoredBytes)
	case t.file.unsealed != nil:
		return t.file.unsealed.Stored(t.desc.Stored)
	}
	return t.desc.Stored
}

// summed returns the sum of a number of bytes over the parts of a logical tensor.
func (t Tensor) summed(bytes func(Tensor) uint64) (n uint64) {
	for _, p := range t.inScheme().Parts {
		n += bytes(t.part(p.Tensor))
	}
	return n
}

// RawBytes returns the number of bytes of the elements after decompression: the length of
// Bytes, or of the parts of a logical tensor.
func (t Tensor) RawBytes() uint64 {
	if t.logical() {
		return t.summed(Tensor.RawBytes)
	}
	return t.desc.Raw
}

// Encoding returns how the elements are stored, for a logical tensor its codes.
func (t Tensor) Encoding() layout.Encoding {
	if t.file.unsealed == nil {
		return t.desc.Encoding
	}
	return t.desc.Encoding.Sealed()
}

// Unsealed returns how the tensor would be stored without encryption, and in how many bytes: as WriteStored
// writes it. For a tensor that is not encrypted, or without its key, it returns Encoding and StoredBytes.
func (t Tensor) Unsealed() (layout.Encoding, uint64) { return t.desc.Encoding, t.unsealedBytes() }

// unsealedBytes returns the number of bytes in the file without encryption.
func (t Tensor) unsealedBytes() uint64 {
	if t.logical() {
		return t.summed(Tensor.unsealedBytes)
	}
	return t.desc.Stored
}

// File returns the position of the tensor's file in Model.Files: for a logical tensor, of its codes'.
func (t Tensor) File() int { return int(t.desc.File) }

// ZeroCopy reports whether Bytes and views are the file itself rather than a copy on the heap. The
// elements are then stored raw, and aligned as their type and their file's promise demand. (On a
// big-endian machine views of elements wider than a byte are copies all the same.)
func (t Tensor) ZeroCopy() bool {
	return t.inPlace() && t.file.index.Aligned(t.desc) &&
		t.file.align >= t.desc.DType.Align()
}

// inPlace reports whether the stored bytes are the elements, and in memory.
func (t Tensor) inPlace() bool {
	return t.desc.Encoding == layout.Raw && t.file.access() == inPlace && !t.logical()
}

// logical reports whether the tensor is stored as several.
func (t Tensor) logical() bool {
	return t.weight != 0 && t.file.model.schemes.Err(int(t.weight-1)) == nil
}

// inScheme returns the weight that the tensor is, which may be refused. There must be one.
func (t Tensor) inScheme() scheme.Weight { return t.file.model.schemes.Weight(int(t.weight - 1)) }

// remembered returns what is remembered of a logical tensor.
func (t Tensor) remembered() *weight { return &t.file.model.weights()[t.weight-1] }

// stored returns an error if the tensor has no bytes of its own.
func (t Tensor) stored() error {
	if !t.logical() {
		return nil
	}
	var names []string
	w := t.inScheme()
	for _, p := range w.Parts {
		names = append(names, layout.Quote(t.file.model.tensors[p.Tensor].Name))
	}
	return fmt.Errorf("%w: the tensor is quantized (%s), its bytes are those of its parts %s",
		ErrUnsupported, w.Scheme, strings.Join(names, ", "))
}

// handle returns the handle of one of m's tensors as it is stored, or of the weight that has it as its codes: w is
// one more than the weight's position, or 0.
func (m *Model) handle(desc *layout.Tensor, w uint32, l *Lease) Tensor {
	return Tensor{desc, m.files[desc.File].of(desc), l, w}
}

// part returns a stored tensor of the same model, through the same lease.
func (t Tensor) part(i uint32) Tensor {
	m := t.file.model
	return m.handle(&m.tensors[i], 0, t.lease)
}

// codes returns the tensor that holds the codes of a logical one.
func (t Tensor) codes() Tensor {
	t.weight = 0
	return t
}

// Scale returns how the tensor's integers become real numbers, if the file gives them a scale: see
// [layout.Quant]. Some formats keep it in their metadata, which this then parses.
func (t Tensor) Scale() (q layout.Quant, scaled bool, err error) {
	if t.scaledByMetadata() {
		if err := t.enter(); err != nil {
			return layout.Quant{}, false, err
		}
		defer t.leave()
	}
	return t.scale()
}

// scaledByMetadata reports whether only metadata can tell the tensor's scale.
func (t Tensor) scaledByMetadata() bool {
	_, ok := t.file.layout.(layout.Scaler)
	return ok && t.desc.Quant == nil && t.DType().Kind() == layout.KindInt
}

// scale does what Scale does, for a caller that has entered.
func (t Tensor) scale() (q layout.Quant, scaled bool, err error) {
	if t.scaledByMetadata() {
		return t.file.scale(t.ctx(), t.Name())
	}
	if t.desc.Quant == nil || t.logical() {
		return layout.Quant{}, false, nil
	}
	return *t.desc.Quant, true, nil
}

// enter keeps the mapping in place for the length of a call.
func (t Tensor) enter() error {
	if t.lease != nil {
		if err := t.lease.enter(); err != nil {
			return t.wrap(err)
		}
	} else if !t.file.model.join() {
		return t.wrap(ErrClosed)
	}
	return nil
}

// ctx returns the context of t's lease, or of its model.
func (t Tensor) ctx() context.Context {
	if t.lease == nil {
		return t.file.model.from.life()
	}
	return t.lease.ctx
}

func (t Tensor) leave() {
	if t.lease != nil {
		t.lease.leave()
	} else {
		t.file.model.leave()
	}
}

// wrap adds the names of tensor and file to err. An error that names its file, as those of metadata
// do, stays as it is.
func (t Tensor) wrap(err error) error {
	switch err.(type) {
	case nil, *fileError:
		return err
	}
	if sealed, ok := errors.AsType[*unsealed.Error](err); ok {
		err = sealed // without the name of the file
	}
	if wrong, ok := errors.AsType[*IntegrityError](err); ok && wrong.Tensor == "" {
		of := *wrong
		of.Tensor = t.Name()
		err = &of
	}
	return &fileError{t.file.path, fmt.Errorf("tensor %q: %w", t.Name(), err)}
}

// Part is a stored tensor of a logical one.
type Part struct {
	Role   scheme.Role
	Tensor Tensor // as it is stored
}

// Scheme returns how a logical tensor is stored and what its codes mean, or nil for a tensor as it is
// stored. Tensors that are stored alike share it, and it must not be modified.
//
// A quantized checkpoint stores a weight as several tensors: codes, scales and more. The weight is one
// tensor of the model, with its true shape and values. Its parts are not listed, and can be looked up
// by their names unless the weight has that name. Its bytes are those of its parts: Bytes, View, ReadAt,
// WriteTo and WriteStored return ErrUnsupported.
func (t Tensor) Scheme() *scheme.Form {
	if t.weight == 0 {
		return nil
	}
	return t.inScheme().Form
}

// Parts returns the stored tensors of a logical one, the codes first.
func (t Tensor) Parts() (parts []Part) {
	if !t.logical() {
		return nil
	}
	for _, p := range t.inScheme().Parts {
		parts = append(parts, Part{p.Role, t.part(p.Tensor)})
	}
	return parts
}

// Problem returns why a tensor that holds codes has no values: its scheme is not decoded, or its
// companions are missing or do not fit. The tensor is then listed as it is stored, and methods that
// give values return the same error. Problem returns nil for any other tensor.
func (t Tensor) Problem() error {
	if t.weight == 0 || t.logical() {
		return nil
	}
	return t.wrap(t.inScheme().Err)
}

// sortStored puts tensors in the order in which they are stored.
func sortStored(tensors []Tensor) { slices.SortStableFunc(tensors, byPlace) }

// byPlace compares two tensors by where they are stored.
func byPlace(a, b Tensor) int {
	return cmp.Or(cmp.Compare(a.desc.File, b.desc.File), cmp.Compare(a.desc.Offset, b.desc.Offset))
}

// AsStored returns the tensor without what Problem says, so that its elements have the values of their
// type. A logical tensor is returned as it is.
func (t Tensor) AsStored() Tensor {
	if !t.logical() {
		t.weight = 0
	}
	return t
}
