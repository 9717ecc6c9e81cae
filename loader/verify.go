package loader

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"sync"

	"github.com/tensormap/tensormap/internal/parallel"
	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/layout/findings"
	"github.com/tensormap/tensormap/layout/manifest"
	"github.com/tensormap/tensormap/loader/internal/cache"
	"github.com/tensormap/tensormap/loader/internal/content"
	"github.com/tensormap/tensormap/loader/internal/decrypted"
	"github.com/tensormap/tensormap/scheme"
)

// VerifyOptions tune Verify. Nil and zero fields mean the defaults.
type VerifyOptions struct {
	// Workers is the number of goroutines that read. 0 means GOMAXPROCS, and at least 8 if the
	// model is not mapped: they wait more than they compute.
	Workers int
	// Progress, if set, is called with the number of bytes read and that of all bytes to read: from
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
	return readWhileOpen(ctx, m, func(ctx context.Context, m *Model) (*Report, error) { return m.verify(ctx, opts) })
}

// verify runs all checks, one after the other, and returns the report. The caller holds the model open. Faults of the model are in the
// report, and no error. verify fails if reading does, if a file has changed since it was opened, or when ctx ends.
func (m *Model) verify(ctx context.Context, opts *VerifyOptions) (*Report, error) {
	v := verifier{ctx: ctx, Model: m, progress: parallel.Progress{Report: opts.Progress}, workers: opts.Workers, findings: make([][]Finding, len(m.files)), checked: make(map[string]bool)}
	if f := m.files[0]; v.workers <= 0 {
		if v.workers = parallel.Cores(); !f.InPlace() || f.data.Waits() {
			v.workers = max(v.workers, 8) // which wait more than they compute
		}
	}
	if err := v.audit(); err != nil {
		return nil, err
	}
	v.planReading()
	for _, step := range []func() error{v.computeSums, v.expandBlocks, v.decryptTensors, v.checkWeights, m.checkUnchanged} {
		// A step may end without an error though ctx has ended: its last reads were under way then.
		if err := cmp.Or(step(), context.Cause(ctx)); err != nil {
			return nil, err
		}
	}
	v.compareSums()
	v.report.Findings = slices.Concat(v.findings...)
	return &v.report, nil
}

type verifier struct {
	*Model
	ctx      context.Context
	progress parallel.Progress // in bytes to read
	workers  int
	report   Report
	findings [][]Finding // by the file that they are about
	checked  map[string]bool

	sums       []sum
	digests    []*digest
	sumReader  sumReader // of all that is summed
	compressed []Tensor  // whose blocks are expanded
	encrypted  []Tensor  // others that are decrypted
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
// digests, compressed tensors and encrypted ones. It lists the names of all checks in the report. It fails as auditFile does.
func (v *verifier) audit() error {
	for i, f := range v.files {
		if err := v.auditFile(i, f); err != nil {
			return inFile(f.path, err)
		}
	}
	for i := range v.tensors {
		switch t := (Tensor{model: v.Model, index: uint32(i)}); {
		case t.desc().Encoding == layout.LZ4:
			v.compressed = append(v.compressed, t) // expanding it decrypts it too
		case t.desc().Encoding == layout.Raw && t.file().decrypted != nil:
			v.encrypted = append(v.encrypted, t)
		}
	}
	sortStored(v.compressed)
	sortStored(v.encrypted)
	if len(v.files) > 1 {
		v.addChecked("shards")
	}
	if v.weightTable.Len() > 0 {
		v.addChecked("quantized")
	}
	if len(v.compressed) > 0 {
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
func (v *verifier) auditFile(i int, f *file) error {
	if err := cmp.Or(context.Cause(v.ctx), f.checkLastByte(v.ctx), f.changed()); err != nil {
		return err
	}
	for _, s := range f.index.Sections {
		v.addChecked(s.Name)
	}
	v.addChecked("bounds", "overlaps", "alignment")
	for _, finding := range f.layout.Audit(f.data.Input(v.ctx)) {
		if !f.checksItself(finding) {
			v.addFinding(i, finding)
		}
	}
	sums, err := f.layout.Checksums(f.data.Input(v.ctx))
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
// cover. It sets v.report.BytesRead to their number, and v.progress.Total to that and the bytes that later steps read.
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
	for _, t := range slices.Concat(v.compressed, v.encrypted) {
		v.progress.Total += t.desc().Stored // cannot overflow: the bytes lie in files that exist
	}
}

// computeSums computes all checksums and digests, on all workers. It fails if reading does, or when the context ends.
func (v *verifier) computeSums() error {
	return v.sumReader.readAll(v.workers, func(file int, p byteRange, buf func() []byte) (b []byte, err error) {
		f := v.files[file]
		if err = context.Cause(v.ctx); err == nil {
			b, err = f.view(v.ctx, buf, p.off, p.end-p.off)
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

// checkedBlocks is how many blocks of a file in place a worker takes on at a time. Others are
// read tensor by tensor, so that the lengths of blocks come along with them.
const checkedBlocks = 64

// blockRange is the blocks lo to hi-1 of a tensor.
type blockRange struct {
	tensor Tensor
	blocks content.LZ4
	lo, hi uint64
}

// blockRanges yields the blocks of compressed tensors: up to checkedBlocks of a file in memory, else all of a tensor. A tensor without
// blocks has a range, too.
func blockRanges(tensors []Tensor) iter.Seq[blockRange] {
	return func(yield func(blockRange) bool) {
		for _, t := range tensors {
			blocks, _ := t.state().lz4Blocks()
			count := blocks.Count()
			step := max(count, 1)
			if blocks.InPlace() {
				step = checkedBlocks
			}
			for lo := uint64(0); lo < max(count, 1); lo += step {
				if !yield(blockRange{t, blocks, lo, min(count, lo+step)}) {
					return
				}
			}
		}
	}
}

// expandBlocks expands the blocks of all compressed tensors, which a checksum does not prove to be possible, and drops the values. It adds
// a finding for the first malformed block of each tensor. It fails if reading does, or when the context ends.
func (v *verifier) expandBlocks() error {
	var mu sync.Mutex
	malformed := make(map[uint32]*layout.FormatError) // the first one, by the tensor's position in the model
	countRead := func(n uint64) error {
		v.progress.Add(n)
		return context.Cause(v.ctx)
	}
	next, stop := iter.Pull(blockRanges(v.compressed))
	defer stop()
	err := parallel.Each(v.workers, next, func(items iter.Seq[blockRange]) error {
		for r := range items {
			err := r.blocks.CheckBlocks(v.ctx, r.lo, r.hi, countRead)
			fe := formatErrorIn(err)
			if err != nil && fe == nil {
				return r.tensor.wrap(err)
			}
			mu.Lock()
			if first := malformed[r.tensor.index]; fe != nil && (first == nil || fe.Offset < first.Offset) {
				malformed[r.tensor.index] = fe
			}
			mu.Unlock()
		}
		return nil
	})
	for _, t := range v.compressed {
		if fe := malformed[t.index]; fe != nil && err == nil {
			v.addTensorFinding(t, *fe)
		}
	}
	return err
}

// decryptTensors decrypts the tensors in v.encrypted, a few megabytes at a time. If content of a tensor is not authentic, it adds a
// finding and skips the rest of that tensor. It fails if reading does, or when the context ends.
func (v *verifier) decryptTensors() error {
	var buf []byte
	for _, t := range v.encrypted {
		for off := uint64(0); off < t.desc().Stored; {
			n := min(t.desc().Stored-off, 4*parallel.PieceBytes)
			buf = content.Grown(buf, n)
			err := context.Cause(v.ctx)
			if err == nil {
				err = t.state().stored.ReadAt(v.ctx, content.Env{}, buf, off)
			}
			if wrong, ok := errors.AsType[*decrypted.Error](err); ok {
				v.addTensorFinding(t, *wrong.FormatError)
				break
			}
			if err != nil {
				return t.wrap(err)
			}
			v.progress.Add(n)
			off += n
		}
	}
	return nil
}

// checkWeights adds findings about the parts of all logical tensors. It also warns of layers that only the configuration names, and of
// stored tensors that may be codes. It fails if reading does, or when the context ends.
func (v *verifier) checkWeights() error {
	lists := make([]findings.List, len(v.files))
	for i := range lists {
		lists[i] = findings.New(v.files[i].index.Format)
	}
	for i := range v.weightTable.Len() {
		if err := v.checkWeight(i, lists); err != nil {
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
func (v *verifier) checkWeight(i int, lists []findings.List) error {
	w := v.weightTable.Weight(i)
	codes := &v.tensors[w.Parts[0].Tensor]
	list, name := &lists[codes.File], layout.Quote(codes.Name)
	err, zeroIndexTaken := w.Err, ""
	if err == nil {
		zeroIndexTaken, err = v.checkParts(i)
	}
	switch cause := context.Cause(v.ctx); {
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
	if formatErr, ok := errors.AsType[*layout.FormatError](err); ok { // its offset is in config.json, not in this file
		return fmt.Sprintf("%s: offset %d: %s", formatErr.Field, formatErr.Offset, formatErr.Reason)
	}
	return strings.TrimPrefix(err.Error(), layout.ErrInvalid.Error()+": ")
}

// checkParts checks the parts of the i-th weight of the table, which can be decoded. zeroIndexTaken says how a group index of zeros alone
// was understood, such as "as it is"; else it is "". It fails if parts do not fit or cannot be read.
func (v *verifier) checkParts(i int) (zeroIndexTaken string, err error) {
	var own cache.Pins
	defer v.cache.Unpin(&own)
	t := Tensor{model: v.Model, index: v.weightTable.Codes(i), weight: uint32(i + 1)}
	s := t.state()
	if err := s.values.Err(); err != nil {
		return "", err
	}
	return s.weight.verify(v.ctx, content.Env{Pins: &own})
}
