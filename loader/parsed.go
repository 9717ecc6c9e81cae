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

// parsedOnce is metadata that the first use parses.
type parsedOnce struct {
	result atomic.Pointer[metadata] // nil until it is asked for
	mu     parallel.Mutex           // held while it is parsed
}

// newParsedOnce returns a parsedOnce that nothing has parsed yet.
func newParsedOnce() *parsedOnce { return &parsedOnce{mu: parallel.NewMutex()} }

// parse returns the metadata that fill sets. The first call runs fill, and later ones return the same result. An error is in the
// result, and names path. If bytes could not be read, or ctx has ended, the result is not stored: the next call runs fill again. While
// one call runs fill, others wait until their ctx ends. The caller holds the model open.
func (p *parsedOnce) parse(ctx context.Context, path string, fill func(md *metadata) error) *metadata {
	if md := p.result.Load(); md != nil {
		return md
	}
	if err := p.mu.Lock(ctx); err != nil {
		return &metadata{err: inFile(path, err)}
	}
	defer p.mu.Unlock()
	if md := p.result.Load(); md != nil {
		return md
	}
	md := new(metadata)
	if err := guardFile(path, func() error { return fill(md) }); err != nil {
		md = &metadata{err: err}
	}
	if md.err == nil || ctx.Err() == nil && !isUnreadable(md.err) {
		p.result.Store(md)
	}
	return md
}

// isUnreadable reports whether err says that bytes could not be read: a fault or an error of the system. It reports false for encrypted
// bytes that are not authentic, whose error may wrap the path, and for any other error about content.
func isUnreadable(err error) bool {
	return !errors.As(err, new(*decrypted.Error)) && (errors.Is(err, mmapio.ErrFault) || errors.As(err, new(*fs.PathError)))
}

// formatErrorIn returns the FormatError in err, which says what is wrong in a file. It returns nil if there is none,
// or if err says that bytes could not be read.
func formatErrorIn(err error) *layout.FormatError {
	if fe, ok := errors.AsType[*layout.FormatError](err); ok && !isUnreadable(err) {
		return fe
	}
	return nil
}

// setScales sets md.scales from md.keys, if the format of l has scales in its metadata. It does nothing for other formats. It
// fails for malformed scales.
func (md *metadata) setScales(l layout.File) (err error) {
	if s, ok := l.(layout.Scaler); ok {
		md.scales, err = s.Scales(md.keys)
	}
	return err
}
