package convert_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/tensormap/tensormap/convert"
	"github.com/tensormap/tensormap/internal/test/modeltest"
	"github.com/tensormap/tensormap/internal/test/testmode"
	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/loader"
	"github.com/tensormap/tensormap/trust"
)

// sameValues compares tensors by name: bytes where the type is the same or the new one stands
// for it, else values bit by bit.
func sameValues(t *testing.T, got, want *loader.Model) {
	t.Helper()
	if got.Len() != want.Len() {
		t.Errorf("%d tensors, want %d", got.Len(), want.Len())
	}
	for w := range want.Tensors() {
		x := tensor(t, got, w.Name())
		a, b := contents(t, x), contents(t, w)
		standIn := x.DType().Kind() == layout.KindUint && w.DType().Kind() != layout.KindUint ||
			x.DType().Kind() == layout.KindInt && w.DType().Kind() != layout.KindInt && !w.DType().Quantized()
		if (x.DType() == w.DType() || standIn) && !bytes.Equal(a, b) {
			t.Errorf("%s: other bytes", w.Name())
		}
		if standIn {
			continue
		}
		v, err := w.Float32s()
		if err != nil {
			continue // it has no values
		}
		u, err := x.Float32s()
		if err != nil || !modeltest.SameBits(u, v) {
			t.Errorf("%s: %v is %v: other values, %v", w.Name(), w.DType(), x.DType(), err)
		}
	}
}

func contents(t *testing.T, x loader.Tensor) []byte {
	t.Helper()
	b, err := x.Bytes()
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// allFixtures are the models among the files of testdata that can be opened.
func allFixtures(t *testing.T) map[string]*loader.Model {
	t.Helper()
	all := make(map[string]*loader.Model)
	err := filepath.WalkDir("../testdata", func(path string, entry fs.DirEntry, err error) error {
		if err == nil && entry.IsDir() && entry.Name() == "quantized" {
			return filepath.SkipDir // whose values have a test of their own
		}
		ext := filepath.Ext(path)
		if err != nil || entry.IsDir() || !slices.Contains([]string{".apr", ".april", ".b2l", ".gguf", ".safetensors", ".tsm"}, ext) {
			return err
		}
		opts := &loader.Options{Stored: true}
		switch entry.Name() {
		case "encrypted.apr":
			key, err := os.ReadFile("../testdata/trust/encrypted.key")
			if err != nil {
				return err
			}
			secret, err := trust.ParseKey(key)
			if err != nil {
				return err
			}
			opts.Key = trust.Always(secret)
		case "passphrase.apr":
			return nil
		}
		m, err := loader.Open(path, opts)
		if err != nil {
			return nil
		}
		if _, err := m.Metadata(); err != nil {
			return m.Close() // of parameters that make no sense
		}
		t.Cleanup(func() { m.Close() })
		all[path] = m
		return nil
	})
	if err != nil || len(all) < 100 {
		t.Fatalf("%d models, %v", len(all), err)
	}
	return all
}

// eachSort are all fixtures that can be opened or, in brief, one for each format and types.
func eachSort(t *testing.T) map[string]*loader.Model {
	t.Helper()
	all, seen := allFixtures(t), make(map[string]bool)
	if !testmode.Brief() {
		return all
	}
	for _, name := range slices.Sorted(maps.Keys(all)) { // the same ones in each run
		holds := fmt.Sprint(all[name].Format())
		for x := range all[name].Tensors() {
			if d := x.DType().String(); !strings.Contains(holds, d) {
				holds += d
			}
		}
		if seen[holds] {
			delete(all, name)
		}
		seen[holds] = true
	}
	return all
}

// TestAllFormats: what every fixture holds is in the APR2 file, in the SafeTensors file, and
// in the APR2 file made of that.
func TestAllFormats(t *testing.T) {
	dir := t.TempDir()
	path := func(name string) string { return filepath.Join(dir, name) }
	for name, m := range eachSort(t) {
		if md := metadata(t, m); m.Format() == layout.APR2 && len(md) > 0 && !wellFormed(t, m) {
			continue // a new file of it would be as little in order
		}
		convertTo(t, name, m, path("a.apr"))
		convertTo(t, name, m, path("a.safetensors"))
		direct, safe := open(t, path("a.apr"), nil), open(t, path("a.safetensors"), nil)
		sameValues(t, direct, m)
		sameValues(t, safe, m)
		convertTo(t, name, safe, path("b.apr"))
		back := open(t, path("b.apr"), nil)
		sameValues(t, back, m)
		if t.Failed() {
			t.Fatal(name)
		}
		for _, m := range []*loader.Model{direct, safe, back} {
			m.Close()
		}
	}
}

// TestAllFormatsGGUF: what every fixture holds is in the GGUF file, and in the APR2 file made of that.
func TestAllFormatsGGUF(t *testing.T) {
	dir := t.TempDir()
	path := func(name string) string { return filepath.Join(dir, name) }
	written, refused := 0, 0
	for name, m := range eachSort(t) {
		if md := metadata(t, m); m.Format() == layout.APR2 && len(md) > 0 && !wellFormed(t, m) {
			continue
		}
		opts := &convert.Options{PlainF8: true}
		_, err := convert.Write(context.Background(), m, path("a.gguf"), opts)
		if err != nil {
			refused++
			if !errors.Is(err, layout.ErrLimit) && !errors.Is(err, layout.ErrInvalid) && !errors.Is(err, layout.ErrUnsupported) {
				t.Errorf("%s: %v", name, err)
			}
			continue
		}
		written++
		out := open(t, path("a.gguf"), nil)
		report, err := out.Verify(context.Background(), nil)
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		for _, f := range report.Findings {
			if text := fmt.Sprint(f); !strings.Contains(text, "UTF-8") && !strings.Contains(text, "is not ASCII") && !strings.Contains(text, "no whole blocks") { // the source's
				t.Errorf("%s: %s", name, text)
			}
		}
		sameValues(t, out, m)
		convertTo(t, name, out, path("b.apr"))
		convertTo(t, name, m, path("c.apr"))
		back, direct := open(t, path("b.apr"), nil), open(t, path("c.apr"), nil)
		sameValues(t, back, m)
		for _, e := range metadata(t, direct) {
			got, _ := metadata(t, back).Get(e.Key)
			a, b := asJSON(t, layout.Metadata{e}), asJSON(t, layout.Metadata{{Key: e.Key, Value: got}})
			if e.Key == "gguf" || e.Key == "gguf_types" || e.Key == "quantization" || e.Key == "model_type" || e.Key == "original_tensors" { // not of floats that became F32
				continue
			}
			if a != b {
				t.Errorf("%s: %.300s, want %.300s", name, b, a)
			}
		}
		for _, m := range []*loader.Model{out, back, direct} {
			m.Close()
		}
	}
	if written < 50 || refused > 5 {
		t.Errorf("%d written, %d refused", written, refused)
	}
}

func convertTo(t *testing.T, name string, m *loader.Model, path string) {
	t.Helper()
	r, err := convert.Write(context.Background(), m, path, nil)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	out := open(t, path, nil)
	defer out.Close()
	report, err := out.Verify(context.Background(), nil)
	if err != nil || len(report.Findings) != 0 || len(r.Tensors) != m.Len() || r.Bytes != out.Files()[0].Size {
		t.Errorf("%s: %s: %+v, %v, %+v", name, path, report, err, r)
	}
}

// TestChanged: of each type that the formats lack, what becomes of it.
func TestChanged(t *testing.T) {
	tests := []struct {
		from       layout.DType
		shape      []int
		apr2, safe layout.DType // Invalid: as it is
		elements   uint64       // of what stands for it
	}{
		{layout.F32, []int{2, 3}, 0, 0, 6},
		{layout.C64, []int{2, 3}, layout.U64, 0, 6},
		{layout.F8_E8M0, []int{5}, layout.U8, 0, 5},
		{layout.F4, []int{3, 2}, layout.U8, 0, 3}, // which may be codes, and stays as it is
		{layout.F6_E2M3, []int{4, 4}, layout.U8, 0, 12},
	}
	for _, tt := range tests {
		source := openBytes(t, safeTensors(0, "{}", counting("x", tt.from, tt.shape...)))
		out, r := toAPR2(t, source, nil)
		checkChanged(t, r, "x", tt.from, tt.apr2)
		x := tensor(t, out, "x")
		if x.Elements() != tt.elements && tt.apr2 != layout.Invalid {
			t.Errorf("%v: shape %v", tt.from, x.Shape())
		}
		path := filepath.Join(t.TempDir(), "x.safetensors")
		r, err := convert.Write(context.Background(), out, path, nil)
		if err != nil {
			t.Fatal(err)
		}
		checkChanged(t, r, "x", tt.from, tt.safe)
		sameTensors(t, open(t, path, nil), source)
		again, _ := toAPR2(t, out, nil) // which says once more what it really is
		if a, b := asJSON(t, metadata(t, again)), asJSON(t, metadata(t, out)); a != b {
			t.Errorf("%v: %s, want %s", tt.from, a, b)
		}
	}
}

// TestSmallFloats: APR2 and GGUF get the values of floats that they lack, by the tables of ml_dtypes 0.6.0, also from a file that has
// their bits as integers.
func TestSmallFloats(t *testing.T) {
	powers := []float32{0.125, 0.25, 0.5, 1, 2, 4, 8, 16}
	for _, tt := range []struct {
		from layout.DType
		data []byte
		want []float32
		bits bool // APR2 keeps those
	}{
		{layout.F8_E8M0, []byte{124, 125, 126, 127, 128, 129, 130, 131}, powers, true},
		{layout.F4, []byte{0x10, 0x32, 0x54, 0xf6}, []float32{0, 0.5, 1, 1.5, 2, 3, 4, -6}, false},
		{layout.F6_E2M3, []byte{0x41, 0xf8, 0xfd}, []float32{0.125, -0.125, 7.5, -7.5}, false},
		{layout.F6_E3M2, []byte{0x41, 0xf8, 0xfd}, []float32{0.0625, -0.0625, 28, -28}, false},
		{layout.F8_E4M3FNUZ, []byte{1, 0x40, 0x7f, 0xff}, []float32{0x1p-10, 1, 240, -240}, false},
		{layout.F8_E5M2FNUZ, []byte{1, 0x40, 0x7f, 0xff}, []float32{0x1p-17, 1, 57344, -57344}, false},
	} {
		source := openBytes(t, safeTensors(0, "{}", content{"x", tt.from, []int{len(tt.want)}, tt.data}))
		check := func(m *loader.Model, d layout.DType) {
			t.Helper()
			x := tensor(t, m, "x")
			if got, err := x.Float32s(); err != nil || x.DType() != d || d == layout.F32 && !slices.Equal(got, tt.want) {
				t.Errorf("%v as %v: %v, %v, want %v", tt.from, x.DType(), got, err, tt.want)
			}
		}
		check(source, tt.from)
		g, _ := toGGUF(t, source, nil)
		check(g, layout.F32)
		a, _ := toAPR2(t, source, nil)
		check(a, map[bool]layout.DType{true: layout.U8, false: layout.F32}[tt.bits])
		g, _ = toGGUF(t, a, nil)
		check(g, layout.F32)
		old := parse(t, fmt.Sprintf(`{"original_tensors":{"x":{"dtype":"%v","shape":[%d]}}}`, tt.from, len(tt.want)))
		g, _ = toGGUF(t, openBytes(t, apr2File(t, old, content{"x", layout.U8, []int{len(tt.data)}, tt.data})), nil)
		check(g, layout.F32)
	}
}

func checkChanged(t *testing.T, r *convert.Plan, name string, from, to layout.DType) {
	t.Helper()
	if to == layout.Invalid {
		if len(changed(r)) != 0 {
			t.Errorf("%v: %+v", from, changed(r))
		}
		return
	}
	if len(changed(r)) != 1 || changed(r)[0].Name != name || changed(r)[0].From != from || changed(r)[0].To != to || !strings.Contains(changed(r)[0].Changed, from.String()) {
		t.Errorf("%v: %+v, want it as %v", from, changed(r), to)
	}
}

// TestOriginals: what the metadata says of originals counts only where it makes sense.
func TestOriginals(t *testing.T) {
	x := counting("x", layout.U8, 12)
	f := counting("f", layout.F32, 3)
	for text, want := range map[string]layout.DType{
		`{"x":{"dtype":"F6_E3M2","shape":[16]}}`:    layout.F6_E3M2,
		`{"x":{"dtype":"F6_E3M2","shape":[17]}}`:    layout.U8,
		`{"x":{"dtype":"C64","shape":[1]}}`:         layout.U8,
		`{"x":{"dtype":"C64"}}`:                     layout.U8,
		`{"x":{"dtype":"F5","shape":[12]}}`:         layout.U8,
		`{"x":{"dtype":5,"shape":[12]}}`:            layout.U8,
		`{"x":{"dtype":"BOOL","shape":["12"]}}`:     layout.U8,
		`{"x":{"dtype":"BOOL","shape":[3,4]}}`:      layout.BOOL,
		`{"x":{"dtype":"BOOL","shape":[-3,-4]}}`:    layout.U8,
		`{"x":7,"f":{"dtype":"BOOL","shape":[12]}}`: layout.U8,
		`[]`:                                   layout.U8,
		`{"y":{"dtype":"BOOL","shape":[3,4]}}`: layout.U8,
		`{"x":{"dtype":"BOOL","shape":[4294967296,4294967296]}}`: layout.U8,
	} {
		m := openBytes(t, apr2File(t, parse(t, `{"original_tensors":`+text+`}`), x, f))
		path := filepath.Join(t.TempDir(), "x.safetensors")
		if _, err := convert.Write(context.Background(), m, path, nil); err != nil {
			t.Fatal(err)
		}
		out := open(t, path, nil)
		if d := tensor(t, out, "x").DType(); d != want || tensor(t, out, "f").DType() != layout.F32 {
			t.Errorf("%s: %v, want %v", text, d, want)
		}
	}
}

// TestManyDimensions: APR2 has 8.
func TestManyDimensions(t *testing.T) {
	for _, shape := range [][]int{
		{1, 1, 1, 1, 1, 1, 1, 1, 1},
		{2, 3, 1, 2, 1, 2, 1, 2, 1, 5},
		{math.MaxInt, math.MaxInt, 9, 1, 1, 1, 1, 1, 1, 1, 0, 1, 1},
		{2, 0, 1, 1, 1, 1, 1, 1, 1, 3},
	} {
		source := openBytes(t, safeTensors(0, "{}", counting("x", layout.I16, shape...)))
		out, r := toAPR2(t, source, nil)
		sameValues(t, out, source)
		x := tensor(t, out, "x")
		if len(x.Shape()) != 8 || !slices.Equal(x.Shape()[1:], shape[len(shape)-7:]) || len(changed(r)) != 1 || changed(r)[0].Changed != "APR2 has at most 8 dimensions, the outermost are joined" {
			t.Errorf("%v: shape %v, %+v", shape, x.Shape(), changed(r))
		}
		path := filepath.Join(t.TempDir(), "x.safetensors")
		convertTo(t, "", out, path)
		sameTensors(t, open(t, path, nil), source)
	}
}

// TestScaleOfZero: APR2 refuses one, APR1 does not.
func TestScaleOfZero(t *testing.T) {
	source := open(t, "../testdata/apr1/int8.apr", nil)
	out, r := toAPR2(t, source, nil)
	sameValues(t, out, source)
	if len(changed(r)) != 1 || changed(r)[0].Name != "zero" || changed(r)[0].To != layout.F32 {
		t.Errorf("%+v", changed(r))
	}
	q, scaled, err := tensor(t, out, "negative").Scale()
	if err != nil || !scaled || q.Scale != -1.5 {
		t.Errorf("%+v, %v", q, err)
	}
}

// TestAliases: the initializers in a network are in it, too.
func TestAliases(t *testing.T) {
	m := open(t, "../testdata/april/streaming.april", nil)
	path := filepath.Join(t.TempDir(), "x.apr")
	r, err := convert.Write(context.Background(), m, path, &convert.Options{NoAliases: true})
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Tensors) != 3 || len(r.LeftOut) != m.Len()-3 || len(r.LeftOut) == 0 {
		t.Errorf("%+v", r)
	}
	for x := range open(t, path, nil).Tensors() {
		if !strings.HasPrefix(x.Name(), "networks/") || slices.Contains(r.LeftOut, x.Name()) {
			t.Errorf("%s", x.Name())
		}
	}
}

// TestScaledInts: aprender's APR_Q8 is int8 with a scale.
func TestScaledInts(t *testing.T) {
	files, err := filepath.Glob("../testdata/aprender/*.apr")
	if err != nil {
		t.Fatal(err)
	}
	seen := make(map[layout.DType]int)
	for _, path := range files {
		m, err := loader.Open(path, nil)
		if err != nil {
			continue
		}
		out := filepath.Join(t.TempDir(), "x.apr")
		r, err := convert.Write(context.Background(), m, out, nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range changed(r) {
			seen[c.To]++
		}
		sameValues(t, open(t, out, nil), m)
		m.Close()
	}
	if seen[layout.I8] == 0 || seen[layout.F32] == 0 {
		t.Errorf("%v", seen)
	}
}

// TestOriginalsThroughSafeTensors: types that neither format has come through both.
func TestOriginalsThroughSafeTensors(t *testing.T) {
	for _, name := range []string{"tsm/types.tsm", "april/dtypes.april", "aprender/now.apr", "gguf/types.gguf"} {
		m := open(t, filepath.Join("..", "testdata", filepath.FromSlash(name)), nil)
		direct, _ := toAPR2(t, m, nil)
		between, _ := toSafeTensors(t, m, nil)
		back, _ := toAPR2(t, between, nil)
		a, _ := metadata(t, direct).Get("original_tensors")
		b, _ := metadata(t, back).Get("original_tensors")
		if !reflect.DeepEqual(plain(t, a), plain(t, b)) {
			t.Errorf("%s: original_tensors %v, want %v", name, b, a)
		}
	}
}
