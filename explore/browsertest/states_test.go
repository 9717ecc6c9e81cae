package browsertest

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/emulation"

	"github.com/tensormap/tensormap/explore"
	"github.com/tensormap/tensormap/explore/internal/answer"
	"github.com/tensormap/tensormap/internal/test/modeltest"
	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/loader"
)

// says fails the test unless the view says all parts of a text, in plain spaces.
func (p *tab) says(parts ...string) {
	p.t.Helper()
	text := strings.ReplaceAll(p.text("document.getElementById('main').innerText"), "\u202f", " ")
	for _, part := range parts {
		if !strings.Contains(text, part) {
			p.t.Errorf("%s does not say %q, but %.2500s", p.text("location.hash"), part, text)
		}
	}
}

// damagedShows tests that every view says which tensor is damaged and which has NaN, and that all others are counted.
func damagedShows(t *testing.T, p *tab) {
	const damaged, nan = "model.layers.9.mlp.experts.3.up_proj.weight", "model.layers.23.self_attn.q_proj.weight"
	findings := []string{"mlp.experts.{0..19}.up_proj, layer 9, expert 3: damaged", "self_attn.q_proj, layer 23: 12 NaN", "experts.11, layer 5: all zero",
		"mlp.experts.{0..19}.down_proj, layers 2, 3, experts 4, 7: largest value 63 to 64 σ"}
	p.says(append(findings, damaged+" cannot be read. All else can.", "no LZ4 block of 8226 bytes", "2,114 of 2,115 tensors counted, without 1 damaged", "No infinity in 8.45 M values",
		"all values read but those of 1 damaged tensor", "32 layers × 20 experts", "feed-forward 93.0 % of parameters, 93.0 % of bytes")...)
	if text := p.text("document.getElementById('state').textContent"); !strings.HasPrefix(text, "Exact: ") || !strings.HasSuffix(text, "1 tensor damaged · 1 with NaN or infinities") {
		t.Errorf("the last line says %q", text)
	}
	cells := strings.Join(p.labels(), "\n")
	for _, cell := range []string{"layer 9, mlp.experts.{0..19}.up_proj, damaged, one of 20 tensors", "layer 23, self_attn.q_proj, 12 values that are NaN or infinite", "layer 5, mlp.experts.{0..19}.gate_proj, "} {
		if !strings.Contains(cells, cell) {
			t.Errorf("no cell says %q", cell)
		}
	}
	if p.is("document.querySelector('#main .cols').innerText.includes('bold:')") {
		t.Error("a map without numbers says which are bold")
	}
	p.resize(size{390, 844, false})
	p.still()
	p.says("bold: ")
	cell := func(layer int) string {
		return fmt.Sprintf("document.querySelector('#main [aria-label^=\"layer %d, mlp.experts.{0..19}.gate_proj, \"]')", layer)
	}
	if zero, other := p.text(cell(5)+".textContent"), p.text(cell(4)+".textContent"); zero != "" || other == "" {
		t.Errorf("a cell with a tensor that is all zero says %q, another %q", zero, other)
	}
	if name := p.text(cell(5) + ".ariaLabel"); !strings.HasSuffix(name, "; 1 of them all zero") {
		t.Errorf("a cell with a tensor that is all zero is called %q", name)
	}
	p.eval(cell(5)+".focus()", new(any))
	p.wait("/^Layer 5, expert 11/.test(document.querySelector('#main aside').innerText)")
	p.resize(desktop)
	p.goTo("#/tensors")
	p.rows(8)
	p.says(append(findings, "1 damaged, 1 with NaN", "3 all zero")...)
	p.goTo("#/t/" + damaged)
	p.wait("document.querySelector('#main .note.bad')")
	p.says("The values cannot be read: ", "no LZ4 block of 8226 bytes", "tensormap dump")
	p.wait("document.querySelector('#main .same.now')?.textContent === '✕'")
	p.accessible("a damaged tensor")
	p.goTo("#/t/" + nan)
	p.tensor(nan)
	p.says("layer 23: 12 NaN", "First values, row by row", "NaN, −0.00891")
	if got := p.pairs()["NaN, infinite"]; got != "12, 0" {
		t.Errorf("the tensor with NaN says %q", got)
	}
}

// A model that makes no map of layers has a list in its place, and a sentence why. Of the findings one comes to the tensor.
func TestNoMap(t *testing.T) {
	browser(t)
	integers := modeltest.Tensor{DType: layout.I32, Shape: []int{4, 4}, Data: modeltest.Counting(64)}
	for _, c := range []struct {
		why   string
		names []string
		model modeltest.Tensor
	}{
		{"One layer makes no map.", []string{"model.layers.0.self_attn.q_proj.weight", "model.layers.0.self_attn.k_proj.weight"}, gaussian("", layout.F32, 1, 8, 8)},
		{"No tensor of the layers is a matrix, so there is no map.", []string{"model.layers.0.input_layernorm.weight", "model.layers.1.input_layernorm.weight"}, gaussian("", layout.F32, 1, 8)},
		{"No value is a real number, so there is no σ to map.", []string{"model.layers.0.mlp.up_proj.weight", "model.layers.1.mlp.up_proj.weight"}, integers},
		{"No name has the number of a layer.", []string{"a", "b"}, modeltest.Tensor{DType: layout.F32, Shape: []int{4, 4}, Data: make([]byte, 64)}},
	} {
		var tensors []modeltest.Tensor
		for _, name := range c.names {
			c.model.Name = name
			tensors = append(tensors, c.model)
		}
		p := newTab(t, desktop)
		p.open(serve(t, modeltest.Write(t, "small.safetensors", modeltest.SafeTensors(tensors...))))
		p.computed()
		if names := p.rows(len(c.names)); !slices.Equal(names, c.names) {
			t.Errorf("%s the list has %q", c.why, names)
		}
		p.says(c.why)
		if p.is("document.querySelector('#main [role=grid], #main canvas')") {
			t.Errorf("%s there is a map", c.why)
		}
		if c.names[0] == "a" { // all zero
			p.accessible(c.why)
			p.press("o", "Enter")
			p.tensor("a")
		}
		p.end()
	}
}

// A dropped file or folder is read: one that is cut off or empty is an error with the command's words and what to do, behind which
// another model opens. So is one that vanished since it was given.
func TestTruncated(t *testing.T) {
	cut := func(path string) {
		info, err := os.Stat(path)
		if err == nil {
			err = os.Truncate(path, info.Size()-100)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	good := filepath.Join(t.TempDir(), "good.safetensors")
	browser(t)
	if err := writeSparse(good, layout.F32, llama(2, 16, 32, 50), nil); err != nil {
		t.Fatal(err)
	}
	whole, err := os.ReadFile(good)
	file := filepath.Join(t.TempDir(), "cut.safetensors")
	if err == nil {
		err = os.WriteFile(file, whole[:len(whole)-100], 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
	shards := sharded(t)
	cut(filepath.Join(shards, "model-00002-of-00008.apr"))
	p := newTab(t, desktop)
	p.open(publish(t))
	for path, says := range map[string]string{file: "(truncated)", shards: `shards.size: shard "model-00002-of-00008.apr"`, t.TempDir(): "0 files"} {
		p.drop(path)
		p.wait("document.querySelector('#main pre + p.sub') && document.querySelector('#main pre').textContent.includes(" + quote(says) + ")")
		p.accessible(path)
	}
	p.eval("addEventListener('change', (e) => { window.input = e.target; e.stopImmediatePropagation() }, {capture: true, once: true})", new(any))
	p.choose(file)
	p.wait("window.input")
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	p.eval("input.dispatchEvent(new Event('change'))", new(any))
	p.wait("document.querySelector('#main pre')?.textContent.includes('cut.safetensors: unknown')")
	p.says("was it moved, removed or changed since it was given?", "Drop or choose it again.")
	p.drop(good)
	p.computed()
}

// Layers that would be narrower than a pixel share columns, of which the worst layer is seen.
func TestManyLayers(t *testing.T) {
	browser(t)
	const layers = 600
	path := filepath.Join(t.TempDir(), "deep.safetensors")
	if err := writeSparse(path, layout.F32, llama(layers, 16, 16, 50), nil); err != nil {
		t.Fatal(err)
	}
	p := newTab(t, desktop)
	p.open(serve(t, path))
	p.computed()
	p.still()
	for _, s := range []size{desktop, {1060, 900, true}, {390, 844, false}} {
		p.resize(s)
		p.still()
		var columns, binned int
		p.eval("document.querySelector('#main [role=grid]').getAttribute('aria-colcount') - 1", &columns)
		if p.eval("Math.max(...[...document.querySelectorAll('#main canvas.mapcanvas')].map((c) => c.clientWidth))", &binned); columns >= layers || s.width > 600 && binned < columns {
			t.Errorf("%d layers in %d columns of %d px", layers, columns, binned)
		}
		p.fits(fmt.Sprintf("%d layers, %d px", layers, s.width))
	}
	p.says("are in view. Scroll sideways")
	p.resize(desktop)
	p.still()
	p.eval("document.querySelector('#main [role=grid] [tabindex=\"0\"]').focus()", new(any))
	p.press("Right")
	p.says("a cell is 2 layers, the worst colours it")
	if got := p.focused(); !strings.HasPrefix(got, "layer 2–3, ") {
		t.Errorf("the second column is called %q", got)
	}
}

// The page as people see it who zoom, have colours of their own, or look at the small maps alone.
func TestSight(t *testing.T) {
	p := newTab(t, desktop)
	p.open(serve(t, twins(t)...))
	p.computed()
	p.part(t, "small maps", smallMapsShow)
	p.part(t, "forced colours", forcedColoursShow)
	p.part(t, "reflow", pageReflows)
	p.part(t, "paper", pagePrints)
}

// smallMapsShow tests that each small map has the colours that the map has of its measure, and says the smallest and the largest figure.
func smallMapsShow(t *testing.T, p *tab) {
	var maps []struct {
		Said, Colors, Wrong string
		Cells               int
	}
	p.eval(`[...document.querySelectorAll('#main .thumb[role=radio]')].map((thumb) => {
		thumb.click()
		const canvas = thumb.querySelector('canvas'), g = canvas.getContext('2d', {willReadFrequently: true}), colors = new Set(), wrong = []
		const cells = [...document.querySelectorAll('#main [role=gridcell][data-c]')], at = [...document.querySelectorAll('#main .legend text')].map((e) => e.getAttribute('x'))
		if (new Set(at).size < at.length) wrong.push('numbers of the scale lie upon others')
		for (const cell of cells) {
			const x = (Number(cell.dataset.c) + 0.4) * canvas.width / 3, y = (Number(cell.dataset.r) + 0.4) * canvas.height / 2
			const drawn = 'rgb(' + [...g.getImageData(x, y, 1, 1).data].slice(0, 3).join(', ') + ')'
			colors.add(drawn)
			if (drawn !== getComputedStyle(cell).backgroundColor) wrong.push(cell.ariaLabel + ' is ' + drawn)
		}
		return {said: thumb.querySelector('small').textContent.replaceAll('\u202f', ' '), colors: String(colors.size), wrong: wrong.join(), cells: cells.length}
	})`, &maps)
	var stds, sigmas []float64
	for name, s := range statsOf(t, twins(t)[0]) {
		if strings.Contains(name, "layers") {
			stds, sigmas = append(stds, float64(s.Stats.Std)), append(sigmas, *s.Stats.MaxSigma)
		}
	}
	for i, want := range []struct {
		colors string
		least  float64
		said   string
	}{{"1", 8, "all 8.00 KiB"}, {"1", 16, "all 16.0"}, {"6", slices.Min(stds), ""}, {"3", slices.Min(sigmas), ""}, {"1", 0, "none"}} {
		m := maps[i]
		if m.Wrong != "" || m.Cells != 6 || m.Colors != want.colors {
			t.Errorf("small map %d of %d cells has %s colours: %s", i, m.Cells, m.Colors, m.Wrong)
		}
		least, most, _ := strings.Cut(m.Said, "–")
		if want.said != "" && m.Said != want.said || want.said == "" && (!shows(least, want.least) || !shows(most, slices.Max([][]float64{stds, sigmas}[i-2]))) {
			t.Errorf("small map %d says %q, not %q from %v", i, m.Said, want.said, want.least)
		}
	}
}

// forcedColoursShow tests that borders stand in for fills where the system chooses the colours, and that numbers stay.
func forcedColoursShow(t *testing.T, p *tab) {
	call(p, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "forced-colors", Value: "active"}}})
	const bordered = `(selector, least) => {
		const all = [...document.querySelectorAll(selector)]
		return all.length >= least && all.every((e) => getComputedStyle(e).borderTopWidth === '1px' && getComputedStyle(e).borderTopColor !== getComputedStyle(document.body).backgroundColor && /\d|=/.test(e.textContent))
	}`
	for _, c := range []struct{ hash, selector, least string }{
		{"#/", "#main [role=gridcell][data-c]", "6"}, {"#/", "#main td .chip", "1"}, {"#/tensors?group=none", "#main .lr .chip:not(:empty)", "7"}, {"#/compare", "#main [role=gridcell][data-c]", "6"},
	} {
		p.goTo(c.hash)
		p.wait("(" + bordered + ")(" + quote(c.selector) + ", " + c.least + ")")
	}
	p.goTo("#/")
	p.wait("document.querySelector('#main .now')")
	if p.is("(() => { const of = (s) => getComputedStyle(document.querySelector(s)).outlineColor; return of('#main .now') === of('#main .c:not(.now)') })()") {
		t.Error("the cell that is looked at has no outline")
	}
	p.accessible("forced colours")
}

// pagePrints tests that cells keep their fills on paper, for their numbers are white on dark ones, and that rows of the list lie below one
// another whatever its width is, which no script learns.
func pagePrints(t *testing.T, p *tab) {
	p.goTo("#/tensors?group=none")
	p.rows(7)
	call(p, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Media: "print"})
	if p.is("[...document.querySelectorAll('.lbody .lr')].some((r) => getComputedStyle(r).position !== 'static')") {
		t.Error("rows of the list may lie upon others")
	}
	if p.is("[...document.querySelectorAll('.chip')].some((c) => getComputedStyle(c).printColorAdjust !== 'exact')") {
		t.Error("cells lose their fills")
	}
	call(p, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Media: ""})
}

// pageReflows tests that at 200 % and 400 % of 1,280 px nothing scrolls sideways.
func pageReflows(t *testing.T, p *tab) {
	for _, hash := range []string{"#/", "#/tensors", "#/t/model.layers.1.self_attn.q_proj.weight", "#/compare", "#/map", "#/metadata"} {
		p.goTo(hash)
		for _, width := range []int64{640, 320} {
			p.resize(size{width, 512, false})
			p.still()
			p.fits(fmt.Sprintf("%s, %d px", hash, width))
			if cut := p.text("[...document.querySelectorAll('#tabs, #main .box, #main .gridbox')].filter((e) => e.scrollWidth > e.clientWidth).map((e) => e.ariaLabel || e.className)"); cut != "" {
				t.Errorf("%s, %d px: it scrolls sideways: %s", hash, width, cut)
			}
		}
	}
	p.resize(size{1000, 900, false})
	p.goTo("#/map")
	p.wait("document.querySelector('#main .mappicture svg .c')")
	if p.is("(({scrollWidth, clientWidth}) => scrollWidth > clientWidth)(document.querySelector('#main .box'))") {
		t.Error("the map of bytes scrolls sideways in 1,000 px")
	}
}

// TestReading: words follow the bar while values are read, and figures of a sample bear their signs. How long the rest takes is not
// said before it is read.
func TestReading(t *testing.T) {
	var tensors []modeltest.Tensor
	for i := range 2 {
		tensors = append(tensors, gaussian(fmt.Sprintf("layers.%d.up_proj.weight", i), layout.F32, 0.1*float64(i+1), 1, 1, 4, 5, 1, 1))
	}
	m, err := loader.OpenBytes(modeltest.SafeTensors(tensors...), nil)
	m = modeltest.Opened(t, m, err)
	h, next := explore.Handler(m.Acquire, nil), make(chan answer.Line)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/data/stats" {
			h.ServeHTTP(w, r)
			return
		}
		for line := range next {
			json.NewEncoder(w).Encode(line)
			w.(http.Flusher).Flush()
		}
	}))
	t.Cleanup(s.Close)
	p := newTab(t, desktop)
	p.open(s.URL + "/")
	progress := answer.Progress{AllTensors: 2, AllValues: 4000, Share: 0.01, Seconds: 9}
	for _, progress.Values = range []uint64{10, 20} {
		next <- answer.Line{Progress: &progress}
		p.wait(fmt.Sprintf("document.getElementById('main').innerText.includes('%d of 4,000 values')", progress.Values))
	}
	progress.Done = true
	last := answer.Line{Progress: &progress}
	for i := range 2 {
		last.Stats = append(last.Stats, answer.TensorStat{Number: i, Sampled: true, Finite: 20, Min: -9, Max: 9, Std: answer.Real(i + 1), MaxSigma: answer.Real(4 * (i + 1))})
	}
	next <- last
	close(next)
	p.computed()
	p.says("1 value in 100 was read", "≈ 1.00–2.00", "≥ 4.0–8.0", "all ≈ 0 %")
	p.wait("document.querySelector('#main aside .kv')")
	if std := p.pairs()["σ"]; std != "≈ 1.00" {
		t.Errorf("the tensor beside the map has σ %q", std)
	}
	if text := p.text("document.querySelector('#main .note').textContent"); strings.Contains(text, "about") {
		t.Errorf("the page says %q", text)
	}
	const shapes = "[...document.querySelectorAll('#main :is(.sh, .shp)')].filter((e) => e.textContent === '1×1×4×5×1×1')"
	for _, hash := range []string{"#/", "#/tensors?group=none"} {
		p.goTo(hash)
		p.wait(shapes + ".length")
		if p.is(shapes + ".some((e) => e.scrollWidth > e.clientWidth)") {
			t.Errorf("%s: a shape is cut", hash)
		}
	}
}
