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
	cipher      *encrypted.Cipher
	blockBytes  uint64 // bytes of content
	tensors     []layout.Tensor
	tensorOrder []uint32  // positions in tensors of all that have bytes, by their offsets
	scratch     sync.Pool // *scratch
}

// scratch is memory of one goroutine. It remembers the block that it holds: rows that are read one after the other
// decrypt a block once.
type scratch struct {
	nonce        encrypted.Nonce
	encrypted    []byte // a block as it is stored
	plain        []byte // the content of a block
	entry        []byte // index entry of the tensor at tensorIndex
	tensorIndex  int    // in File.tensors, or -1
	blockNumber  uint64 // of the block in plain, a block of the tensor at tensorIndex
	plainIsKnown bool   // whether plain has that block
}

// New returns a File whose index is ix and whose blocks cipher decrypts. Each block holds blockBytes of content, but the last
// one of a tensor may hold less. It reads nothing.
func New(cipher *encrypted.Cipher, blockBytes uint64, ix *layout.Index) *File {
	f := &File{cipher: cipher, blockBytes: blockBytes, tensors: ix.Tensors}
	for i := range ix.Tensors {
		if ix.Tensors[i].Stored > 0 {
			f.tensorOrder = append(f.tensorOrder, uint32(i))
		}
	}
	slices.SortFunc(f.tensorOrder, func(a, b uint32) int { return cmp.Compare(ix.Tensors[a].Offset, ix.Tensors[b].Offset) })
	f.scratch.New = func() any {
		return &scratch{encrypted: make([]byte, blockBytes+encrypted.TagSize), plain: make([]byte, 0, blockBytes), tensorIndex: -1}
	}
	return f
}

// Decrypted returns t, a tensor of the file, as it would be stored without encryption.
func (f *File) Decrypted(t layout.Tensor) layout.Tensor {
	t.Stored, _ = encrypted.ContentBytes(t.Stored, f.blockBytes) // ok: the decoder has checked the length
	t.Encoding = t.Encoding.Decrypted()
	return t
}

// StoredSize returns how many bytes n bytes of content take in the file.
func (f *File) StoredSize(n uint64) uint64 { return encrypted.StoredBytes(n, f.blockBytes) }

// Error says that a block is not the one that was encrypted, or was encrypted with another key. Its text leaves the
// tensor's name to the caller.
type Error struct {
	*layout.FormatError
	Tensor string
}

// Unwrap returns the *layout.FormatError.
func (e *Error) Unwrap() error { return e.FormatError }

// blockError returns an *Error which says that a block of the tensor f.tensors[tensorIndex] is not authentic. number counts the tensor's
// blocks from 0 on.
func (f *File) blockError(tensorIndex int, number uint64) error {
	t, storedBlock := &f.tensors[tensorIndex], f.blockBytes+encrypted.TagSize // in bytes
	return &Error{layout.Errorf(layout.APR2, t.Offset+number*storedBlock, "encryption", layout.ErrChecksum, "block %d of %d is not what was encrypted here",
		number, (t.Stored+storedBlock-1)/storedBlock), string(t.Name)}
}

// tensorAt returns the index in f.tensors of the tensor with the content at off. In such offsets, content begins at its tensor's Offset,
// as if it were stored there decrypted. contentOff is off less that Offset, and left the number of bytes of content from off on. It
// returns layout.ErrInvalid if off lies in no content.
func (f *File) tensorAt(off uint64) (tensorIndex int, contentOff, left uint64, err error) {
	i, found := slices.BinarySearchFunc(f.tensorOrder, off, func(i uint32, off uint64) int { return cmp.Compare(f.tensors[i].Offset, off) })
	if !found {
		i-- // the last tensor that begins before off
	}
	if i >= 0 {
		t := &f.tensors[f.tensorOrder[i]]
		content, _ := encrypted.ContentBytes(t.Stored, f.blockBytes)
		if contentOff = off - t.Offset; contentOff < content {
			return int(f.tensorOrder[i]), contentOff, content - contentOff, nil
		}
	}
	return 0, 0, 0, fmt.Errorf("%w: offset %d is in no tensor", layout.ErrInvalid, off)
}

// FileReader reads the bytes of a file.
type FileReader interface {
	ReadAt(ctx context.Context, p []byte, off uint64) error
}

// Reader reads the content of tensors. Source reads the file: by few large requests if LargeReads is set.
type Reader struct {
	*File
	Source     FileReader
	LargeReads bool
}

// maxFetched is how many bytes one request brings.
const maxFetched = 16 << 20

// maxSerial is the largest number of blocks that one core decrypts alone.
const maxSerial = 4

// Content is the content of a tensor: Length decrypted bytes, from offset Off of the file on.
type Content struct {
	Reader
	Off, Length uint64
}

// Size returns the number of decrypted bytes.
func (c *Content) Size() uint64 { return c.Length }

// View returns nil without an error: only ReadAt has decrypted bytes.
func (c *Content) View(context.Context, content.Env, uint64, uint64) ([]byte, error) { return nil, nil }

// ReadAt fills p with the decrypted content from off on. It fails as the Reader's ReadAt does.
func (c *Content) ReadAt(ctx context.Context, _ content.Env, p []byte, off uint64) error {
	return c.Reader.ReadAt(ctx, p, c.Off+off)
}

// Probe decrypts the last block, if there is one. sizeIsSure is true unless the file is read by large requests, as from a server: the
// other blocks then exist too. It fails if the last block is missing or not authentic.
func (c *Content) Probe(ctx context.Context) (sizeIsSure bool, err error) {
	if c.Length > 0 {
		err = c.Reader.ReadAt(ctx, make([]byte, 1), c.Off+c.Length-1)
	}
	return err == nil && !c.LargeReads, err
}

// Cost asks for large reads, since ReadAt decrypts the many blocks of a large one on all cores. With c.LargeReads, reading may wait for
// a network.
func (c *Content) Cost() content.Cost {
	return content.Cost{ReadBytes: content.RemoteRead, MayWait: c.LargeReads}
}

// ReadAt fills p with the decrypted content from off on. It returns an *Error for a block that is not authentic, and layout.ErrInvalid if
// p does not lie in one tensor. It also fails if reading does. After an error p is all zeros.
func (r Reader) ReadAt(ctx context.Context, p []byte, off uint64) error {
	if len(p) == 0 {
		return nil
	}
	tensorIndex, contentOff, left, err := r.tensorAt(off)
	if err == nil && uint64(len(p)) > left {
		err = fmt.Errorf("%w: %d bytes at %d, where a tensor has %d", layout.ErrInvalid, len(p), off, left)
	}
	if err == nil {
		err = r.read(ctx, p, tensorIndex, contentOff)
	}
	if err != nil {
		clear(p)
	}
	return err
}

// read fills p with content of the tensor r.tensors[tensorIndex], from contentOff of it on. More than maxSerial blocks are decrypted on all
// cores. With r.LargeReads it first fetches the stored bytes of several blocks, by one request for at most maxFetched bytes of content. It
// fails if reading does, or for bytes that are not authentic.
func (r Reader) read(ctx context.Context, p []byte, tensorIndex int, contentOff uint64) error {
	if r.LargeReads && uint64(len(p)) > maxFetched {
		for len(p) > 0 { // requests end where blocks do, for none to be read twice
			n := min(maxFetched-contentOff%r.blockBytes, uint64(len(p)))
			if err := r.read(ctx, p[:n], tensorIndex, contentOff); err != nil {
				return err
			}
			p, contentOff = p[n:], contentOff+n
		}
		return nil
	}
	// The blocks lo to hi-1 have p. hi is rounded up.
	lo, hi := contentOff/r.blockBytes, (contentOff+uint64(len(p))+r.blockBytes-1)/r.blockBytes
	if r.LargeReads && hi-lo > 1 {
		fetched, err := r.Fetch(ctx, r.tensors[tensorIndex].Offset+contentOff, uint64(len(p)))
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
		sc := r.scratch.Get().(*scratch) // which may have a block already
		defer r.scratch.Put(sc)
		for i := range items {
			if err := r.decryptInto(ctx, sc, p, tensorIndex, contentOff, lo+i); err != nil {
				return err
			}
		}
		return nil
	})
}

// decryptInto decrypts the block with this number of the tensor r.tensors[tensorIndex], and writes to p the part of it that p covers. p is
// the tensor's content from contentOff on, and has some of the block. If p has all of a full block, decryptInto decrypts it there.
// Otherwise it decrypts into sc, unless an earlier call has, and copies. It fails if reading does. It returns an *Error for a block that is
// not authentic.
func (r Reader) decryptInto(ctx context.Context, sc *scratch, p []byte, tensorIndex int, contentOff, number uint64) error {
	begin := number * r.blockBytes
	isFullAndInP := begin >= contentOff && begin+r.blockBytes <= contentOff+uint64(len(p)) // false for a last block that is short
	if isFullAndInP || !sc.plainIsKnown || sc.tensorIndex != tensorIndex || sc.blockNumber != number {
		b, err := r.readBlock(ctx, sc, tensorIndex, number)
		if err != nil {
			return err
		}
		dst := sc.plain[:0] // to append to
		if isFullAndInP {
			dst = p[begin-contentOff:][:0:r.blockBytes]
		} else {
			sc.plainIsKnown = false
		}
		plain, ok := r.cipher.Open(&sc.nonce, dst, b, sc.entry, uint32(tensorIndex), number)
		if !ok {
			return r.blockError(tensorIndex, number)
		}
		if isFullAndInP {
			return nil
		}
		sc.plain, sc.blockNumber, sc.plainIsKnown = plain, number, true
	}
	if begin < contentOff { // p begins inside the block
		copy(p, sc.plain[contentOff-begin:])
	} else {
		copy(p[begin-contentOff:], sc.plain)
	}
	return nil
}

// readBlock reads the encrypted block with this number of the tensor r.tensors[tensorIndex] into sc.encrypted, and returns it. The block
// exists. sc is private memory, so nobody can change the block between the check of its tag and its decryption. It sets sc.tensorIndex,
// and sc.entry, which the tag covers too, to those of the tensor. It fails if reading does.
func (r Reader) readBlock(ctx context.Context, sc *scratch, tensorIndex int, number uint64) ([]byte, error) {
	t := &r.tensors[tensorIndex]
	if sc.tensorIndex != tensorIndex {
		sc.tensorIndex, sc.plainIsKnown = tensorIndex, false
		sc.entry = apr2.AppendIdentity(sc.entry[:0], t)
	}
	begin := number * (r.blockBytes + encrypted.TagSize)
	b := sc.encrypted[:min(uint64(len(sc.encrypted)), t.Stored-begin)]
	return b, r.Source.ReadAt(ctx, b, t.Offset+begin)
}

// Fetch reads the encrypted blocks with the n bytes of content at off, of one tensor or several, by one request. off is addressed as in
// tensorAt. It returns a Reader that reads the blocks from memory, or r itself if n is 0. It fails if reading does. It returns
// layout.ErrInvalid if the first or the last byte lies in no tensor.
func (r Reader) Fetch(ctx context.Context, off, n uint64) (Reader, error) {
	if n == 0 {
		return r, nil
	}
	begin, _, err := r.blockRange(off)
	if err != nil {
		return r, err
	}
	_, end, err := r.blockRange(off + n - 1)
	if err != nil {
		return r, err
	}
	b := make([]byte, end-begin)
	if err := r.Source.ReadAt(ctx, b, begin); err != nil {
		return r, err
	}
	return Reader{File: r.File, Source: bytesAt{b, begin}}, nil
}

// blockRange returns the offsets in the file at which the encrypted block with the content at off begins and ends. It fails
// with layout.ErrInvalid if off lies in no tensor's content.
func (r Reader) blockRange(off uint64) (begin, end uint64, err error) {
	tensorIndex, contentOff, _, err := r.tensorAt(off)
	if err != nil {
		return 0, 0, err
	}
	t, storedBlock := &r.tensors[tensorIndex], r.blockBytes+encrypted.TagSize // in bytes
	number := contentOff / r.blockBytes
	return t.Offset + number*storedBlock, t.Offset + min(t.Stored, (number+1)*storedBlock), nil
}

// bytesAt is a part of a file in memory.
type bytesAt struct {
	b   []byte
	off uint64 // of b[0] in the file
}

// ReadAt copies the bytes at offset off of the file to p. It fails if one of the bytes lies outside w.
func (w bytesAt) ReadAt(_ context.Context, p []byte, off uint64) error {
	b, err := layout.Bytes(w.b).Slice(off-w.off, uint64(len(p)))
	copy(p, b)
	return err
}
