package loader

import (
	"cmp"
	"crypto/sha256"
	"hash/crc32"
	"iter"
	"maps"
	"slices"
	"sync"

	"github.com/tensormap/tensormap/internal/crcmath"
	"github.com/tensormap/tensormap/internal/parallel"
	"github.com/tensormap/tensormap/mmapio"
)

// stepBytes is the number of bytes that a worker reads at a time: small enough for progress, cancellation, and a core's cache.
const stepBytes = 1 << 20

// byteRange is the bytes of a file from off up to end.
type byteRange struct{ off, end uint64 }

// summedRange is at most stepBytes bytes of a file. Every checksum covers it wholly or not at all.
type summedRange struct {
	byteRange
	crc uint32
}

// sumTask is ranges of one file that one worker reads in order. They are all ranges if the file's digest is computed, else a single one.
type sumTask struct {
	file   int
	ranges []summedRange      // a part of sumReader.files
	digest *[sha256.Size]byte // to be computed, or nil
}

// sumReader computes checksums of files. It reads every byte once, however many checksums cover it.
type sumReader struct {
	files [][]summedRange // in the order of offsets
	tasks []sumTask
}

// add makes the ranges and tasks of the next file, of size bytes. covered has the bytes that checksums cover. add cuts them into ranges where
// a checksum's bytes begin or end, and so that no range exceeds stepBytes. If digest is not nil, the ranges cover the whole file, and readAll
// stores its SHA-256 in *digest.
func (r *sumReader) add(size uint64, covered []byteRange, digest *[sha256.Size]byte) {
	if digest != nil {
		covered = append(covered, byteRange{0, size})
	}
	edges := make(map[uint64]int) // by offset: how many ranges begin there, less how many end there
	for _, c := range covered {
		edges[c.off]++
		edges[c.end]--
	}
	var ranges []summedRange
	covering, at := 0, uint64(0) // covering counts the ranges that include the byte at offset at
	for _, edge := range slices.Sorted(maps.Keys(edges)) {
		for covering > 0 && at < edge {
			end := min(at+stepBytes, edge)
			ranges = append(ranges, summedRange{byteRange: byteRange{at, end}})
			at = end
		}
		covering += edges[edge]
		at = edge
	}
	file := len(r.files)
	r.files = append(r.files, ranges)
	if digest != nil {
		r.tasks = append(r.tasks, sumTask{file, ranges, digest})
		return
	}
	for i := range ranges {
		r.tasks = append(r.tasks, sumTask{file, ranges[i : i+1], nil})
	}
}

// bytes returns the number of bytes that readAll reads.
func (r *sumReader) bytes() (n uint64) {
	for _, t := range r.tasks {
		for _, p := range t.ranges {
			n += p.end - p.off
		}
	}
	return n
}

// readAll computes the checksums of all ranges, and the digests, on several workers. view returns the bytes of a range of a file: in
// place, or in the memory that buf returns, which is the worker's own. readAll fails if view does.
func (r *sumReader) readAll(workers int, view func(file int, p byteRange, buf func() []byte) ([]byte, error)) error {
	return parallel.Each(workers, parallel.Range(uint64(len(r.tasks))), func(items iter.Seq[uint64]) error {
		buf := sync.OnceValue(func() []byte { return mmapio.AlignedBytes(stepBytes) })
		for i := range items {
			t := &r.tasks[i]
			digest := sha256.New()
			for k := range t.ranges {
				p := &t.ranges[k]
				b, err := view(t.file, p.byteRange, buf)
				if err != nil {
					return err
				}
				p.crc = crc32.ChecksumIEEE(b)
				if t.digest != nil {
					digest.Write(b)
				}
			}
			if t.digest != nil {
				digest.Sum(t.digest[:0]) // which writes into *t.digest
			}
		}
		return nil
	})
}

// crc returns the CRC-32 of size bytes at off of the given file, which readAll has read. It combines the checksums of ranges: the bytes must be
// one of the ranges that add was given.
func (r *sumReader) crc(file int, off, size uint64) (crc uint32) {
	ranges := r.files[file]
	i, _ := slices.BinarySearchFunc(ranges, off, func(p summedRange, off uint64) int { return cmp.Compare(p.off, off) })
	for ; i < len(ranges) && ranges[i].off < off+size; i++ {
		crc = crcmath.Combine(crc, ranges[i].crc, crcmath.XPow8(ranges[i].end-ranges[i].off))
	}
	return crc
}
