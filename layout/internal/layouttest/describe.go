package layouttest

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"math/big"
	"reflect"
	"slices"
	"testing"

	"github.com/tensormap/tensormap/layout"
)

// Description has the contents of a fixture according to the program that wrote it, or to another reader
// of its format.
type Description struct {
	File     string
	Format   string
	Version  string
	Size     uint64
	Metadata json.RawMessage
	Tensors  []Tensor
	// Files are the shards of a split model, with the metadata of each.
	Files []struct {
		Path     string
		Metadata json.RawMessage
	}
	Verify   string   // ok or fail
	Findings []string // the fields of what an audit finds, warnings too, and of wrong checksums
	// Error says why the file must be refused. Nothing else is set then.
	Error *struct {
		Field  string
		Offset uint64
	}
}

// Tensor is a tensor of a Description.
type Tensor struct {
	Name, DType, Encoding string
	Shape                 []int
	File                  int // which of Files it is in
	Offset, Stored, Raw   uint64
	ZeroCopy              *bool `json:"zero_copy"` // nil: not known
	Scale                 *float64
	ZeroPoint             *int64 `json:"zero_point"`
	StoredSHA256          string `json:"stored_sha256"`
	RawSHA256             string `json:"raw_sha256"` // of the elements; "": not known
}

// Witness compares every fixture with its description, each in a test of its own. It leaves out
// split files. also, if it is not nil, compares what else the format has, in files
// that are in order.
func (x *Format[F]) Witness(t *testing.T, also func(t *testing.T, f F, data layout.Bytes, name string)) {
	for _, fixture := range x.Fixtures(t) {
		if fixture.Want.Files != nil {
			continue
		}
		t.Run(fixture.Name, func(t *testing.T) {
			want := &fixture.Want
			mapped := slices.Clone(fixture.Data)
			f, err := x.Decode(mapped, nil)
			clear(mapped) // an index is memory of its own
			if want.Error != nil {
				wantNone(t, f)
				WantError(t, err, x.ID, want.Error.Offset, want.Error.Field, err)
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			x.CheckDescribed(t, f, fixture.Data, want)
			if also != nil {
				also(t, f, fixture.Data, fixture.Name)
			}
		})
	}
}

// CheckDescribed compares a file with its description.
func (x *Format[F]) CheckDescribed(t testing.TB, f F, data layout.Bytes, want *Description) {
	t.Helper()
	ix := f.Index()
	if ix.Format != x.ID || ix.Version != want.Version || ix.Size != want.Size {
		t.Errorf("%v version %q, %d bytes; want %q, %d", ix.Format, ix.Version, ix.Size, want.Version, want.Size)
	}
	CheckTensors(t, f, data, want.Tensors)
	x.CheckMetadata(t, f, data, want.Metadata)
	CheckFindings(t, f, data, want.Verify, want.Findings)
}

// CheckTensors compares the tensors of a file, in order, and the bytes of each.
func CheckTensors(t testing.TB, f layout.File, data layout.Bytes, want []Tensor) {
	t.Helper()
	ix := f.Index()
	if len(ix.Tensors) != len(want) {
		t.Fatalf("%d tensors, want %d", len(ix.Tensors), len(want))
	}
	for i, w := range want {
		got := &ix.Tensors[i]
		if !w.describes(got) {
			t.Errorf("tensor %d: got %+v, want %+v", i, got, w)
			continue
		}
		if zeroCopy := got.Encoding == layout.Raw && ix.Aligned(got); w.ZeroCopy != nil && zeroCopy != *w.ZeroCopy {
			t.Errorf("%q: that it may be used in place is %t", w.Name, zeroCopy)
		}
		if ix.Find(w.Name) != i {
			t.Errorf("Find(%q) = %d, want %d", w.Name, ix.Find(w.Name), i)
		}
		if stored, err := data.Slice(got.Offset, got.Stored); err != nil || w.StoredSHA256 != "" && sha256Hex(stored) != w.StoredSHA256 {
			t.Errorf("%q: other bytes are stored; %v", w.Name, err)
		}
		if w.RawSHA256 == "" || got.Encoding != layout.Raw && !got.Encoding.Packed() {
			continue
		}
		if raw, err := elements(f, data, got); err != nil || sha256Hex(raw) != w.RawSHA256 {
			t.Errorf("%q: other elements: %x, %v", w.Name, raw, err)
		}
	}
}

// describes reports whether the index has the tensor as w says.
func (w *Tensor) describes(x *layout.Tensor) bool {
	var quant *layout.Quant
	if w.Scale != nil {
		quant = &layout.Quant{Scale: float32(*w.Scale)}
		if w.ZeroPoint != nil {
			quant.Zero = *w.ZeroPoint
		}
	}
	return string(x.Name) == w.Name && x.DType.String() == w.DType && x.Encoding.String() == w.Encoding &&
		x.Shape != nil && slices.Equal(x.Shape, w.Shape) && x.Offset == w.Offset && x.Stored == w.Stored && x.Raw == w.Raw &&
		(x.Quant == nil) == (quant == nil) && (quant == nil || *x.Quant == *quant)
}

// CheckMetadata compares the metadata of a file with JSON. It compares numbers by their exact value: 1.0
// is 1.
func (x *Format[F]) CheckMetadata(t testing.TB, f F, in layout.Input, want []byte) {
	t.Helper()
	md, err := f.Metadata(in)
	text, jsonErr := md.MarshalJSON()
	if err := errors.Join(err, jsonErr); err != nil {
		t.Errorf("metadata: %v", err)
		return
	}
	got, wanted := ExactJSON(t, text), ExactJSON(t, want)
	if x.Normal != nil {
		x.Normal(got)
		x.Normal(wanted)
	}
	if !reflect.DeepEqual(got, wanted) {
		t.Errorf("metadata\n%v, want\n%v", got, wanted)
	}
}

// ExactJSON parses JSON as encoding/json does, but numbers become *big.Rat, which is
// exact.
func ExactJSON(t testing.TB, text []byte) (v any) {
	t.Helper()
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.UseNumber()
	if err := dec.Decode(&v); err != nil {
		t.Fatalf("%v in %.100s", err, text)
	}
	return exact(v)
}

// exact returns v with each json.Number in it replaced by a *big.Rat.
func exact(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for key := range v {
			v[key] = exact(v[key])
		}
	case []any:
		for i := range v {
			v[i] = exact(v[i])
		}
	case json.Number:
		r, _ := new(big.Rat).SetString(string(v))
		return r
	}
	return v
}

// CheckFindings compares the result of verifying a file, and the fields that its audit and its
// checksums find, in any order.
func CheckFindings(t testing.TB, f layout.File, data layout.Bytes, verify string, fields []string) {
	t.Helper()
	var found []string
	got := "ok"
	for _, finding := range f.Audit(data) {
		if found = append(found, finding.Field); !finding.Warning {
			got = "fail"
		}
	}
	sums, err := f.Checksums(data)
	if err != nil {
		t.Errorf("checksums: %v", err)
	}
	for _, s := range sums {
		if crc32.ChecksumIEEE(data[s.Offset:][:s.Size]) != s.Want {
			found, got = append(found, s.Field), "fail"
		}
	}
	fields = slices.Clone(fields)
	slices.Sort(found)
	slices.Sort(fields)
	if got != verify || !slices.Equal(found, fields) {
		t.Errorf("%s: findings %q; want %s: %q", got, found, verify, fields)
	}
}

// sha256Hex returns the SHA-256 of b in hexadecimal.
func sha256Hex(b []byte) string { return fmt.Sprintf("%x", sha256.Sum256(b)) }
