package layouttest

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tensormap/tensormap/layout"
)

// File is the result of a decoder: layout.File, or a type of its own that is one.
type File interface {
	comparable
	layout.File
}

// Format is a format under test.
type Format[F File] struct {
	ID     layout.Format
	Decode func(in layout.Input, lim *layout.Limits) (F, error)

	Dir   string // where the fixtures are
	Ext   string // how their names end
	Least int    // the fewest descriptions: none is missed by mistake

	// Normal, if set, changes metadata parsed by ExactJSON so that equal metadata compares as
	// equal.
	Normal func(metadata any)

	// Promises, if set, checks what the files of this format promise beyond the promises of all
	// formats.
	Promises func(t testing.TB, f F, data layout.Bytes, got *Answers)
}

// MustDecode decodes a file that is in order.
func (x *Format[F]) MustDecode(t testing.TB, in layout.Input) F {
	t.Helper()
	f, err := x.Decode(in, nil)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// Fixture is a file of testdata and its description.
type Fixture struct {
	Name string // without Ext
	Data layout.Bytes
	Want Description
}

// Fixtures returns the files of Dir that have a description and are of this format.
func (x *Format[F]) Fixtures(t testing.TB) []Fixture {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(x.Dir, "*.json"))
	if err != nil {
		t.Fatal(err)
	}
	var all []Fixture
	for _, path := range paths {
		f := Fixture{Name: strings.TrimSuffix(filepath.Base(path), ".json")}
		x.Description(t, f.Name, &f.Want)
		if f.Want.Format != "" && f.Want.Format != x.ID.String() {
			continue // a folder may hold files of several formats
		}
		if f.Want.File != "" {
			f.Name = strings.TrimSuffix(f.Want.File, x.Ext)
		}
		f.Data = x.Read(t, f.Name)
		all = append(all, f)
	}
	if len(all) < max(x.Least, 1) {
		t.Fatalf("%d fixtures in %s, and not %d", len(all), x.Dir, x.Least)
	}
	return all
}

// Read returns the fixture called name, without Ext.
func (x *Format[F]) Read(t testing.TB, name string) layout.Bytes {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(x.Dir, name+x.Ext))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// Description parses the description of the fixture called name into want: a pointer to a
// Description, or to a struct of other fields.
func (x *Format[F]) Description(t testing.TB, name string, want any) {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(x.Dir, name+".json"))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(b, want); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
}

// Seed adds the fixtures of fewer than limit bytes to a fuzz target.
func (x *Format[F]) Seed(f *testing.F, limit int) {
	f.Helper()
	paths, err := filepath.Glob(filepath.Join(x.Dir, "*"+x.Ext))
	if err != nil || len(paths) < x.Least {
		f.Fatalf("%d fixtures; %v", len(paths), err)
	}
	for _, path := range paths {
		if b := x.Read(f, strings.TrimSuffix(filepath.Base(path), x.Ext)); len(b) < limit {
			f.Add([]byte(b))
		}
	}
}
