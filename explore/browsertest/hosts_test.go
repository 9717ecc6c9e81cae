package browsertest

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/chromedp"

	"github.com/tensormap/tensormap/explore"
	"github.com/tensormap/tensormap/explore/internal/answer"
	"github.com/tensormap/tensormap/internal/test/modeltest"
	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/loader"
)

// scratch is a directory of all tests, which cleanUp removes.
var scratch = sync.OnceValues(func() (string, error) { return os.MkdirTemp("", "browsertest") })

func cleanUp() {
	if dir, err := scratch(); err == nil {
		os.RemoveAll(dir)
	}
}

// once returns a function that makes something for all tests that want it, in a directory of its own. A test that cannot have it
// fails, or is skipped if make returns a reason.
func once[T any](make func(dir string) (v T, skip string, err error)) func(t *testing.T) T {
	get := sync.OnceValue(func() (made struct {
		v    T
		skip string
		err  error
	}) {
		dir, err := scratch()
		if err == nil {
			dir, err = os.MkdirTemp(dir, "")
		}
		if made.err = err; err == nil {
			made.v, made.skip, made.err = make(dir)
		}
		return made
	})
	return func(t *testing.T) T {
		t.Helper()
		browser(t) // without which nothing is worth making
		made := get()
		if made.err != nil {
			t.Fatal(made.err)
		}
		if made.skip != "" {
			t.Skip(made.skip)
		}
		return made.v
	}
}

// command is the path of the command tensormap.
var command = once(func(dir string) (string, string, error) {
	path := filepath.Join(dir, "tensormap")
	return path, "", execute(exec.Command("go", "-C", "../..", "build", "-o", path, "./cmd/tensormap"))
})

// execute runs a program. The error has what it prints.
func execute(cmd *exec.Cmd) error {
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%v: %w\n%s", cmd.Args, err, out)
	}
	return nil
}

// tensormap runs the command and decodes the JSON that it prints.
func tensormap(t *testing.T, into any, args ...string) {
	t.Helper()
	var out, errors bytes.Buffer
	cmd := exec.Command(command(t), args...)
	cmd.Stdout, cmd.Stderr = &out, &errors
	err := cmd.Run()
	if into == nil && err != nil {
		t.Fatalf("tensormap %v: %v\n%s", args, err, errors.String())
	}
	if into != nil {
		if jsonErr := json.Unmarshal(out.Bytes(), into); jsonErr != nil { // diff and a damaged tensor exit with 1
			t.Fatalf("tensormap %v: %v, %v\n%s", args, jsonErr, err, errors.String())
		}
	}
}

// serve returns the address at which tensormap explore serves models until the test ends.
func serve(t *testing.T, models ...string) string {
	t.Helper()
	cmd := exec.Command(command(t), append([]string{"explore", "--no-browser"}, models...)...)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	var errors bytes.Buffer
	cmd.Stderr = &errors
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
	})
	address, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		cmd.Process.Kill()
		cmd.Wait()
		t.Fatalf("tensormap explore %v: %v\n%s", models, err, errors.String())
	}
	go io.Copy(io.Discard, out)
	return strings.TrimSpace(address)
}

// dist is the directory of the page for browsers alone, as make web writes it.
var dist = once(func(dir string) (string, string, error) {
	if _, err := exec.LookPath("make"); err != nil {
		return "", "no make, which writes the page for browsers alone", nil
	}
	return dir, "", execute(exec.Command("make", "-C", "../..", "web", "WEB="+dir, "WEB_FLAGS="))
})

// headers are what web/README.md tells a server to send.
const webPolicy = "default-src 'none'; script-src 'self' 'wasm-unsafe-eval'; style-src 'self'; img-src 'self' data:; connect-src 'self' https: http://127.0.0.1:*; " +
	"worker-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// publish returns the address at which the page for browsers alone is served.
func publish(t *testing.T) string {
	t.Helper()
	files := http.FileServer(http.Dir(dist(t)))
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Security-Policy", webPolicy)
		w.Header().Set("X-Content-Type-Options", "nosniff")
		w.Header().Set("Cross-Origin-Opener-Policy", "same-origin") // with the next one the page can measure its memory
		w.Header().Set("Cross-Origin-Embedder-Policy", "require-corp")
		files.ServeHTTP(w, r)
	}))
	t.Cleanup(s.Close)
	return s.URL + "/"
}

// choose gives files, or a directory, to the page for browsers alone, as the person does who chooses them.
func (p *tab) choose(paths ...string) {
	p.t.Helper()
	field := "input[type=file]:not([webkitdirectory])"
	if info, err := os.Stat(paths[0]); err == nil && info.IsDir() {
		field = "input[type=file][webkitdirectory]"
	}
	p.wait("document.querySelector('" + field + "')")
	run(p, chromedp.SetUploadFiles(chromedp.CSS(field), paths, chromedp.NodeReady))
}

// drop drops a file, or a directory, on the page for browsers alone.
func (p *tab) drop(path string) {
	p.t.Helper()
	p.wait("document.querySelector('#main .panel')")
	var at struct{ X, Y float64 }
	p.eval("(({x, y}) => ({x: x + 10, y: y + 10}))(document.querySelector('#main .panel').getBoundingClientRect())", &at)
	data := &input.DragData{Items: []*input.DragDataItem{}, Files: []string{path}, DragOperationsMask: 1}
	for _, kind := range []input.DispatchDragEventType{"dragEnter", "dragOver", "drop"} {
		call(p, input.DispatchDragEvent, input.DispatchDragEventParams{Type: kind, X: at.X, Y: at.Y, Data: data})
	}
}

// hosts are the ways to show a model.
var hosts = map[string]func(p *tab, model string){
	"server": func(p *tab, model string) { p.open(serve(p.t, model)) },
	"web": func(p *tab, model string) {
		p.open(publish(p.t))
		p.choose(model)
	},
	"file": func(p *tab, model string) {
		path := filepath.Join(p.t.TempDir(), "page.html")
		tensormap(p.t, nil, "explore", model, "-o", path)
		p.open("file://" + path)
	},
}

// onEachHost runs f on a tab that shows the model in each way, once all figures are there. The short tests take but some ways.
func onEachHost(t *testing.T, model func(t *testing.T) string, short []string, f func(t *testing.T, p *tab)) {
	names := []string{"server", "web", "file"}
	if testing.Short() {
		names = short
	}
	for _, name := range names {
		t.Run(name, func(t *testing.T) {
			path := model(t)
			p := newTab(t, desktop)
			p.host = name
			hosts[name](p, path)
			p.computed()
			f(t, p)
		})
	}
}

// part runs a part of a test on the page that p shows, from its overview on.
func (p *tab) part(t *testing.T, name string, f func(t *testing.T, p *tab)) {
	t.Run(name, func(t *testing.T) {
		p.t = t
		p.resize(desktop)
		p.goTo("#/")
		p.still()
		f(t, p)
		p.noErrors()
	})
	p.t = t
}

// TestSwapWhileReading: a stream that ends as the model is swapped is asked for again if the same files are served, and the page says
// so at once if others are.
func TestSwapWhileReading(t *testing.T) {
	for _, c := range []struct{ name, after string }{{"the same", "a"}, {"another", "b"}} {
		t.Run(c.name, func(t *testing.T) {
			handlers := make(map[string]http.Handler)
			for i, name := range []string{"a", "b"} {
				m, err := loader.OpenBytes(modeltest.SafeTensors(gaussian("w", layout.F32, 1, 4+i, 4)), nil)
				m = modeltest.Opened(t, m, err)
				handlers[name] = explore.Handler(m.Acquire, nil)
			}
			var served atomic.Value
			served.Store("a")
			var asked atomic.Int32
			s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path == "/data/stats" && asked.Add(1) == 1 {
					served.Store(c.after)
					json.NewEncoder(w).Encode(answer.Line{Error: &answer.Problem{Text: "swapped", Swapped: true}})
					return
				}
				handlers[served.Load().(string)].ServeHTTP(w, r)
			}))
			t.Cleanup(s.Close)
			p := newTab(t, desktop)
			begun := time.Now()
			p.open(s.URL + "/")
			if c.after == "b" {
				p.wait("document.getElementById('swap')")
				p.eval("document.querySelector('#swap button').click()", new(any))
				p.wait("document.getElementById('main').innerText.includes('5×4')")
				if p.is("document.getElementById('swap')") {
					t.Error("the new model is shown, and the note stays")
				}
			} else {
				p.computed()
			}
			if took := time.Since(begun); took > 14*time.Second { // before the page asks by itself
				t.Errorf("it took %v", took)
			}
			if n := asked.Load(); c.after == "a" && n != 2 {
				t.Errorf("data/stats was asked for %d times", n)
			}
		})
	}
}
