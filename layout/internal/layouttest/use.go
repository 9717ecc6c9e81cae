package layouttest

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/tensormap/tensormap/internal/test/testmode"
	"github.com/tensormap/tensormap/layout"
)

// Answers has the results of all methods of a file.
type Answers struct {
	Metadata    layout.Metadata
	MetadataErr error
	Checksums   []layout.Checksum
	Findings    []layout.Finding
}

// Failed reports whether an audit found more than warnings.
func (a *Answers) Failed() bool {
	return slices.ContainsFunc(a.Findings, func(f layout.Finding) bool { return !f.Warning })
}

// Use decodes data that may be damaged in any way, and calls all methods. Either the data is
// refused in good form, and Use returns no file. Or the file keeps the promises of an index and of
// its methods.
func (x *Format[F]) Use(t testing.TB, data layout.Bytes) (f F) {
	t.Helper()
	f, err := x.Decode(data, nil)
	if err != nil {
		x.WellFormed(t, data, err)
		return wantNone(t, f)
	}
	CheckIndex(t, f.Index(), data)
	got := x.Again(t, f, data)
	if x.Promises != nil {
		x.Promises(t, f, data, got)
	}
	return f
}

// wantNone returns no file. It fails the test if f, which came with an error, is one.
func wantNone[F File](t testing.TB, f F) (none F) {
	t.Helper()
	if f != none {
		t.Errorf("an error, and nevertheless a file: %+v", f)
	}
	return none
}

// Again calls all methods of f, which was decoded from data or from its earlier contents. Each result may
// be an error, but one in good form.
func (x *Format[F]) Again(t testing.TB, f F, data layout.Bytes) *Answers {
	t.Helper()
	wellFormed := func(err error) {
		t.Helper()
		if err != nil {
			x.WellFormed(t, data, err)
		}
	}
	md, mdErr := f.Metadata(data)
	if wellFormed(mdErr); mdErr == nil {
		if _, err := md.MarshalJSON(); err != nil {
			t.Errorf("metadata: %v", err)
		}
	}
	sums, err := f.Checksums(data)
	wellFormed(err)
	for _, s := range sums {
		if !layout.Within(s.Offset, s.Size, data.Size()) || !layout.Within(s.At, 4, data.Size()) {
			t.Errorf("checksum %+v of %d bytes", s, len(data))
		}
	}
	findings := f.Audit(data)
	for _, finding := range findings {
		x.WellFormed(t, data, finding.FormatError)
	}
	if s, ok := any(f).(layout.Summarizer); ok {
		_, err := s.Summary(data)
		wellFormed(err)
	}
	if g, ok := any(f).(layout.Grapher); ok {
		_, err := g.Graph(data)
		wellFormed(err)
	}
	for i := range f.Index().Tensors {
		if tensor := &f.Index().Tensors[i]; tensor.Encoding.Packed() {
			_, err := elements(f, data, tensor)
			wellFormed(err)
		}
	}
	return &Answers{md, mdErr, sums, findings}
}

// WellFormed makes sure that an error says what is wrong, and where in data.
func (x *Format[F]) WellFormed(t testing.TB, data layout.Bytes, err error) {
	t.Helper()
	var e *layout.FormatError
	if !errors.As(err, &e) || e.Format != x.ID || e.Field == "" || e.Reason == "" || e.Err == nil || e.Offset > uint64(len(data)) {
		t.Errorf("an error in bad form, of %d bytes: %v", len(data), err)
	}
}

// CheckError does the work of WantError for an error of x's format.
func (x *Format[F]) CheckError(t testing.TB, err, sentinel error, field string, offset uint64, reason string) {
	t.Helper()
	WantError(t, err, x.ID, offset, field, sentinel, reason)
}

// Refusal is a damaged file, and the error of decoding it. The struct has no name of its own, for tables
// without the names of fields.
type Refusal = struct {
	Name   string
	File   layout.Bytes
	Want   error
	Field  string
	Offset uint64
	Reason string // a part of it
}

// CheckRefused decodes files, each in a test of its own. All must be refused as they say.
func (x *Format[F]) CheckRefused(t *testing.T, files []Refusal) {
	for _, r := range files {
		t.Run(r.Name, func(t *testing.T) {
			f, err := x.Decode(r.File, nil)
			x.CheckError(t, err, r.Want, r.Field, r.Offset, r.Reason)
			wantNone(t, f)
		})
	}
}

// WantError checks all that a FormatError says: its place, its field, its sentinel, and words
// of its reason.
func WantError(t testing.TB, err error, f layout.Format, at uint64, field string, sentinel error, words ...string) {
	t.Helper()
	var e *layout.FormatError
	if !errors.As(err, &e) || e.Format != f || e.Offset != at || e.Field != field || !errors.Is(err, sentinel) {
		t.Errorf("error %v\nwant %s: offset %d: %s: … (%v)", err, f, at, field, sentinel)
		return
	}
	for _, w := range words {
		if !strings.Contains(e.Reason, w) {
			t.Errorf("error %v lacks %q", err, w)
		}
	}
}

// Found lists what Audit finds in a file as field@offset. Failures have a "!" before them.
func (x *Format[F]) Found(t testing.TB, in layout.Input) string {
	t.Helper()
	var list []string
	for _, f := range x.MustDecode(t, in).Audit(in) {
		mark := "!"
		if f.Warning {
			mark = ""
		}
		list = append(list, fmt.Sprintf("%s%s@%d", mark, f.Field, f.Offset))
	}
	return strings.Join(list, " ")
}

// elements returns the bytes that users see of a tensor that is not compressed.
func elements(f layout.File, data layout.Bytes, tensor *layout.Tensor) ([]byte, error) {
	if !tensor.Encoding.Packed() {
		return data.Slice(tensor.Offset, tensor.Stored)
	}
	dst := make([]byte, tensor.Raw)
	return dst, f.(layout.Unpacker).Unpack(data, tensor, dst)
}

// Misused makes calls of w, a writer. All but the last must succeed. It returns the error
// of the last. All later calls must return the same error: callers that look only at the error of
// Close must learn of the first one.
func Misused[W any](t testing.TB, w W, calls []func(W) error, later ...func(W) error) error {
	t.Helper()
	last := len(calls) - 1
	for i, call := range calls[:last] {
		if err := call(w); err != nil {
			t.Fatalf("call %d: %v", i, err)
		}
	}
	err := calls[last](w)
	if err == nil {
		t.Fatal("no error")
	}
	for i, call := range later {
		if again := call(w); again != err {
			t.Errorf("later call %d: %v, want %v", i, again, err)
		}
	}
	return err
}

// Bound limits the memory that a file may cost: some bytes for each of its own, and some more.
type Bound struct {
	PerByte, Fixed uint64
}

// Check makes sure that do keeps to b. It works on a file or an index of size bytes. The race detector has slices.Grow
// take its memory twice, so twice as much is allowed then.
func (b Bound) Check(t testing.TB, what string, size int, do func()) {
	t.Helper()
	got, limit := testmode.Allocated(do), b.PerByte*uint64(size)+b.Fixed
	if testmode.Races() {
		limit *= 2
	}
	if got > limit {
		t.Errorf("%s: %d bytes made it allocate %d, more than %d", what, size, got, limit)
	}
}
