package apr2

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"hash/crc32"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/tensormap/tensormap/layout"
)

const fixtures64 = "../../testdata/aprender"

// expected64 is what the program that wrote a fixture says about it.
type expected64 struct {
	File, Format, Version string
	Size                  uint64
	Metadata              json.RawMessage
	Tensors               []struct {
		Name, DType         string
		Shape               []uint64
		Offset, Stored, Raw uint64
		ZeroCopy            bool   `json:"zero_copy"`
		StoredSHA256        string `json:"stored_sha256"`
	}
	Verify   string
	Findings []string
	Error    *struct {
		Field  string
		Offset uint64
	}
}

// each64 runs f with every fixture of aprender's that is APR2.
func each64(t testing.TB, f func(name string, data layout.Bytes, want expected64)) {
	t.Helper()
	paths, err := filepath.Glob(fixtures64 + "/*.json")
	if err != nil || len(paths) < 20 {
		t.Fatalf("%d fixtures: %v", len(paths), err)
	}
	for _, path := range paths {
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		var want expected64
		if err := json.Unmarshal(b, &want); err != nil {
			t.Fatal(err)
		}
		data, err := os.ReadFile(filepath.Join(fixtures64, want.File))
		if err != nil {
			t.Fatal(err)
		}
		if want.Format == "apr2" {
			f(strings.TrimSuffix(want.File, ".apr"), data, want)
		}
	}
}

func TestWitness64(t *testing.T) {
	each64(t, func(name string, data layout.Bytes, want expected64) {
		t.Run(name, func(t *testing.T) {
			if f, err := layout.Sniff(data); f != layout.APR2 {
				t.Fatalf("Sniff: %v, %v", f, err)
			}
			f, err := Decode(data, nil)
			if want.Error != nil {
				var fe *layout.FormatError
				if !errors.As(err, &fe) || fe.Field != want.Error.Field || fe.Offset != want.Error.Offset {
					t.Errorf("%v, want an error about %s at %d", err, want.Error.Field, want.Error.Offset)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			checkFile64(t, f.(*File64), data, want)
		})
	})
}

func checkFile64(t *testing.T, f *File64, data layout.Bytes, want expected64) {
	ix := f.Index()
	if ix.Version != want.Version || ix.Size != want.Size || len(ix.Tensors) != len(want.Tensors) {
		t.Fatalf("version %s, size %d, %d tensors, want %s, %d, %d", ix.Version, ix.Size, len(ix.Tensors), want.Version, want.Size, len(want.Tensors))
	}
	for i, w := range want.Tensors {
		got := &ix.Tensors[i]
		sum := sha256.Sum256(data[got.Offset:][:got.Stored])
		if string(got.Name) != w.Name || got.DType.String() != w.DType || got.Encoding != layout.Raw || !slices.Equal(got.Shape, w.Shape) ||
			got.Offset != w.Offset || got.Stored != w.Stored || got.Raw != w.Raw || ix.Aligned(got) != w.ZeroCopy ||
			hex.EncodeToString(sum[:]) != w.StoredSHA256 {
			t.Errorf("tensor %d: got %+v, want %+v", i, got, w)
		}
	}
	checkMetadata64(t, f, data, want)
	checkFindings64(t, f, data, want)
}

func checkMetadata64(t *testing.T, f *File64, data layout.Bytes, want expected64) {
	md, err := f.Metadata(data)
	if err != nil {
		t.Fatal(err)
	}
	b, err := md.MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	var got, exp any
	if json.Unmarshal(b, &got) != nil || json.Unmarshal(want.Metadata, &exp) != nil || !reflect.DeepEqual(got, exp) {
		t.Errorf("metadata %s, want %s", b, want.Metadata)
	}
}

func checkFindings64(t *testing.T, f *File64, data layout.Bytes, want expected64) {
	var fields []string
	verify := "ok"
	for _, finding := range f.Audit(data) {
		fields = append(fields, finding.Field)
		if !finding.Warning {
			verify = "fail"
		}
	}
	sums, err := f.Checksums(data)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range sums {
		if s.Field != "crc32" || s.At != want.Size-4 || s.Offset != 0 || s.Size != want.Size-4 {
			t.Errorf("checksum %+v", s)
		}
		if crc32.ChecksumIEEE(data[:s.Size]) != s.Want {
			fields, verify = append(fields, s.Field), "fail"
		}
	}
	slices.Sort(fields)
	slices.Sort(want.Findings)
	if !slices.Equal(fields, want.Findings) || verify != want.Verify {
		t.Errorf("findings %v, verify %s, want %v, %s", fields, verify, want.Findings, want.Verify)
	}
}
