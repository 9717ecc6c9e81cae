package content

import (
	"context"
	"io"
	"iter"

	"github.com/tensormap/tensormap/internal/lz4block"
	"github.com/tensormap/tensormap/internal/parallel"
	"github.com/tensormap/tensormap/layout"
)

// LZ4 is the elements of a compressed tensor, which blocks of package lz4block hold. A file says where a
// block begins only by the lengths of all blocks before it: the [Table] walks these lengths, no
// further than it has to and no length twice.
type LZ4 struct {
	*Table
	Stored Content
}

// StoredRead is how many stored bytes are read at a time of a file that is not mapped. Two blocks of any size fit, so
// that each read has a whole element.
const StoredRead = RemoteRead

// InPlace reports whether the stored bytes are in memory, mapped or the caller's.
func (t LZ4) InPlace() bool { return t.Stored.Cost().InPlace() }

// Cost asks for reads of more blocks than one core expands, and for larger ones if the stored bytes are not in place.
func (t LZ4) Cost() Cost {
	c := t.Stored.Cost()
	if c.InPlace() {
		return Cost{ReadBytes: LZ4Read, MayWait: c.MayWait}
	}
	return Cost{ReadBytes: StoredRead, MayWait: c.MayWait}
}

// Size returns the number of bytes that all blocks yield.
func (t LZ4) Size() uint64 { return t.rawBytes }

// View returns nil without an error: only ReadAt has decompressed bytes.
func (t LZ4) View(context.Context, Env, uint64, uint64) ([]byte, error) { return nil, nil }

// Probe makes sure that the last stored byte exists, and checks the lengths of all blocks. sizeIsSure is true if all other stored bytes
// then exist too. If the stored bytes are not in memory, Probe checks nothing and reports false: each length would take a read. It fails
// if the last stored byte is missing, or for wrong lengths of blocks.
func (t LZ4) Probe(ctx context.Context) (sizeIsSure bool, err error) {
	if !t.InPlace() {
		return false, nil
	}
	if sizeIsSure, err = t.Stored.Probe(ctx); err == nil {
		err = t.CheckLengths(ctx)
	}
	return sizeIsSure, err
}

// storedBlocks is consecutive blocks whose stored bytes are in memory.
type storedBlocks struct {
	table  *Table
	lo, hi uint64 // the blocks lo to hi-1
	stored []byte // from the start of block lo on
}

// findInPlace makes sure that the offsets of the first n blocks are known. It reads lengths from stored bytes that View has. It
// fails if View does, or for wrong lengths of blocks.
func (t LZ4) findInPlace(ctx context.Context, n uint64) error {
	if t.KnownBlocks() >= n { // else the function literal would make every call allocate memory
		return nil
	}
	return t.FindBlocks(ctx, n, func(off, size uint64) ([]byte, error) { return t.Stored.View(ctx, Env{}, off, size) })
}

// read reads into sc the stored bytes of the first of p's blocks, at least one and as many as StoredRead bytes hold. It sets p.stored to
// these bytes, and p.hi to the number after the last block that they have. If blocks of p are not known yet, it reads about as many bytes
// as they take, and finds their lengths in them. It fails if reading does, or for wrong lengths of blocks.
func (p *storedBlocks) read(ctx context.Context, t LZ4, sc *scratch) error {
	readAt := func(off, n uint64) ([]byte, error) { // reads n stored bytes at off into sc
		sc.stored = Grown(sc.stored, n)
		return sc.stored, t.Stored.ReadAt(ctx, Env{}, sc.stored, off)
	}
	const few = 4
	isFewOrApart := p.hi-p.lo <= few || p.lo > t.KnownBlocks()
	known := p.lo
	if isFewOrApart && p.hi < t.Count() { // reads the lengths one by one: unless p ends with the tensor, they tell the number of bytes
		known = p.hi
	}
	if err := t.FindBlocks(ctx, known, readAt); err != nil {
		return err
	}
	off, _ := t.Span(p.lo, p.lo)
	size := t.storedBytes - off
	if t.KnownBlocks() >= p.hi {
		_, size = t.Span(p.lo, p.hi)
	} else if p.hi < t.Count() { // by the average of the blocks that are left; one block of any size fits
		size = min(size, max(size/(t.Count()-p.lo)*(p.hi-p.lo), lz4block.LengthBytes+lz4block.MaxStored))
	}
	stored, err := readAt(off, min(StoredRead, size))
	if err != nil {
		return err
	}
	if p.hi, err = t.FindBlocksIn(ctx, p.lo, p.hi, stored); err != nil {
		return err
	}
	_, size = t.Span(p.lo, p.hi)
	p.stored = stored[:size]
	return nil
}

// CheckLengths checks the lengths of all blocks, and that a tensor without elements has no stored bytes. It expands nothing. It fails
// if reading does, or for wrong lengths of blocks.
func (t LZ4) CheckLengths(ctx context.Context) error {
	if err := t.CheckEmptyTensor(); err != nil {
		return err
	}
	length := make([]byte, lz4block.LengthBytes) // of one block at a time: FindBlocks reads nothing else
	return t.FindBlocks(ctx, t.Count(), func(off, n uint64) ([]byte, error) {
		return length[:n], t.Stored.ReadAt(ctx, Env{}, length[:n], off)
	})
}

// expandTo fills dst with the tensor's expanded bytes from off on, which must lie in blocks of p. It expands whole blocks into dst itself.
// If dst has only a part of a block, the block is expanded into sc, unless sc has it already. It stays there until sc is used again.
// expandTo fails if the stored bytes are no LZ4 block of the right size.
func (p *storedBlocks) expandTo(sc *scratch, dst []byte, off uint64) error {
	base, _ := p.table.Span(p.lo, p.lo)
	for len(dst) > 0 {
		i, skip := off/lz4block.Size, int(off%lz4block.Size)
		yield := p.table.ExpandedSize(i)
		n := min(yield-skip, len(dst))
		inScratch := sc.hasBlock(p.table, i)
		if !inScratch {
			b := dst[:n]
			if n < yield {
				b, sc.table = sc.block[:yield], nil
			}
			at, size := p.table.Span(i, i+1)
			src := p.stored[at-base:][lz4block.LengthBytes:size]
			if !sc.decoder.Decode(b, src) {
				return p.table.Errorf(i, at, layout.ErrInvalid, "no LZ4 block of %d bytes that yields %d", len(src), len(b))
			}
			if inScratch = n < yield; inScratch {
				sc.table, sc.blockNumber = p.table, i
			}
		}
		if inScratch {
			copy(dst[:n], sc.block[skip:yield])
		}
		dst, off = dst[n:], off+uint64(n)
	}
	return nil
}

// maxSerial is the largest number of blocks that one core expands alone.
const maxSerial = 24

// expandToParallel fills dst with the tensor's expanded bytes from off on, which must lie in blocks of p, on all cores. It
// fails for blocks that cannot be expanded.
func (p storedBlocks) expandToParallel(dst []byte, off uint64) error {
	base, end := off/parallel.JobBytes*parallel.JobBytes, off+uint64(len(dst))
	n := parallel.Jobs(end - base)
	return parallel.Each(parallel.Workers(n), parallel.Range(n), func(parts iter.Seq[uint64]) error {
		sc := scratches.Get().(*scratch)
		defer sc.release()
		for i := range parts {
			from, upto := max(off, base+i*parallel.JobBytes), min(end, base+(i+1)*parallel.JobBytes)
			if err := p.expandTo(sc, dst[from-off:upto-off], from); err != nil {
				return err
			}
		}
		return nil
	})
}

// ReadAt fills p with the elements' bytes from off on, which it decompresses. All cores decompress more than maxSerial blocks, and one
// core decompresses fewer. The last block that p has only a part of stays in pooled memory for the next call. ReadAt fails if reading
// does, for malformed blocks, or if a tensor without elements has stored bytes.
func (t LZ4) ReadAt(ctx context.Context, _ Env, p []byte, off uint64) error {
	if len(p) == 0 {
		return t.CheckEmptyTensor()
	}
	sc := scratches.Get().(*scratch)
	defer sc.release()
	for end := off + uint64(len(p)); off < end; {
		var err error
		blocks := storedBlocks{table: t.Table, lo: off / lz4block.Size, hi: lz4block.Count(end)}
		switch isInScratch := blocks.hi == blocks.lo+1 && sc.hasBlock(t.Table, blocks.lo); {
		case isInScratch: // stored bytes are not needed
		case !t.InPlace():
			err = blocks.read(ctx, t, sc)
		default:
			if err = t.findInPlace(ctx, blocks.hi); err == nil {
				at, size := t.Span(blocks.lo, blocks.hi)
				blocks.stored, err = t.Stored.View(ctx, Env{}, at, size)
			}
		}
		if err != nil {
			return err
		}
		n := min(end, blocks.hi*lz4block.Size) - off
		if blocks.hi-blocks.lo <= maxSerial || parallel.Cores() == 1 {
			err = blocks.expandTo(sc, p[:n], off)
		} else {
			err = blocks.expandToParallel(p[:n], off)
		}
		if err != nil {
			return err
		}
		p, off = p[n:], off+n
	}
	return nil
}

// WriteStored writes the blocks to w as they are stored, with their lengths. It checks the lengths, but expands
// nothing. It fails if reading or w does, or for wrong lengths.
func (t LZ4) WriteStored(ctx context.Context, w io.Writer) error {
	if t.InPlace() {
		if err := t.CheckLengths(ctx); err != nil {
			return err
		}
		return Write(ctx, Env{}, t.Stored, w)
	}
	if err := t.CheckEmptyTensor(); err != nil {
		return err
	}
	sc := scratches.Get().(*scratch)
	defer sc.release()
	for lo := uint64(0); lo < t.Count(); {
		p := storedBlocks{table: t.Table, lo: lo, hi: t.Count()}
		if err := p.read(ctx, t, sc); err != nil {
			return err
		}
		if _, err := w.Write(p.stored); err != nil {
			return err
		}
		lo = p.hi
	}
	return nil
}
