// Package loader opens model weight files and hands out their tensors without copying a
// byte.
//
//	m, err := loader.Open("model.safetensors", nil)
//	if err != nil { … }
//	defer m.Close()
//	t, err := m.Tensor("encoder.layer.0.attention.self.query.weight")
//	w, err := t.Float32s() // a view of the mapped file
//
// [Open] costs the file's index, not its size: tensor data is not read until it is
// touched. Everything here is safe for concurrent use.
//
// # Lifetimes
//
// A slice from [Tensor.Bytes], [View] or [Tensor.Float32s] may be the file itself, mapped
// read-only: writing to it faults. It lives until [Model.Close].
//
// A server that swaps models while requests run takes a [Lease] for each request. Views
// taken through the lease's tensors live until the lease is released or the model is
// closed, whichever is later, and its methods go on working until the release: a request
// finishes on the model that it began with. Close itself never waits; the mapping goes
// with the last lease and the last running call.
//
// After Close, every method of the model and of tensors taken from it directly answers
// [ErrClosed]. Names, shapes and metadata already handed out are memory of their own and
// stay valid.
//
// # Files that change underneath
//
// A mapped file that shrinks turns a read past its new end into SIGBUS. Methods that read
// on the caller's behalf answer with an error that wraps [mmapio.ErrFault]. Loops of your
// own over a view get the same inside [mmapio.Guard].
package loader
