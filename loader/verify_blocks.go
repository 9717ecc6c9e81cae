package loader

import (
	"context"
	"errors"
	"sync"

	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/loader/lz4block"
	"github.com/tensormap/tensormap/mmapio"
)

// blockCheck expands all compressed tensors of a model and keeps nothing: a file's checksum
// is right over whatever its writer wrote.
type blockCheck struct {
	v       *verifier
	tensors []Tensor

	mu    sync.Mutex
	next  int    // the tensor that is being dealt out
	block uint64 // its first block that nobody has taken on
	bad   map[*layout.Tensor]*layout.FormatError
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
	c := blockCheck{v: v, tensors: v.compressed, bad: make(map[*layout.Tensor]*layout.FormatError)}
	if err := inParallel(v.workers, c.stop, c.work); err != nil {
		return err
	}
	for _, t := range c.tensors {
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

// take is the next run of blocks, lo to hi-1 of t. Of a tensor that is bad there are no more.
func (c *blockCheck) take() (t Tensor, lo, hi uint64, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for ; c.next < len(c.tensors); c.next, c.block = c.next+1, 0 {
		t := c.tensors[c.next]
		lo, count := c.block, lz4block.Count(t.desc.Raw)
		if c.bad[t.desc] != nil || lo > 0 && lo >= count {
			continue
		}
		hi := count
		if t.file.mapping.Aliased() {
			hi = min(count, lo+checkedBlocks)
		}
		c.block = max(1, hi) // a tensor without blocks has its turn, too
		return t, lo, hi, true
	}
	return Tensor{}, 0, 0, false
}

func (c *blockCheck) work() error {
	sc := takeScratch()
	defer sc.give()
	sc.tensor = nil // what it holds of before has not been read now
	for {
		t, lo, hi, ok := c.take()
		if !ok {
			return nil
		}
		err := mmapio.Guard(func() error { return c.expand(sc, t, lo, hi) })
		if err != nil && !c.malformed(t, err) {
			return t.wrap(err)
		}
	}
}

// expand expands the blocks lo to hi-1 of t.
func (c *blockCheck) expand(sc *scratch, t Tensor, lo, hi uint64) error {
	if err := t.blocks().Empty(); err != nil {
		return err
	}
	for lo < hi {
		if err := context.Cause(c.v.ctx); err != nil {
			return err
		}
		s, err := t.stretch(sc, lo, hi)
		if err != nil {
			return err
		}
		for i := lo; i < s.hi; i++ {
			if _, err := s.block(sc, i); err != nil {
				return err
			}
		}
		_, size := s.table.Span(lo, s.hi)
		c.v.advance(size)
		lo = s.hi
	}
	return nil
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

// stop leaves nothing to take.
func (c *blockCheck) stop() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.next = len(c.tensors)
}
