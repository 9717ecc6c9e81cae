package mmapio

import (
	"context"
	"io"
	"os"
	"runtime"
)

// MapFilling maps a file that has its final size, and whose bytes come as they are asked for. It calls
// fill before it hands out n bytes at off. fill writes them to the file unless they are there, and
// reports false if the file cannot hold them. From then on the mapping reads from r, which brings what
// it lacks, and Aliased is false. Slices that were handed out before stay views.
//
// f may be closed afterwards. The mapping reads from r at once if the platform cannot map, or if a mapping
// need not show what is written to its file.
func MapFilling(f *os.File, r io.ReaderAt, fill func(ctx context.Context, off, n uint64) (kept bool, err error)) (*Mapping, error) {
	opened, err := identify(f)
	if err != nil {
		return nil, err
	}
	if !coherent[runtime.GOOS] {
		return FromReaderAt(r, opened.size), nil
	}
	b, err := mapFile(f, f.Name(), int(opened.size))
	if err != nil {
		return FromReaderAt(r, opened.size), nil
	}
	m := newMapping(f.Name(), uint64(opened.size), b)
	m.mapped.Store(len(b.data) > 0)
	m.otherwise = r
	m.fill = func(ctx context.Context, off, n uint64) error {
		if !m.Aliased() {
			return nil
		}
		kept, err := fill(ctx, off, n)
		if err == nil && !kept {
			m.spill()
		}
		return err
	}
	m.check = m.fill
	return m, nil
}

// coherent names the systems on which a mapping shows what is written to its file. Windows promises
// that of other mappings only.
var coherent = map[string]bool{"linux": true, "darwin": true, "freebsd": true}

// Fills reports whether bytes of the mapping are brought when they are asked for.
func (m *Mapping) Fills() bool { return m.fill != nil && m.Aliased() }

// Otherwise replaces the reader of MapFilling: by one whose bytes need no check. It must be called before
// the mapping is used by others.
func (m *Mapping) Otherwise(r io.ReaderAt) { m.otherwise = r }

// spill makes the mapping read from its reader from now on. Its memory stays until Close.
func (m *Mapping) spill() {
	m.aliased.Store(false)
	m.mapped.Store(false)
	if b := m.live.Load(); b != nil && b.r == nil {
		m.live.CompareAndSwap(b, &backing{r: m.otherwise, close: b.close})
	}
}
