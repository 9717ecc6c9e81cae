// Package decrypted reads the tensors of an encrypted file. A [Reader] shows each tensor's content from the tensor's
// offset on, as if it were stored in place of its encrypted blocks. It decrypts the blocks that hold what is
// asked for, and no others.
package decrypted

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"slices"
	"sync"

	"github.com/tensormap/tensormap/internal/parallel"
	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/layout/apr2"
	"github.com/tensormap/tensormap/layout/encrypted"
	"github.com/tensormap/tensormap/loader/internal/content"
)

// File decrypts the blocks of one file. It is safe for concurrent use.
type File struct {
	path    string
	cipher  *encrypted.Cipher
	block   uint64 // bytes of content
	tensors []layout.Tensor
	order   []uint32  // of the tensors that have bytes, by their offsets
	scratch sync.Pool // *scratch
}

// scratch is memory of one goroutine. It remembers the block that it holds: rows that are read one after the other
// decrypt a block once.
type scratch struct {
	nonce       encrypted.Nonce
	encrypted   []byte // a block as it is stored
	plain       []byte // the content of a block
	entry       []byte // index entry of the tensor at tensorIndex
	tensorIndex int    // in File.tensors, or -1
	blockNumber uint64 // of the block in plain, if known
	known       bool
}

// New returns the File at path, whose index is ix. Its blocks of content have block bytes.
func New(path string, cipher *encrypted.Cipher, block uint64, ix *layout.Index) *File {
	f := &File{path: path, cipher: cipher, block: block, tensors: ix.Tensors}
	for i := range ix.Tensors {
		if ix.Tensors[i].Stored > 0 {
			f.order = append(f.order, uint32(i))
		}
	}
	slices.SortFunc(f.order, func(a, b uint32) int { return cmp.Compare(ix.Tensors[a].Offset, ix.Tensors[b].Offset) })
	f.scratch.New = func() any {
		return &scratch{encrypted: make([]byte, block+encrypted.TagSize), plain: make([]byte, 0, block), tensorIndex: -1}
	}
	return f
}

// Content returns t, a tensor of the file, as it would be stored without encryption.
func (f *File) Content(t layout.Tensor) layout.Tensor {
	t.Stored, _ = encrypted.ContentBytes(t.Stored, f.block) // checked by the decoder
	t.Encoding = t.Encoding.Decrypted()
	return t
}

// Stored returns how many bytes n bytes of content take in the file.
func (f *File) Stored(n uint64) uint64 { return encrypted.StoredBytes(n, f.block) }

// Error says that a block is not the one that was encrypted, or was encrypted with another key. Its text leaves the
// tensor's name to the caller.
type Error struct {
	*layout.FormatError
	Tensor string
}

func (e *Error) Unwrap() error { return e.FormatError }

// wrong returns an Error about a block of tensor f.tensors[tensorIndex]. number counts the tensor's blocks from 0 on.
func (f *File) wrong(tensorIndex int, number uint64) error {
	t, each := &f.tensors[tensorIndex], f.block+encrypted.TagSize // each: bytes of a stored block
	return &Error{layout.Errorf(layout.APR2, t.Offset+number*each, "encryption", layout.ErrChecksum, "block %d of %d is not what was encrypted here",
		number, (t.Stored+each-1)/each), string(t.Name)}
}

// find returns the index in f.tensors of the tensor with content at off. It also returns how many bytes of its content
// lie before off, and how many from off on. An offset in no tensor is layout.ErrInvalid.
func (f *File) find(off uint64) (tensorIndex int, before, left uint64, err error) {
	i, found := slices.BinarySearchFunc(f.order, off, func(i uint32, off uint64) int { return cmp.Compare(f.tensors[i].Offset, off) })
	if !found {
		i-- // the last tensor that begins before off
	}
	if i >= 0 {
		t := &f.tensors[f.order[i]]
		content, _ := encrypted.ContentBytes(t.Stored, f.block)
		if before = off - t.Offset; before < content {
			return int(f.order[i]), before, content - before, nil
		}
	}
	return 0, 0, 0, fmt.Errorf("%w: offset %d is in no tensor", layout.ErrInvalid, off)
}

// Stored reads the bytes of a file.
type Stored interface {
	ReadAt(ctx context.Context, p []byte, off uint64) error
}

// Reader reads the content of tensors. R reads the file, and Whole wants that to be few large requests.
type Reader struct {
	*File
	R     Stored
	Whole bool
}

// maxFetched is how many bytes one request brings.
const maxFetched = 16 << 20

// maxSerial is the largest number of blocks that one core decrypts alone.
const maxSerial = 4

// Content is the content of a tensor: N bytes from Off on.
type Content struct {
	Reader
	Off, N uint64
}

// Size returns N.
func (c *Content) Size() uint64 { return c.N }

// View returns nil: blocks are decrypted when they are read.
func (c *Content) View(context.Context, content.Env, uint64, uint64) ([]byte, error) { return nil, nil }

// ReadAt decrypts the blocks that hold p.
func (c *Content) ReadAt(ctx context.Context, _ content.Env, p []byte, off uint64) error {
	return c.Reader.ReadAt(ctx, p, c.Off+off)
}

// Probe reads the last block. It is sure only of a file of this system.
func (c *Content) Probe(ctx context.Context) (sure bool, err error) {
	if c.N > 0 {
		err = c.Reader.ReadAt(ctx, make([]byte, 1), c.Off+c.N-1)
	}
	return err == nil && !c.Whole, err
}

// Cost wants large reads, which all cores decrypt.
func (c *Content) Cost() content.Cost { return content.Cost{Piece: content.Far, Waits: c.Whole} }

// ReadAt fills p with the decrypted content at off, which must lie in one tensor. Otherwise the error is
// layout.ErrInvalid; a wrong block is an *Error. After an error p is all zeros.
func (r Reader) ReadAt(ctx context.Context, p []byte, off uint64) error {
	if len(p) == 0 {
		return nil
	}
	tensorIndex, before, left, err := r.find(off)
	if err == nil && uint64(len(p)) > left {
		err = fmt.Errorf("%w: %d bytes at %d, where a tensor has %d", layout.ErrInvalid, len(p), off, left)
	}
	if err == nil {
		err = r.read(ctx, p, tensorIndex, before)
	}
	if err != nil {
		clear(p)
	}
	return err
}

// read fills p with content of the tensor r.tensors[tensorIndex], from byte at of it on. With r.Whole it requests at
// most maxFetched bytes at once. A single block is decrypted into scratch memory, which may have it from an earlier
// call.
func (r Reader) read(ctx context.Context, p []byte, tensorIndex int, at uint64) error {
	if r.Whole && uint64(len(p)) > maxFetched {
		for len(p) > 0 { // requests end where blocks do, for none to be read twice
			n := min(maxFetched-at%r.block, uint64(len(p)))
			if err := r.read(ctx, p[:n], tensorIndex, at); err != nil {
				return err
			}
			p, at = p[n:], at+n
		}
		return nil
	}
	lo, hi := at/r.block, (at+uint64(len(p))+r.block-1)/r.block
	if hi-lo == 1 {
		sc := r.take()
		defer r.scratch.Put(sc)
		if !sc.known || sc.tensorIndex != tensorIndex || sc.blockNumber != lo {
			if err := r.open(ctx, sc, tensorIndex, lo); err != nil {
				return err
			}
		}
		copy(p, sc.plain[at%r.block:])
		return nil
	}
	if r.Whole {
		fetched, err := r.Fetch(ctx, r.tensors[tensorIndex].Offset+at, uint64(len(p)))
		if err != nil {
			return err
		}
		r = fetched // reads the blocks in memory
	}
	workers := 1
	if hi-lo > maxSerial {
		workers = parallel.Workers(hi - lo)
	}
	return parallel.Each(workers, parallel.Range(hi-lo), func(items iter.Seq[uint64]) error {
		sc := r.take()
		defer r.scratch.Put(sc)
		for i := range items {
			if err := r.part(ctx, sc, p, tensorIndex, at, lo+i); err != nil {
				return err
			}
		}
		return nil
	})
}

func (r Reader) take() *scratch { return r.scratch.Get().(*scratch) }

// part decrypts the block with the given number of the tensor r.tensors[tensorIndex] and copies its share of p. p is
// the tensor's content from byte at on. A block that lies in p whole is decrypted there, without a copy.
func (r Reader) part(ctx context.Context, sc *scratch, p []byte, tensorIndex int, at, number uint64) error {
	begin := number * r.block
	if begin >= at && begin+r.block <= at+uint64(len(p)) { // all of it, and not the tensor's last
		b, err := r.stored(ctx, sc, tensorIndex, number)
		if err != nil {
			return err
		}
		dst := p[begin-at:][:r.block]
		if _, ok := r.cipher.Open(&sc.nonce, dst[:0:r.block], b, sc.entry, uint32(tensorIndex), number); !ok {
			return r.wrong(tensorIndex, number)
		}
		return nil
	}
	if err := r.open(ctx, sc, tensorIndex, number); err != nil {
		return err
	}
	if begin < at {
		copy(p, sc.plain[at-begin:])
	} else {
		copy(p[begin-at:], sc.plain)
	}
	return nil
}

// open decrypts the block with the given number of the tensor r.tensors[tensorIndex] into sc.plain. A block that was
// not encrypted as this one is an *Error.
func (r Reader) open(ctx context.Context, sc *scratch, tensorIndex int, number uint64) error {
	sc.known = false
	b, err := r.stored(ctx, sc, tensorIndex, number)
	if err != nil {
		return err
	}
	plain, ok := r.cipher.Open(&sc.nonce, sc.plain[:0], b, sc.entry, uint32(tensorIndex), number)
	if !ok {
		return r.wrong(tensorIndex, number)
	}
	sc.plain, sc.blockNumber, sc.known = plain, number, true
	return nil
}

// stored reads the encrypted block with the given number of the tensor r.tensors[tensorIndex] into sc.encrypted. This
// is private memory: nobody can change the block between the check of its tag and its decryption. It sets sc.entry
// too.
func (r Reader) stored(ctx context.Context, sc *scratch, tensorIndex int, number uint64) ([]byte, error) {
	t := &r.tensors[tensorIndex]
	if sc.tensorIndex != tensorIndex {
		sc.tensorIndex, sc.known = tensorIndex, false
		sc.entry = apr2.AppendIdentity(sc.entry[:0], t)
	}
	begin := number * (r.block + encrypted.TagSize)
	b := sc.encrypted[:min(uint64(len(sc.encrypted)), t.Stored-begin)]
	return b, r.R.ReadAt(ctx, b, t.Offset+begin)
}

// Fetch reads the encrypted blocks with the content from off to off+n, of one tensor or several, by one request. It
// returns a Reader that reads them from memory. off and off+n-1 must lie in tensors, else it fails.
func (r Reader) Fetch(ctx context.Context, off, n uint64) (Reader, error) {
	if n == 0 {
		return r, nil
	}
	begin, err := r.edge(off, false) // where the first block begins
	if err != nil {
		return r, err
	}
	end, err := r.edge(off+n-1, true) // where the last one ends
	if err != nil {
		return r, err
	}
	b := make([]byte, end-begin)
	if err := r.R.ReadAt(ctx, b, begin); err != nil {
		return r, err
	}
	return Reader{File: r.File, R: window{b, begin}}, nil
}

// edge returns the offset in the file at which the encrypted block with the content at off begins or, if end is true,
// ends. An offset in no tensor is layout.ErrInvalid.
func (r Reader) edge(off uint64, end bool) (uint64, error) {
	tensorIndex, before, _, err := r.find(off)
	if err != nil {
		return 0, err
	}
	t, number := &r.tensors[tensorIndex], before/r.block
	if end {
		number++
	}
	return t.Offset + min(t.Stored, number*(r.block+encrypted.TagSize)), nil
}

// window is a part of a file in memory.
type window struct {
	b   []byte
	off uint64
}

// ReadAt copies bytes of the window to p; off is an offset in the file. It fails if some lie outside the window.
func (w window) ReadAt(_ context.Context, p []byte, off uint64) error {
	b, err := layout.Bytes(w.b).Slice(off-w.off, uint64(len(p)))
	copy(p, b)
	return err
}
