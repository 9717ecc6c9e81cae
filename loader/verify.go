package loader

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/mmapio"
)

// VerifyOptions tune Verify. Nil and zero fields mean the defaults.
type VerifyOptions struct {
	// Workers is the number of goroutines that read; 0 means GOMAXPROCS.
	Workers int
	// Progress, if set, hears how many of how many bytes have been read: from one
	// goroutine at a time, with done never falling.
	Progress func(done, total uint64)
}

// Report is what Verify did and found.
type Report struct {
	// Checked names what was checked: the files' sections, such as "header" and "footer",
	// then "bounds", "overlaps", "alignment", and checksums by their field, such as "crc32".
	Checked []string
	// Findings are in the order of the checks.
	Findings []Finding
	// BytesRead is the number of bytes that checksums were computed over.
	BytesRead uint64
}

// Finding is something wrong or odd in one file.
type Finding struct {
	File string
	layout.Finding
}

func (f Finding) Error() string { return f.File + ": " + f.FormatError.Error() }

// Err is nil, or all findings that are more than a warning.
func (r *Report) Err() error {
	var errs []error
	for _, f := range r.Findings {
		if !f.Warning {
			errs = append(errs, f)
		}
	}
	return errors.Join(errs...)
}

// Verify checks all that can be checked: what opening the model has already made sure of
// (structure, bounds, overlaps), what its format's audit knows (footer, sizes, alignment,
// metadata), and the checksums over the files' bytes, with all cores. What is wrong with the
// model is in the report; the error says that verifying itself failed or was cancelled.
func (m *Model) Verify(ctx context.Context, opts *VerifyOptions) (*Report, error) {
	if !m.gate.enter() {
		return nil, m.closedError()
	}
	defer m.leave()
	if opts == nil {
		opts = &VerifyOptions{}
	}
	v := verifier{ctx: ctx, progress: opts.Progress, workers: opts.Workers}
	if v.workers <= 0 {
		v.workers = runtime.GOMAXPROCS(0)
	}
	for i := range m.files {
		if err := v.file(&m.files[i]); err != nil {
			return nil, fmt.Errorf("%s: %w", m.files[i].path, err)
		}
	}
	return &v.report, nil
}

type verifier struct {
	ctx      context.Context
	progress func(done, total uint64)
	workers  int
	report   Report
}

// check enters names into the report, once however many files there are.
func (v *verifier) check(names ...string) {
	for _, name := range names {
		if !slices.Contains(v.report.Checked, name) {
			v.report.Checked = append(v.report.Checked, name)
		}
	}
}

func (v *verifier) find(path string, f layout.Finding) {
	v.report.Findings = append(v.report.Findings, Finding{path, f})
}

// malformed reports err as a finding if it is about the file's content, rather than about
// bytes that could not be had.
func (v *verifier) malformed(path string, err error) bool {
	var fe *layout.FormatError
	if !errors.As(err, &fe) || unreadable(err) {
		return false
	}
	v.find(path, layout.Finding{FormatError: fe})
	return true
}

func (v *verifier) file(f *file) error {
	if err := v.ctx.Err(); err != nil {
		return err
	}
	if err := f.present(); err != nil {
		return err
	}
	for _, s := range f.index.Sections {
		v.check(s.Name)
	}
	v.check("bounds", "overlaps", "alignment")
	var sums []layout.Checksum
	err := mmapio.Guard(func() (err error) {
		for _, finding := range f.layout.Audit(f.mapping) {
			v.find(f.path, finding)
		}
		sums, err = f.layout.Checksums(f.mapping)
		return err
	})
	if err != nil && !v.malformed(f.path, err) {
		return err
	}
	for _, sum := range sums {
		v.check(sum.Field)
		got, err := v.crc(f, sum)
		if err != nil {
			return err
		}
		v.report.BytesRead += sum.Size
		if got != sum.Want {
			v.find(f.path, layout.Finding{FormatError: layout.Errorf(f.index.Format, sum.At, sum.Field, layout.ErrChecksum,
				"the file says %08x, but bytes %d to %d have %08x", sum.Want, sum.Offset, sum.Offset+sum.Size, got)})
		}
	}
	return nil
}

// present makes sure that the file has not shrunk since it was opened.
func (f *file) present() error {
	size := f.mapping.Size()
	if size == 0 {
		return nil
	}
	return f.readFull(make([]byte, 1), size-1)
}

// crcChunk is what a worker reads at a time: small enough for progress and cancellation,
// and to stay in a core's cache where it is copied; large enough that nothing else costs.
const crcChunk = 1 << 20

// crc computes a checksum in chunks on all workers, and combines the chunks' checksums.
func (v *verifier) crc(f *file, sum layout.Checksum) (uint32, error) {
	chunks := (sum.Size + crcChunk - 1) / crcChunk
	parts := make([]uint32, chunks)
	var next, done atomic.Uint64
	var progress sync.Mutex
	work := func() error {
		r := chunkReader{file: f}
		for {
			i := next.Add(1) - 1
			if i >= chunks {
				return nil
			}
			if err := v.ctx.Err(); err != nil {
				return err
			}
			off := i * crcChunk
			b, err := r.read(sum.Offset+off, min(crcChunk, sum.Size-off))
			if err != nil {
				return err
			}
			parts[i] = crc32.ChecksumIEEE(b)
			if v.progress != nil {
				progress.Lock()
				v.progress(done.Add(uint64(len(b))), sum.Size)
				progress.Unlock()
			}
		}
	}
	if err := inParallel(int(min(uint64(v.workers), chunks)), work); err != nil {
		return 0, err
	}
	crc := uint32(0)
	pow := xPow8(crcChunk)
	for i, part := range parts {
		if left := sum.Size - uint64(i)*crcChunk; left < crcChunk {
			pow = xPow8(left)
		}
		crc = combineCRC32(crc, part, pow)
	}
	return crc, nil
}

// inParallel runs n copies of work, each guarded against faults of mappings, and answers
// with the first one's error.
func inParallel(n int, work func() error) error {
	errs := make([]error, n)
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() { errs[i] = mmapio.Guard(work) })
	}
	wg.Wait()
	return cmp.Or(errs...)
}

// chunkReader gives access to one piece of a file after another.
type chunkReader struct {
	file *file
	buf  []byte // where the file is not mapped; reused
}

// read returns n bytes at off, valid until the next read.
func (r *chunkReader) read(off, n uint64) ([]byte, error) {
	if r.file.mapping.Aliased() {
		return r.file.mapping.Slice(off, n)
	}
	if r.buf == nil {
		r.buf = mmapio.AlignedBytes(crcChunk)
	}
	return r.buf[:n], r.file.readFull(r.buf[:n], off)
}
