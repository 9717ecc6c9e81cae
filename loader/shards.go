package loader

import (
	"iter"
	"maps"
	"slices"
	"sync"

	"github.com/tensormap/tensormap/internal/parallel"
	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/mmapio"
	"github.com/tensormap/tensormap/shard"
)

// openers is how many files of a model are opened at a time: enough to use all cores for
// decoding, and to hide the time that a slow disk or a network takes to answer.
const openers = 8

// openAll opens n files, several at a time. On error it also returns those that it has opened,
// in order too. Memory grows with the files that are really there, whatever n promises.
func openAll(n int, open func(i int) (file, error)) ([]file, error) {
	var mu sync.Mutex
	opened := make(map[int]file)
	err := parallel.Each(openers, parallel.Range(uint64(n)), func(items iter.Seq[uint64]) error {
		for i := range items {
			if err := mmapio.Guard(func() error {
				f, err := open(int(i))
				if err == nil {
					mu.Lock()
					defer mu.Unlock()
					opened[int(i)] = f
				}
				return err
			}); err != nil {
				return err
			}
		}
		return nil
	})
	files := make([]file, 0, len(opened)+1)
	for _, i := range slices.Sorted(maps.Keys(opened)) {
		files = append(files, opened[i])
	}
	return files, err
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
