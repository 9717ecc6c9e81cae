package loader

import (
	"sync"

	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/shard"
)

// openers is how many files of a model are opened at a time: enough to use all cores for
// decoding, and to hide the time that a slow disk or a network takes to answer.
const openers = 8

// opening opens the files of a set, several at a time.
type opening struct {
	open func(i int) (file, error)
	n    int

	mu     sync.Mutex
	next   int          // the first that nobody has taken on
	files  map[int]file // grows with what is really there, whatever n promises
	err    error        // of failed, the lowest that could not be opened
	failed int
}

// openAll opens n files. On error it also returns those that it has opened, in order too.
func openAll(n int, open func(i int) (file, error)) ([]file, error) {
	o := opening{open: open, n: n, files: make(map[int]file)}
	if err := inParallel(min(n, openers), o.stop, o.work); err != nil {
		o.err = err // a fault of a mapping
	}
	files := make([]file, 0, len(o.files)+1)
	for i := range n {
		if f, ok := o.files[i]; ok {
			files = append(files, f)
		}
		if len(files) == len(o.files) {
			break
		}
	}
	return files, o.err
}

func (o *opening) work() error {
	for {
		i, ok := o.take()
		if !ok {
			return nil
		}
		f, err := o.open(i)
		o.done(i, f, err)
	}
}

// take is the next file to open. Files are taken in order, so that of several that cannot be
// opened the first is always among those tried.
func (o *opening) take() (i int, ok bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.err != nil || o.next == o.n {
		return 0, false
	}
	o.next++
	return o.next - 1, true
}

// stop leaves nothing to take.
func (o *opening) stop() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.next = o.n
}

func (o *opening) done(i int, f file, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	switch {
	case err == nil:
		o.files[i] = f
	case o.err == nil || i < o.failed:
		o.err, o.failed = err, i
	}
}

// loadManifest opens the shards that the manifest in first names.
func (m *Model) loadManifest(first file, manifest *shard.Manifest) error {
	in := first.mapping
	files, err := openAll(len(manifest.Shards), func(i int) (file, error) {
		s, err := m.from.open(manifest.Shards[i].Name, manifest.FollowLinks)
		if err != nil {
			return file{}, manifest.Unusable(in, i, err)
		}
		if err := manifest.CheckSize(in, i, s.data.Size()); err != nil {
			s.close()
			return file{}, err
		}
		return m.decodeStored(s, func(shard layout.File) error {
			if s.reader != nil {
				return nil // the footer may be a journey away
			}
			return manifest.CheckChecksum(in, i, shard, s.index)
		})
	})
	m.files = append(files, first)
	if err != nil {
		return err
	}
	m.manifest = manifest
	table, err := manifest.Stitch(in, parts(files), m.opts.Limits)
	if err != nil {
		return err
	}
	m.tensors, m.names = table.Tensors, table.Names
	return nil
}

// loadSplit opens the other files of the split that first is one of.
func (m *Model) loadSplit(first file, split *shard.Split) error {
	files, err := openAll(split.Count, func(i int) (file, error) {
		if i == split.No {
			return first, nil
		}
		s, err := m.from.open(split.Name(i), true)
		if err != nil {
			return file{}, split.Unusable(first.layout, i, err)
		}
		return m.decodeStored(s, nil)
	})
	m.files = append(files, first) // so that it is closed in any case
	if err != nil {
		return err
	}
	m.files = files
	for i := range files {
		if err := split.Check(files[i].layout, i); err != nil {
			return &fileError{files[i].path, err}
		}
	}
	table, err := split.Stitch(parts(files), m.opts.Limits)
	if err != nil {
		return err
	}
	m.tensors, m.names = table.Tensors, table.Names
	return nil
}

// decodeStored makes a file of the model from s, whose reader it closes. check, if set, may
// read from that as well.
func (m *Model) decodeStored(s *stored, check func(layout.File) error) (file, error) {
	defer s.done()
	f := file{path: s.path, mapping: s.data, reader: s.reader, origin: s.origin}
	if err := f.decode(m, s.index); err != nil {
		s.data.Close()
		return file{}, &fileError{s.path, err}
	}
	if check != nil {
		if err := check(f.layout); err != nil {
			s.data.Close()
			return file{}, err
		}
	}
	return f, nil
}

func parts(files []file) []shard.Part {
	list := make([]shard.Part, len(files))
	for i := range files {
		list[i] = shard.Part{Path: files[i].path, Index: files[i].index}
	}
	return list
}
