package browsertest

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
)

// A model at an address is read by ranges in the browser, with its shards, if the server lets pages do so. Else the page says why not.
func TestAddress(t *testing.T) {
	browser(t)
	dir := sharded(t)
	for _, test := range []struct {
		name, path string
		headers    map[string]string
		says       string // of an error
	}{
		{"open", "model.apr", map[string]string{"Access-Control-Allow-Origin": "*", "Access-Control-Expose-Headers": "Content-Range, Accept-Ranges, ETag"}, ""},
		{"other origins forbidden", "model.apr", nil, "The browser gets no answer from this address."},
		{"ranges hidden", "model-00001-of-00008.apr", map[string]string{"Access-Control-Allow-Origin": "*"}, "The server does not let pages read ranges of this file."},
		{"missing", "no-such.apr", map[string]string{"Access-Control-Allow-Origin": "*"}, "The server refuses this address."},
	} {
		t.Run(test.name, func(t *testing.T) {
			files := http.FileServer(http.Dir(dir))
			whole := 0
			s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				for name, value := range test.headers {
					w.Header().Set(name, value)
				}
				w.Header().Set("Cross-Origin-Resource-Policy", "cross-origin")
				if r.Header.Get("Range") == "" {
					whole++
				}
				files.ServeHTTP(w, r)
			}))
			defer s.Close()
			path := test.path
			if strings.HasPrefix(path, "model-") {
				shards, err := filepath.Glob(filepath.Join(dir, "model-*"))
				if err != nil || len(shards) == 0 {
					t.Fatal(shards, err)
				}
				path = filepath.Base(shards[0])
			}
			p := newTab(t, desktop)
			if test.says != "" {
				p.expected = []string{"CORS", "ERR_FAILED", "404"}
			}
			p.open(publish(t))
			p.wait("document.querySelector('#main input.address')")
			p.eval("document.querySelector('#main input.address').focus()", new(any))
			p.write(s.URL + "/" + path)
			p.press("Enter")
			if test.says != "" {
				p.wait("document.getElementById('main').textContent.includes(" + quote(test.says) + ")")
				p.accessible(test.name)
				return
			}
			p.computed()
			if whole > 0 {
				t.Errorf("%d files are asked for whole", whole)
			}
			compareFigures(t, p, filepath.Join(dir, "model.apr"))
		})
	}
}

// The address that explore prints may be a link on a page of another site, such as a terminal in the browser.
func TestAddressAsLink(t *testing.T) {
	address := serve(t, minilmQ4(t))
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprintf(w, `<link rel="icon" href="data:,"><a href="%s">explore</a>`, address)
	}))
	defer other.Close()
	p := newTab(t, desktop)
	p.open(strings.Replace(other.URL, "127.0.0.1", "localhost", 1))
	p.eval("document.querySelector('a').click()", new(any))
	p.wait("document.querySelector('#main [role=grid]')")
	if at := p.text("location.href"); strings.Contains(at, "token") {
		t.Error(at)
	}
	p.noErrors()
}
