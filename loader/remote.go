package loader

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/tensormap/tensormap/mmapio"
)

// remote is the source that a reader of the caller's comes from.
type remote struct {
	alive  context.Context // of all reads but those of opening
	kill   context.CancelCauseFunc
	beside io.ReaderAt
	noMap  bool // also what the reader keeps in a file

	mu     sync.Mutex
	opened map[*io.Closer]bool // siblings
}

func newRemote(r io.ReaderAt, o Options) *remote {
	p := &remote{beside: r, noMap: o.NoMap, opened: make(map[*io.Closer]bool)}
	p.alive, p.kill = context.WithCancelCause(context.Background())
	return p
}

// store returns the file that r reads; ctx is for its index.
func (p *remote) store(ctx context.Context, name string, r io.ReaderAt, size int64) (*stored, error) {
	if size < 0 {
		return nil, fmt.Errorf("%s: %w: a size of %d", name, ErrRange, size)
	}
	in := mmapio.FromReaderAt(input{name, r}, size)
	s := &stored{path: name, data: in, index: bound{in, ctx}, done: func() {}, reader: r}
	b, ok := r.(BackedReaderAt)
	if !ok || p.noMap || b.Backing() == nil {
		return s, nil
	}
	data, err := mmapio.MapFilling(b.Backing(), input{name, r}, func(ctx context.Context, off, n uint64) (bool, error) {
		kept, err := b.Bring(ctx, off, n)
		return kept, endedBy(ctx, err)
	})
	if err != nil {
		return nil, &fileError{name, err}
	}
	if data.Size() != uint64(size) {
		data.Close()
		return nil, fmt.Errorf("%s: %w: its file has %d bytes, not %d", name, ErrRange, data.Size(), size)
	}
	s.data, s.packed, s.index = data, in, bound{data, ctx}
	return s, nil
}

func (p *remote) open(ctx context.Context, name string, _ bool) (*stored, error) {
	s, ok := p.beside.(SiblingOpener)
	if !ok {
		return nil, aloneError{fmt.Errorf("%w: the model needs the file %q, but its reader is for one file", ErrUnsupported, name)}
	}
	r, size, err := s.OpenSibling(ctx, name)
	if err != nil {
		return nil, &fileError{name, err}
	}
	giveUp := p.own(r)
	if n := readerName(r); n != anonymous {
		name = n
	}
	file, err := p.store(ctx, name, r, size)
	if err != nil {
		giveUp()
		return nil, err
	}
	file.giveUp = giveUp
	return file, nil
}

// own takes over a reader, if it can be closed. It returns a function that closes it before the
// model does.
func (p *remote) own(r io.ReaderAt) (giveUp func()) {
	c, ok := r.(io.Closer)
	if !ok {
		return func() {}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.opened[&c] = true
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.opened, &c)
		c.Close()
	}
}

// until returns ctx, ended by end too, and a function to be called afterwards.
func (p *remote) until(ctx context.Context) (context.Context, func()) {
	return joined(ctx, p.alive)
}

func (p *remote) life() context.Context { return p.alive }

func (p *remote) end() { p.kill(ErrClosed) }

// close closes all readers, and if one of them panics the others all the same.
func (p *remote) close() (err error) {
	p.end()
	p.mu.Lock()
	defer p.mu.Unlock()
	for r := range p.opened {
		defer func() { err = errors.Join(err, (*r).Close()) }()
	}
	clear(p.opened)
	return nil
}
