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

// open opens the file called name. The result hands out verified bytes if there is a Trust, and decrypted ones if there is a key. follow
// lets links lead out of the source. It fails if the file cannot be opened, or if Trust or key refuses it. Callers may do without a
// file that is missing. If the Trust lists such a file, open fails with layout.ErrNotFound, which no caller ignores.
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

// secure makes s hand out nothing but verified bytes if there is a Trust. If there is a key and g.keys is not nil, it makes s decrypt. It
// verifies the head of s, which nothing has parsed yet. It fails if the Trust refuses the file, or with ErrKey.
func (g securedSource) secure(ctx context.Context, s *stored) error {
	if err := g.opts.makeVerified(ctx, s); err != nil {
		return err
	}
	if g.opts.Key == nil || g.keys == nil {
		return nil
	}
	return g.keys.authenticate(ctx, s, g.opts.Limits)
}

// readBeside returns the bytes of the file called name in the source of a model, verified if there is a Trust. It fails with
// fs.ErrNotExist if there is none, with ErrTooLarge if it has more than limit bytes, or if reading does.
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

// makeVerified makes s hand out only bytes that match the digests of Options.Trust, if there is a Trust. The index of s then reads its
// first bytes as they were verified. It fails if the Trust refuses the file, or if digests do not fit it.
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
