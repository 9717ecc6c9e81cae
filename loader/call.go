package loader

import (
	"context"
	"errors"
	"fmt"

	"github.com/tensormap/tensormap/loader/internal/cache"
	"github.com/tensormap/tensormap/loader/internal/content"
	"github.com/tensormap/tensormap/loader/internal/decrypted"
	"github.com/tensormap/tensormap/mmapio"
)

// call runs f, which reads the tensor. It is the one place for what crosses all reading:
//
//   - the lease, or else the model, stays open meanwhile
//   - f has the context of the lease or the model, which ends with ctx too if reading may wait for a network
//   - a fault in a mapping is an error
//   - the tensor's files are checked if f reads many bytes
//   - errors have the names of file and tensor.
func (t Tensor) call(ctx context.Context, bytes uint64, f func(ctx context.Context, env content.Env, s *state) error) error {
	var env content.Env
	own := t.model.from.life() // the context that f gets: of the model, or of the lease
	if l := t.lease; l != nil {
		if err := l.enter(); err != nil {
			return t.wrap(err)
		}
		defer l.leave()
		own, env.Pins = l.ctx, &l.pins
	} else {
		if !t.model.join() {
			return t.wrap(ErrClosed) // and no lease of the model is left
		}
		defer t.model.leave()
	}
	s := t.state()
	if ctx.Done() != nil {
		if ctx.Err() != nil {
			return t.wrap(context.Cause(ctx))
		}
		if s.values.Source().Cost().Waits && !present(t) {
			ctx, stop := joined(own, ctx)
			defer stop()
			own = ctx
		}
	}
	err := mmapio.Guard(func() error { return f(own, env, s) })
	if err == nil && bytes >= worthAsking {
		err = intact(t)
	}
	return t.wrap(err)
}

// worthAsking is the number of bytes read at once that makes asking the system about the file cost
// next to nothing.
const worthAsking = 16 << 20

// intact returns an error if a file of the tensor has become shorter since it was opened.
func intact(t Tensor) error {
	for _, i := range t.storedTensors() {
		if err := t.model.files[t.model.tensors[i].File].intact(); err != nil {
			return err
		}
	}
	return nil
}

// present reports whether the cache file of a Source has all stored bytes of the tensor. It is false for a logical
// tensor.
func present(t Tensor) bool {
	return !t.logical() && t.file().data.Has(t.desc().Offset, t.desc().Stored)
}

// wrap adds the names of tensor and file to err. nil stays nil. An error that names its file, as those of metadata and
// of other tensors do, stays as it is. A copy of an IntegrityError gets the name of the tensor too.
func (t Tensor) wrap(err error) error {
	switch err.(type) {
	case nil, *fileError:
		return err
	}
	if encrypted, ok := errors.AsType[*decrypted.Error](err); ok {
		err = encrypted // without the name of the file
	}
	if wrong, ok := errors.AsType[*IntegrityError](err); ok && wrong.Tensor == "" {
		of := *wrong
		of.Tensor = t.Name()
		err = &of
	}
	return &fileError{t.file().path, fmt.Errorf("tensor %q: %w", t.Name(), err)}
}

// member is a stored tensor that a logical one is made of, such as its codes or scales.
type member struct {
	Tensor
	s *state
}

// partOf returns the i-th stored tensor of the model, with its state.
func (m *Model) partOf(i uint32) member {
	return member{Tensor{model: m, index: i}, m.storedState(i)}
}

// forgetWarmed unpins and drops the elements of t that Warm has put into the cache for l. Their values are pinned now.
func (l *Lease) forgetWarmed(t Tensor) {
	if l == nil || !l.warm.Load() {
		return
	}
	for _, i := range t.storedTensors() {
		l.model.cache.Forget(cache.Key{Tensor: i, Kind: cache.Elements}, &l.warmed)
	}
}
