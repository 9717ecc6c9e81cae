package tsm

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/tensormap/tensormap/layout"
)

const fixtures = "../../testdata/tsm"

// expected is what TenniS, or the script that assembled a fixture, says about it.
type expected struct {
	Size     uint64
	Metadata any
	Tensors  []struct {
		Name, DType         string
		Shape               []uint64
		Offset, Stored, Raw uint64
		StoredSHA256        string `json:"stored_sha256"`
	}
	Findings []string
	Error    *struct {
		Field  string
		Offset uint64
	}
}

func fixtureNames(t testing.TB) []string {
	t.Helper()
	paths, err := filepath.Glob(fixtures + "/*.tsm")
	if err != nil || len(paths) < 40 {
		t.Fatalf("%d fixtures, %v", len(paths), err)
	}
	for i, p := range paths {
		paths[i] = strings.TrimSuffix(filepath.Base(p), ".tsm")
	}
	return paths
}

func fixture(t testing.TB, name string) layout.Bytes {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(fixtures, name+".tsm"))
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func TestWitness(t *testing.T) {
	for _, name := range fixtureNames(t) {
		t.Run(name, func(t *testing.T) {
			data := fixture(t, name)
			b, err := os.ReadFile(filepath.Join(fixtures, name+".json"))
			if err != nil {
				t.Fatal(err)
			}
			var want expected
			if err := json.Unmarshal(b, &want); err != nil {
				t.Fatal(err)
			}
			f, err := Decode(data, nil)
			if want.Error != nil {
				e, ok := errors.AsType[*layout.FormatError](err)
				if !ok || f != nil || e.Field != want.Error.Field || e.Offset != want.Error.Offset {
					t.Errorf("%v, want %s at %d", err, want.Error.Field, want.Error.Offset)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			compare(t, f, data, &want)
		})
	}
}

func compare(t *testing.T, f *File, data layout.Bytes, want *expected) {
	ix := f.Index()
	if ix.Format != layout.TSM || ix.Version != "" || ix.Size != want.Size || len(ix.Tensors) != len(want.Tensors) {
		t.Fatalf("%v %q, %d bytes, %d tensors; want %d and %d", ix.Format, ix.Version, ix.Size, len(ix.Tensors), want.Size, len(want.Tensors))
	}
	for i, w := range want.Tensors {
		got := ix.Tensors[i]
		if string(got.Name) != w.Name || got.DType.String() != w.DType || !slices.Equal(got.Shape, w.Shape) || got.Shape == nil ||
			got.Offset != w.Offset || got.Stored != w.Stored || got.Raw != w.Raw || got.Encoding != layout.Raw {
			t.Errorf("tensor %d: got %+v, want %+v", i, got, w)
			continue
		}
		if sum := sha256.Sum256(data[got.Offset:][:got.Stored]); hex.EncodeToString(sum[:]) != w.StoredSHA256 {
			t.Errorf("%q: other bytes", w.Name)
		}
		if ix.Find(w.Name) != i {
			t.Errorf("Find(%q) = %d, want %d", w.Name, ix.Find(w.Name), i)
		}
	}
	md, err := f.Metadata(data)
	if err != nil {
		t.Fatal(err)
	}
	text, err := md.MarshalJSON()
	var got any
	if err != nil || json.Unmarshal(text, &got) != nil || !reflect.DeepEqual(got, want.Metadata) {
		t.Errorf("metadata is %s, %v; want %v", text, err, want.Metadata)
	}
	var found []string
	for _, finding := range f.Audit(data) {
		found = append(found, finding.Field)
		if !finding.Warning {
			t.Error(finding)
		}
	}
	if !slices.Equal(found, want.Findings) {
		t.Errorf("findings %q, want %q", found, want.Findings)
	}
}

// TestWitnessDTypes makes sure that the fixtures hold every type there is.
func TestWitnessDTypes(t *testing.T) {
	seen := map[layout.DType]bool{}
	for _, x := range mustDecode(t, fixture(t, "types")).Index().Tensors {
		seen[x.DType] = true
	}
	for id, d := range dtypes {
		if !seen[d] && id != ptr {
			t.Errorf("no tensor of type %d, %v", id, d)
		}
	}
}
