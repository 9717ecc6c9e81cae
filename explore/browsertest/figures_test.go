package browsertest

import (
	"encoding/json"
	"fmt"
	"math"
	"net/url"
	"os"
	"path/filepath"
	"reflect"
	"testing"

	"github.com/tensormap/tensormap/layout"
)

// answer decodes what the page is answered for a path: a list of lines.
func (p *tab) answer(path string, into any) {
	p.t.Helper()
	p.eval(`(async () => {
		const inside = document.getElementById('answers')
		if (inside) return JSON.parse(inside.textContent)[`+quote(path)+`]
		const { ask } = await import(new URL('main.js', document.baseURI).href)
		const reply = await ask(`+quote(path)+`), lines = []
		for await (const line of reply.lines()) lines.push(line)
		return lines
	})()`, into)
}

// quote returns a literal of JavaScript.
func quote(s string) string {
	b, err := json.Marshal(s)
	if err != nil {
		panic(err)
	}
	return string(b)
}

// sharded is a model of several files, with blocks of LZ4.
func sharded(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	whole := filepath.Join(dir, "whole.safetensors")
	if err := writeSparse(whole, layout.F32, llama(4, 128, 256, 500), nil); err != nil {
		t.Fatal(err)
	}
	if err := fill(whole, gaussian("block", layout.F32, 0.02, 1500).Data); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "sharded", "model.apr")
	if err := os.Mkdir(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	tensormap(t, nil, "convert", whole, path, "--compress", "--shard-size", "500KB")
	return filepath.Dir(path)
}

// The page is answered with the command's figures, to the last bit, for every kind of model, and read by ranges in the browser.
func TestFigures(t *testing.T) {
	for _, test := range []struct {
		name  string
		model func(t *testing.T) string
		short string // the host of the short tests: TestMoE has the server's
	}{{"Q4_K_M", minilmQ4, "web"}, {"shards", sharded, "web"}, {"GPTQ", gptq, "web"}, {"MoE", moe, ""}} {
		for _, host := range []string{"server", "web"} {
			if testing.Short() && host != test.short {
				continue
			}
			t.Run(test.name+"/"+host, func(t *testing.T) {
				path := test.model(t)
				p := newTab(t, desktop)
				hosts[host](p, path)
				p.computed()
				compareFigures(t, p, path)
			})
		}
	}
}

func compareFigures(t *testing.T, p *tab, path string) {
	t.Helper()
	var said struct{ Tensors []map[string]any }
	tensormap(t, &said, "stats", "--json", path)
	var answered []struct {
		Stats []map[string]any
		Error any
	}
	p.answer("data/stats", &answered)
	var rows []struct{ Rows []map[string]any }
	byNumber := make(map[float64]map[string]any)
	for _, line := range answered {
		if line.Error != nil {
			t.Errorf("the answer ends with %v", line.Error)
		}
		for _, s := range line.Stats {
			byNumber[s["number"].(float64)] = s
		}
	}
	for from := 0; from < len(said.Tensors); from += 1000 {
		p.answer(fmt.Sprintf("data/rows?numbers=%d-%d", from, min(from+1000, len(said.Tensors))-1), &rows)
		for _, row := range rows[0].Rows {
			i := int(row["number"].(float64))
			want := said.Tensors[i]
			if row["name"] != want["name"] {
				t.Fatalf("tensor %d is called %v on the page, and %v by the command", i, row["name"], want["name"])
			}
			got := byNumber[float64(i)]
			if got == nil {
				t.Errorf("%v: the page has no figures", row["name"])
				continue
			}
			stats, ok := want["stats"].(map[string]any)
			if !ok {
				if got["error"] == nil {
					t.Errorf("%v: the command says %v, the page %v", row["name"], want, got)
				}
				continue
			}
			for _, key := range []string{"finite", "zeros", "zero_rows", "nan", "pos_inf", "neg_inf", "min", "max", "mean", "std", "percentiles", "max_sigma", "max_sigma_at", "kurtosis"} {
				if !equal(got[key], stats[key]) {
					t.Errorf("%v: %s is %v on the page, and %v by the command", row["name"], key, got[key], stats[key])
				}
			}
			if i%max(1, len(said.Tensors)/20) == 0 {
				var one []struct{ Stat map[string]any }
				p.answer("data/tensor?name="+url.QueryEscape(row["name"].(string)), &one)
				if !equal(one[0].Stat["sigma_histogram"], stats["sigma_histogram"]) {
					t.Errorf("%v: sigma_histogram is %v on the page, and %v by the command", row["name"], one[0].Stat["sigma_histogram"], stats["sigma_histogram"])
				}
			}
		}
	}
	if len(byNumber) != len(said.Tensors) {
		t.Errorf("the page has figures of %d tensors, the command of %d", len(byNumber), len(said.Tensors))
	}
}

// equal reports whether two values of JSON are equal. Sums in another order may differ in the last bits.
func equal(a, b any) bool {
	x, isX := a.(float64)
	y, isY := b.(float64)
	if isX && isY {
		return x == y || math.Abs(x-y) <= 1e-12*math.Abs(y)
	}
	if m, ok := a.(map[string]any); ok {
		n, ok := b.(map[string]any)
		for k := range n {
			ok = ok && equal(m[k], n[k])
		}
		return ok && len(m) == len(n)
	}
	return reflect.DeepEqual(a, b)
}
