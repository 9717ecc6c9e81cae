package loader

import (
	"errors"
	"iter"
	"sync"

	"github.com/tensormap/tensormap/internal/parallel"
	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/mmapio"
)

// blockCheck expands compressed tensors and keeps nothing. A file's checksum does not tell that
// this works: it is right over whatever the writer wrote.
type blockCheck struct {
	mu      sync.Mutex
	tensors []Tensor // to check; the first one is being dealt out
	block   uint64   // its first block that nobody has taken on
	bad     map[*layout.Tensor]*layout.FormatError
}

// checkBlocks expands the blocks of compressed tensors. It returns the first error in each
// tensor's blocks. read hears how many stored bytes have been read, and may end the check.
func checkBlocks(tensors []Tensor, workers int, read func(n uint64) error) (map[*layout.Tensor]*layout.FormatError, error) {
	c := blockCheck{tensors: tensors, bad: make(map[*layout.Tensor]*layout.FormatError)}
	return c.bad, parallel.Each(workers, c.next, func(items iter.Seq[blockRange]) error {
		for r := range items {
			err := mmapio.Guard(func() error { return r.t.blocks().Check(r.lo, r.hi, read) })
			if err != nil && !c.malformed(r.t, err) {
				return r.t.wrap(err)
			}
		}
		return nil
	})
}

// checkedBlocks is how many blocks of a file in place a worker takes on at a time. Others are
// read tensor by tensor, so that the lengths of blocks come along with them.
const checkedBlocks = 64

// blockRange names the blocks lo to hi-1 of t.
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
		if t.file.access() == inPlace {
			hi = min(count, lo+checkedBlocks)
		}
		c.block = max(1, hi) // a tensor without blocks has its turn, too
		return blockRange{t, lo, hi}, true
	}
	return r, false
}

// malformed keeps err for t if it is about the content of a block, and the first such error.
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
