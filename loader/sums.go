package loader

import (
	"cmp"
	"crypto/sha256"
	"hash"
	"hash/crc32"
	"iter"
	"maps"
	"slices"
	"sync"

	"github.com/tensormap/tensormap/internal/crcmath"
	"github.com/tensormap/tensormap/internal/parallel"
	"github.com/tensormap/tensormap/mmapio"
)

// pieceBytes is the number of bytes that a worker reads at a time: small enough for progress, cancellation, and a core's cache.
const pieceBytes = 1 << 20

// byteRange is the bytes of a file from off up to end.
type byteRange struct{ off, end uint64 }

// summedPiece is at most pieceBytes bytes of a file. Every checksum covers it wholly or not at all.
type summedPiece struct {
	fileIndex int
	byteRange
	crc uint32
}

// sumTask is the pieces from, …, to-1, which one worker reads in order: all of a file whose digest is
// computed, else one.
type sumTask struct {
	firstPiece, endPiece int
	digest               *[sha256.Size]byte // to be computed, or nil
}

// sumReader computes checksums of files. It reads every byte once, however many checksums cover it.
type sumReader struct {
	pieces []summedPiece // in the order of files and offsets
	tasks  []sumTask
}

// add makes the pieces and tasks of a file of size bytes. Files are added in the order of their numbers. covered has the ranges that
// checksums cover: pieces end where one begins or ends. If digest is not nil, readAll stores the SHA-256 of the whole file there.
func (r *sumReader) add(file int, size uint64, covered []byteRange, digest *[sha256.Size]byte) {
	if digest != nil {
		covered = append(covered, byteRange{0, size})
	}
	edges := make(map[uint64]int) // by offset: how many ranges begin there, less how many end there
	for _, c := range covered {
		edges[c.off]++
		edges[c.end]--
	}
	// covering counts the ranges that include the byte at offset at.
	from, covering, at := len(r.pieces), 0, uint64(0)
	for _, edge := range slices.Sorted(maps.Keys(edges)) {
		for covering > 0 && at < edge {
			end := min(at+pieceBytes, edge)
			r.pieces = append(r.pieces, summedPiece{fileIndex: file, byteRange: byteRange{at, end}})
			at = end
		}
		covering += edges[edge]
		at = edge
	}
	if digest != nil {
		r.tasks = append(r.tasks, sumTask{from, len(r.pieces), digest})
		return
	}
	for i := from; i < len(r.pieces); i++ {
		r.tasks = append(r.tasks, sumTask{firstPiece: i, endPiece: i + 1})
	}
}

// readAll computes the checksums of all pieces, and the digests, on several workers. view returns the bytes of a piece: in place, or
// in the memory that buf returns, which is the worker's own. readAll fails if view does.
func (r *sumReader) readAll(workers int, view func(p *summedPiece, buf func() []byte) ([]byte, error)) error {
	return parallel.Each(workers, parallel.Range(uint64(len(r.tasks))), func(items iter.Seq[uint64]) error {
		buf := sync.OnceValue(func() []byte { return mmapio.AlignedBytes(pieceBytes) })
		for i := range items {
			if err := r.runTask(&r.tasks[i], func(p *summedPiece) ([]byte, error) { return view(p, buf) }); err != nil {
				return err
			}
		}
		return nil
	})
}

// runTask computes the checksums of one task's pieces in order, and the digest if the task has one. It uses the bytes that view
// returns only until it calls view again. It fails if view does.
func (r *sumReader) runTask(task *sumTask, view func(p *summedPiece) ([]byte, error)) error {
	var digest hash.Hash
	if task.digest != nil {
		digest = sha256.New()
	}
	for i := task.firstPiece; i < task.endPiece; i++ {
		p := &r.pieces[i]
		b, err := view(p)
		if err != nil {
			return err
		}
		p.crc = crc32.ChecksumIEEE(b)
		if digest != nil {
			digest.Write(b)
		}
	}
	if digest != nil {
		digest.Sum(task.digest[:0]) // which writes into *task.digest
	}
	return nil
}

// fullPiece returns the factor that appends pieceBytes bytes to a CRC-32: see crcmath.Combine.
var fullPiece = sync.OnceValue(func() uint32 { return crcmath.XPow8(pieceBytes) })

// crc returns the CRC-32 of size bytes at off of the given file. It combines the checksums of the pieces there. The bytes must be one
// of the ranges that add was given, as add cuts pieces at their begin and end. readAll has returned before.
func (r *sumReader) crc(file int, off, size uint64) (crc uint32) {
	i, _ := slices.BinarySearchFunc(r.pieces, off, func(p summedPiece, off uint64) int {
		return cmp.Or(cmp.Compare(p.fileIndex, file), cmp.Compare(p.off, off))
	})
	for ; i < len(r.pieces) && r.pieces[i].fileIndex == file && r.pieces[i].off < off+size; i++ {
		p := r.pieces[i]
		pow := fullPiece()
		if p.end-p.off != pieceBytes {
			pow = crcmath.XPow8(p.end - p.off)
		}
		crc = crcmath.Combine(crc, p.crc, pow)
	}
	return crc
}
