package loader

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"

	"github.com/tensormap/tensormap/layout"
)

// guarded is a source whose files hand out verified bytes only, and encrypted ones decrypted.
type guarded struct {
	source
	opts Options
	keys *keyring // nil for files that are not the model's own
}

// open opens a file of the source and admits it. A file that is missing although the Trust lists it is
// layout.ErrNotFound. On any other error it is closed again.
func (g guarded) open(ctx context.Context, name string, follow bool) (*stored, error) {
	s, err := g.source.open(ctx, name, follow)
	if by, ok := g.opts.Trust.(Lister); ok && err != nil && by.Lists(name) {
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil, fmt.Errorf("%s: %w: the trusted files include it", name, layout.ErrNotFound)
		case errors.Is(err, ErrUnsupported) && !errors.As(err, new(oneFileError)): // which counts as no configuration
			return nil, fmt.Errorf("%w: the trusted files include it, but: %v", layout.ErrNotFound, err)
		}
	}
	if err != nil {
		return nil, err
	}
	if err := g.admit(ctx, s); err != nil {
		s.close()
		return nil, err
	}
	return s, nil
}

// admit makes s a verified file if there is a Trust, and a decrypted one if there is a key. It checks the head before
// anything parses it. The error is about a head that is not the trusted one, or ErrKey.
func (g guarded) admit(ctx context.Context, s *stored) error {
	if err := g.opts.guard(ctx, s); err != nil {
		return err
	}
	if g.opts.Key == nil || g.keys == nil {
		return nil
	}
	return g.keys.decrypt(ctx, s, g.opts.Limits)
}

// readBeside returns a copy of the file called name beside the model. More than limit bytes are ErrTooLarge. It is
// fs.ErrNotExist if there is none.
func readBeside(ctx context.Context, from source, name string, limit uint64) ([]byte, error) {
	if g, ok := from.(guarded); ok {
		g.keys = nil // in a copy of g: files of a configuration are never encrypted
		from = g
	}
	s, err := from.open(ctx, name, followLinks)
	if err != nil {
		return nil, err
	}
	defer s.close()
	if size := s.index.Size(); size > limit {
		return nil, inFile(s.data.Name(), fmt.Errorf("%w: %d bytes, more than %d", ErrTooLarge, size, limit))
	}
	var b []byte
	err = readFile(s.data.Name(), func() error {
		view, err := s.index.Slice(0, s.index.Size())
		b = bytes.Clone(view) // a view would not outlive the file
		return err
	})
	return b, err
}

// guard makes s a file that lets only trusted bytes out, if there is a Trust. The error is that of the Trust, or of
// digests that do not fit the file.
func (o Options) guard(ctx context.Context, s *stored) error {
	if o.Trust == nil {
		return nil
	}
	name := s.data.Name()
	return readFile(name, func() error {
		err := s.data.Trust(ctx, o.Private, func(in layout.Input) (*layout.Digests, error) { return o.Trust.Digests(trustedName(name), in) })
		if err == nil {
			s.keepHead(s.data.Digests().Head)
		}
		return err
	})
}
