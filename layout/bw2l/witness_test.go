package bw2l_test

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
	"github.com/tensormap/tensormap/layout/bw2l"
)

// expected is what the writer of a fixture, or libw2l's reader, says of it.
type expected struct {
	Version  string
	Size     uint64
	Metadata any
	Tensors  []struct {
		Name, DType         string
		Shape               []uint64
		Offset, Stored, Raw uint64
		Scale               float32
		ZeroPoint           *int64 `json:"zero_point"`
		StoredSHA256        string `json:"stored_sha256"`
	}
	Findings []string
	Error    *struct {
		Field  string
		Offset uint64
	}
}

func expectation(t *testing.T, name string) (want expected) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(fixtures, name+".json"))
	if err == nil {
		err = json.Unmarshal(text, &want)
	}
	if err != nil {
		t.Fatal(err)
	}
	return want
}

func TestWitness(t *testing.T) {
	for _, name := range fixtureNames(t) {
		t.Run(name, func(t *testing.T) {
			data, want := fixture(t, name), expectation(t, name)
			if want.Error == nil {
				checkWitness(t, data, &want)
				return
			}
			_, err := bw2l.Decode(data, nil)
			var fe *layout.FormatError
			if !errors.As(err, &fe) || fe.Field != want.Error.Field || fe.Offset != want.Error.Offset {
				t.Errorf("%v, want an error of %s at %d", err, want.Error.Field, want.Error.Offset)
			}
		})
	}
}

func checkWitness(t *testing.T, data layout.Bytes, want *expected) {
	f := mustDecode(t, data)
	ix := f.Index()
	if ix.Version != want.Version || ix.Size != want.Size || len(ix.Tensors) != len(want.Tensors) {
		t.Fatalf("version %s, %d bytes, %d tensors; want %s, %d, %d", ix.Version, ix.Size, len(ix.Tensors),
			want.Version, want.Size, len(want.Tensors))
	}
	for i, w := range want.Tensors {
		x := ix.Tensors[i]
		var quant layout.Quant
		if w.ZeroPoint != nil {
			quant = layout.Quant{Scale: w.Scale, Zero: *w.ZeroPoint}
		}
		if string(x.Name) != w.Name || x.DType.String() != w.DType || !slices.Equal(x.Shape, w.Shape) ||
			x.Offset != w.Offset || x.Stored != w.Stored || x.Raw != w.Raw || x.Scaled != (w.ZeroPoint != nil) || x.Quant != quant {
			t.Errorf("tensor %d is %+v, want %+v", i, x, w)
			continue
		}
		if sum := sha256.Sum256(data[x.Offset:][:x.Stored]); hex.EncodeToString(sum[:]) != w.StoredSHA256 {
			t.Errorf("tensor %q has other bytes", w.Name)
		}
	}
	if got := asJSON(t, f, data); !reflect.DeepEqual(got, want.Metadata) {
		t.Errorf("metadata %v, want %v", got, want.Metadata)
	}
	var found []string
	for _, x := range f.Audit(data) {
		if !x.Warning {
			t.Errorf("Audit fails: %v", x)
		}
		found = append(found, x.Field)
	}
	if strings.Join(found, " ") != strings.Join(want.Findings, " ") {
		t.Errorf("findings %q, want %q", found, want.Findings)
	}
}

// asJSON is the metadata as other programs see it.
func asJSON(t *testing.T, f *bw2l.File, data layout.Bytes) (v any) {
	t.Helper()
	md, err := f.Metadata(data)
	if err != nil {
		t.Fatal(err)
	}
	text, err := md.MarshalJSON()
	if err == nil {
		err = json.Unmarshal(text, &v)
	}
	if err != nil {
		t.Fatal(err)
	}
	return v
}
