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

// parse runs fill once and keeps the result, errors included. It keeps no failure to read, and no
// error once ctx has ended. While another caller runs fill, parse waits until ctx ends. The caller
// holds the mapping. Errors name path.
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

// unreadable tells an error about bytes that could not be had from one about their meaning.
func unreadable(err error) bool {
	return !errors.As(err, new(*decrypted.Error)) && (errors.Is(err, mmapio.ErrFault) || errors.As(err, new(*fs.PathError)))
}

// malformed returns what err says about the content of a file. It returns nil for an error about something else, or about
// bytes that could not be had.
func malformed(err error) *layout.FormatError {
	if fe, ok := errors.AsType[*layout.FormatError](err); ok && !unreadable(err) {
		return fe
	}
	return nil
}

// setScales fills in the scales, which the metadata of some formats has.
func (md *metadata) setScales(l layout.File) (err error) {
	if s, ok := l.(layout.Scaler); ok {
		md.scales, err = s.Scales(md.keys)
	}
	return err
}
