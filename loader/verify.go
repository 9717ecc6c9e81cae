package loader

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"iter"
	"math/bits"
	"slices"
	"strings"

	"github.com/tensormap/tensormap/internal/parallel"
	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/layout/findings"
	"github.com/tensormap/tensormap/layout/manifest"
	"github.com/tensormap/tensormap/loader/internal/cache"
	"github.com/tensormap/tensormap/loader/internal/content"
	"github.com/tensormap/tensormap/scheme"
)

// VerifyOptions tune Verify. Nil and zero fields mean the defaults.
type VerifyOptions struct {
	// Workers is the number of goroutines that read. 0 means GOMAXPROCS, and at least 8 if the
	// model is not mapped: they wait more than they compute.
	Workers int
	// Progress, if set, is called with the number of bytes read and the number of all bytes to read: from
	// one goroutine at a time, with done never falling.
	Progress func(done, total uint64)
}

// Report is what Verify did and found.
type Report struct {
	// Checked names what was checked: the files' sections, such as "header" and "footer",
	// then "bounds", "overlaps", "alignment", "blocks" if tensors are compressed, and
	// checksums by their field, such as "crc32".
	Checked []string
	// Findings are in the order of the checks.
	Findings []Finding
	// BytesRead is the number of bytes that checksums were computed over.
	BytesRead uint64
}

// Finding is something wrong or odd in one file.
type Finding struct {
	File string // its path, or the name of its reader
	layout.Finding
}

func (f Finding) Error() string { return f.File + ": " + f.FormatError.Error() }

// Err returns all findings that are more than a warning as one error, or nil.
func (r *Report) Err() error {
	var errs []error
	for _, f := range r.Findings {
		if !f.Warning {
			errs = append(errs, f)
		}
	}
	return errors.Join(errs...)
}

// Verify checks all that can be checked, on all cores:
//
//   - structure, bounds and overlaps, which opening the model has already made sure of
//   - footer, sizes, alignment and metadata, by the audit of the model's format
//   - the checksums over the files' bytes
//   - the parts of quantized weights: none is missing, and all fit each other. A weight of a scheme that is not
//     decoded is a warning. So is an F8 tensor without a scale, or a weight whose list of groups has only zeros. In
//     SafeTensors, 8-bit integers without a scale are a warning if the name of their tensor ends with weight
//   - the blocks of compressed tensors, which it expands. A model that is not mapped is read twice
//     for that.
//
// Faults of the model are in the report. The error says that verifying itself failed or was
// cancelled. A file that has changed since it was opened is
// mmapio.ErrChanged, whatever it holds now: see Model.Changed.
func (m *Model) Verify(ctx context.Context, opts *VerifyOptions) (*Report, error) {
	if opts == nil {
		opts = &VerifyOptions{}
	}
	return readWhileOpen(ctx, m, nil, func(ctx context.Context) (*Report, error) { return m.verify(ctx, opts) })
}

// verify runs all checks, one after the other, and returns the report. The caller holds the model open. Faults of the model are in the
// report, and no error. verify fails if reading does, if a file has changed since it was opened, or when ctx ends.
func (m *Model) verify(ctx context.Context, opts *VerifyOptions) (*Report, error) {
	v := verifier{Model: m, progress: parallel.Progress{Report: opts.Progress}, workers: opts.Workers, findings: make([][]Finding, len(m.files)), checked: make(map[string]bool)}
	if f := m.files[0]; v.workers <= 0 {
		if v.workers = parallel.Cores(); !f.InPlace() || f.data.Waits() {
			v.workers = max(v.workers, 8) // workers wait more than they compute
		}
	}
	if err := v.audit(ctx); err != nil {
		return nil, err
	}
	v.planReading()
	for _, step := range []func(context.Context) error{v.computeSums, v.readCoded, v.checkWeights} {
		// A step may end without an error though ctx has ended: its last reads were under way then.
		if err := cmp.Or(step(ctx), context.Cause(ctx)); err != nil {
			return nil, err
		}
	}
	if err := m.checkUnchanged(); err != nil {
		return nil, err
	}
	v.compareSums()
	v.report.Findings = slices.Concat(v.findings...)
	return &v.report, nil
}

type verifier struct {
	*Model
	progress parallel.Progress // in bytes to read
	workers  int
	report   Report
	findings [][]Finding // by the file that they are about
	checked  map[string]bool

	sums      []sum
	digests   []*digest
	sumReader sumReader // of all that is summed
	coded     []Tensor  // compressed or encrypted, by file and offset
}

// sum is a checksum over bytes of the file fileIndex, which the file statedIn states.
type sum struct {
	layout.Checksum
	fileIndex, statedIn int // positions in Model.files
}

// digest is the SHA-256 of a whole file: as the file statedIn, a manifest, states it, and as computed.
type digest struct {
	manifest.ShardDigest
	statedIn int
	computed [sha256.Size]byte
}

// addChecked enters names into the report, each once. In some formats the file itself names its
// sections, as many as it likes.
func (v *verifier) addChecked(names ...string) {
	for _, name := range names {
		if !v.checked[name] {
			v.checked[name] = true
			v.report.Checked = append(v.report.Checked, name)
		}
	}
}

// addFinding adds a finding about the i-th file.
func (v *verifier) addFinding(file int, f layout.Finding) {
	v.findings[file] = append(v.findings[file], Finding{v.files[file].path, f})
}

// addTensorFinding adds found, with the name of t before its reason, to the findings about the file of t.
func (v *verifier) addTensorFinding(t Tensor, found layout.FormatError) {
	found.Reason = "tensor " + layout.Quote(t.desc().Name) + ", " + found.Reason
	v.addFinding(t.File(), layout.Finding{FormatError: &found})
}

// audit runs the checks of each file that need no checksum, and adds their findings. It collects what later steps work on: checksums,
// digests, and tensors whose bytes are compressed or encrypted. It lists the names of all checks in the report. It fails if reading
// does, if a file has changed, or when the context ends.
func (v *verifier) audit(ctx context.Context) error {
	for i, f := range v.files {
		if err := v.auditFile(ctx, i, f); err != nil {
			return inFile(f.path, err)
		}
	}
	isCompressed := func(t Tensor) bool { return isLZ4(t.desc()) }
	for _, t := range v.allStored() {
		isDecrypted := t.file().decrypted != nil && isRaw(t.desc()) // false if no key was given: decrypted is then nil
		if isCompressed(t) || isDecrypted {
			v.coded = append(v.coded, t)
		}
	}
	if len(v.files) > 1 {
		v.addChecked("shards")
	}
	if v.weightTable.Len() > 0 {
		v.addChecked("quantized")
	}
	if slices.ContainsFunc(v.coded, isCompressed) {
		v.addChecked("blocks")
	}
	if slices.ContainsFunc(v.files, func(f *file) bool { return f.decrypted != nil }) {
		v.addChecked("encryption")
	}
	for _, s := range v.sums {
		v.addChecked(s.Field)
	}
	for _, d := range v.digests {
		v.addChecked(d.Field)
	}
	return nil
}

// auditFile adds findings about v.files[i], which is f, that need no checksum. It collects the checksums that the file states, of itself
// or as a manifest. Malformed content is a finding. auditFile fails if reading does, if the file has changed, or when the context ends.
func (v *verifier) auditFile(ctx context.Context, i int, f *file) error {
	err := context.Cause(ctx)
	if size := f.data.Size(); size > 0 && err == nil {
		_, err = f.data.Probe(ctx, size-1, 1) // finds a file that has become shorter
	}
	if err = cmp.Or(err, f.changed()); err != nil {
		return err
	}
	for _, s := range f.index.Sections {
		v.addChecked(s.Name)
	}
	v.addChecked("bounds", "overlaps", "alignment")
	for _, finding := range f.layout.Audit(f.data.Input(ctx)) {
		if !f.checksItself(finding) {
			v.addFinding(i, finding)
		}
	}
	sums, err := f.layout.Checksums(f.data.Input(ctx))
	if fe := formatErrorIn(err); fe != nil {
		v.addFinding(i, layout.Finding{FormatError: fe})
		return nil
	}
	for _, c := range sums {
		v.sums = append(v.sums, sum{Checksum: c, fileIndex: i, statedIn: i})
	}
	if m, ok := f.layout.(*manifest.File); ok && err == nil {
		for _, c := range m.ShardChecksums() {
			v.sums = append(v.sums, sum{Checksum: c.Checksum, fileIndex: c.Shard, statedIn: i})
		}
		for _, d := range m.ShardDigests() {
			v.digests = append(v.digests, &digest{ShardDigest: d, statedIn: i})
		}
	}
	return err
}

// checksItself reports whether finding warns that the format's audit has not checked something which the loader checks: by
// Options.Trust a signature in the file, which a flag in the field "flags" announces, or by Options.Key the encryption.
func (f *file) checksItself(finding layout.Finding) bool {
	isUnchecked := finding.Warning && errors.Is(finding.Err, ErrUnsupported)
	isTrusted := finding.Field == "flags" && f.data.Digests() != nil
	isDecrypted := finding.Field == "encryption" && f.decrypted != nil
	return isUnchecked && (isTrusted || isDecrypted)
}

// planReading tells v.sumReader which bytes of each file to read: the whole file if it has a digest, else the ranges that checksums
// cover. It sets v.report.BytesRead to the number of bytes to read, and v.progress.Total to that plus the bytes that later steps read.
func (v *verifier) planReading() {
	covered := make([][]byteRange, len(v.files))
	for _, s := range v.sums {
		covered[s.fileIndex] = append(covered[s.fileIndex], byteRange{s.Offset, s.Offset + s.Size})
	}
	digests := make([]*[sha256.Size]byte, len(v.files)) // nil for a file that has none
	for _, d := range v.digests {
		digests[d.Shard] = &d.computed
	}
	for i, f := range v.files {
		v.sumReader.add(f.index.Size, covered[i], digests[i])
	}
	v.report.BytesRead = v.sumReader.bytes()
	v.progress.Total = v.report.BytesRead
	for _, t := range v.coded {
		v.progress.Total += t.desc().Stored // cannot overflow: the bytes lie in files that exist
	}
}

// computeSums computes all checksums and digests, on all workers. It fails if reading does, or when the context ends.
func (v *verifier) computeSums(ctx context.Context) error {
	return v.sumReader.readAll(v.workers, func(file int, p byteRange, buf func() []byte) (b []byte, err error) {
		f := v.files[file]
		if err = context.Cause(ctx); err == nil {
			b, err = f.view(ctx, buf, p.off, p.end-p.off)
		}
		if err == nil {
			v.progress.Add(p.end - p.off)
		}
		return b, inFile(f.path, err)
	})
}

// compareSums adds a finding for each checksum or digest whose computed value is not the one that a file states.
func (v *verifier) compareSums() {
	addMismatch := func(statedIn int, at uint64, field, format string, args ...any) {
		v.addFinding(statedIn, layout.Finding{FormatError: layout.Errorf(v.files[statedIn].index.Format, at, field, layout.ErrChecksum, format, args...)})
	}
	for _, s := range v.sums {
		switch got := v.sumReader.crc(s.fileIndex, s.Offset, s.Size); {
		case got == s.Want:
		case s.fileIndex == s.statedIn:
			addMismatch(s.statedIn, s.At, s.Field, "the file says %08x, but bytes %d to %d have %08x", s.Want, s.Offset, s.Offset+s.Size, got)
		default:
			addMismatch(s.statedIn, s.At, s.Field, "%s should have %08x, but has %08x", v.files[s.fileIndex].path, s.Want, got)
		}
	}
	for _, d := range v.digests {
		if d.computed != d.Want {
			addMismatch(d.statedIn, d.At, d.Field, "%s should have %x, but has %x", v.files[d.Shard].path, d.Want, d.computed)
		}
	}
}

// readCoded decrypts and decompresses all tensors of v.coded, and drops their elements: checksums do not prove that this is possible. Each
// worker takes one tensor at a time. readCoded adds a finding for the first bad block of each tensor, and skips the rest of that tensor. It
// fails if reading does, or when ctx ends.
func (v *verifier) readCoded(ctx context.Context) error {
	bad := make([]*layout.FormatError, len(v.coded)) // the first one of each tensor
	count := uint64(len(v.coded))
	err := parallel.Each(v.workers, parallel.Range(count), func(items iter.Seq[uint64]) error {
		var buf []byte
		for i := range items {
			err := v.readElements(ctx, v.coded[i], &buf)
			if bad[i] = formatErrorIn(err); bad[i] == nil && err != nil {
				return v.coded[i].wrap(err)
			}
		}
		return nil
	})
	for i, t := range v.coded {
		if bad[i] != nil && err == nil {
			v.addTensorFinding(t, *bad[i])
		}
	}
	return err
}

// readElements reads all elements of the stored tensor t, one or a few MiB at a time, into *buf, which it grows if need be. It adds the stored
// bytes of the elements to v.progress. It fails if reading, decrypting or decompressing does, or when ctx ends.
func (v *verifier) readElements(ctx context.Context, t Tensor, buf *[]byte) error {
	f, desc := t.file(), t.desc()
	elements := new(state).elementsFrom(f, desc, f.stored(desc)) // with a table of blocks of its own: no block was expanded before
	step := max(stepBytes, elements.Cost().ReadBytes/4)          // LZ4 in place expands one step on this core
	for off, reported := uint64(0), uint64(0); ; {
		n := min(desc.Raw-off, step)
		*buf = content.Grown(*buf, n)
		err := context.Cause(ctx)
		if err == nil {
			err = elements.ReadAt(ctx, content.Env{}, *buf, off) // also without elements, for its checks
		}
		if err != nil {
			return err
		}
		off += n
		stored := desc.Stored
		if off < desc.Raw { // the share of the elements that were read
			hi, lo := bits.Mul64(desc.Stored, off)
			stored, _ = bits.Div64(hi, lo, desc.Raw)
		}
		if stored > reported {
			v.progress.Add(stored - reported)
			reported = stored
		}
		if off == desc.Raw {
			return nil
		}
	}
}

// checkWeights adds findings about the parts of all logical tensors. It also warns of layers that only the configuration names, and of
// stored tensors that may be codes. It fails if reading does, or when the context ends.
func (v *verifier) checkWeights(ctx context.Context) error {
	lists := make([]findings.List, len(v.files))
	for i := range lists {
		lists[i] = findings.New(v.files[i].index.Format)
	}
	for i := range v.weightTable.Len() {
		if err := v.checkWeight(ctx, i, lists); err != nil {
			return err
		}
	}
	if v.weightTable.Len() > 0 && v.weightTable.Unmatched > 0 {
		n := v.weightTable.Unmatched
		lists[0].Warn(0, "quantized", nil, "the configuration has parameters of %d layers that the model does not have, such as %s", n, layout.Quote([]byte(v.weightTable.UnmatchedPath)))
	}
	looksForWeights := v.Format() == layout.SafeTensors && !v.opts.Stored
	for i := range v.tensors {
		t := &v.tensors[i]
		if _, isPart := v.weightTable.WeightOf(uint32(i)); looksForWeights && !isPart && scheme.MayBeCodes(t) {
			lists[t.File].Warn(t.Offset, "quantized", nil, "tensor %s: %v without a scale: it may be codes", layout.Quote(t.Name), t.DType)
		}
	}
	for i := range lists {
		for _, f := range lists[i].All() {
			v.addFinding(i, f)
		}
	}
	return nil
}

// checkWeight checks the parts of the i-th logical tensor, and adds what it finds to the list of the file that has the codes: a failure for
// invalid parts, else a warning. It fails if reading does, or when the context ends.
func (v *verifier) checkWeight(ctx context.Context, i int, lists []findings.List) error {
	w := v.weightTable.Weight(i)
	codes := &v.tensors[w.Parts[0].Tensor]
	list, name := &lists[codes.File], layout.Quote(codes.Name)
	zeroIndexTaken, err := "", w.Err // of a weight whose codes may belong to another one
	if err == nil {
		s := Tensor{model: v.Model, index: v.weightTable.Codes(i), isWeight: true}.state()
		if err = s.values.Uncached.Err(); err == nil {
			var pins cache.Pins
			defer v.cache.Unpin(&pins)
			zeroIndexTaken, err = s.weight.verify(ctx, content.Env{Pins: &pins})
		}
	}
	switch cause := context.Cause(ctx); {
	case err == nil:
		if zeroIndexTaken != "" {
			list.Warn(codes.Offset, "quantized", nil, "tensor %s: a group index of zeros alone, which programs understand differently, taken %s", name, zeroIndexTaken)
		}
	case cause != nil || isUnreadable(err):
		return cmp.Or(cause, err)
	case errors.Is(err, ErrUnsupported): // it breaks no rule
		list.Warn(codes.Offset, "quantized", nil, "tensor %s: %s", name, v.findingReason(codes.File, err))
	default:
		list.Add(layout.Errorf(v.files[codes.File].index.Format, codes.Offset, "quantized", layout.ErrInvalid, "tensor %s: %s", name, v.findingReason(codes.File, err)), findings.Failure)
	}
	return nil
}

// findingReason returns the text of err for a finding about v.files[i]. It leaves out that file's name and the word invalid, since the
// finding has both.
func (v *verifier) findingReason(i uint32, err error) string {
	if fileErr, ok := errors.AsType[*fileError](err); ok && fileErr.path == v.files[i].path {
		err = fileErr.err
	}
	if formatErr, ok := errors.AsType[*layout.FormatError](err); ok { // of text in another file, config.json: the finding's own offset is in this file
		return fmt.Sprintf("%s: offset %d: %s", formatErr.Field, formatErr.Offset, formatErr.Reason)
	}
	return strings.TrimPrefix(err.Error(), layout.ErrInvalid.Error()+": ")
}
