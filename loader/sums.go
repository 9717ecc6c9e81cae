package loader

import (
	"cmp"
	"context"
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

// pieceBytes is the number of bytes that a worker reads at a time. It is small enough for progress,
// for cancellation, and for a copy to stay in a core's cache, and large enough that nothing else
// costs.
const pieceBytes = 1 << 20

// span is the bytes of a file from off up to end.
type span struct{ off, end uint64 }

// piece is at most pieceBytes bytes of a file. Every checksum covers it wholly or not at all.
type piece struct {
	file int
	span
	crc uint32
}

// part is the pieces from, …, to-1, which one worker reads in order: all of a file whose digest is
// computed, else one.
type part struct {
	from, to int
	digest   *[sha256.Size]byte // to be computed, or nil
}

// reading computes checksums of files. It reads every byte once, however many checksums cover it.
type reading struct {
	pieces []piece // in the order of files and offsets
	parts  []part
}

// add appends the pieces of a file that are to be read: all bytes in spans, or the whole file if digest is not nil, cut
// where a span begins or ends. digest is where run puts the SHA-256. A reader takes the pieces of a digest in order.
func (r *reading) add(file int, size uint64, covered []span, digest *[sha256.Size]byte) {
	if digest != nil {
		covered = append(covered, span{0, size})
	}
	begins := make(map[uint64]int) // spans that begin at an offset, less those that end there
	for _, s := range covered {
		begins[s.off]++
		begins[s.end]--
	}
	// covering counts the spans that include the byte at offset at.
	from, covering, at := len(r.pieces), 0, uint64(0)
	for _, edge := range slices.Sorted(maps.Keys(begins)) {
		for covering > 0 && at < edge {
			end := min(at+pieceBytes, edge)
			r.pieces = append(r.pieces, piece{file: file, span: span{at, end}})
			at = end
		}
		covering += begins[edge]
		at = edge
	}
	if digest != nil {
		r.parts = append(r.parts, part{from, len(r.pieces), digest})
		return
	}
	for i := from; i < len(r.pieces); i++ {
		r.parts = append(r.parts, part{from: i, to: i + 1})
	}
}

// run computes the checksums of all pieces and the digests, on several workers. It calls each for every piece, and each
// calls sum with the piece's file, which reads it and sets its checksum. The first error ends run.
func (r *reading) run(workers int, each func(p *piece, sum func(ctx context.Context, f *file) error) error) error {
	return parallel.Each(workers, parallel.Range(uint64(len(r.parts))), func(items iter.Seq[uint64]) error {
		buf := sync.OnceValue(func() []byte { return mmapio.AlignedBytes(pieceBytes) })
		for i := range items {
			if err := r.sum(&r.parts[i], buf, each); err != nil {
				return err
			}
		}
		return nil
	})
}

// sum computes the checksums of the pieces of one part in order, and its digest if one is asked for. buf returns the
// memory of the worker for bytes that are not in place. After an error there is no digest.
func (r *reading) sum(part *part, buf func() []byte, each func(p *piece, sum func(ctx context.Context, f *file) error) error) error {
	var digest hash.Hash
	if part.digest != nil {
		digest = sha256.New()
	}
	for i := range r.pieces[part.from:part.to] {
		p := &r.pieces[part.from+i]
		err := each(p, func(ctx context.Context, f *file) error {
			b, err := f.view(ctx, buf, p.off, p.end-p.off)
			if err != nil {
				return err
			}
			p.crc = crc32.ChecksumIEEE(b)
			if digest != nil {
				digest.Write(b)
			}
			return nil
		})
		if err != nil {
			return err // the digest may be torn by a fault, and must not be asked for
		}
	}
	if digest != nil {
		digest.Sum(part.digest[:0])
	}
	return nil
}

// fullPiece returns the factor by which a checksum passes over a piece of full length.
var fullPiece = sync.OnceValue(func() uint32 { return crcmath.XPow8(pieceBytes) })

// crc returns the CRC-32 of size bytes at off of a file, combined from those of its pieces. The bytes must be a span
// that was handed to add: then they are whole pieces.
func (r *reading) crc(file int, off, size uint64) (crc uint32) {
	i, _ := slices.BinarySearchFunc(r.pieces, off, func(p piece, off uint64) int {
		return cmp.Or(cmp.Compare(p.file, file), cmp.Compare(p.off, off))
	})
	for ; i < len(r.pieces) && r.pieces[i].file == file && r.pieces[i].off < off+size; i++ {
		p := r.pieces[i]
		pow := fullPiece()
		if p.end-p.off != pieceBytes {
			pow = crcmath.XPow8(p.end - p.off)
		}
		crc = crcmath.Combine(crc, p.crc, pow)
	}
	return crc
}
