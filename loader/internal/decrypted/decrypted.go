// Package decrypted reads the tensors of an encrypted file. It decrypts the blocks that hold what is asked for, and no others.
package decrypted

import (
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
	cipher     *encrypted.Cipher
	blockBytes uint64 // bytes of content
	tensors    []layout.Tensor
	byOffset   map[uint64]int // positions in tensors of all that have bytes
	scratch    sync.Pool      // *scratch
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
	f := &File{cipher: cipher, blockBytes: blockBytes, tensors: ix.Tensors, byOffset: make(map[uint64]int)}
	for i := range ix.Tensors {
		if ix.Tensors[i].Stored > 0 {
			f.byOffset[ix.Tensors[i].Offset] = i
		}
	}
	f.scratch.New = func() any {
		return &scratch{encrypted: make([]byte, f.storedBlock()), plain: make([]byte, 0, blockBytes), tensorIndex: -1}
	}
	return f
}

// storedBlock returns how many bytes of the file a full block takes.
func (f *File) storedBlock() uint64 { return f.blockBytes + encrypted.TagSize }

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
type Error struct{ *layout.FormatError }

// Unwrap returns the *layout.FormatError.
func (e *Error) Unwrap() error { return e.FormatError }

// FileReader reads the bytes of a file.
type FileReader interface {
	ReadAt(ctx context.Context, p []byte, off uint64) error
}

// maxFetched is how many bytes one request fetches.
const maxFetched = 16 << 20

// maxSerial is the largest number of blocks that one core decrypts alone.
const maxSerial = 4

// Content is the decrypted content of a tensor.
type Content struct {
	*File
	source     FileReader // of the file
	largeReads bool       // source is read by few large requests
	index      int        // of the tensor in File.tensors
	length     uint64     // decrypted bytes
}

// Content returns the content of t, a tensor of the file as Decrypted returns it. source reads the file: by few large requests if
// largeReads is true. Content reads nothing.
func (f *File) Content(t *layout.Tensor, source FileReader, largeReads bool) *Content {
	return &Content{f, source, largeReads, f.byOffset[t.Offset], t.Stored}
}

// Size returns the number of decrypted bytes.
func (c *Content) Size() uint64 { return c.length }

// View returns nil without an error: only ReadAt has decrypted bytes.
func (c *Content) View(context.Context, content.Env, uint64, uint64) ([]byte, error) { return nil, nil }

// Probe decrypts the last block, if there is one. sizeIsSure is true unless the file is read by large requests, as from a server: the
// other blocks then exist too. It fails if the last block is missing or not authentic.
func (c *Content) Probe(ctx context.Context) (sizeIsSure bool, err error) {
	if c.length > 0 {
		err = c.ReadAt(ctx, content.Env{}, make([]byte, 1), c.length-1)
	}
	return err == nil && !c.largeReads, err
}

// Cost asks for large reads, since ReadAt decrypts the many blocks of a large one on all cores. If the file is read by large requests,
// reading may wait for a network.
func (c *Content) Cost() content.Cost {
	return content.Cost{ReadBytes: content.RemoteRead, MayWait: c.largeReads}
}

// ReadAt fills p with the decrypted content from off on. It returns an *Error for a block that is not authentic, and layout.ErrInvalid if
// the content does not have these bytes. It also fails if reading does. After an error p is all zeros.
func (c *Content) ReadAt(ctx context.Context, _ content.Env, p []byte, off uint64) error {
	if len(p) == 0 {
		return nil
	}
	if !layout.Within(off, uint64(len(p)), c.length) {
		clear(p)
		return fmt.Errorf("%w: %d bytes at %d, where a tensor has %d", layout.ErrInvalid, len(p), off, c.length)
	}
	err := c.read(ctx, p, off)
	if err != nil {
		clear(p)
	}
	return err
}

// read fills p, which is not empty, with content from off on. More than maxSerial blocks are decrypted on all cores. If the file is read by
// large requests, it first fetches the stored bytes of several blocks. Each request is for at most maxFetched bytes of content. It fails if
// reading does, or for bytes that are not authentic.
func (c *Content) read(ctx context.Context, p []byte, off uint64) error {
	if c.largeReads && uint64(len(p)) > maxFetched {
		for len(p) > 0 { // requests end where blocks end, so that no block is read twice
			n := min(maxFetched-off%c.blockBytes, uint64(len(p)))
			if err := c.read(ctx, p[:n], off); err != nil {
				return err
			}
			p, off = p[n:], off+n
		}
		return nil
	}
	end := off + uint64(len(p))
	lo, hi := off/c.blockBytes, (end-1)/c.blockBytes+1 // the blocks lo to hi-1 have p
	if c.largeReads && hi-lo > 1 {
		fetched, err := Fetch(ctx, new([]byte), c, off, c, end)
		if err != nil {
			return err
		}
		inMemory := *c
		inMemory.source, c = fetched, &inMemory
	}
	workers := 1
	if hi-lo > maxSerial {
		workers = parallel.Workers(hi - lo)
	}
	return parallel.Each(workers, parallel.Range(hi-lo), func(items iter.Seq[uint64]) error {
		sc := c.scratch.Get().(*scratch) // which may have a block already
		defer c.scratch.Put(sc)
		for i := range items {
			if err := c.decryptInto(ctx, sc, p, off, lo+i); err != nil {
				return err
			}
		}
		return nil
	})
}

// decryptInto decrypts the block with this number, and writes to p the part of the block that lies in p. p has the content's bytes from off
// on, and some of the block lies in p. If a full block lies in p as a whole, decryptInto decrypts the block straight into p. Otherwise it
// decrypts into sc, unless an earlier call has done so, and copies the part. decryptInto fails if reading does. It returns an *Error for a
// block that is not authentic.
func (c *Content) decryptInto(ctx context.Context, sc *scratch, p []byte, off, number uint64) error {
	begin := number * c.blockBytes
	isFullAndInP := begin >= off && begin+c.blockBytes <= off+uint64(len(p)) // false for a last block that is short
	if isFullAndInP || !sc.plainIsKnown || sc.tensorIndex != c.index || sc.blockNumber != number {
		b, err := c.readBlock(ctx, sc, number)
		if err != nil {
			return err
		}
		dst := sc.plain[:0] // to append to
		if isFullAndInP {
			dst = p[begin-off:][:0:c.blockBytes]
		} else {
			sc.plainIsKnown = false
		}
		plain, ok := c.cipher.Open(&sc.nonce, dst, b, sc.entry, uint32(c.index), number)
		if !ok {
			at, _ := c.storedRange(begin, begin+1)
			count := (c.tensors[c.index].Stored + c.storedBlock() - 1) / c.storedBlock()
			return &Error{layout.Errorf(layout.APR2, at, "encryption", layout.ErrChecksum, "block %d of %d is not what was encrypted here", number, count)}
		}
		if isFullAndInP {
			return nil
		}
		sc.plain, sc.blockNumber, sc.plainIsKnown = plain, number, true
	}
	if begin < off { // p begins inside the block
		copy(p, sc.plain[off-begin:])
	} else {
		copy(p[begin-off:], sc.plain)
	}
	return nil
}

// readBlock reads the encrypted block with this number into sc.encrypted, and returns it. The block exists. sc is private memory, so nobody
// can change the block between the check of its tag and its decryption. It sets sc.tensorIndex, and sc.entry, which the tag covers too, to
// the tensor's. It fails if reading does.
func (c *Content) readBlock(ctx context.Context, sc *scratch, number uint64) ([]byte, error) {
	if sc.tensorIndex != c.index {
		sc.tensorIndex, sc.plainIsKnown = c.index, false
		sc.entry = apr2.AppendIdentity(sc.entry[:0], &c.tensors[c.index])
	}
	begin, end := c.storedRange(number*c.blockBytes, number*c.blockBytes+1)
	b := sc.encrypted[:end-begin]
	return b, c.source.ReadAt(ctx, b, begin)
}

// storedRange returns where the file has the encrypted blocks of the content's bytes off to end-1, one byte at least. The blocks are the
// file's bytes lo to hi-1.
func (c *Content) storedRange(off, end uint64) (lo, hi uint64) {
	t := &c.tensors[c.index]
	return t.Offset + off/c.blockBytes*c.storedBlock(), t.Offset + min(t.Stored, ((end-1)/c.blockBytes+1)*c.storedBlock())
}

// Fetch reads neighbouring encrypted blocks into *buf by one request, and returns a FileReader that has these blocks and nothing else of
// the file. The range begins with the block of byte off of the content first, and ends with the block of byte end-1 of the content last.
// first and last may be one content. Fetch may replace *buf by larger memory. The FileReader reads from *buf: it is valid until the caller
// uses *buf again. Fetch fails if reading does.
func Fetch(ctx context.Context, buf *[]byte, first *Content, off uint64, last *Content, end uint64) (FileReader, error) {
	from, _ := first.storedRange(off, off+1)
	_, upto := last.storedRange(end-1, end)
	n := int(upto - from)
	*buf = slices.Grow((*buf)[:0], n)[:n]
	return bytesAt{*buf, from}, first.source.ReadAt(ctx, *buf, from)
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
