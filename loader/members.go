package loader

import (
	"context"
	"iter"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/tensormap/tensormap/internal/parallel"
	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/layout/manifest"
	"github.com/tensormap/tensormap/mmapio"
	"github.com/tensormap/tensormap/shard"
)

// openFiles opens the other files of a model whose first file is open. It returns all files, and one table of their tensors. first
// is a manifest of shards, a part of a GGUF split, or the only file. It fails if a file cannot be opened, or does not fit the
// others. After an error, the files that it returns are open, for the caller to close.
func openFiles(ctx context.Context, first file, from source, lim *layout.Limits) ([]file, *shard.Table, error) {
	if m, ok := first.layout.(*manifest.File); ok {
		return openShards(ctx, first, m, from, lim)
	}
	split, err := shard.SplitOf(first.layout, first.path)
	if err == nil && split != nil {
		return openSplit(ctx, first, split, from, lim)
	}
	return []file{first}, &shard.Table{Tensors: first.index.Tensors, Names: first.index.Names}, err
}

// openShards opens the shards that the manifest m names. first is the file that m was decoded from. It returns the shards in the
// order of m, then first, and one table of their tensors. It fails if a shard cannot be opened, or if two names in m lead to one
// file. It fails if the size, head or encryption of a shard is not what m says. It compares checksums of local shards only. After an
// error, the files that it returns are open, for the caller to close.
func openShards(ctx context.Context, first file, m *manifest.File, from source, lim *layout.Limits) ([]file, *shard.Table, error) {
	var opened sync.Map // positions of shards, by mmapio.FileNumber
	files, err := openAll(len(m.Shards), from, func(i int) (file, error) {
		s, err := from.open(ctx, m.Shards[i].Name, m.FollowLinks)
		if err != nil {
			return file{}, m.UnusableError(i, err)
		}
		return s.readIndex(func() (f file, err error) {
			if number, ok := s.opened.Number(); ok { // else the system does not say whether two names are of one file
				if j, twice := opened.LoadOrStore(number, i); twice {
					return f, m.SameFileError(i, j.(int))
				}
			}
			if err := m.CheckSize(i, s.data.Size()); err != nil {
				return f, err
			}
			if err := m.CheckHead(i, s.index); err != nil {
				return f, err
			}
			if f, err = decodeStored(s, lim); err != nil {
				return f, inFile(s.data.Name(), err)
			}
			if err := m.CheckEncrypted(i, f.layout); err != nil {
				return f, err
			}
			if !s.data.Remote() { // the footer of a remote file would take another request
				err = m.CheckChecksum(i, f.layout, s.index)
			}
			return f, err
		})
	})
	if err != nil {
		return append(files, first), nil, err
	}
	table, err := shard.Stitch(m, indexes(files), lim)
	return append(files, first), table, err
}

// openSplit opens the other parts of a GGUF split. first is the part that is open already. It returns all parts in order, and one
// table of their tensors. It fails if a part cannot be opened, or is not the part that its name says. After an error, the files that
// it returns are open, for the caller to close, and first may be among them twice.
func openSplit(ctx context.Context, first file, split *shard.Split, from source, lim *layout.Limits) ([]file, *shard.Table, error) {
	files, err := openAll(split.Count, from, func(i int) (file, error) {
		if i == split.No {
			return first, nil
		}
		s, err := from.open(ctx, split.Name(i), followLinks)
		if err != nil {
			return file{}, split.Unusable(first.layout, i, err)
		}
		return s.readIndex(func() (file, error) {
			f, err := decodeStored(s, lim)
			if err == nil {
				err = split.Check(f.layout, i) // at once: the indexes of wrong parts would take memory
			}
			if err != nil {
				return f, inFile(s.data.Name(), err)
			}
			return f, nil
		})
	})
	if err != nil {
		return append(files, first), nil, err // files may have first too: closing it twice does no harm
	}
	table, err := split.Stitch(indexes(files), lim)
	return files, table, err
}

// readIndex calls read, which makes a file of s, and returns that file. It then closes the index of s, but leaves its data open. It
// fails if read does, or if the mapped file has lost bytes that read touches. After a failure or a panic of read, it closes the data
// of s too, once Guard has returned: Guard needs the mapping to tell the place of a fault.
func (s *stored) readIndex(read func() (file, error)) (f file, err error) {
	complete := false
	defer func() {
		s.closeIndex()
		if !complete { // for an error, or a panic of the caller's source
			s.discard()
		}
	}()
	err = mmapio.Guard(func() error {
		f, err = read()
		return err
	})
	complete = err == nil
	return f, err
}

// indexes returns the index of each file.
func indexes(files []file) []*layout.Index {
	list := make([]*layout.Index, len(files))
	for i := range files {
		list[i] = files[i].index
	}
	return list
}

// filesAtOnce is how many files of a model are opened at a time: enough to use all cores for
// decoding, and to hide the time that a slow disk or a network takes to answer.
const filesAtOnce = 8

// maxSerialOpening is how long files of a folder are opened one after the other. If their indexes are in memory, that takes less
// time than waking other threads.
const maxSerialOpening = 500 * time.Microsecond

// openAll calls open with 0 to n-1, and returns the opened files in that order. In the first maxSerialOpening it opens files of a
// folder one after the other. It opens all others filesAtOnce at a time. It fails if a call of open does. It then returns the files
// that are open, in order and without gaps for the others. It takes memory for opened files only: n may be what a hostile file says.
func openAll(n int, from source, open func(i int) (file, error)) (files []file, err error) {
	begun := time.Now()
	_, isLocal := from.(*folder) // the indexes of local files may be in memory
	for isLocal && len(files) < n && time.Since(begun) < maxSerialOpening {
		f, err := open(len(files))
		if err != nil {
			return files, err
		}
		files = append(files, f)
	}
	first := len(files) // the number of the first file that is opened in parallel
	if first == n {
		return files, nil
	}
	var mu sync.Mutex
	opened := make(map[int]file) // by number, counted from first
	err = parallel.Each(min(filesAtOnce, n-first), parallel.Range(uint64(n-first)), func(items iter.Seq[uint64]) error {
		for i := range items {
			f, err := open(first + int(i))
			if err != nil {
				return err
			}
			mu.Lock()
			opened[int(i)] = f
			mu.Unlock()
		}
		return nil
	})
	for _, i := range slices.Sorted(maps.Keys(opened)) {
		files = append(files, opened[i])
	}
	return files, err
}
