package browsertest

import (
	"flag"
	"fmt"
	"path/filepath"
	"testing"
)

var screenshots = flag.String("screenshots", "", "write pictures of all views to `DIR`")

// TestScreenshots writes pictures of all views, for people to look at.
func TestScreenshots(t *testing.T) {
	if *screenshots == "" {
		t.Skip("no -screenshots DIR")
	}
	one, two, experts, gguf := serve(t, minilm(t)), serve(t, minilm(t), minilmQ4(t)), serve(t, moe(t)), serve(t, minilmQ4(t))
	views := []struct{ name, address, hash string }{
		{"overview", one, "#/"},
		{"tensor", one, "#/t/encoder.layer.0.output.dense.weight"},
		{"compare", two, "#/compare"},
		{"list", experts, "#/tensors"},
		{"search", experts, "#/tensors?q=layer+3+down&group=none&sort=-max_sigma"},
		{"overview-moe", experts, "#/"},
		{"map", one, "#/map"},
		{"metadata", one, "#/metadata"},
		{"metadata-gguf", gguf, "#/metadata"},
	}
	for _, s := range []size{{1280, 900, false}, {1280, 900, true}, {390, 844, false}, {390, 844, true}} {
		p := newTab(t, s)
		at := ""
		for _, v := range views {
			if v.address != at {
				p.open(v.address)
				p.computed()
				at = v.address
			}
			p.goTo(v.hash)
			p.still()
			theme := "light"
			if s.dark {
				theme = "dark"
			}
			p.shot(filepath.Join(*screenshots, fmt.Sprintf("%s-%d-%s.png", v.name, s.width, theme)), true)
		}
	}
}

// still waits until the page has not changed for a while.
func (p *tab) still() {
	p.t.Helper()
	p.eval(`new Promise((resolve) => {
		const quiet = () => setTimeout(done, 150), done = () => { watch.disconnect(); resolve() }
		let timer = quiet()
		const watch = new MutationObserver(() => { clearTimeout(timer); timer = quiet() })
		watch.observe(document.body, {subtree: true, childList: true, attributes: true, characterData: true})
	})`, new(any))
}
