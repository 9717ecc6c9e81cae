package loader

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"

	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/loader/internal/verified"
	"github.com/tensormap/tensormap/mmapio"
)

// guarded is a source whose files hand out verified bytes only, and encrypted ones decrypted.
type guarded struct {
	source
	opts Options
	keys *keyring // nil for files that are not the model's own
}

func (g guarded) open(ctx context.Context, name string, follow bool) (*stored, error) {
	s, err := g.source.open(ctx, name, follow)
	if by, ok := g.opts.Trust.(Lister); ok && err != nil && by.Lists(name) {
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil, fmt.Errorf("%s: %w: the trusted files include it", name, layout.ErrNotFound)
		case errors.Is(err, ErrUnsupported) && !errors.As(err, new(aloneError)): // which counts as no configuration
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

// admit verifies the head of s before anything parses it.
func (g guarded) admit(ctx context.Context, s *stored) error {
	if err := g.opts.guard(ctx, s); err != nil {
		return err
	}
	if g.opts.Key == nil || g.keys == nil {
		return nil
	}
	return g.keys.decrypt(ctx, s, g.opts.Limits)
}

// readBeside reads a file beside the model, of at most so many bytes.
func readBeside(ctx context.Context, from source, name string, most uint64) ([]byte, error) {
	if g, ok := from.(guarded); ok {
		g.keys = nil // files of a configuration are never encrypted
		from = g
	}
	s, err := from.open(ctx, name, true)
	if err != nil {
		return nil, err
	}
	defer s.close()
	if size := s.index.Size(); size > most {
		return nil, &fileError{s.path, fmt.Errorf("%w: %d bytes, more than %d", ErrTooLarge, size, most)}
	}
	var b []byte
	err = readFile(s.path, func() error {
		view, err := s.index.Slice(0, s.index.Size())
		b = bytes.Clone(view) // a view would not outlive the file
		return err
	})
	return b, err
}

// guard makes s hand out verified bytes only, if the model has a Trust. The error names the file.
func (o *Options) guard(ctx context.Context, s *stored) error {
	if o.Trust == nil {
		return nil
	}
	return readFile(s.path, func() error {
		var d *layout.Digests
		var err error
		if keeper, keeps := s.reader.(VerifiedKeeper); keeps {
			d, err = keepVerified(ctx, s.path, trustedName(s.path), keeper, s.data.Size(), o.Trust)
		} else {
			d, err = o.Trust.Digests(trustedName(s.path), s.index)
		}
		if err != nil {
			return err
		}
		f, err := verified.New(s.path, s.data.Size(), d)
		if err != nil {
			return err
		}
		s.verification = &verification{File: f}
		if err := s.verification.guard(s, o.Private); err != nil {
			return err
		}
		s.keepHead(d.Head)
		return nil
	})
}

// KeepVerified makes a reader of size bytes keep nothing that by does not vouch for. name is the file's in
// by's model, with slashes. It is for files that are kept but not opened, such as a tokenizer; models do it
// with Options.Trust. It reads what by wants to see.
func KeepVerified(ctx context.Context, name string, r VerifiedKeeper, size uint64, by Trust) error {
	_, err := keepVerified(ctx, readerName(r), name, r, size, by)
	return err
}

func keepVerified(ctx context.Context, path, name string, r VerifiedKeeper, size uint64, by Trust) (*layout.Digests, error) {
	r.KeepVerified(ctx, nil)
	d, err := by.Digests(name, bound{mmapio.FromReaderAt(input{path, r}, int64(size)), ctx})
	if err != nil {
		return nil, err
	}
	verify, err := verified.Arriving(path, size, d)
	if err != nil {
		return nil, err
	}
	r.KeepVerified(ctx, func(source ContextReaderAt) ContextReaderAt { return verify(input{path, source}) })
	return d, nil
}

// guard puts the check in front of the file's bytes: those in place are hashed there, others as they
// arrive. A private file is copied chunk by chunk, and the copy is hashed.
func (v *verification) guard(s *stored, private bool) error {
	switch {
	case s.reader != nil:
		v.chunks = verified.NewChunks(v.File, private)
		return v.guardReader(s, private)
	case private && !s.data.Aliased():
		v.chunks = verified.NewChunks(v.File, private)
		s.data = v.reading(s.data)
		index := s.index.(bound)
		s.index = bound{v.reading(index.Mapping), index.ctx}
		return nil
	}
	if index := s.index.(bound); index.Mapping != s.data {
		index.Check(v.checking(index.Unchecked))
	}
	if !private {
		s.data.Check(v.checking(s.data.Unchecked))
		return nil
	}
	return v.copied(s)
}

// guardReader puts the check in front of what a reader of the caller's brings.
func (v *verification) guardReader(s *stored, private bool) error {
	v.Afar = true
	r := v.reader(input{s.path, s.reader})
	read := mmapio.FromReaderAt(r, int64(s.data.Size()))
	if s.data.Fills() && !private {
		s.data.Otherwise(r)
		s.data.Check(v.bringing(s.data.Unchecked))
		s.packed = read
		return nil
	}
	err := s.data.Close()
	s.index = bound{read, s.index.(bound).ctx}
	s.data, s.packed = read, nil
	return err
}

// checking returns the check of a mapping whose bytes hash reads.
func (v *verification) checking(hash verified.Hash) func(ctx context.Context, off, n uint64) error {
	return func(ctx context.Context, off, n uint64) error { return v.Check(ctx, off, n, hash) }
}

// bringing returns the check of a mapping that fills. Bytes that no digest covers, as those of a footer, are
// brought too.
func (v *verification) bringing(hash verified.Hash) func(ctx context.Context, off, n uint64) error {
	d, check := v.Digests(), v.checking(hash)
	return func(ctx context.Context, off, n uint64) error {
		if err := check(ctx, off, n); err != nil {
			return err
		}
		end := off + n
		if off >= d.Off && end <= d.End {
			return nil
		}
		if before := min(end, d.Off); off < before {
			if err := hash(ctx, off, before-off, func([]byte) {}); err != nil {
				return err
			}
		}
		if after := max(off, d.End); after < end {
			return hash(ctx, after, end-after, func([]byte) {})
		}
		return nil
	}
}

// copied lets s read from memory of this process, which checks fill.
func (v *verification) copied(s *stored) error {
	shared := s.data
	own, memory, err := shared.Private()
	if err != nil {
		return err
	}
	d := v.Digests()
	copy(memory, d.Head)
	if _, err := shared.ReadAt(memory[d.End:], int64(d.End)); err != nil && d.End < shared.Size() {
		own.Close()
		return err
	}
	own.Check(v.checking(func(ctx context.Context, off, n uint64, f func(b []byte)) error {
		own := memory[off:][:n]
		if _, err := shared.ReadAtContext(ctx, own, int64(off)); err != nil {
			return err
		}
		f(own)
		return nil
	}))
	if index := s.index.(bound); index.Mapping == shared {
		s.index = bound{own, index.ctx}
	}
	s.data = own
	return nil
}
