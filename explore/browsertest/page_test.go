package browsertest

import (
	"encoding/json"
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/emulation"
)

// computed waits until all figures are on the page.
func (p *tab) computed() {
	p.t.Helper()
	p.wait("/^(Exact|Sampled)/.test(document.getElementById('state').textContent)")
}

// goTo shows the view at an address after #.
func (p *tab) goTo(hash string) {
	p.t.Helper()
	p.eval(`new Promise((arrived) => {
		const from = location.hash
		location.hash = `+strconv.Quote(hash)+`
		location.hash === from ? arrived() : addEventListener('hashchange', () => arrived(), {once: true})
	})`, new(any))
	p.wait("document.getElementById('main').children.length")
}

// stats are what tensormap stats --json says of tensors, by name.
type stats struct {
	Finite, Zeros, NaN            uint64
	Min, Max, Mean, Std, Kurtosis figure
	Percentiles                   map[string]figure
	MaxSigma                      *float64 `json:"max_sigma"`
	MaxSigmaAt                    []uint64 `json:"max_sigma_at"`
}

// figure is a number, or NaN where the command says null.
type figure float64

// UnmarshalJSON implements json.Unmarshaler.
func (f *figure) UnmarshalJSON(b []byte) error {
	if string(b) == "null" {
		*f = figure(math.NaN())
		return nil
	}
	return json.Unmarshal(b, (*float64)(f))
}

type tensorStats struct {
	Name, DType string
	Shape       []int
	Stats       *stats
	Error       string
}

// statsOf returns what the command says of a model.
func statsOf(t *testing.T, model string) map[string]tensorStats {
	t.Helper()
	var said struct{ Tensors []tensorStats }
	tensormap(t, &said, "stats", "--json", model)
	byName := make(map[string]tensorStats)
	for _, s := range said.Tensors {
		byName[s.Name] = s
	}
	return byName
}

var numeral = regexp.MustCompile(`[−-]?\d[\d,]*(\.\d+)?(e[−-]?\d+)?`)

// shows reports whether the first number in a text of the page is v, rounded as the page rounds.
func shows(text string, v float64) bool {
	found := numeral.FindString(text)
	if found == "" {
		return math.IsNaN(v)
	}
	plain := strings.NewReplacer(",", "", "−", "-").Replace(found)
	got, err := strconv.ParseFloat(plain, 64)
	if err != nil {
		return false
	}
	mantissa, exponent, _ := strings.Cut(plain, "e")
	_, decimals, _ := strings.Cut(mantissa, ".")
	e, _ := strconv.Atoi(exponent)
	if decimals == "" { // three digits count
		for digits := strings.TrimLeft(mantissa, "-"); len(digits) > 3 && strings.HasSuffix(digits, "0"); e++ {
			digits = digits[:len(digits)-1]
		}
	}
	unit := math.Pow(10, float64(e-len(decimals)))
	return math.Abs(got-v) <= 0.5*unit*(1+1e-9)
}

// labels returns the names of all cells of the map, for screen readers.
func (p *tab) labels() (labels []string) {
	p.t.Helper()
	p.eval("[...document.querySelectorAll('#main [role=grid] [role=gridcell][aria-label]')].map((c) => c.getAttribute('aria-label'))", &labels)
	return labels
}

var inLayer = regexp.MustCompile(`^encoder\.layer\.(\d+)\.(.*?)(\.weight)?$`)

// MiniLM is shown as the command describes it, in each host.
func TestMiniLM(t *testing.T) {
	onEachHost(t, minilm, []string{"server", "web", "file"}, func(t *testing.T, p *tab) {
		if p.host == "server" || !testing.Short() && p.host != "file" {
			p.part(t, "figures", func(t *testing.T, p *tab) { compareFigures(t, p, minilm(t)) })
		}
		if p.host == "server" || !testing.Short() {
			p.part(t, "tensor", tensorShows)
		}
		p.part(t, "overview", overviewShows)
	})
}

// overviewShows tests that the map has the command's numbers.
func overviewShows(t *testing.T, p *tab) {
	want := statsOf(t, minilm(t))
	labels := p.labels()
	found := 0
	for name, s := range want {
		m := inLayer.FindStringSubmatch(name)
		if m == nil {
			continue
		}
		prefix := fmt.Sprintf("layer %s, %s", m[1], m[2])
		for _, l := range labels {
			if rest, ok := strings.CutPrefix(strings.Replace(l, ".weight, ", ", ", 1), prefix+", "); ok {
				found++
				if !shows(rest, *s.Stats.MaxSigma) {
					t.Errorf("the page says %q, and the command %v", l, *s.Stats.MaxSigma)
				}
			}
		}
	}
	if found != 96 {
		t.Errorf("%d cells of 96 tensors: %.5q", found, labels)
	}
	text := p.text("document.getElementById('main').innerText")
	name := "nreimers/MiniLM-L6-H384-uncased" // in config.json
	if p.host == "web" {
		name = minilmTitle // of the one file that was chosen
	}
	if title := p.text("document.querySelector('#main h1').textContent"); title != name {
		t.Errorf("the overview is of %q, not %q", title, name)
	}
	for _, part := range []string{"22.7 M", "86.7 MiB", "output.dense", "175 σ", "6 layers × 16 roles", "embeddings 52.5 % of parameters, 52.5 % of bytes"} {
		if !strings.Contains(strings.ReplaceAll(text, "\u202f", " "), part) {
			t.Errorf("the overview does not say %q", part)
		}
	}
	if p.host == "server" { // their ranges are of the grid: of vectors, too
		least, most := math.Inf(1), 0.0
		for name, s := range want {
			if inLayer.MatchString(name) {
				least, most = min(least, *s.Stats.MaxSigma), max(most, *s.Stats.MaxSigma)
			}
		}
		if low, high, _ := strings.Cut(p.text("document.querySelector('.thumb[data-key=max_sigma] small').textContent"), "–"); !shows(low, least) || !shows(high, most) {
			t.Errorf("the small map's range is %s to %s, and not %v to %v", low, high, least, most)
		}
	}
	p.accessible("overview")
	const cell = "getComputedStyle(document.querySelector('#main .c.x')).backgroundColor"
	light := p.text(cell)
	p.resize(size{1280, 900, true})
	p.wait(cell + " !== " + quote(light))
	call(p, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Media: "print", Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: "dark"}}})
	p.wait(cell + " === " + quote(light)) // on paper
	call(p, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{})
	p.resize(size{1280, 900, true})
	p.accessible("overview, dark")
	p.resize(size{390, 844, false})
	p.fits("overview")
	p.says("1.50 KiB · 100 % zeros")
	p.accessible("overview, 390 px")
}

// fits fails the test if the page scrolls sideways, has too many nodes, or what is to be touched on a phone is small: buttons are 40 px high,
// all else is 32.
func (p *tab) fits(view string) {
	p.t.Helper()
	var n struct {
		Scroll, Window, Nodes int
		Wide, Small           []string
	}
	p.eval(`({scroll: document.documentElement.scrollWidth, window: innerWidth, nodes: document.getElementsByTagName('*').length,
		wide: [...document.querySelectorAll('body *')].filter((e) => e.getBoundingClientRect().right > innerWidth + 1).slice(0, 4).map((e) => e.cloneNode(false).outerHTML.slice(0, 100)),
		small: innerWidth > 600 ? [] : [...document.querySelectorAll('main :is(a, button, select, input, summary), .top :is(a, button), .foot button')]
			.filter((e) => { const h = e.getBoundingClientRect().height; return h > 1 && h < (e.matches('.btn, [role=radio], .keysbtn, select') ? 40 : 32) }).slice(0, 6).map((e) => e.getBoundingClientRect().height + ' ' + e.outerHTML.slice(0, 120))})`, &n)
	if len(n.Small) > 0 {
		p.t.Errorf("%.60s: too small to touch: %q", view, n.Small)
	}
	if n.Scroll > n.Window {
		p.t.Errorf("%.60s: %d px wide in a window of %d: %q", view, n.Scroll, n.Window, n.Wide)
	}
	if n.Nodes > 3000 {
		p.t.Errorf("%s: %d nodes", view, n.Nodes)
	}
}
