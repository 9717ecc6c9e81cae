package convert_test

import (
	"context"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/tensormap/tensormap/convert"
	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/loader"
)

func toSafeTensors(t *testing.T, m *loader.Model, opts *convert.Options) (*loader.Model, *convert.Plan) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "out.safetensors")
	r, err := convert.Write(context.Background(), m, path, opts)
	if err != nil {
		t.Fatal(err)
	}
	onlyFiles(t, filepath.Dir(path), "out.safetensors")
	return open(t, path, nil), r
}

// TestSafeTensorsMetadata there and back.
func TestSafeTensorsMetadata(t *testing.T) {
	a := counting("a", layout.I16, 2)
	for text, want := range map[string]map[string]string{
		`{}`: {},
		`{"apr_version":"2.0.0","model_type":"unknown","architecture":{}}`:       {},
		`{"model_type":"bert","architecture":{"n":1.50},"vocab":["a","\u0000"]}`: {"apr2.model_type": `"bert"`, "apr2.architecture": `{"n":1.50}`, "apr2.vocab": `["a","\u0000"]`},
		`{"safetensors":{"format":"pt","n":"1"},"x":null,"":"\"","y":[]}`:        {"format": "pt", "n": "1", "apr2.x": "null", "apr2.": `"\""`, "apr2.y": "[]"},
		`{"safetensors":{"format":1}}`:                                           {"apr2.safetensors": `{"format":1}`},
		`{"safetensors":"text"}`:                                                 {"apr2.safetensors": `"text"`},
		`{"quantization":{"scales":{"a":0.5},"method":"I8"}}`:                    {"apr2.quantization": `{"method":"I8"}`},
	} {
		m := openBytes(t, apr2File(t, parse(t, text), a))
		out, _ := toSafeTensors(t, m, nil)
		got := make(map[string]string)
		for key, v := range metadata(t, out).All() {
			got[key] = v.(string)
		}
		if !maps.Equal(got, want) {
			t.Errorf("%s: %v, want %v", text, got, want)
		}
		if strings.Contains(text, "scales") {
			continue // which are gone with the integers
		}
		direct, _ := toAPR2(t, m, nil)
		back, _ := toAPR2(t, out, nil)
		if a, b := sortedJSON(t, metadata(t, back)), sortedJSON(t, metadata(t, direct)); a != b {
			t.Errorf("%s: back as %s, want %s", text, a, b)
		}
	}
}

// sortedJSON is md with its keys in order.
func sortedJSON(t *testing.T, md layout.Metadata) string {
	md = slices.Clone(md)
	slices.SortFunc(md, func(a, b layout.Entry) int { return strings.Compare(a.Key, b.Key) })
	return asJSON(t, md)
}

// TestForeignKeys: what looks like our metadata but is none stays what it is.
func TestForeignKeys(t *testing.T) {
	for _, text := range []string{`"apr2.x":"not JSON"`, `"apr2.x":"1,\"y\":2"`, `"apr2.x":"1} "`, `"apr2.x":""`, `"apr2":"1"`} {
		m := openBytes(t, safeTensors(0, "{"+text+"}", counting("a", layout.U8, 1)))
		out, _ := toAPR2(t, m, nil)
		if got, want := asJSON(t, metadata(t, out)), required+`,"safetensors":{`+text+`}}`; got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}

// TestSafeTensorsOrder: every tensor is aligned, whatever its size.
func TestSafeTensorsOrder(t *testing.T) {
	m := openBytes(t, safeTensors(1, "{}", counting("a", layout.U8, 3), counting("b", layout.F64, 1), counting("c", layout.F16, 5), counting("d", layout.F32, 3), counting("e", layout.F64, 1)))
	out, _ := toSafeTensors(t, m, nil)
	var names []string
	for x := range out.Tensors() {
		names = append(names, x.Name())
		if x.Offset()%uint64(x.DType().Align()) != 0 {
			t.Errorf("%s at %d is not aligned", x.Name(), x.Offset())
		}
	}
	if want := []string{"b", "e", "d", "c", "a"}; !slices.Equal(names, want) {
		t.Errorf("%v, want %v", names, want)
	}
	sameValues(t, out, m)
}

// TestSafeTensorsExpands quantized tensors, to what is asked for.
func TestSafeTensorsExpands(t *testing.T) {
	q, i8 := counting("q", layout.Q4_0, 4, 64), counting("i8", layout.I8, 7)
	m := openBytes(t, apr2File(t, parse(t, `{"quantization":{"scales":{"i8":0.25},"zero_points":{"i8":-3}}}`), q, i8))
	for d, want := range map[layout.DType]layout.DType{layout.Invalid: layout.F32, layout.F32: layout.F32, layout.F16: layout.F16, layout.BF16: layout.BF16} {
		out, r := toSafeTensors(t, m, &convert.Options{DType: d})
		for x := range out.Tensors() {
			values, err := tensor(t, m, x.Name()).Float32s()
			if err != nil {
				t.Fatal(err)
			}
			encoded := quantized(t, want, values)
			if x.DType() != want || string(contents(t, x)) != string(encoded) {
				t.Errorf("%v: %s is %v", d, x.Name(), x.DType())
			}
		}
		if n := len(changed(r)); (d == layout.Invalid) != (n == 2) {
			t.Errorf("%v: %+v", d, changed(r))
		}
	}
	stays, r := toSafeTensors(t, m, &convert.Options{DType: layout.F16, Keep: func(name string) bool { return name == "q" }})
	if d := tensor(t, stays, "q").DType(); d != layout.F32 || len(kept(r)) != 1 || len(changed(r)) != 1 {
		t.Errorf("%v, %+v", d, r)
	}
}

func TestSafeTensorsRefuses(t *testing.T) {
	m := openBytes(t, safeTensors(0, "{}", counting("a", layout.F32, 32)))
	for _, opts := range []convert.Options{{DType: layout.Q8_0}, {DType: layout.I8}, {Compress: convert.Fast}} {
		dir := t.TempDir()
		if _, err := convert.Write(context.Background(), m, filepath.Join(dir, "x.safetensors"), &opts); !errors.Is(err, layout.ErrUnsupported) {
			t.Errorf("%+v: %v", opts, err)
		}
		onlyFiles(t, dir)
	}
	bad := openBytes(t, apr2File(t, nil, counting("__metadata__", layout.U8, 1)))
	dir := t.TempDir()
	if _, err := convert.Write(context.Background(), bad, filepath.Join(dir, "x.safetensors"), nil); !errors.Is(err, layout.ErrInvalid) || !strings.Contains(err.Error(), dir) {
		t.Errorf("%v", err)
	}
	onlyFiles(t, dir)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := convert.Write(ctx, m, filepath.Join(dir, "x.safetensors"), nil); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	onlyFiles(t, dir)
}

// TestPlan plans what is then written, whatever the name of the file says.
func TestPlan(t *testing.T) {
	w, _ := weights("w", 4, 64)
	m := openBytes(t, safeTensors(0, `{"k":"v"}`, w, counting("c", layout.C64, 2), counting("i", layout.I32)))
	for _, format := range []layout.Format{layout.APR2, layout.SafeTensors} {
		dir := t.TempDir()
		path := filepath.Join(dir, "out")
		p, err := convert.NewPlan(context.Background(), m, path, &convert.Options{Format: format, DType: layout.F16})
		if err != nil {
			t.Fatal(err)
		}
		onlyFiles(t, dir)
		planned := p.Bytes
		if err := p.Write(context.Background()); err != nil {
			t.Fatal(err)
		}
		out := open(t, path, nil)
		if out.Format() != format || p.Bytes != planned || p.Bytes != out.Files()[0].Size || asJSON(t, p.Metadata) != asJSON(t, metadata(t, out)) {
			t.Errorf("%v: %+v, but %d bytes were planned", format, p, planned)
		}
		i := 0
		for x := range out.Tensors() {
			was := tensor(t, m, x.Name())
			got := p.Tensors[i]
			if got.Name != x.Name() || got.To != x.DType() || got.Bytes != x.RawBytes() || got.Stored != x.StoredBytes() || got.From != was.DType() ||
				got.FromBytes() != was.StoredBytes() || !slices.Equal(got.FromShape(), was.Shape()) || got.Reencoded != (x.Name() == "w") ||
				format == layout.SafeTensors && !slices.Equal(got.Shape, x.Shape()) {
				t.Errorf("%v: %+v, but %s is %v %v", format, got, x.Name(), x.DType(), x.Shape())
			}
			i++
		}
	}
	for _, opts := range []convert.Options{{Format: layout.TSM}, {}} {
		if _, err := convert.NewPlan(context.Background(), m, "x.tsm", &opts); !errors.Is(err, layout.ErrUnsupported) {
			t.Errorf("%v", err)
		}
	}
}

func TestSideFiles(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "model.safetensors")
	if err := os.WriteFile(path, safeTensors(0, "{}", counting("a", layout.U8, 1)), 0o666); err != nil {
		t.Fatal(err)
	}
	model := open(t, path, nil)
	check := func(want string, read int, skip ...string) {
		t.Helper()
		config, paths, err := convert.SideFiles(t.Context(), model, skip...)
		if err != nil || asJSON(t, config) != want || len(paths) != read {
			t.Errorf("%s, %v, %v, want %s", asJSON(t, config), paths, err, want)
		}
	}
	put := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	check(`{}`, 0)
	put("config.json", `{"model_type":"bert","n":1.0}`)
	put("tokenizer_config.json", `{"do_lower_case":true}`)
	check(`{"model_type":"bert","n":1.0,"tokenizer_config":{"do_lower_case":true}}`, 2)
	check(`{"tokenizer_config":{"do_lower_case":true}}`, 1, "config.json")
	put("generation_config.json", `{"max_length":20}`)
	config, _, err := convert.SideFiles(t.Context(), model)
	if err != nil {
		t.Fatal(err)
	}
	out, _ := toAPR2(t, openBytes(t, safeTensors(0, "{}", counting("a", layout.U8, 1))), &convert.Options{Config: config})
	if got, want := asJSON(t, metadata(t, out)), `{"apr_version":"2.0.0","model_type":"bert","architecture":{"n":1.0},`+
		`"tokenizer_config":{"do_lower_case":true},"generation_config":{"max_length":20}}`; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	put("generation_config.json", `{"temperature": Infinity}`) // as Python writes it
	check(`{"model_type":"bert","n":1.0,"tokenizer_config":{"do_lower_case":true},"generation_config":{"temperature":"Infinity"}}`, 3)
	put("generation_config.json", `{"max_length":20`)
	if _, _, err := convert.SideFiles(t.Context(), model); err == nil || !strings.Contains(err.Error(), "generation_config.json: offset 16") {
		t.Errorf("%v", err)
	}
}
