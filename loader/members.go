package loader

import (
	"context"
	"sync"

	"github.com/tensormap/tensormap/internal/parallel"
	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/layout/manifest"
	"github.com/tensormap/tensormap/shard"
)

// openFiles opens the other files of a model whose first file is open. It returns all files, and one table of their tensors. first
// is a manifest of shards, a part of a GGUF split, or the only file. It fails if a file cannot be opened, or does not fit the others.
func openFiles(ctx context.Context, first *file, from *source) ([]*file, *shard.Table, error) {
	if m, ok := first.layout.(*manifest.File); ok {
		return openShards(ctx, first, m, from)
	}
	split, err := shard.SplitOf(first.layout, first.path)
	if err == nil && split != nil {
		return openSplit(ctx, first, split, from)
	}
	return []*file{first}, &shard.Table{Tensors: first.index.Tensors, Names: first.index.Names}, err
}

// openShards opens the shards that m names, the manifest in the file first. It returns the shards in order, then first, and one table of
// all their tensors. It fails if two names lead to one file, or if a shard cannot be opened or is not what m says. It compares checksums of
// local shards only. After an error, the caller closes from, which closes first and the shards that were opened.
func openShards(ctx context.Context, first *file, m *manifest.File, from *source) ([]*file, *shard.Table, error) {
	var opened sync.Map // positions of shards, by mmapio.FileNumber
	files, err := openAll(len(m.Shards), func(i int) (*file, error) {
		f, err := from.open(ctx, m.Shards[i].Name, m.FollowLinks)
		if err != nil {
			return nil, m.UnusableError(i, err)
		}
		defer f.endOpening()
		if number, ok := f.opened.Number(); ok { // else the system does not say whether two names are of one file
			if j, twice := opened.LoadOrStore(number, i); twice {
				return nil, m.SameFileError(i, j.(int))
			}
		}
		if err := m.CheckSize(i, f.data.Size()); err != nil {
			return nil, err
		}
		if err := m.CheckHead(i, f.input(ctx)); err != nil {
			return nil, err
		}
		if err := f.decode(ctx, from.opts.Limits); err != nil {
			return nil, inFile(f.path, err)
		}
		err = m.CheckEncrypted(i, f.layout)
		if err == nil && !f.data.Remote() { // the footer of a remote file would take another request
			err = m.CheckChecksum(i, f.layout, f.input(ctx))
		}
		return f, err
	})
	if err != nil {
		return nil, nil, err
	}
	table, err := shard.Stitch(m, indexes(files), from.opts.Limits)
	return append(files, first), table, err
}

// openSplit opens the other parts of a GGUF split. first is the part that is open already. It returns all parts in order, and one
// table of their tensors. It fails if a part cannot be opened, or is not the part that its name says. After an error, the caller closes
// from, which closes first and the parts that were opened, and the results are of no use.
func openSplit(ctx context.Context, first *file, split *shard.Split, from *source) ([]*file, *shard.Table, error) {
	files, err := openAll(split.Count, func(i int) (*file, error) {
		if i == split.No {
			return first, nil
		}
		f, err := from.open(ctx, split.Name(i), followLinks)
		if err != nil {
			return nil, split.Unusable(first.layout, i, err)
		}
		defer f.endOpening()
		if err = f.decode(ctx, from.opts.Limits); err == nil {
			err = split.Check(f.layout, i) // at once: the indexes of wrong parts would take memory
		}
		return f, inFile(f.path, err)
	})
	if err != nil {
		return nil, nil, err
	}
	table, err := split.Stitch(indexes(files), from.opts.Limits)
	return files, table, err
}

// indexes returns the index of each file.
func indexes(files []*file) []*layout.Index {
	list := make([]*layout.Index, len(files))
	for i, f := range files {
		list[i] = f.index
	}
	return list
}

// filesAtOnce is how many files of a model are opened at a time: enough to use all cores for
// decoding, and to hide the time that a slow disk or a network takes to answer.
const filesAtOnce = 8

// openAll calls open with 0 to n-1, filesAtOnce at a time, and returns the opened files in that order. It fails if a call of open does.
// It takes memory for opened files only: n may be what a hostile file says.
func openAll(n int, open func(i int) (*file, error)) ([]*file, error) {
	var mu sync.Mutex
	opened := make(map[uint64]*file)
	err := parallel.ForEach(min(filesAtOnce, n), parallel.Range(uint64(n)), func(i uint64) error {
		f, err := open(int(i))
		if err != nil {
			return err
		}
		mu.Lock()
		defer mu.Unlock()
		opened[i] = f
		return nil
	})
	if err != nil {
		return nil, err
	}
	files := make([]*file, n)
	for i, f := range opened {
		files[i] = f
	}
	return files, nil
}
