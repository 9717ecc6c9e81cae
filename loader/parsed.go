package loader

import (
	"context"
	"errors"
	"io/fs"
	"sync/atomic"

	"github.com/tensormap/tensormap/internal/parallel"
	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/loader/internal/decrypted"
	"github.com/tensormap/tensormap/mmapio"
)

// metadata is the result of parsing it.
type metadata struct {
	keys   layout.Metadata
	scales map[string]layout.Quant
	err    error
}

// parsed is metadata that is parsed on first use.
type parsed struct {
	done atomic.Pointer[metadata] // nil until it is asked for
	mu   parallel.Mutex           // held while it is parsed
}

func newParsed() *parsed { return &parsed{mu: parallel.NewMutex()} }

// parse returns the metadata that fill sets, and runs fill only once. It keeps errors too, but no failure to read and
// no error once ctx has ended: the next call then tries again. While another call runs fill, parse waits for it or
// until ctx ends. The caller holds the model open. Errors name path.
func (p *parsed) parse(ctx context.Context, path string, fill func(md *metadata) error) *metadata {
	if md := p.done.Load(); md != nil {
		return md
	}
	if err := p.mu.Lock(ctx); err != nil {
		return &metadata{err: &fileError{path, err}}
	}
	defer p.mu.Unlock()
	if md := p.done.Load(); md != nil {
		return md
	}
	md := new(metadata)
	if err := readFile(path, func() error { return fill(md) }); err != nil {
		md = &metadata{err: err}
	}
	if md.err == nil || ctx.Err() == nil && !unreadable(md.err) {
		p.done.Store(md)
	}
	return md
}

// unreadable reports whether err says that bytes could not be read, and not that their content is wrong.
func unreadable(err error) bool {
	return !errors.As(err, new(*decrypted.Error)) && (errors.Is(err, mmapio.ErrFault) || errors.As(err, new(*fs.PathError)))
}

// malformed returns the FormatError in err, which is about the content of a file. It returns nil if there is none, or
// bytes could not be read.
func malformed(err error) *layout.FormatError {
	if fe, ok := errors.AsType[*layout.FormatError](err); ok && !unreadable(err) {
		return fe
	}
	return nil
}

// setScales sets md.scales from md.keys, if the format of l has scales in its metadata. Otherwise it does nothing.
func (md *metadata) setScales(l layout.File) (err error) {
	if s, ok := l.(layout.Scaler); ok {
		md.scales, err = s.Scales(md.keys)
	}
	return err
}
