package loader

import (
	"context"
	"errors"
	"fmt"

	"github.com/tensormap/tensormap/loader/internal/content"
	"github.com/tensormap/tensormap/loader/internal/decrypted"
	"github.com/tensormap/tensormap/mmapio"
)

// call runs f, which reads about n bytes of the tensor. f gets a context, the environment of its reads, and the state of the tensor.
// call does what all kinds of reading need:
//
//   - It holds the lease open until f returns, or the model if there is no lease. It fails with ErrClosed if that is closed, and
//     with the cause if the lease's context has ended.
//   - It fails with the cause of ctx if that has ended.
//   - It passes f the context of the lease or the model. That ends with ctx too if reading may wait for a network.
//   - It returns an error if a mapped file has lost bytes that f reads.
//   - If n is at least minCheckedBytes, it fails if a file of the tensor has become shorter.
//   - It returns the error of f. Every error names the file and the tensor.
func (t Tensor) call(ctx context.Context, n uint64, f func(ctx context.Context, env content.Env, s *state) error) error {
	var env content.Env
	callCtx := t.model.source.baseContext() // for f
	if l := t.lease; l != nil {
		if err := l.enter(); err != nil {
			return t.wrap(err)
		}
		defer l.leave()
		callCtx, env.Pins = l.ctx, &l.pins
	} else {
		if !t.model.enterIfOpenOrLeased() { // t has no lease, but another caller's lease keeps a closed model in memory
			return t.wrap(ErrClosed)
		}
		defer t.model.leave()
	}
	s := t.state()
	if ctx.Done() != nil {
		if ctx.Err() != nil {
			return t.wrap(context.Cause(ctx))
		}
		// The bytes of a stored tensor may be in the cache file already.
		if s.values.Uncached.Source().Cost().MayWait && (t.isLogical() || !t.file().data.Has(t.desc().Offset, t.desc().Stored)) {
			ctx, stop := contextOfBoth(callCtx, ctx)
			defer stop()
			callCtx = ctx
		}
	}
	err := mmapio.Guard(func() error { return f(callCtx, env, s) })
	if err == nil && n >= minCheckedBytes {
		err = checkNotShortened(t)
	}
	return t.wrap(err)
}

// minCheckedBytes is the number of bytes read at once that makes asking the system about the file cost
// next to nothing.
const minCheckedBytes = 16 << 20

// checkNotShortened returns an error if a file of the tensor has become shorter since it was opened.
func checkNotShortened(t Tensor) error {
	for stored := range t.storedTensors() {
		if err := stored.file().checkNotShortened(); err != nil {
			return err
		}
	}
	return nil
}

// wrap returns err with the names of file and tensor. It returns nil, or an error that names its file, unchanged. If err wraps an
// IntegrityError without the name of a tensor, the result wraps a copy with the name.
func (t Tensor) wrap(err error) error {
	switch err.(type) {
	case nil, *fileError:
		return err
	}
	if encrypted, ok := errors.AsType[*decrypted.Error](err); ok {
		err = encrypted // without what wraps it, which names the file
	}
	if wrong, ok := errors.AsType[*IntegrityError](err); ok && wrong.Tensor == "" {
		named := *wrong
		named.Tensor = t.Name()
		err = &named
	}
	return inFile(t.file().path, fmt.Errorf("tensor %q: %w", t.Name(), err))
}
