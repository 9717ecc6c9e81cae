package convert_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tensormap/tensormap/convert"
	"github.com/tensormap/tensormap/internal/test/modeltest"
	"github.com/tensormap/tensormap/internal/test/testmode"
	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/layout/jsontext"
	"github.com/tensormap/tensormap/loader"
)

// parse reads metadata from JSON.
func parse(t testing.TB, text string) layout.Metadata {
	t.Helper()
	md, err := jsontext.Parse([]byte(text), layout.Unknown, 0, "test", (*layout.Limits)(nil).WithDefaults())
	if err != nil {
		t.Fatal(err)
	}
	return md
}

func metadata(t testing.TB, m *loader.Model) layout.Metadata {
	t.Helper()
	md, err := m.Metadata()
	if err != nil {
		t.Fatal(err)
	}
	return md
}

func asJSON(t testing.TB, md layout.Metadata) string {
	t.Helper()
	b, err := json.Marshal(md)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

const required = `{"apr_version":"2.0.0","model_type":"unknown","architecture":{}`

func TestMetadata(t *testing.T) {
	a := counting("a", layout.I8, 2)
	safe := func(md string) []byte { return safeTensors(0, md, a) }
	apr := func(md string) []byte { return apr2File(t, parse(t, md), a) }
	tests := []struct {
		name   string
		source []byte
		config string
		want   string
	}{
		{"none", safe("null"), "{}", required + `}`},
		{"of another format", safe(`{"format":"pt","z":"1"}`), "{}", required + `,"safetensors":{"format":"pt","z":"1"}}`},
		{"of an APR2 file",
			apr(`{"apr_version":"2.0.0","model_type":"whisper","architecture":{"n":1},"vocab":["a"],"mine":{"k":[1,null]}}`), "{}",
			`{"apr_version":"2.0.0","model_type":"whisper","architecture":{"n":1},"vocab":["a"],"mine":{"k":[1,null]}}`},
		{"of an APR2 file without the required keys", apr(`{"mine":1.50}`), "{}", required + `,"mine":1.50}`},
		{"config", safe("null"), `{"model_type":"bert","hidden_size":384,"vocab":{"a":0}}`,
			`{"apr_version":"2.0.0","model_type":"bert","architecture":{"hidden_size":384},"vocab":{"a":0}}`},
		{"config over the source", apr(`{"model_type":"a","architecture":{"x":1,"y":{"k":1}},"vocab":{"a":0,"b":1}}`),
			`{"model_type":"b","y":2,"z":3,"vocab":{"b":2}}`,
			`{"apr_version":"2.0.0","model_type":"b","architecture":{"x":1,"y":2,"z":3},"vocab":{"a":0,"b":2}}`},
		{"config with an architecture", safe("null"), `{"architecture":{"x":1},"y":2}`,
			`{"apr_version":"2.0.0","model_type":"unknown","architecture":{"x":1,"y":2}}`},
		{"config over an architecture that is a name", apr(`{"architecture":"whisper"}`), `{"x":1,"architecture":{"y":2}}`,
			`{"apr_version":"2.0.0","model_type":"unknown","architecture":{"name":"whisper","x":1,"y":2}}`},
		{"config with another name", apr(`{"architecture":"whisper"}`), `{"name":"bert"}`,
			`{"apr_version":"2.0.0","model_type":"unknown","architecture":{"name":"bert"}}`},
		{"config whose architecture is a name", apr(`{"architecture":{"x":1}}`), `{"y":2,"architecture":"bert"}`,
			`{"apr_version":"2.0.0","model_type":"unknown","architecture":{"x":1,"y":2,"name":"bert"}}`},
		{"architecture of null", apr(`{"architecture":null}`), `{"x":1}`,
			`{"apr_version":"2.0.0","model_type":"unknown","architecture":{"x":1}}`},
		{"config with the same key at both places", safe("null"), `{"x":1,"architecture":{"x":2,"y":3},"y":4}`,
			`{"apr_version":"2.0.0","model_type":"unknown","architecture":{"x":2,"y":4}}`},
		{"apr_version is the file's own", safe("null"), `{"apr_version":"9"}`, required + `}`},
		{"scales", apr(`{"quantization":{"method":"I8","scales":{"a":0.1,"elsewhere":2},"zero_points":{"a":-3}}}`), "{}",
			required + `,"quantization":{"method":"I8","scales":{"elsewhere":2,"a":0.1},"zero_points":{"a":-3}}}`},
		{"scales from the config", safe("null"), `{"quantization":{"scales":{"a":0.5}}}`,
			required + `,"quantization":{"scales":{"a":0.5}}}`},
		{"quantization that is no object", apr(`{"quantization":"int8"}`), "{}", required + `,"quantization":"int8"}`},
		{"quantization without scales", apr(`{"quantization":{"method":"I8","bits_per_weight":8}}`), "{}",
			required + `,"quantization":{"method":"I8","bits_per_weight":8}}`},
	}
	for _, tt := range tests {
		m := openBytes(t, tt.source)
		config := parse(t, tt.config)
		before, configBefore := asJSON(t, metadata(t, m)), asJSON(t, config)
		out, _ := toAPR2(t, m, &convert.Options{Config: config})
		if got := asJSON(t, metadata(t, out)); got != tt.want {
			t.Errorf("%s:\n%s, want\n%s", tt.name, got, tt.want)
		}
		if after := asJSON(t, metadata(t, m)); after != before {
			t.Errorf("%s: the source's metadata was %s and is %s", tt.name, before, after)
		}
		if after := asJSON(t, config); after != configBefore {
			t.Errorf("%s: the configuration was %s and is %s", tt.name, configBefore, after)
		}
	}
}

// TestConfigFile merges a configuration as Hugging Face writes them.
func TestConfigFile(t *testing.T) {
	m := open(t, "../testdata/safetensors/minilm-slice.safetensors", nil)
	out, _ := toAPR2(t, m, &convert.Options{Config: parse(t, `{"architectures": ["BertModel"], "model_type": "bert", "layer_norm_eps": 1e-12}`)})
	md := metadata(t, out)
	if v, _ := md.Get("model_type"); v != "bert" {
		t.Errorf("model_type %v", v)
	}
	if v, _ := md.Get("architecture", "layer_norm_eps"); v != json.Number("1e-12") {
		t.Errorf("layer_norm_eps %v", v)
	}
	if v, _ := md.Get("safetensors", "license"); v != "apache-2.0" {
		t.Errorf("license %v", v)
	}
}

// TestScalesAreCarriedOver compares values, and the text of a scale that has no short
// decimal.
func TestScalesAreCarriedOver(t *testing.T) {
	var tensors []content
	for _, d := range []layout.DType{layout.I8, layout.I16, layout.I32, layout.I64} {
		tensors = append(tensors, counting(d.String(), d, 9))
	}
	md := parse(t, `{"quantization":{"scales":{"I8":0.0078740157186985016,"I16":-1e-40,"I32":3e38},"zero_points":{"I8":-128,"I32":0}}}`)
	m := openBytes(t, apr2File(t, md, tensors...))
	out, _ := toAPR2(t, m, nil)
	again, _ := toAPR2(t, out, nil)
	for x := range m.Tensors() {
		q, scaled, err := x.Scale()
		for _, copy := range []*loader.Model{out, again} {
			y := tensor(t, copy, x.Name())
			if q2, scaled2, err2 := y.Scale(); q2 != q || scaled2 != scaled || err != nil || err2 != nil {
				t.Errorf("%s: %+v, %v; want %+v, %v", x.Name(), q2, scaled2, q, scaled)
			}
			a, err := x.Float32s()
			b, err2 := y.Float32s()
			if err != nil || err2 != nil || !modeltest.SameFloats(a, b) {
				t.Errorf("%s: other values; %v, %v", x.Name(), err, err2)
			}
		}
	}
}

func TestMergeConfigKeepsOrder(t *testing.T) {
	md := parse(t, required+`}`)
	convert.MergeConfig(&md, parse(t, `{"z":1,"a":2,"model_card":{"b":1,"a":2},"m":3}`))
	want := required[:len(required)-2] + `{"z":1,"a":2,"m":3},"model_card":{"b":1,"a":2}}`
	if got := asJSON(t, md); got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

// TestMergeConfigKeepsName: an architecture that is a name becomes an object only where
// there is more to say of it.
func TestMergeConfigKeepsName(t *testing.T) {
	for config, want := range map[string]string{
		`{"model_type":"a"}`:  `{"architecture":"whisper","model_type":"a"}`,
		`{"architecture":{}}`: `{"architecture":"whisper"}`,
		`{"x":1}`:             `{"architecture":{"name":"whisper","x":1}}`,
	} {
		md := parse(t, `{"architecture":"whisper"}`)
		convert.MergeConfig(&md, parse(t, config))
		if got := asJSON(t, md); got != want {
			t.Errorf("%s: %s, want %s", config, got, want)
		}
	}
}

// TestMergeConfigDoesNotAlias: an object that was merged into is a new one.
func TestMergeConfigDoesNotAlias(t *testing.T) {
	source := parse(t, `{"architecture":{"x":1},"vocab":{"a":1}}`)
	before := asJSON(t, source)
	md := append(layout.Metadata{}, source...)
	convert.MergeConfig(&md, parse(t, `{"x":2,"y":3,"architecture":{"x":4},"vocab":{"a":5}}`))
	if after := asJSON(t, source); after != before {
		t.Errorf("was %s, is %s", before, after)
	}
	if got := asJSON(t, md); !strings.Contains(got, `"x":4`) || !strings.Contains(got, `"a":5`) {
		t.Error(got)
	}
}

// TestManyKeys: the time that metadata takes grows with its keys and not their square.
func TestManyKeys(t *testing.T) {
	if testmode.Brief() {
		t.Skip("much metadata, one goroutine")
	}
	const n, times = 2_000, 8 // as many as metadata may have
	var few, many time.Duration
	for range 5 { // other work on the machine takes some of the time, but not always
		few, many = manyKeys(t, n), manyKeys(t, times*n)
		if many < times*times/2*few {
			return
		}
	}
	t.Errorf("%d keys took %v, %d times as many %v", n, few, times, many)
}

// manyKeys is how long it takes to merge and write objects of n keys.
func manyKeys(t *testing.T, n int) time.Duration {
	t.Helper()
	var members []string
	for i := range n {
		members = append(members, fmt.Sprintf(`"key%d":%d`, i, i))
	}
	list := strings.Join(members, ",")
	source := parse(t, `{"architecture":{`+list+`},"vocab":{`+list+`},`+list+`}`)
	config := parse(t, `{"more":1,"vocab":{`+list+`,"more":2},`+list+`}`)
	m := openBytes(t, apr2File(t, source))
	begun := time.Now()
	md := slices.Clone(source)
	convert.MergeConfig(&md, config)
	for key, want := range map[string]int{"architecture": n + 1, "vocab": n + 1} {
		if v, _ := md.Get(key); len(v.(layout.Metadata)) != want {
			t.Errorf("%s has %d keys, want %d", key, len(v.(layout.Metadata)), want)
		}
	}
	out, _ := toAPR2(t, m, &convert.Options{Config: config})
	took := time.Since(begun)
	if got, want := len(metadata(t, out)), n+4; got != want {
		t.Errorf("%d keys, want %d", got, want)
	}
	return took
}

// TestUnreadableMetadata: what would make a file that cannot be read is not written.
func TestUnreadableMetadata(t *testing.T) {
	dir := t.TempDir()
	m := openBytes(t, safeTensors(0, "null", counting("v", layout.F32, 4)))
	_, err := convert.Write(t.Context(), m, dir+"/out.apr", &convert.Options{Config: parse(t, `{"quantization":{"scales":{"v":"x"}}}`)})
	if !errors.Is(err, layout.ErrInvalid) || !strings.Contains(err.Error(), "quantization.scales") {
		t.Errorf("a scale of \"x\": %v", err)
	}
	onlyFiles(t, dir)
}

// TestBadMetadata is not written over.
func TestBadMetadata(t *testing.T) {
	b := apr2File(t, parse(t, `{"quantization":{"scales":{"a":1}}}`), counting("a", layout.I8, 1))
	b = bytes.Replace(b, []byte(`{"a":1}`), []byte(`{"a":0}`), 1) // which no Writer writes
	dir := t.TempDir()
	if _, err := convert.Write(t.Context(), openBytes(t, b), dir+"/out.apr", nil); err == nil {
		t.Error("a scale of 0 was converted")
	}
	onlyFiles(t, dir)
	if _, err := os.Stat(dir + "/out.apr"); !os.IsNotExist(err) {
		t.Error(err)
	}
}
