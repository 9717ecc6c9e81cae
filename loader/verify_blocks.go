package loader

import (
	"context"
	"errors"
	"iter"
	"sync"

	"github.com/tensormap/tensormap/internal/parallel"
	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/mmapio"
)

// blockCheck expands all compressed tensors of a model and keeps nothing: a file's checksum
// is right over whatever its writer wrote.
type blockCheck struct {
	mu      sync.Mutex
	tensors []Tensor // to check; the first one is being dealt out
	block   uint64   // its first block that nobody has taken on
	bad     map[*layout.Tensor]*layout.FormatError
}

// tensors are those that are stored so, in the order in which they are.
func (v *verifier) tensors(e layout.Encoding) (tensors []Tensor) {
	for i := range v.model.tensors {
		if desc := &v.model.tensors[i]; desc.Encoding == e {
			tensors = append(tensors, Tensor{desc, v.files[desc.File], nil})
		}
	}
	sortStored(tensors)
	return tensors
}

// blocks checks the blocks of v.compressed.
func (v *verifier) blocks() error {
	if len(v.compressed) == 0 {
		return nil
	}
	c := blockCheck{tensors: v.compressed, bad: make(map[*layout.Tensor]*layout.FormatError)}
	err := parallel.Each(v.workers, c.next, func(items iter.Seq[blockRange]) error {
		for r := range items {
			err := mmapio.Guard(func() error {
				return r.t.blocks().Check(r.lo, r.hi, func(n uint64) error {
					v.progress.Add(n)
					return context.Cause(v.ctx)
				})
			})
			if err != nil && !c.malformed(r.t, err) {
				return r.t.wrap(err)
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	for _, t := range v.compressed {
		if fe := c.bad[t.desc]; fe != nil {
			found := *fe
			found.Reason = "tensor " + layout.Quote(t.desc.Name) + ", " + found.Reason
			v.find(t.File(), layout.Finding{FormatError: &found})
		}
	}
	return nil
}

// checkedBlocks is how many blocks of a mapped file a worker takes on at a time. Others are
// read tensor by tensor, so that the lengths of blocks come along with them.
const checkedBlocks = 64

// blockRange is the blocks lo to hi-1 of t.
type blockRange struct {
	t      Tensor
	lo, hi uint64
}

// next returns the blocks to check next. A tensor that is bad has no more.
func (c *blockCheck) next() (r blockRange, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for ; len(c.tensors) > 0; c.tensors, c.block = c.tensors[1:], 0 {
		t := c.tensors[0]
		lo, count := c.block, t.blocks().Count()
		if c.bad[t.desc] != nil || lo > 0 && lo >= count {
			continue
		}
		hi := count
		if t.file.mapping.Aliased() {
			hi = min(count, lo+checkedBlocks)
		}
		c.block = max(1, hi) // a tensor without blocks has its turn, too
		return blockRange{t, lo, hi}, true
	}
	return r, false
}

// malformed notes what is wrong with t's blocks, the first of them, where err is about that.
func (c *blockCheck) malformed(t Tensor, err error) bool {
	var fe *layout.FormatError
	if !errors.As(err, &fe) || unreadable(err) {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if first := c.bad[t.desc]; first == nil || fe.Offset < first.Offset {
		c.bad[t.desc] = fe
	}
	return true
}
