package loader

import "github.com/tensormap/tensormap/layout/scheme"

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
	return t.described().Form
}

// Parts returns the stored tensors of a logical one, the codes first.
func (t Tensor) Parts() (parts []Part) {
	if !t.logical() {
		return nil
	}
	for _, p := range t.described().Parts {
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
	return t.wrap(t.described().Err)
}

// AsStored returns the tensor without what Problem says, so that its elements have the values of their
// type. A logical tensor is returned as it is.
func (t Tensor) AsStored() Tensor {
	if !t.logical() {
		t.weight = 0
	}
	return t
}
