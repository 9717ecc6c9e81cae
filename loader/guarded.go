package loader

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"

	"github.com/tensormap/tensormap/layout"
)

// securedSource is a source whose files hand out verified bytes only, and encrypted ones decrypted.
type securedSource struct {
	source
	opts Options
	keys *keyring // nil for files that are not the model's own
}

// open opens the file called name. The result hands out verified bytes if Options has a Trust, and decrypted ones if there is a key.
// follow lets links lead out of the source. It fails if the file cannot be opened, or if Trust or key refuses it. Callers may do
// without a file for which open fails with fs.ErrNotExist or ErrUnsupported. If the Trust lists that file, the error is
// layout.ErrNotFound instead. But of a source with one file only, it stays ErrUnsupported.
func (g securedSource) open(ctx context.Context, name string, follow bool) (*stored, error) {
	s, err := g.source.open(ctx, name, follow)
	if by, ok := g.opts.Trust.(Lister); ok && err != nil && by.Lists(name) {
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil, fmt.Errorf("%s: %w: the trusted files include it", name, layout.ErrNotFound)
		case errors.Is(err, ErrUnsupported) && !errors.As(err, new(oneFileError)): // callers would take ErrUnsupported for a missing file
			return nil, fmt.Errorf("%w: the trusted files include it, but: %v", layout.ErrNotFound, err)
		}
	}
	if err != nil {
		return nil, err
	}
	if err := g.secure(ctx, s); err != nil {
		s.discard()
		return nil, err
	}
	return s, nil
}

// secure makes s hand out verified bytes only, if Options has a Trust. It makes s decrypt, if Options has a key and g.keys is not
// nil. Nothing may have parsed s before: secure verifies its first bytes. It fails if the Trust refuses the file. It fails with
// ErrKey if the file is not encrypted, or if the key does not fit it.
func (g securedSource) secure(ctx context.Context, s *stored) error {
	if err := g.opts.makeVerified(ctx, s); err != nil {
		return err
	}
	if g.opts.Key == nil || g.keys == nil {
		return nil
	}
	return g.keys.authenticate(ctx, s, g.opts.Limits)
}

// readBeside returns the bytes of the file called name in the source of a model. They are verified if the model has a Trust. It
// fails with fs.ErrNotExist if there is no such file. It fails with ErrTooLarge if the file has more than limit bytes. It also fails
// if opening or reading the file does.
func readBeside(ctx context.Context, from source, name string, limit uint64) ([]byte, error) {
	if g, ok := from.(securedSource); ok {
		g.keys = nil // in a copy of g: files of a configuration are never encrypted
		from = g
	}
	s, err := from.open(ctx, name, followLinks)
	if err != nil {
		return nil, err
	}
	defer s.discard()
	if size := s.index.Size(); size > limit {
		return nil, inFile(s.data.Name(), fmt.Errorf("%w: %d bytes, more than %d", ErrTooLarge, size, limit))
	}
	var b []byte
	err = guardFile(s.data.Name(), func() error {
		view, err := s.index.Slice(0, s.index.Size())
		b = bytes.Clone(view) // a view would not outlive the file
		return err
	})
	return b, err
}

// makeVerified makes s hand out only bytes that match the digests of o.Trust. It does nothing without a Trust. It verifies the first
// bytes of s at once, and the index of s then reads those bytes from memory. It fails if the Trust refuses the file, or if its
// digests do not fit the file.
func (o Options) makeVerified(ctx context.Context, s *stored) error {
	if o.Trust == nil {
		return nil
	}
	name := s.data.Name()
	return guardFile(name, func() error {
		err := s.data.Trust(ctx, o.Private, func(in layout.Input) (*layout.Digests, error) { return o.Trust.Digests(trustedName(name), in) })
		if err == nil {
			s.useVerifiedHead(s.data.Digests().Head)
		}
		return err
	})
}
