package loader

import (
	"cmp"
	"context"
	"iter"
	"slices"

	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/loader/internal/content"
	"github.com/tensormap/tensormap/mmapio"
	"github.com/tensormap/tensormap/scheme"
)

// Tensor is a handle on one tensor of a model. It is small and passed by value. Its description
// outlives the model. Methods that read return ErrClosed once the model is closed and its last lease
// released; the methods of a lease's tensor, once that lease is. The zero Tensor, which package bind leaves
// in a field without a tensor, may only be compared: its methods panic.
type Tensor struct {
	model    *Model
	lease    *Lease // through which it was taken, or nil
	index    uint32 // of the stored tensor, or of the stored tensor with the codes
	isWeight bool   // it is the weight with these codes, also if the weight cannot be decoded; else it is a tensor as it is stored
}

// desc returns the description of the stored tensor: where it lies in its file, and its dtype. For a logical tensor it is the description of the
// stored tensor with the codes.
func (t Tensor) desc() *layout.Tensor { return &t.model.tensors[t.index] }

// file returns the file that the stored tensor is read from.
func (t Tensor) file() *file {
	return t.model.files[t.desc().File]
}

// inPlace reports whether the stored bytes are read in memory, mapped or the caller's. It reports false for a tensor that is not stored
// raw, such as a compressed one, if its bytes may come over a network: they are read by large requests.
func (t Tensor) inPlace() bool {
	f := t.file()
	return f.InPlace() && (isRaw(t.desc()) || !f.data.Fetches())
}

// state returns the state of the weight if t is a weight, even one that cannot be decoded. Otherwise it returns the state of the stored
// tensor.
func (t Tensor) state() *state {
	if t.isWeight {
		i, _ := t.model.weightTable.WeightOf(t.index)
		return t.model.weightStates.getOrBuild(i, t.model.buildWeight)
	}
	return t.model.storedState(t.index)
}

// Name returns the tensor's name in its model.
func (t Tensor) Name() string {
	if t.isWeight {
		return mmapio.String(t.schemeWeight().Name)
	}
	return mmapio.String(t.desc().Name)
}

// DType returns the type of the stored elements. It returns layout.Invalid for a logical tensor; [Tensor.Stored] returns its codes,
// which have a type.
func (t Tensor) DType() layout.DType {
	if t.isLogical() {
		return layout.Invalid
	}
	return t.desc().DType
}

// Shape returns the dimensions in elements, the outermost first. A scalar has none. It must not be
// modified.
func (t Tensor) Shape() []int {
	if t.isLogical() {
		return t.schemeWeight().Shape
	}
	return t.desc().Shape
}

// Elements returns the number of elements, which is the product of the shape.
func (t Tensor) Elements() uint64 {
	n, _ := layout.Elements(t.Shape()) // cannot overflow: opening has computed bytes from it
	return n
}

// Offset returns the offset of the stored bytes in the tensor's file: for a logical tensor, of its
// codes.
func (t Tensor) Offset() uint64 { return t.desc().Offset }

// StoredBytes returns the number of bytes in the file, of a logical tensor in all of its parts.
func (t Tensor) StoredBytes() (n uint64) {
	for stored := range t.storedTensors() {
		size := stored.desc().Stored
		if d := stored.file().decrypted; d != nil {
			size = d.StoredSize(size)
		}
		n += size
	}
	return n
}

// storedTensors iterates over the stored tensors that hold t: its parts if it is logical, else t itself.
func (t Tensor) storedTensors() iter.Seq[Tensor] {
	return func(yield func(Tensor) bool) {
		if !t.isLogical() {
			yield(t.Stored())
			return
		}
		for _, p := range t.schemeWeight().Parts {
			if !yield(Tensor{model: t.model, lease: t.lease, index: p.Tensor}) {
				return
			}
		}
	}
}

// RawBytes returns the number of bytes of the elements after decompression: the length of
// Bytes, or of the parts of a logical tensor.
func (t Tensor) RawBytes() (n uint64) {
	for stored := range t.storedTensors() {
		n += stored.desc().Raw
	}
	return n
}

// Encoding returns how the stored elements are encoded: raw, compressed or encrypted. For a logical tensor it is the
// encoding of its codes.
func (t Tensor) Encoding() layout.Encoding {
	if t.file().decrypted == nil {
		return t.desc().Encoding
	}
	return t.desc().Encoding.WithEncryption() // desc has the encoding after decryption: see decryptedTensors
}

// Decrypted returns how the tensor would be stored without encryption, and in how many bytes: as WriteDecrypted
// writes it. For a tensor that is not encrypted, or without its key, it returns Encoding and StoredBytes.
func (t Tensor) Decrypted() (e layout.Encoding, bytes uint64) {
	for stored := range t.storedTensors() { // as they are after decryption, if the key is known
		bytes += stored.desc().Stored
	}
	return t.desc().Encoding, bytes
}

// File returns the position of the tensor's file in Model.Files: for a logical tensor, of its codes'.
func (t Tensor) File() int { return int(t.desc().File) }

// ZeroCopy reports whether Bytes and views are the file itself rather than a copy on the heap. The
// elements are then stored raw, and aligned as their type needs and as their file promises. (On a
// big-endian machine views of elements wider than a byte are copies all the same.)
func (t Tensor) ZeroCopy() bool {
	f, desc := t.file(), t.desc()
	return isRaw(desc) && f.InPlace() && !t.isLogical() &&
		f.index.Aligned(desc) && f.memoryAlign >= desc.DType.Align()
}

// isLogical reports whether the tensor is stored as several tensors, such as codes and scales, by a scheme that can be decoded. It reports
// false for a weight that cannot be decoded, which is listed as its codes are stored.
func (t Tensor) isLogical() bool {
	if !t.isWeight {
		return false
	}
	i, _ := t.model.weightTable.WeightOf(t.index)
	return t.model.weightTable.Err(i) == nil
}

// schemeWeight returns the quantized weight that the tensor is, also if it cannot be decoded. t.isWeight must be true.
func (t Tensor) schemeWeight() scheme.Weight {
	i, _ := t.model.weightTable.WeightOf(t.index)
	return t.model.weightTable.Weight(i)
}

// Scale returns how the tensor's integers become real numbers: a scale and a zero point. scaled is false if the file
// gives none, and for a logical tensor, whose groups have scales of their own. It fails if metadata, in which some formats
// keep scales, cannot be parsed.
func (t Tensor) Scale() (q layout.Quant, scaled bool, err error) {
	f, desc := t.file(), t.desc()
	switch {
	case t.isLogical():
		return layout.Quant{}, false, nil
	case !f.scaledByMetadata(desc):
		return f.scale(context.Background(), desc)
	}
	err = t.call(context.Background(), 0, func(ctx context.Context, _ content.Env, _ *state) error {
		q, scaled, err = f.scale(ctx, desc)
		return err
	})
	return q, scaled, err
}

// Part is a stored tensor of a logical one.
type Part struct {
	Role   scheme.Role
	Tensor Tensor // as it is stored
}

// Scheme returns how a logical tensor is stored and what its codes mean. It returns nil for a tensor as it is
// stored, also for one with a Problem. Tensors that are stored alike share the result, which must not be modified.
//
// A quantized checkpoint stores a weight as several tensors: codes, scales and more. The weight is one
// tensor of the model, with its true shape and values. Its parts are not listed, and can be looked up
// by their names unless the weight has that name. Its bytes are the bytes of its parts: Bytes, View, ReadAt,
// WriteTo and WriteDecrypted return ErrUnsupported.
func (t Tensor) Scheme() *scheme.Form {
	if !t.isLogical() {
		return nil
	}
	return t.schemeWeight().Form
}

// Parts returns the stored tensors of a logical one, the codes first. It returns nil for any other tensor.
func (t Tensor) Parts() (parts []Part) {
	if !t.isLogical() {
		return nil
	}
	for _, p := range t.schemeWeight().Parts {
		parts = append(parts, Part{p.Role, Tensor{model: t.model, lease: t.lease, index: p.Tensor}})
	}
	return parts
}

// Problem returns why a tensor that holds codes has no values: its scheme is not decoded, or its
// companions are missing or do not fit. The tensor is then listed as it is stored, and methods that
// give values return the same error. Problem returns nil for any other tensor.
func (t Tensor) Problem() error {
	if !t.isWeight || t.isLogical() {
		return nil
	}
	return t.wrap(t.schemeWeight().Err)
}

// sortStored sorts tensors by file and offset.
func sortStored(tensors []Tensor) { slices.SortStableFunc(tensors, compareOffsets) }

// compareOffsets compares two tensors by the position of their file, then by their offset in it.
func compareOffsets(a, b Tensor) int {
	return cmp.Or(cmp.Compare(a.desc().File, b.desc().File), cmp.Compare(a.desc().Offset, b.desc().Offset))
}

// Stored returns the stored tensor: as its file has it, with values of its type, whatever Problem says. For a logical tensor it is
// the first of Parts, which has the codes.
func (t Tensor) Stored() Tensor {
	t.isWeight = false
	return t
}
