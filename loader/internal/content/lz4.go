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

// Cost asks for reads of more blocks than one core expands, and for larger reads if the stored bytes are not in place.
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
		err = t.checkLengths(ctx)
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

// bytesToRead returns how many stored bytes to read at once for the blocks lo to hi-1, from the start of block lo on. The number is enough
// for one block, and at most StoredRead. The stored bytes are not in memory. For few blocks, and for blocks far behind the known ones,
// bytesToRead first reads the lengths that are not known, one by one, into sc. Otherwise it estimates the number. It fails if reading does,
// or for wrong lengths of blocks.
func (t LZ4) bytesToRead(ctx context.Context, sc *scratch, lo, hi uint64) (uint64, error) {
	const few = 4
	known := lo
	if hi < t.Count() && (hi-lo <= few || lo > t.KnownBlocks()) { // else all bytes up to the tensor's end are read
		known = hi
	}
	if err := t.FindBlocks(ctx, known, func(off, n uint64) ([]byte, error) {
		sc.stored = Grown(sc.stored, n)
		return sc.stored, t.Stored.ReadAt(ctx, Env{}, sc.stored, off)
	}); err != nil {
		return 0, err
	}
	off, _ := t.ByteRange(lo, lo)
	size := t.storedBytes - off
	if t.KnownBlocks() >= hi {
		_, size = t.ByteRange(lo, hi)
	} else if hi < t.Count() { // by the average of the blocks that are left; one block of any size fits
		size = min(size, max(size/(t.Count()-lo)*(hi-lo), lz4block.LengthBytes+lz4block.MaxStored))
	}
	return min(StoredRead, size), nil
}

// checkLengths checks the lengths of all blocks of stored bytes that View has, and that a tensor without elements has no stored bytes. It
// expands nothing. It fails if View does, or for wrong lengths of blocks.
func (t LZ4) checkLengths(ctx context.Context) error {
	if err := t.CheckEmptyTensor(); err != nil {
		return err
	}
	return t.findInPlace(ctx, t.Count())
}

// expandTo fills dst with the tensor's expanded bytes from off on, which must lie in blocks of p. It expands whole blocks into dst itself.
// If dst has only a part of a block, expandTo expands the block into sc, unless sc has it already, and copies the part. The block stays in sc
// until sc is used again. expandTo fails if the stored bytes are no LZ4 block of the right size.
func (p *storedBlocks) expandTo(sc *scratch, dst []byte, off uint64) error {
	base, _ := p.table.ByteRange(p.lo, p.lo)
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
			at, size := p.table.ByteRange(i, i+1)
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
	return parallel.Each(parallel.Workers(n), parallel.Range(n), func(items iter.Seq[uint64]) error {
		sc := scratches.Get().(*scratch)
		defer sc.release()
		for i := range items {
			from, upto := max(off, base+i*parallel.JobBytes), min(end, base+(i+1)*parallel.JobBytes)
			if err := p.expandTo(sc, dst[from-off:upto-off], from); err != nil {
				return err
			}
		}
		return nil
	})
}

// ReadAt fills p with the elements' bytes from off on, which it decompresses: on all cores together, or on one core up to maxSerial blocks.
// The last block that p has only a part of stays in pooled memory for the next call. ReadAt fails if reading does, for malformed blocks, or
// if a tensor without elements has stored bytes.
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
		case t.InPlace():
			if err = t.findInPlace(ctx, blocks.hi); err == nil {
				at, size := t.ByteRange(blocks.lo, blocks.hi)
				blocks.stored, err = t.Stored.View(ctx, Env{}, at, size)
			}
		default:
			var size uint64
			if size, err = t.bytesToRead(ctx, sc, blocks.lo, blocks.hi); err == nil {
				at, _ := t.ByteRange(blocks.lo, blocks.lo)
				blocks.stored = Grown(sc.stored, size)
				sc.stored = blocks.stored
				err = t.Stored.ReadAt(ctx, Env{}, blocks.stored, at)
			}
			if err == nil { // the next turn reads the blocks that were not read whole
				blocks.hi, err = t.FindBlocksIn(ctx, blocks.lo, blocks.hi, blocks.stored)
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
		if err := t.checkLengths(ctx); err != nil {
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
		off, _ := t.ByteRange(lo, lo)
		sc.stored = Grown(sc.stored, min(StoredRead, t.storedBytes-off))
		if err := t.Stored.ReadAt(ctx, Env{}, sc.stored, off); err != nil {
			return err
		}
		hi, err := t.FindBlocksIn(ctx, lo, t.Count(), sc.stored)
		if err != nil {
			return err
		}
		_, size := t.ByteRange(lo, hi)
		if _, err := w.Write(sc.stored[:size]); err != nil {
			return err
		}
		lo = hi
	}
	return nil
}
