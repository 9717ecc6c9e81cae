package explore

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log"
	"math"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tensormap/tensormap/explore/internal/answer"
	"github.com/tensormap/tensormap/internal/test/modeltest"
	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/loader"
	"github.com/tensormap/tensormap/mmapio"
)

// hostile is a name that would be markup, script, or lines of a header.
const hostile = "</script><img src=x onerror=alert(1)>\r\nSet-Cookie: a=b\u202e"

// layered returns a model of two layers, with a hostile name, odd values and all kinds of shapes.
func layered(t testing.TB) *loader.Model {
	t.Helper()
	tensors := []modeltest.Tensor{modeltest.Finite("embed.weight", layout.F32, 40, 8)}
	for i := range 2 {
		for _, role := range []string{"attn.q", "attn.k", "mlp.up"} {
			tensors = append(tensors, modeltest.Finite(fmt.Sprintf("layers.%d.%s.weight", i, role), layout.BF16, 16, 8))
		}
		tensors = append(tensors, modeltest.Finite(fmt.Sprintf("layers.%d.norm.weight", i), layout.F32, 8))
	}
	odd := make([]float32, 12*30)
	for i := range odd {
		odd[i] = float32(i%7) - 3
	}
	odd[100], odd[200], odd[300] = 1e6, float32(math.NaN()), float32(math.Inf(1))
	tensors = append(tensors,
		modeltest.Tensor{Name: "odd", DType: layout.F32, Shape: []int{12, 30}, Data: modeltest.Float32s(odd...)},
		modeltest.Tensor{Name: "zeros", DType: layout.F16, Shape: []int{4, 5}, Data: make([]byte, 40)},
		modeltest.Tensor{Name: "scalar", DType: layout.F32, Data: make([]byte, 4)},
		modeltest.Tensor{Name: "empty", DType: layout.F32, Shape: []int{0, 3}},
		modeltest.Tensor{Name: "cube", DType: layout.I32, Shape: []int{2, 3, 4}, Data: make([]byte, 96)},
		modeltest.Tensor{Name: "complex", DType: layout.C64, Shape: []int{2}, Data: make([]byte, 16)},
	)
	m, err := loader.OpenBytes(modeltest.SafeTensors(tensors...), nil)
	return modeltest.Opened(t, m, err)
}

// hostileModel returns a model whose tensors have hostile names.
func hostileModel(t testing.TB) *loader.Model {
	t.Helper()
	name, _ := json.Marshal(hostile)
	header := fmt.Sprintf(`{"__metadata__":{%s:%[1]s},%[1]s:{"dtype":"F32","shape":[1,1],"data_offsets":[0,4]},"layers.0.x%s:{"dtype":"F32","shape":[1],"data_offsets":[4,8]}}`,
		name, name[1:])
	m, err := loader.Open(modeltest.WriteSafeTensors(t, header, make([]byte, 8)...), nil)
	return modeltest.Opened(t, m, err)
}

// ask asks a handler for a path, as the page does.
func ask(t testing.TB, h http.Handler, path string, header ...string) *httptest.ResponseRecorder {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/"+path, nil)
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

// answerOf returns the answer to the request for a path. Anything but a good answer ends the test.
func answerOf[A any](t testing.TB, h http.Handler, path string) (a A) {
	t.Helper()
	w := ask(t, h, path)
	if w.Code != http.StatusOK {
		t.Fatalf("%s: %d %s", path, w.Code, w.Body)
	}
	if err := json.Unmarshal(w.Body.Bytes(), &a); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	return a
}

// linesOf returns the lines of an answer.
func linesOf[L any](t testing.TB, h http.Handler, path string) (lines []L) {
	t.Helper()
	w := ask(t, h, path)
	for line := range bytes.Lines(w.Body.Bytes()) {
		var l L
		if err := json.Unmarshal(line, &l); err != nil {
			t.Fatalf("%s: %v in %q", path, err, line)
		}
		lines = append(lines, l)
	}
	return lines
}

// paths are requests for all kinds of data.
var paths = []string{
	"data/model", "data/rows?numbers=0-2,5", "data/list", "data/list?q=layers&group=none&sort=-size", "data/stats", "data/compare", "data/compare?swap=1",
	"data/map", "data/map?by=dtype", "data/map?by=sigma", "data/map?by=memory", "data/map?narrow", "data/metadata",
	"data/tensor?name=odd", "data/tensor?name=scalar", "data/tensor?name=empty", "data/tensor?name=cube", "data/tensor?name=complex",
	"data/picture?name=odd&as=max", "data/picture?name=odd&as=mean&rows=3:5&columns=0:30", "data/picture?name=empty&as=max", "data/picture?name=scalar&as=mean",
	"data/values?name=odd&row=3&column=29", "data/values?name=scalar&row=0&column=0", "data/norms?name=odd", "data/norms?name=layers.0.norm.weight", "data/norms?name=empty",
}

func TestAnswers(t *testing.T) {
	m, other := layered(t), layered(t)
	h := Handler(m.Acquire, &Options{Compared: other.Acquire})
	id := answerOf[answer.ModelAnswer](t, h, "data/model").ID
	for _, path := range paths {
		w := ask(t, h, path)
		head := w.Header()
		if w.Code != http.StatusOK || head.Get("Cache-Control") != "no-store" || head.Get("Model") != id || id == "" {
			t.Errorf("%s: %d %v %.200s", path, w.Code, head, w.Body)
		}
		for name, want := range map[string]string{"X-Content-Type-Options": "nosniff", "Content-Security-Policy": policy, "Referrer-Policy": "no-referrer",
			"Cross-Origin-Resource-Policy": "same-origin"} {
			if head.Get(name) != want {
				t.Errorf("%s: %s is %q", path, name, head.Get(name))
			}
		}
		if kind := head.Get("Content-Type"); kind == "application/json" && !json.Valid(w.Body.Bytes()) {
			t.Errorf("%s: no JSON: %.200s", path, w.Body)
		}
	}
	for _, m := range []*loader.Model{m, other} {
		waitFor(t, "no lease", func() bool { return m.Stats().Leases == 0 })
	}
}

// waitFor waits until something is so.
func waitFor(t testing.TB, what string, isSo func() bool) {
	t.Helper()
	for begun := time.Now(); !isSo(); time.Sleep(time.Millisecond) {
		if time.Since(begun) > time.Minute {
			t.Fatalf("waited a minute for: %s", what)
		}
	}
}

// TestPage: the page's files have their types and a policy without inline script, and lie nowhere else.
func TestPage(t *testing.T) {
	h := Handler(layered(t).Acquire, nil)
	for path, kind := range map[string]string{"": "text/html", "index.html": "text/html", "main.js": "text/javascript", "page.css": "text/css"} {
		w := ask(t, h, path)
		if w.Code != http.StatusOK || !strings.HasPrefix(w.Header().Get("Content-Type"), kind) || w.Header().Get("Content-Security-Policy") != policy || w.Body.Len() == 0 {
			t.Errorf("%q: %d %v", path, w.Code, w.Header())
		}
	}
	for _, path := range []string{"../handler.go", "page/index.html", "%2e%2e/handler.go", "./main.js", "ask.js", "none.js", "data", "data/", "data/none", "data/model/", "doc.go", "main.js/", "."} {
		if w := ask(t, h, path); w.Code != http.StatusNotFound {
			t.Errorf("%q: %d", path, w.Code)
		}
	}
	if strings.Contains(policy, "unsafe") {
		t.Error(policy)
	}
	mounted := http.StripPrefix("/debug/model", h)
	if w := ask(t, mounted, "debug/model"); w.Code != http.StatusMovedPermanently || w.Header().Get("Location") != "./model/" {
		t.Errorf("%d %v", w.Code, w.Header())
	}
	if w := ask(t, mounted, "debug/model/data/model"); w.Code != http.StatusOK {
		t.Errorf("mounted: %d", w.Code)
	}
	stripped := http.StripPrefix("/debug/model/", h) // the slash too
	for path, want := range map[string]string{"debug/model/": "<!doctype html>", "debug/model/data/model": "{", "debug/model/main.js": "const "} {
		if w := ask(t, stripped, path); w.Code != http.StatusOK || !strings.HasPrefix(w.Body.String(), want) {
			t.Errorf("%s: %d", path, w.Code)
		}
	}
}

// stuck is an answer that its client does not take until it is released.
type stuck struct {
	*httptest.ResponseRecorder
	writes  chan struct{}
	release chan struct{}
}

func (s stuck) Write(b []byte) (int, error) {
	s.writes <- struct{}{}
	<-s.release
	return s.ResponseRecorder.Write(b)
}

// TestStuckClient: others read tensors while a client does not take its answer.
func TestStuckClient(t *testing.T) {
	h := Handler(layered(t).Acquire, nil)
	for _, path := range []string{"data/tensor?name=odd", "data/picture?name=odd&as=max", "data/norms?name=odd", "data/map?by=part", "data/list"} {
		w := stuck{httptest.NewRecorder(), make(chan struct{}), make(chan struct{})}
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/"+path, nil))
		}()
		<-w.writes
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		other := httptest.NewRecorder()
		h.ServeHTTP(other, httptest.NewRequestWithContext(ctx, http.MethodGet, "/data/tensor?name=cube", nil))
		cancel()
		if other.Code != http.StatusOK || other.Body.Len() == 0 {
			t.Errorf("beside %s: %d", path, other.Code)
		}
		close(w.release)
		<-ended
	}
}

// deadlines records what is asked of a connection.
type deadlines struct {
	*httptest.ResponseRecorder
	last time.Time
	set  int
}

func (d *deadlines) SetWriteDeadline(at time.Time) error {
	d.last = at
	if !at.IsZero() {
		d.set++
	}
	return nil
}

// TestOpenFails: an error of open is the answer, with its text.
func TestOpenFails(t *testing.T) {
	for err, want := range map[error]int{
		loader.ErrClosed: http.StatusServiceUnavailable, context.DeadlineExceeded: http.StatusServiceUnavailable, errors.New("no luck"): http.StatusInternalServerError,
	} {
		w := ask(t, Handler(func() (*loader.Lease, error) { return nil, err }, nil), "data/model")
		if w.Code != want || !strings.Contains(w.Body.String(), err.Error()) {
			t.Errorf("%v: %d, %s", err, w.Code, w.Body)
		}
	}
}

// TestDeadlines: all answers have a deadline while they are written, and leave none behind.
func TestDeadlines(t *testing.T) {
	h := Handler(layered(t).Acquire, nil)
	for _, path := range []string{"data/model", "data/stats", "data/picture?name=odd&as=max"} {
		w := &deadlines{ResponseRecorder: httptest.NewRecorder()}
		h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/"+path, nil))
		if w.set == 0 || !w.last.IsZero() {
			t.Errorf("%s: %d, %v", path, w.set, w.last)
		}
	}
}

// TestJobPanics: a mistake in a job is an error of those who listen, and does not end the process.
func TestJobPanics(t *testing.T) {
	m := layered(t)
	h := Handler(m.Acquire, &Options{Compared: m.Acquire}).(*handler)
	ask(t, h, "data/model")
	shown := h.models[theModel].shown()
	good := shown.rows
	log.SetOutput(io.Discard)
	defer log.SetOutput(os.Stderr)
	for _, path := range []string{"data/stats", "data/compare?swap=1"} {
		shown.rows = nil
		if w := ask(t, h, path); !strings.Contains(w.Body.String(), "mistake") {
			t.Errorf("%s: %s", path, w.Body)
		}
		shown.rows = good
		if w := ask(t, h, path); strings.Contains(w.Body.String(), "mistake") || !strings.Contains(w.Body.String(), `"done":true`) {
			t.Errorf("%s again: %s", path, w.Body)
		}
	}
}

// TestListenBounds: a listener that comes late gets all results, not too many of them in a line.
func TestListenBounds(t *testing.T) {
	const n = 3*maxResults + 1
	j := startJob(func(_ context.Context, j *job[int]) error {
		j.publish(func(line *answer.Line) { line.Error = &Problem{Text: "done"} }, make([]int, n)...)
		return nil
	}, func(context.Context) error { return nil }, nil)
	if !j.join() {
		t.Fatal("stopped")
	}
	defer j.leave()
	var got int
	var last answer.Line
	err := j.listen(t.Context(), func(line answer.Line, results []int) error {
		if len(results) > maxResults || last.Error != nil && len(results) > 0 {
			t.Errorf("%d results behind %v", len(results), last)
		}
		got, last = got+len(results), line
		return nil
	})
	if err != nil || got != n || last.Error == nil || last.Error.Text != "done" {
		t.Errorf("%d results, %v, %v", got, last, err)
	}
}

// TestPause: a pause is as long as the work before it, and waits until that is worth one.
func TestPause(t *testing.T) {
	if now := time.Now().Add(time.Hour); pause(now) != now { // whatever the clock shows, no work has been done since
		t.Error("a pause after no work")
	}
	last := time.Now().Add(-2 * minPause)
	if rested := pause(last).Sub(last); rested < 4*minPause {
		t.Errorf("%v of work and pause, of which %v were work", rested, 2*minPause)
	}
}

// TestPageIsSmall: JavaScript and CSS that a browser loads of the page stay small.
func TestPageIsSmall(t *testing.T) {
	const most = 200_000
	files, err := fs.ReadDir(pageFiles, "built")
	if err != nil {
		t.Fatal(err)
	}
	sum := int64(0)
	for _, file := range files {
		info, err := file.Info()
		if err != nil {
			t.Fatal(err)
		}
		if path.Ext(file.Name()) != ".html" {
			sum += info.Size()
		}
	}
	t.Logf("JavaScript and CSS: %d bytes", sum)
	if sum > most {
		t.Errorf("JavaScript and CSS have %d bytes, above %d", sum, most)
	}
}

func TestSignature(t *testing.T) {
	signed, err := loader.Open("../testdata/trust/signed.apr", nil)
	modeltest.Opened(t, signed, err)
	for _, c := range []struct {
		model          *loader.Model
		verified, want string
	}{
		{layered(t), "", "none"},
		{signed, "", "Ed25519 KEY, not verified"},
		{signed, "Ed25519 abc", "Ed25519 abc, verified"},
	} {
		h := Handler(c.model.Acquire, &Options{Signature: c.verified})
		want := c.want
		if md, err := signed.Metadata(); err == nil {
			by, _ := md.Get("signature", "public_key")
			want = strings.Replace(want, "KEY", fmt.Sprint(by), 1)
		}
		if got := answerOf[answer.ModelAnswer](t, h, "data/model").Signature; got != want {
			t.Errorf("%q, not %q", got, want)
		}
	}
}

func TestComparedFrom(t *testing.T) {
	m := layered(t)
	h := Handler(m.Acquire, &Options{Compared: m.Acquire, ComparedFrom: "https://example.com/models/b.gguf"})
	if got := answerOf[answer.ModelAnswer](t, h, "data/model").Compared; got.From != "https://example.com/models/b.gguf" || got.Title != "b.gguf" {
		t.Errorf("%+v", got)
	}
}

// TestRefused: requests that no page of ours makes.
func TestRefused(t *testing.T) {
	h := Handler(layered(t).Acquire, nil)
	for _, method := range []string{http.MethodPost, http.MethodPut, http.MethodDelete, http.MethodOptions, http.MethodPatch, http.MethodTrace, http.MethodConnect, "FROB"} {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(method, "/data/model", nil))
		if w.Code != http.StatusMethodNotAllowed || w.Header().Get("Allow") == "" {
			t.Errorf("%s: %d", method, w.Code)
		}
	}
	for _, header := range [][]string{{"Sec-Fetch-Site", "cross-site"}, {"Sec-Fetch-Site", "same-site"}, {"Origin", "https://example.org"}, {"Origin", "null"}, {"Origin", "%"}} {
		if w := ask(t, h, "data/model", header...); w.Code != http.StatusForbidden || strings.Contains(w.Body.String(), "embed") {
			t.Errorf("%q: %d", header, w.Code)
		}
	}
	for _, header := range [][]string{{"Sec-Fetch-Site", "same-origin"}, {"Sec-Fetch-Site", "none"}, {"Origin", "http://example.com"}} { // httptest's own host
		if w := ask(t, h, "data/model", header...); w.Code != http.StatusOK {
			t.Errorf("%q: %d", header, w.Code)
		}
	}
	many := "data/list?open=" + strings.Repeat("a&open=", maxOpen)
	for path, status := range map[string]int{
		"data/rows": 400, "data/rows?numbers=-1": 400, "data/rows?numbers=0-999999999": 400, "data/rows?numbers=3-1": 400, "data/rows?numbers=9999999999999999999": 400,
		"data/rows?numbers=" + strings.Repeat("0,", maxRows) + "0": 400,
		"data/list?count=100000":                                   400, "data/list?from=-1": 400, "data/list?from=x": 400, many: 400,
		"data/tensor": 404, "data/tensor?name=none": 404, "data/compare": 404, "data/map?by=frob": 400, "data/metadata?key=none": 404, "data/metadata?key=a&count=99999": 400,
		"data/picture?name=odd": 400, "data/picture?name=odd&as=frob": 400, "data/picture?name=odd&as=max&rows=0:13": 400, "data/picture?name=odd&as=max&columns=2:2": 400,
		"data/picture?name=odd&as=max&rows=x": 400, "data/picture?name=complex&as=max": 422, "data/values?name=odd&row=0": 400, "data/values?name=odd&row=12&column=0": 400,
		"data/values?name=odd&row=0&column=0&rows=1000": 400, "data/values?name=odd&row=-1&column=0": 400, "data/values?name=empty&row=0&column=0": 400,
		"data/values?name=complex&row=0&column=0": 422,
	} {
		w := ask(t, h, path)
		var p Problem
		if err := json.Unmarshal(w.Body.Bytes(), &p); w.Code != status || err != nil || p.Text == "" {
			t.Errorf("%.100s: %d %s, want %d", path, w.Code, w.Body, status)
		}
	}
}

// TestNoModel: without a model there is a problem to show, and no panic.
func TestNoModel(t *testing.T) {
	m := layered(t)
	m.Close()
	h := Handler(m.Acquire, nil)
	for _, path := range paths {
		if w := ask(t, h, path); w.Code != http.StatusServiceUnavailable && w.Code != http.StatusNotFound {
			t.Errorf("%s: %d %s", path, w.Code, w.Body)
		}
	}
}

// TestSwap: another model has another ID, and its own tensors. Nothing of the one before is shown.
func TestSwap(t *testing.T) {
	var current loader.Current[int]
	first, second := layered(t), hostileModel(t)
	current.Swap(first, 1)
	h := Handler(func() (*loader.Lease, error) {
		_, l, err := current.Acquire(context.Background())
		return l, err
	}, nil)
	before := answerOf[answer.ModelAnswer](t, h, "data/model")
	linesOf[answer.Line](t, h, "data/stats")
	current.Swap(second, 2)
	after := answerOf[answer.ModelAnswer](t, h, "data/model")
	if before.ID == after.ID || before.Tensors == after.Tensors {
		t.Errorf("%+v, then %+v", before, after)
	}
	if w := ask(t, h, "data/tensor?name=odd"); w.Code != http.StatusNotFound || w.Header().Get("Model") != after.ID {
		t.Errorf("%d %v", w.Code, w.Header())
	}
	lines := linesOf[answer.Line](t, h, "data/stats")
	if last := lines[len(lines)-1]; !last.Progress.Done || last.Progress.AllTensors != after.Tensors {
		t.Errorf("%+v", last)
	}
	waitFor(t, "the end of the model before", func() bool { return current.Stats().Draining == 0 })
}

// TestSwapped: a request whose lease is of the model before says so, and releases the lease: it panicked, and the model stayed.
func TestSwapped(t *testing.T) {
	before, after := layered(t), hostileModel(t)
	late, err := before.Acquire()
	if err != nil {
		t.Fatal(err)
	}
	before.Close()
	leases := []func() (*loader.Lease, error){after.Acquire, func() (*loader.Lease, error) { return late, nil }}
	h := Handler(func() (*loader.Lease, error) {
		open := leases[0]
		leases = leases[1:]
		return open()
	}, nil)
	ask(t, h, "data/model")
	if w := ask(t, h, "data/model"); w.Code != http.StatusServiceUnavailable || before.Stats().Leases != 0 {
		t.Errorf("%d %s, %d leases", w.Code, w.Body, before.Stats().Leases)
	}
}

// slowReader reads a model. Behind the header it waits until it may go on.
type slowReader struct {
	*bytes.Reader
	header  int64
	reading atomic.Int32
	goOn    chan struct{}
}

func (r *slowReader) ReadAtContext(ctx context.Context, p []byte, off int64) (int, error) {
	if off >= r.header {
		r.reading.Add(1)
		select {
		case <-r.goOn:
		case <-ctx.Done():
			return 0, ctx.Err()
		}
	}
	return r.Reader.ReadAt(p, off)
}

func (r *slowReader) ReadAt(p []byte, off int64) (int, error) {
	return r.ReadAtContext(context.Background(), p, off)
}

// slow returns a model that slowReader reads.
func slow(t testing.TB) (*slowReader, *loader.Model) {
	t.Helper()
	var tensors []modeltest.Tensor
	for i := range 8 {
		tensors = append(tensors, modeltest.Finite(fmt.Sprintf("layers.%d.weight", i), layout.F32, 4, 8))
	}
	content := modeltest.SafeTensors(tensors...)
	r := &slowReader{Reader: bytes.NewReader(content), header: int64(len(content)) - 8*128, goOn: make(chan struct{})}
	m, err := loader.OpenReaderAt(t.Context(), r, int64(len(content)), nil)
	return r, modeltest.Opened(t, m, err)
}

// TestStopsUnheard: a job runs while a page listens, ends with the last, and begins anew with the next.
func TestStopsUnheard(t *testing.T) {
	source, m := slow(t)
	server := httptest.NewServer(Handler(m.Acquire, nil))
	defer server.Close()
	listen := func(ctx context.Context) *http.Response {
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, server.URL+"/data/stats", nil)
		if err != nil {
			t.Fatal(err)
		}
		answer, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		if n, err := answer.Body.Read(make([]byte, 10)); n == 0 {
			t.Fatal(n, err)
		}
		return answer
	}
	ctx1, leave1 := context.WithCancel(t.Context())
	ctx2, leave2 := context.WithCancel(t.Context())
	first, second := listen(ctx1), listen(ctx2)
	waitFor(t, "reading", func() bool { return source.reading.Load() > 0 })
	leave1()
	io.Copy(io.Discard, first.Body)
	if m.Stats().Leases == 0 {
		t.Error("the job ended though a page listens")
	}
	leave2()
	io.Copy(io.Discard, second.Body)
	waitFor(t, "the end of all work", func() bool { return m.Stats().Leases == 0 })
	close(source.goOn)
	answer := listen(t.Context())
	text, err := io.ReadAll(answer.Body)
	if err != nil || !strings.Contains(string(text), `"done":true`) || strings.Contains(string(text), `"error"`) {
		t.Errorf("%v: %s", err, text)
	}
	waitFor(t, "the end of all leases", func() bool { return m.Stats().Leases == 0 })
}

// TestShared: pages that listen at once, and those that come later, hear the same figures, and the values are read once.
func TestShared(t *testing.T) {
	m := layered(t)
	h := Handler(m.Acquire, nil)
	var group sync.WaitGroup
	heard := make([]map[int]answer.TensorStat, 6)
	listen := func(i int) {
		heard[i] = make(map[int]answer.TensorStat)
		for _, line := range linesOf[answer.Line](t, h, "data/stats") {
			for _, s := range line.Stats {
				heard[i][s.Number] = s
			}
		}
	}
	for i := range heard[1:] {
		group.Go(func() { listen(i + 1) })
	}
	group.Wait()
	listen(0)
	for i := range heard {
		a, _ := json.Marshal(heard[0])
		if b, _ := json.Marshal(heard[i]); len(heard[i]) != m.Len() || !bytes.Equal(a, b) {
			t.Errorf("listener %d: %d tensors\n%s\n%s", i, len(heard[i]), a, b)
		}
	}
}

// TestTooManyStreams: beyond the bound, a page is told so.
func TestTooManyStreams(t *testing.T) {
	_, m := slow(t)
	h := Handler(m.Acquire, nil)
	ctx, leave := context.WithCancel(t.Context())
	var group sync.WaitGroup
	for range maxStreams {
		group.Go(func() {
			h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequestWithContext(ctx, http.MethodGet, "/data/stats", nil))
		})
	}
	waitFor(t, "all streams", func() bool { return len(h.(*handler).streams) == maxStreams })
	if w := ask(t, h, "data/stats"); w.Code != http.StatusServiceUnavailable {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	leave()
	group.Wait()
	waitFor(t, "the end of all leases", func() bool { return m.Stats().Leases == 0 })
}

// TestTurns: single tensors are read one after the other, few requests wait, and those that leave make room.
func TestTurns(t *testing.T) {
	source, m := slow(t)
	h := Handler(m.Acquire, nil)
	ctx, leave := context.WithCancel(t.Context())
	var group sync.WaitGroup
	for i := range maxWaiting {
		group.Go(func() {
			r := httptest.NewRequestWithContext(ctx, http.MethodGet, fmt.Sprintf("/data/norms?name=layers.%d.weight", i%8), nil)
			h.ServeHTTP(httptest.NewRecorder(), r)
		})
	}
	waitFor(t, "all requests", func() bool { return len(h.(*handler).tensors.waiting) == maxWaiting && source.reading.Load() > 0 })
	if w := ask(t, h, "data/norms?name=layers.0.weight"); w.Code != http.StatusServiceUnavailable {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	leave()
	group.Wait()
	close(source.goOn)
	if w := ask(t, h, "data/norms?name=layers.0.weight"); w.Code != http.StatusOK || source.reading.Load() > 3 {
		t.Errorf("%d, %d reads", w.Code, source.reading.Load())
	}
}

// TestModelName: a model is called as its configuration says, or as its metadata do, or like its file; escaped, on one line.
func TestModelName(t *testing.T) {
	for _, test := range []struct{ metadata, config, want string }{
		{"GGUF's", `{"_name_or_path":"org/model"}`, "org/model"}, {"GGUF's", `{"_name_or_path":"./"}`, "GGUF's"}, {"GGUF's", `{`, "model.safetensors"},
		{"", "{}", "model.safetensors"}, {"", `{"_name_or_path":7}`, "model.safetensors"}, {`a\n\u202eb`, "{}", `a\n\u202eb`},
	} {
		path := modeltest.WriteSafeTensors(t, `{"__metadata__":{"general.name":"`+test.metadata+`"},"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}`, 0, 0, 0, 0)
		if err := os.WriteFile(filepath.Join(filepath.Dir(path), "config.json"), []byte(test.config), 0o600); err != nil {
			t.Fatal(err)
		}
		m, err := loader.Open(path, nil)
		if got := answerOf[answer.ModelAnswer](t, Handler(modeltest.Opened(t, m, err).Acquire, nil), "data/model").Name; got != test.want {
			t.Errorf("%q, %s: %q, want %q", test.metadata, test.config, got, test.want)
		}
	}
}

// TestHostileNames: names are text in JSON and SVG, whatever they hold, and no line of a header.
func TestHostileNames(t *testing.T) {
	m := hostileModel(t)
	h := Handler(m.Acquire, &Options{Compared: m.Acquire})
	name := url.QueryEscape(hostile)
	for _, path := range []string{"data/model", "data/rows?numbers=0-1", "data/list", "data/stats", "data/compare", "data/map", "data/metadata", "data/tensor?name=" + name,
		"data/values?row=0&column=0&name=" + name, "data/norms?name=" + name, "data/list?q=" + name, "data/tensor?name=" + name + "x", "data/rows?numbers=" + name,
		"data/metadata?key=" + name, "data/map?by=" + name, "data/picture?as=max&rows=" + name + "&name=" + name} {
		w := ask(t, h, path)
		if text := w.Body.String(); strings.ContainsAny(text, "<>") || w.Header().Get("Set-Cookie") != "" || w.Header().Get("Content-Type") == "" {
			t.Errorf("%.40s: %v %s", path, w.Header(), text)
		}
	}
	svg := answerOf[answer.MapAnswer](t, h, "data/map").SVG
	if strings.Contains(svg, "<img") || strings.Contains(svg, "<script") || strings.Contains(svg, "\u202e") {
		t.Error(svg)
	}
}

// TestMapLabels: the end of a role that stands in a narrow cell of the map is no end of another role.
func TestMapLabels(t *testing.T) {
	var tensors []modeltest.Tensor
	want := map[string]string{"attention.query": "query", "attention.output.dense": "attention.output.dense", "output.dense": "output.dense", "intermediate.dense": "intermediate.dense"}
	for role := range want {
		for layer := range 2 {
			tensors = append(tensors, modeltest.Finite(fmt.Sprintf("layer.%d.%s.weight", layer, role), layout.F32, 4, 4))
		}
	}
	tensors = append(tensors, modeltest.Finite("pooler.dense.weight", layout.F32, 4, 4))
	m, err := loader.OpenBytes(modeltest.SafeTensors(tensors...), nil)
	l, leaseErr := modeltest.Opened(t, m, err).Acquire()
	if leaseErr != nil {
		t.Fatal(leaseErr)
	}
	defer l.Release()
	c := newShown(l, "", "").byParts()
	for role, end := range want {
		if whole, got := c.Label("layer.1." + role + ".weight"); whole != role || got != end {
			t.Errorf("%s: %s, %s, want %s", role, whole, got, end)
		}
	}
	if whole, end := c.Label("pooler.dense.weight"); whole != "pooler.dense.weight" || end != "pooler.dense" {
		t.Errorf("pooler: %s, %s", whole, end)
	}
}

// TestMatrix compares picture, values and norms with those of a plain reading.
func TestMatrix(t *testing.T) {
	const rows, columns = 500, 1700
	m, err := loader.OpenBytes(modeltest.SafeTensors(modeltest.Finite("a", layout.F32, rows, 17, 100), modeltest.Finite("b", layout.BF16, 3, 3)), nil)
	m = modeltest.Opened(t, m, err)
	h := Handler(m.Acquire, nil)
	tensor, err := m.Tensor("a")
	if err != nil {
		t.Fatal(err)
	}
	values := make([]float32, rows*columns)
	if err := tensor.Dequantize(values); err != nil {
		t.Fatal(err)
	}
	at := func(r, c int) float64 { return float64(values[r*columns+c]) }
	text := func(r, c int) answer.Value { return answer.Value(fmt.Sprint(values[r*columns+c])) }
	stat := answerOf[answer.TensorAnswer](t, h, "data/tensor?name=a")
	if stat.Rows != rows || stat.Columns != columns || len(stat.First) != firstValues || stat.First[3] != text(0, 3) {
		t.Errorf("%+v", stat)
	}
	mean, std := float64(stat.Stat.Mean), float64(stat.Stat.Std)
	for _, test := range []struct{ query, tiles string }{{"", "167 567 3 3"}, {"&rows=10:20&columns=5:1005", "10 500 1 2"}, {"&rows=499:500&columns=1699:1700", "1 1 1 1"}} {
		for _, as := range []string{"max", "mean"} {
			w := ask(t, h, "data/picture?name=a&as="+as+test.query)
			var g, wide [4]int
			fmt.Sscan(w.Header().Get("Tiles"), &g[0], &g[1], &g[2], &g[3])
			wide = [4]int{0, rows, 0, columns}
			fmt.Sscanf(test.query, "&rows=%d:%d&columns=%d:%d", &wide[0], &wide[1], &wide[2], &wide[3])
			if w.Header().Get("Tiles") != test.tiles || w.Body.Len() != g[0]*g[1] {
				t.Fatalf("%s: %v, %d bytes", test.query, w.Header(), w.Body.Len())
			}
			for i, got := range w.Body.Bytes() {
				far, sum, n := 0.0, 0.0, 0.0
				for r := wide[0] + i/g[1]*g[2]; r < min(wide[0]+(i/g[1]+1)*g[2], wide[1]); r++ {
					for c := wide[2] + i%g[1]*g[3]; c < min(wide[2]+(i%g[1]+1)*g[3], wide[3]); c++ {
						far, sum, n = max(far, math.Abs(at(r, c)-mean)/std), sum+(at(r, c)-mean)/std, n+1
					}
				}
				level := math.Log(far/2) / math.Log(128)
				if as == "mean" {
					level = (sum/n + 4) / 8
				}
				if want := 254 * min(max(level, 0), 1); math.Abs(float64(got)-want) > 0.6 {
					t.Fatalf("%s%s: tile %d is %d, want %v", as, test.query, i, got, want)
				}
			}
		}
	}
	window := answerOf[answer.ValuesAnswer](t, h, "data/values?name=a&row=499&column=3&rows=5&columns=9")
	if window.Row != 495 || window.Column != 0 || len(window.Values) != 5 || len(window.Values[4]) != 9 || window.Values[4][8] != text(499, 8) {
		t.Errorf("%+v", window)
	}
	norms := answerOf[answer.NormsAnswer](t, h, "data/norms?name=a")
	square := make([]float64, columns)
	for r := range rows {
		row := 0.0
		for c := range columns {
			row += at(r, c) * at(r, c)
			square[c] += at(r, c) * at(r, c)
		}
		if got := float64(norms.Rows.Norms[r]); math.Abs(got-math.Sqrt(row)) > 1e-9*got {
			t.Fatalf("row %d: %v, want %v", r, got, math.Sqrt(row))
		}
	}
	most := slices.Max(square)
	if norms.Rows.Step != 1 || norms.Columns.Step != 3 || len(norms.Columns.Norms) != 567 || len(norms.Columns.Largest) != 2 ||
		norms.Columns.Largest[0].At != uint64(slices.Index(square, most)) || math.Abs(float64(norms.Columns.Largest[0].Norm)-math.Sqrt(most)) > 1e-9*math.Sqrt(most) {
		t.Errorf("%+v", norms.Columns.Largest)
	}
}

// TestExactValues: values are those of dump, norms those of stats, where float32 would round them or know no such number.
func TestExactValues(t *testing.T) {
	bytesOf := func(v any) []byte {
		b, err := binary.Append(nil, binary.LittleEndian, v)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	m, err := loader.OpenBytes(modeltest.SafeTensors(
		modeltest.Tensor{Name: "i64", DType: layout.I64, Shape: []int{2, 2}, Data: bytesOf([]int64{1<<24 + 1, -1<<53 - 1, 3, 4})},
		modeltest.Tensor{Name: "u8", DType: layout.U8, Shape: []int{3}, Data: []byte{0, 7, 255}},
		modeltest.Tensor{Name: "f32", DType: layout.F32, Shape: []int{4}, Data: modeltest.Float32s(0.1, float32(math.NaN()), float32(math.Inf(1)), float32(math.Inf(-1)))},
		modeltest.Tensor{Name: "f64", DType: layout.F64, Shape: []int{3, 2}, Data: bytesOf([]float64{3e300, 4e300, 3e-300, -4e-300, 0, math.Inf(1)})},
		modeltest.Tensor{Name: "c64", DType: layout.C64, Shape: []int{1}, Data: make([]byte, 8)},
	), nil)
	m = modeltest.Opened(t, m, err)
	h := Handler(m.Acquire, nil)
	if got := answerOf[answer.TensorAnswer](t, h, "data/tensor?name=c64"); !strings.Contains(got.Go, "t.Bytes()") || !strings.HasSuffix(got.Command, " c64 --as raw") {
		t.Errorf("%q, %q", got.Go, got.Command)
	}
	for path, want := range map[string]string{
		"data/values?name=i64&row=0&column=0": `{"row":0,"column":0,"values":[[16777217,"-9007199254740993"],[3,4]]}`,
		"data/values?name=u8&row=0&column=0":  `{"row":0,"column":0,"values":[[0,7,255]]}`,
		"data/values?name=f32&row=0&column=0": `{"row":0,"column":0,"values":[[0.1,"NaN","Infinity","-Infinity"]]}`,
		"data/values?name=f64&row=1&column=0": `{"row":0,"column":0,"values":[[3e+300,4e+300],[3e-300,-4e-300],[0,"Infinity"]]}`,
		"data/norms?name=f64": `{"rows":{"norms":[5e+300,5e-300,0],"step":1,"median":5e-300,"largest":[{"at":0,"norm":5e+300},{"at":1,"norm":5e-300}],"zeros":1},` +
			`"columns":{"norms":[3e+300,4e+300],"step":1,"median":3.5e+300,"largest":[{"at":1,"norm":4e+300},{"at":0,"norm":3e+300}],"zeros":0}}`,
	} {
		if got := ask(t, h, path).Body.String(); got != want {
			t.Errorf("%s:\n%s, want\n%s", path, got, want)
		}
	}
	if got := ask(t, h, "data/tensor?name=i64").Body.String(); !strings.Contains(got, `"first_values":[16777217,"-9007199254740993",3,4]`) {
		t.Error(got)
	}
	if got := answerOf[answer.TensorAnswer](t, h, "data/tensor?name=f64"); got.Stat.ZeroRows != 1 || got.First[5] != "Infinity" {
		t.Errorf("%+v", got)
	}
	if got := answerOf[answer.NormsAnswer](t, h, "data/norms?name=i64").Rows.Norms; float64(got[1]) != 5 || math.Abs(float64(got[0])-(1<<53+1)) > 16 {
		t.Error(got)
	}
}

// TestGraphs: the graph of a format that has one is that of the model, node by node; others have null.
func TestGraphs(t *testing.T) {
	for path, hasGraph := range map[string]bool{"tsm/tennis-graph.tsm": true, "tsm/positions.tsm": true, "tsm/tennis-opaque.tsm": true, "april/streaming.april": false, "apr1/f32.apr": false} {
		m, err := loader.Open("../testdata/"+path, nil)
		m = modeltest.Opened(t, m, err)
		w := ask(t, Handler(m.Acquire, nil), "data/metadata")
		var a struct {
			Graph *struct {
				Inputs, Outputs []int
				Nodes           []struct {
					Name, Op string
					Inputs   []int
					Tensors  []string
				}
			}
		}
		if err := json.Unmarshal(w.Body.Bytes(), &a); err != nil || w.Code != http.StatusOK {
			t.Fatalf("%s: %d %v %.300s", path, w.Code, err, w.Body)
		}
		l, err := m.Acquire()
		if err != nil {
			t.Fatal(err)
		}
		defer l.Release()
		g, err := l.Graph()
		if (err == nil) != hasGraph || (a.Graph != nil) != hasGraph {
			t.Errorf("%s: %v, %+v", path, err, a.Graph)
		}
		if a.Graph == nil || g == nil {
			continue
		}
		if len(g.Nodes) == 0 || len(a.Graph.Nodes) != len(g.Nodes) || !slices.Equal(a.Graph.Inputs, g.Inputs) || !slices.Equal(a.Graph.Outputs, g.Outputs) {
			t.Errorf("%s: %d nodes, not %d", path, len(a.Graph.Nodes), len(g.Nodes))
			continue
		}
		for i, n := range g.Nodes {
			got := a.Graph.Nodes[i]
			if got.Name != n.Name || got.Op != n.Op || !slices.Equal(got.Inputs, n.Inputs) || !slices.Equal(got.Tensors, n.Tensors) {
				t.Errorf("%s: %+v, not %+v", path, got, n)
			}
			for _, name := range got.Tensors { // to which the page links
				if _, err := m.Tensor(name); err != nil {
					t.Errorf("%s: %v", path, err)
				}
			}
		}
	}
}

// TestChatTemplates: a template keeps its lines and tabs, shows what is invisible in it, and is cut where it is longer than an answer may be.
func TestChatTemplates(t *testing.T) {
	const template = "{%- for m in messages %}\n\t{{ m['content'] }}<script>\u202e\x1b[2J\r\n{% endfor %}"
	md := layout.Metadata{{Key: "tokenizer.chat_template", Value: template}, {Key: "tokenizer.chat_template.tools", Value: strings.Repeat("é\n", maxTextBytes)}}
	m, err := loader.OpenBytes(modeltest.APR2Model(t, md, modeltest.Finite("a", layout.F32, 4)), nil)
	m = modeltest.Opened(t, m, err)
	w := ask(t, Handler(m.Acquire, nil), "data/metadata")
	if strings.Contains(w.Body.String(), "<script") {
		t.Error("markup in JSON")
	}
	var a answer.MetadataAnswer
	if err := json.Unmarshal(w.Body.Bytes(), &a); err != nil {
		t.Fatal(err)
	}
	values := make(map[string]string)
	for _, e := range a.Entries {
		values[e.Key] = e.Value
	}
	if got, want := values[md[0].Key], "{%- for m in messages %}\n\t{{ m['content'] }}<script>\\u202e\\x1b[2J\\r\n{% endfor %}"; got != want {
		t.Errorf("%q, not %q", got, want)
	}
	if got := values[md[1].Key]; len(got) > maxTextBytes+20 || !strings.HasPrefix(got, "é\né\n") || !strings.HasSuffix(got, "… (128 KiB more)") {
		t.Errorf("%d bytes, ending with %q", len(got), got[max(0, len(got)-30):])
	}
}

// TestMetadataAreBounded: keys that lead to many others do not stand before each of them, and what is left out is counted.
func TestMetadataAreBounded(t *testing.T) {
	inside, many := layout.Metadata{}, layout.Metadata{}
	for i := range maxMembers {
		inside = append(inside, layout.Entry{Key: fmt.Sprint(i), Value: "x"})
	}
	for range 40 {
		inside = layout.Metadata{{Key: strings.Repeat("k", 1000), Value: inside}}
	}
	for i := range maxEntries + 7 {
		many = append(many, layout.Entry{Key: fmt.Sprint("m", i), Value: "y"})
	}
	m, err := loader.OpenBytes(modeltest.APR2Model(t, append(layout.Metadata{{Key: "deep", Value: inside}}, many...), modeltest.Finite("a", layout.F32, 4)), nil)
	m = modeltest.Opened(t, m, err)
	h := Handler(m.Acquire, nil)
	if w := ask(t, h, "data/metadata"); w.Body.Len() > 2<<20 {
		t.Errorf("%d bytes", w.Body.Len())
	}
	a := answerOf[answer.MetadataAnswer](t, h, "data/metadata")
	if a.More < 8 || a.More > 20 || len(a.Entries) != maxEntries {
		t.Errorf("%d keys and %d more", len(a.Entries), a.More)
	}
	at := slices.IndexFunc(a.Entries, func(e answer.MetadataEntry) bool { return strings.HasPrefix(e.Key, "deep.") })
	if at < 0 || a.Entries[at].Type != "object" || len(a.Entries[at].Key) > 2*maxKeyBytes+1000 {
		t.Errorf("%d: %+v", at, a.Entries[max(at, 0)])
	}
}

// TestLargeMatrix: a matrix of 1.2e9 values is not held in memory, and reading it ends with the request.
func TestLargeMatrix(t *testing.T) {
	path := modeltest.SparseAPR2(t, modeltest.Tensor{Name: "a", DType: layout.F32, Shape: []int{30_000, 40_000}})
	m, err := loader.Open(path, nil)
	m = modeltest.Opened(t, m, err)
	h := Handler(m.Acquire, nil)
	for _, path := range []string{"/data/norms?name=a", "/data/picture?name=a&as=max", "/data/tensor?name=a"} {
		ctx, leave := context.WithTimeoutCause(t.Context(), 50*time.Millisecond, errors.New("left"))
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequestWithContext(ctx, http.MethodGet, path, nil))
		leave()
		if w.Body.Len() > 1000 {
			t.Errorf("%s: %d bytes", path, w.Body.Len())
		}
	}
	waitFor(t, "the end of all leases", func() bool { return m.Stats().Leases == 0 })
	if heap := m.Stats().HeapBytes; heap > 1<<20 {
		t.Errorf("%d bytes are cached", heap)
	}
}

// TestInfinite: infinite figures stand in answers as the command has them. A tensor that is not compared has no share of the error.
func TestInfinite(t *testing.T) {
	open := func(tensors ...modeltest.Tensor) func() (*loader.Lease, error) {
		m, err := loader.OpenBytes(modeltest.SafeTensors(tensors...), nil)
		return modeltest.Opened(t, m, err).Acquire
	}
	doubles := func(name string, v ...float64) modeltest.Tensor {
		return modeltest.Tensor{Name: name, DType: layout.F64, Shape: []int{len(v)}, Data: bytes.Clone(mmapio.Bytes(v))}
	}
	h := Handler(open(doubles("off", 1, 2), doubles("same", 1, 2), doubles("wide", 1e200, -1e200)), &Options{Compared: open(
		doubles("off", 1, 3), modeltest.Tensor{Name: "same", DType: layout.F32, Shape: []int{2}, Data: modeltest.Float32s(1, 2)})})
	for path, want := range map[string]string{"data/stats": `"std":"Infinity"`, "data/compare": `"db":"Infinity"`} {
		if body := ask(t, h, path).Body.String(); !strings.Contains(body, want) {
			t.Errorf("%s lacks %s: %s", path, want, body)
		}
	}
	lines := linesOf[answer.Line](t, h, "data/compare")
	shares := make(map[string]answer.Real)
	for _, p := range lines[len(lines)-1].Pairs {
		shares[p.Name] = p.ErrorShare
	}
	if shares["off"] != 1 || shares["same"] != 0 || !math.IsNaN(float64(shares["wide"])) {
		t.Errorf("shares of the error are %v", shares)
	}
}

// TestIntegers: a model of integers that stand for themselves has no σ to map. Scaled ones have.
func TestIntegers(t *testing.T) {
	scaled := layout.Metadata{{Key: "quantization", Value: map[string]any{"scales": map[string]any{"layers.0.q": 0.1}}}}
	for _, tt := range []struct {
		md    layout.Metadata
		isMap bool
	}{{nil, false}, {scaled, true}} {
		m, err := loader.OpenBytes(modeltest.APR2Model(t, tt.md, modeltest.Random("layers.0.q", layout.I8, 4, 4), modeltest.Random("layers.1.q", layout.I8, 4, 4)), nil)
		h := Handler(modeltest.Opened(t, m, err).Acquire, nil)
		if why := answerOf[answer.ModelAnswer](t, h, "data/model").Grid.Why; (why == "") != tt.isMap {
			t.Errorf("%v: there is no map, as %q", tt.md, why)
		}
	}
}
