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

// members are the files of a model: one by itself, or those that a manifest or a split names.
type members interface {
	// open opens the files that are not open yet, and returns all in order. On error it returns
	// those that are open.
	open(ctx context.Context, from source, lim *layout.Limits) ([]file, error)
	// stitch makes one table of the files' tensors.
	stitch(files []file, lim *layout.Limits) (*shard.Table, error)
	// manifest returns the manifest among them, or nil.
	manifest() *manifest.File
}

// membersOf returns the members of the model that first leads to.
func membersOf(first file) (members, error) {
	if m, ok := first.layout.(*manifest.File); ok {
		return listed{first, m, m.Roster()}, nil
	}
	split, err := shard.SplitOf(first.layout, first.path)
	if err != nil || split == nil {
		return alone{first}, err
	}
	return parts{first, split}, nil
}

// alone is a model of one file.
type alone struct{ first file }

func (a alone) open(context.Context, source, *layout.Limits) ([]file, error) {
	return []file{a.first}, nil
}

func (a alone) stitch([]file, *layout.Limits) (*shard.Table, error) {
	return &shard.Table{Tensors: a.first.index.Tensors, Names: a.first.index.Names}, nil
}

func (a alone) manifest() *manifest.File { return nil }

// listed is a manifest and the shards that it names. The manifest is the last of the files.
type listed struct {
	first file
	*manifest.File
	roster *layout.Roster // of the shards, or nil
}

func (l listed) open(ctx context.Context, from source, lim *layout.Limits) ([]file, error) {
	var shards distinct
	files, err := openAll(len(l.Shards), from, func(i int) (file, error) {
		s, err := from.open(ctx, l.Shards[i].Name, l.FollowLinks)
		if err != nil {
			return file{}, l.Unusable(i, err)
		}
		defer s.done()
		if j, twice := shards.add(identityOf(s), i); twice {
			s.close()
			return file{}, l.Same(i, j)
		}
		defer s.reuse()()
		if err := l.CheckSize(i, s.data.Size()); err != nil {
			s.close()
			return file{}, err
		}
		if err := l.CheckHead(i, s.index); err != nil {
			s.close()
			return file{}, err
		}
		f, err := decodeStored(s, l.roster.Limits(lim, i))
		if err != nil {
			return file{}, &fileError{s.path, err}
		}
		if err := l.CheckSealed(i, f.layout); err != nil {
			s.close()
			return file{}, err
		}
		if s.reader == nil { // or else the footer may be a journey away
			if err := mmapio.Guard(func() error { return l.CheckChecksum(i, f.layout, s.index) }); err != nil {
				s.close()
				return file{}, err
			}
		}
		return f, nil
	})
	return append(files, l.first), err
}

func (l listed) stitch(files []file, lim *layout.Limits) (*shard.Table, error) {
	return shard.Stitch(l.File, l.roster, partsOf(files[:len(files)-1]), lim)
}

func (l listed) manifest() *manifest.File { return l.File }

// parts is a GGUF split, opened by any one of its files.
type parts struct {
	first file
	*shard.Split
}

func (p parts) open(ctx context.Context, from source, lim *layout.Limits) ([]file, error) {
	files, err := openAll(p.Count, from, func(i int) (file, error) {
		if i == p.No {
			return p.first, nil
		}
		s, err := from.open(ctx, p.Name(i), true)
		if err != nil {
			return file{}, p.Unusable(p.first.layout, i, err)
		}
		defer s.done()
		defer s.reuse()()
		f, err := decodeStored(s, lim)
		if err != nil {
			return file{}, &fileError{s.path, err}
		}
		if err := p.Check(f.layout, i); err != nil { // before more of them take memory
			s.close()
			return file{}, &fileError{s.path, err}
		}
		return f, nil
	})
	if err != nil {
		return append(files, p.first), err // files may have it too
	}
	return files, nil
}

func (p parts) stitch(files []file, lim *layout.Limits) (*shard.Table, error) {
	return p.Stitch(partsOf(files), lim)
}

func (p parts) manifest() *manifest.File { return nil }

func partsOf(files []file) []shard.Part {
	list := make([]shard.Part, len(files))
	for i := range files {
		list[i] = shard.Part{Path: files[i].path, Index: files[i].index}
	}
	return list
}

// distinct finds files that have more than one name, if the system numbers files.
type distinct struct {
	mu   sync.Mutex
	seen map[mmapio.FileNumber]int
}

// add enters file i. If it has been entered, add returns its first number.
func (d *distinct) add(id mmapio.Identity, i int) (first int, twice bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	n, ok := id.Number()
	if first, twice = d.seen[n]; twice || !ok {
		return first, twice
	}
	if d.seen == nil {
		d.seen = make(map[mmapio.FileNumber]int)
	}
	d.seen[n] = i
	return i, false
}

// identityOf returns the identity of the file, or of the one that keeps what a reader brings.
func identityOf(s *stored) mmapio.Identity {
	if r, ok := s.reader.(BackedReaderAt); ok && !s.opened.Known() {
		if f := r.Backing(); f != nil {
			if info, err := f.Stat(); err == nil {
				return mmapio.IdentityOf(info)
			}
		}
	}
	return s.opened
}

// openers is how many files of a model are opened at a time: enough to use all cores for
// decoding, and to hide the time that a slow disk or a network takes to answer.
const openers = 8

// aloneFor is how long files of a folder are opened one after the other. If their indexes are in memory, that takes less time
// than waking other threads.
const aloneFor = 500 * time.Microsecond

// openAll opens n files of a source, several at a time if that takes long. On error it also returns those that it has opened,
// in order too. Memory grows with the files that are really there, whatever n promises.
func openAll(n int, from source, open func(i int) (file, error)) (files []file, err error) {
	guarded := func(i int) (f file, err error) {
		err = mmapio.Guard(func() error {
			f, err = open(i)
			return err
		})
		return f, err
	}
	begun := time.Now()
	_, near := from.(*folder)
	for near && len(files) < n && time.Since(begun) < aloneFor {
		f, err := guarded(len(files))
		if err != nil {
			return files, err
		}
		files = append(files, f)
	}
	first := len(files)
	if first == n {
		return files, nil
	}
	var mu sync.Mutex
	opened := make(map[int]file)
	err = parallel.Each(min(openers, n-first), parallel.Range(uint64(n-first)), func(items iter.Seq[uint64]) error {
		for i := range items {
			f, err := guarded(first + int(i))
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
