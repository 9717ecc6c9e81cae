package main

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"maps"
	"math"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tensormap/tensormap/examples/bert"
	"github.com/tensormap/tensormap/loader"
)

const tiny = "../bert/testdata/tiny"

// testServer returns a server of small limits without a model, and its API and administration over HTTP.
func testServer(t *testing.T) (s *server, api, admin string) {
	t.Helper()
	s = newServer(settings{bert: bert.Options{Pooling: bert.Mean}, limits: limits{bytes: 4096, inputs: 8, running: 2, time: time.Minute}},
		slog.New(slog.DiscardHandler))
	a, b := httptest.NewServer(s.api()), httptest.NewServer(s.administration())
	t.Cleanup(func() {
		a.Close()
		b.Close()
		if err := s.models.close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return s, a.URL, b.URL
}

// post sends JSON and returns the status and the body of the answer.
func post(t *testing.T, url, body string) (int, []byte) {
	t.Helper()
	resp, err := http.Post(url, "application/json; charset=utf-8", strings.NewReader(body))
	if err != nil {
		t.Error(err)
		return 0, nil
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Error(err)
	}
	return resp.StatusCode, text
}

// get returns the status and the body of an answer.
func get(t *testing.T, url string) (int, string) {
	t.Helper()
	resp, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, _ := io.ReadAll(resp.Body)
	return resp.StatusCode, string(text)
}

// witnesses returns texts with their numbers of tokens, and the vectors that transformers makes of them.
func witnesses(t *testing.T) (list []struct {
	Text   string
	Tokens []int
	Vector []float32
}) {
	t.Helper()
	text, err := os.ReadFile("../bert/testdata/tiny.json")
	if err == nil {
		err = json.Unmarshal(text, &list)
	}
	if err != nil {
		t.Fatal(err)
	}
	return list
}

func TestEmbeddings(t *testing.T) {
	s, api, _ := testServer(t)
	if err := s.models.load(t.Context(), tiny); err != nil {
		t.Fatal(err)
	}
	var input []string
	tokens := 0
	want := witnesses(t)
	for _, w := range want {
		input, tokens = append(input, w.Text), tokens+len(w.Tokens)
	}
	for _, encoding := range []string{"float", "base64"} {
		body, _ := json.Marshal(map[string]any{"input": input, "model": "any", "encoding_format": encoding, "user": "u", "dimensions": 64})
		status, text := post(t, api+"/v1/embeddings", string(body))
		var got struct {
			Object, Model string
			Data          []struct {
				Index     int
				Embedding json.RawMessage
			}
			Usage map[string]int
		}
		if err := json.Unmarshal(text, &got); err != nil || status != http.StatusOK || len(got.Data) != len(input) || got.Usage["prompt_tokens"] != tokens || got.Model != tiny {
			t.Fatalf("%d %.300s: %v", status, text, err)
		}
		for i, d := range got.Data {
			v := make([]float32, 64)
			err := json.Unmarshal(d.Embedding, &v)
			if encoding == "base64" {
				var b []byte
				if err = json.Unmarshal(d.Embedding, &b); err == nil { // encoding/json decodes base64 into bytes
					_, err = binary.Decode(b, binary.LittleEndian, v)
				}
			}
			for j := range v {
				if err != nil || d.Index != i || math.Abs(float64(v[j]-want[i].Vector[j])) > 2e-6 {
					t.Fatalf("%s: %q: vector %v, want %v: %v", encoding, input[i], v, want[i].Vector, err)
				}
			}
		}
	}
	if status, text := post(t, api+"/v1/embeddings", `{"input": "the cat"}`); status != http.StatusOK {
		t.Errorf("a string: %d %s", status, text)
	}
}

// TestRefusals asks for what the server does not give. It answers as OpenAI does, and goes on.
func TestRefusals(t *testing.T) {
	s, api, admin := testServer(t)
	if status, _ := get(t, api+"/readyz"); status != http.StatusServiceUnavailable {
		t.Errorf("ready without a model: %d", status)
	}
	if status, text := post(t, api+"/v1/embeddings", `{"input": "x"}`); status != http.StatusServiceUnavailable {
		t.Errorf("without a model: %d %s", status, text)
	}
	if err := s.models.load(t.Context(), tiny); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		url, body string
		status    int
		want      string
	}{
		{api + "/v1/embeddings", `{"input": []}`, 400, "0 inputs, of 1 to 8"},
		{api + "/v1/embeddings", `{}`, 400, "0 inputs"},
		{api + "/v1/embeddings", `{"input": ["","","","","","","","",""]}`, 400, "9 inputs"},
		{api + "/v1/embeddings", `{"input": [1, 2, 3]}`, 400, "tokens are"},
		{api + "/v1/embeddings", `{"input": {"a": 1}}`, 400, "input is a string"},
		{api + "/v1/embeddings", `{"input": "x"`, 400, "the body"},
		{api + "/v1/embeddings", `{"input": "` + strings.Repeat("x", 5000) + `"}`, 413, "more than 4096 bytes"},
		{api + "/v1/embeddings", `{"input": "` + strings.Repeat("x ", 160) + `"}`, 400, "input 0 has 162 tokens, the model takes 160"},
		{api + "/v1/embeddings", `{"input": "x", "dimensions": 3}`, 400, "this model has 64"},
		{api + "/v1/embeddings", `{"input": "x", "encoding_format": "hex"}`, 400, "neither float nor base64"},
		{admin + "/admin/models", `{}`, 400, `no \"model\"`},
		{admin + "/admin/models", `{"model": "missing"}`, 422, "missing"},
		{admin + "/admin/models", `{"model": "../../testdata/gguf/llama.gguf"}`, 422, "llama"},
	} {
		if status, text := post(t, c.url, c.body); status != c.status || !bytes.Contains(text, []byte(c.want)) || !bytes.Contains(text, []byte("invalid_request_error")) {
			t.Errorf("%.60s: %d %s, want %d and %q", c.body, status, text, c.status, c.want)
		}
	}
	if resp, err := http.Post(api+"/v1/embeddings", "text/plain", strings.NewReader(`{"input": "x"}`)); err != nil || resp.StatusCode != http.StatusUnsupportedMediaType {
		t.Errorf("text/plain: %v, %v", resp.Status, err)
	} else if text, _ := io.ReadAll(resp.Body); !bytes.Contains(text, []byte("Content-Type must be application/json")) {
		t.Errorf("text/plain: %s", text)
	}
	if status, _ := get(t, api+"/v1/embeddings"); status != http.StatusMethodNotAllowed {
		t.Errorf("GET: %d", status)
	}
	for _, path := range []string{"/readyz", "/healthz", "/v1/models", "/metrics"} {
		if status, text := get(t, api+path); status != http.StatusOK {
			t.Errorf("%s: %d %s", path, status, text)
		}
	}
	for _, name := range []string{"embedserver_request_duration_seconds_count", "embedserver_tokens_total", `tensormap_mapped_bytes{model="embedder"}`} {
		if _, text := get(t, api+"/metrics"); !strings.Contains(text, name) {
			t.Errorf("no %s in /metrics", name)
		}
	}
	for _, path := range []string{"/admin/models", "/debug/pprof/", "/debug/model/", "/debug/model/data/stats"} {
		if status, _ := get(t, api+path); status != http.StatusNotFound {
			t.Errorf("the API answers %s: %d", path, status)
		}
		if status, text := get(t, admin+path); status != http.StatusOK {
			t.Errorf("%s: %d %s", path, status, text)
		}
	}
	for range cap(s.waiting) {
		s.waiting <- struct{}{}
	}
	if status, _ := post(t, api+"/v1/embeddings", `{"input": "x"}`); status != http.StatusTooManyRequests {
		t.Errorf("with others waiting: %d", status)
	}
	for range cap(s.waiting) {
		<-s.waiting
	}
	for range cap(s.running) {
		s.running <- struct{}{}
	}
	s.limits.time = 20 * time.Millisecond
	if status, text := post(t, api+"/v1/embeddings", `{"input": "x"}`); status != http.StatusServiceUnavailable {
		t.Errorf("with others running for too long: %d %s", status, text)
	}
	for range cap(s.running) {
		<-s.running
	}
}

// TestSwap swaps models while requests run. All are answered, and the memory of all models but the last is released.
func TestSwap(t *testing.T) {
	s, api, admin := testServer(t)
	if err := s.models.load(t.Context(), tiny); err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	var clients sync.WaitGroup
	for range 3 {
		clients.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
				}
				if status, text := post(t, api+"/v1/embeddings", `{"input": ["the cat", "a mat"]}`); status != http.StatusOK {
					t.Errorf("%d %s", status, text)
					return
				}
			}
		})
	}
	for range 20 {
		if status, text := post(t, admin+"/admin/models", fmt.Sprintf(`{"model": %q}`, tiny)); status != http.StatusOK {
			t.Errorf("%d %s", status, text)
		}
	}
	close(done)
	clients.Wait()
	if stats := s.models.current.Stats(); stats.Draining != 0 || stats.Leases != 0 {
		t.Errorf("%d models drain, %d leases", stats.Draining, stats.Leases)
	}
}

// unclosable is a directory of files whose Close fails.
type unclosable struct{ fs.FS }

func (u unclosable) Open(name string) (fs.File, error) {
	f, err := u.FS.Open(name)
	if file, ok := f.(*os.File); ok {
		return unclosed{file}, err
	}
	return f, err
}

type unclosed struct{ *os.File }

func (u unclosed) Close() error { return errors.Join(errors.New("held"), u.File.Close()) }

// TestSwapUnclosed: a swap has succeeded if the new model serves, though the one before cannot be closed. That is logged.
func TestSwapUnclosed(t *testing.T) {
	s, _, admin := testServer(t)
	var logged strings.Builder
	s.models.log = slog.New(slog.NewTextHandler(&logged, nil))
	m, err := loader.OpenFS(unclosable{os.DirFS(tiny)}, "model.safetensors", &loader.Options{Logger: s.models.log})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.models.current.Swap(m, &served{name: "before"}); err != nil {
		t.Fatal(err)
	}
	status, text := post(t, admin+"/admin/models", fmt.Sprintf(`{"model": %q}`, tiny))
	if status != http.StatusOK || !strings.Contains(logged.String(), "model not unmapped") || !strings.Contains(logged.String(), "held") {
		t.Errorf("%d %s; logged: %s", status, text, logged.String())
	}
}

// TestHosts: the administration answers requests that were sent to an address or to one of its names, and no others: no page whose name
// was rebound to an address of it.
func TestHosts(t *testing.T) {
	s := newServer(settings{admin: "inner.example:8081", adminHosts: []string{"embeddings.svc"}}, slog.New(slog.DiscardHandler))
	ask := func(method, path, host string) *httptest.ResponseRecorder {
		r := httptest.NewRequest(method, path, strings.NewReader("{}"))
		r.Host = host
		r.Header.Set("Content-Type", "application/json")
		w := httptest.NewRecorder()
		s.administration().ServeHTTP(w, r)
		return w
	}
	for _, host := range []string{"rebound.example", "rebound.example:8081", "localhost.rebound.example", "127.0.0.1:8081@rebound.example", "127.0.0.1.rebound.example", ""} {
		for _, path := range []string{"/admin/models", "/debug/model/", "/debug/pprof/", "/debug/pprof/cmdline"} {
			if w := ask("GET", path, host); w.Code != http.StatusForbidden || !strings.Contains(w.Body.String(), "--admin-host") {
				t.Errorf("%s of %q: %d %s", path, host, w.Code, w.Body)
			}
		}
		if w := ask("POST", "/admin/models", host); w.Code != http.StatusForbidden {
			t.Errorf("a swap of %q: %d %s", host, w.Code, w.Body)
		}
	}
	for _, host := range []string{"localhost", "LOCALHOST:8081", "127.0.0.1:9000", "[::1]:8081", "10.1.2.3", "inner.example:8081", "embeddings.svc:80"} {
		if w := ask("GET", "/admin/models", host); w.Code != http.StatusOK {
			t.Errorf("%q: %d %s", host, w.Code, w.Body)
		}
	}
}

// TestNeverReads asks again and again and reads no answer. The server ends the connection, though a page of Prometheus and a function that
// takes longer than the time to send are answered to others.
func TestNeverReads(t *testing.T) {
	s, _, _ := testServer(t)
	const send = 50 * time.Millisecond
	mux := http.NewServeMux()
	mux.Handle("/", s.api())
	mux.Handle("/slow", answers(func(*http.Request) (any, error) {
		time.Sleep(2 * send)
		return "answered", nil
	}))
	l, err := net.Listen("tcp", "localhost:0")
	if err != nil {
		t.Fatal(err)
	}
	server := serve(l, mux, send, slog.New(slog.DiscardHandler))
	defer server.Close()
	if status, text := get(t, "http://"+l.Addr().String()+"/slow"); status != http.StatusOK || text != `"answered"` {
		t.Errorf("slow: %d %s", status, text)
	}
	for _, path := range []string{"/metrics", "/v1/models"} {
		conn, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		conn.SetWriteDeadline(time.Now().Add(20 * time.Second))
		requests := strings.Repeat("GET "+path+" HTTP/1.1\r\nHost: localhost\r\n\r\n", 100)
		for err == nil {
			_, err = io.WriteString(conn, requests)
		}
		if errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("%s: a client that reads nothing keeps its connection", path)
		}
	}
}

// TestAdminModels: what a swap answers and what models cost are the JSON that README.md has of the tiny model.
func TestAdminModels(t *testing.T) {
	readme, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, example, _ := strings.Cut(string(readme), "```json\n")
	example, _, _ = strings.Cut(example, "```")
	var want map[string]any
	if err := json.Unmarshal([]byte(example), &want); err != nil {
		t.Fatal(err)
	}
	_, _, admin := testServer(t)
	_, swapped := post(t, admin+"/admin/models", fmt.Sprintf(`{"model": %q}`, tiny))
	_, cost := get(t, admin+"/admin/models")
	for _, text := range []string{string(swapped), cost} {
		var got map[string]any
		if err := json.Unmarshal([]byte(text), &got); err != nil || !maps.Equal(got, want) {
			t.Errorf("%s, want %s: %v", text, example, err)
		}
	}
}

// TestWatch puts models into a watched directory, which is missing at first. The last name is served as soon as it is a model. What
// is not served is logged, with what is meanwhile.
func TestWatch(t *testing.T) {
	s, _, _ := testServer(t)
	dir := filepath.Join(t.TempDir(), "models")
	logged := make(chan string, 8)
	s.models.log = slog.New(slog.NewTextHandler(writer(func(line string) {
		if strings.Contains(line, "watched=") {
			logged <- line
		}
	}), nil))
	logs := func(want string) {
		t.Helper()
		for late := time.After(time.Minute); ; {
			select {
			case line := <-logged:
				if strings.Contains(line, want) {
					return
				}
			case <-late:
				t.Fatalf("%q is not logged", want)
			}
		}
	}
	ctx, stop := context.WithCancel(t.Context())
	var watching sync.WaitGroup
	watching.Go(func() { s.models.watch(ctx, dir, time.Millisecond) })
	defer watching.Wait()
	defer stop()
	serves := func(name string) {
		t.Helper()
		for begun := time.Now(); ; time.Sleep(time.Millisecond) {
			got := "none"
			if model, lease, err := s.models.current.Acquire(t.Context()); err == nil {
				got = filepath.Base(model.name)
				lease.Release()
			}
			if got == name {
				return
			}
			if time.Since(begun) > time.Minute {
				t.Fatalf("%s is served, want %s", got, name)
			}
		}
	}
	put := func(name string) {
		t.Helper()
		hidden := filepath.Join(dir, ".new")
		if err := os.CopyFS(hidden, os.DirFS(tiny)); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(hidden, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	logs("no model is served yet")
	put("2026-01-01") // with the directory
	serves("2026-01-01")
	if err := os.Mkdir(filepath.Join(dir, "2026-01-02"), 0o777); err != nil { // no model
		t.Fatal(err)
	}
	logs("the model before goes on")
	serves("2026-01-01")
	put("2026-01-03")
	serves("2026-01-03")
	put("2025-12-31")
	time.Sleep(20 * time.Millisecond)
	serves("2026-01-03")
}

// TestRun starts and stops the whole program.
func TestRun(t *testing.T) {
	s := settings{model: tiny, listen: "localhost:0", admin: "localhost:0", bert: bert.Options{Pooling: bert.Mean}, drain: time.Minute}
	ctx, stop := context.WithCancel(t.Context())
	log := slog.New(slog.NewTextHandler(writer(func(line string) {
		if strings.Contains(line, "msg=serving") {
			stop()
		}
	}), nil))
	if err := run(ctx, s, log); err != nil {
		t.Error(err)
	}
	s.model = "missing"
	log = slog.New(slog.NewTextHandler(writer(func(line string) {
		if strings.Contains(line, "stopping") {
			t.Error(line)
		}
	}), nil))
	if err := run(t.Context(), s, log); err == nil || !strings.Contains(err.Error(), "missing") {
		t.Errorf("without a model: %v", err)
	}
}

// TestStop stops the program while a request runs. It is not ready at once, serves new requests for the time to leave, and ends
// once the one that runs is answered.
func TestStop(t *testing.T) {
	for leave := time.Second / 4; !stops(t, leave); leave *= 2 {
		if leave > time.Minute {
			t.Fatal("/readyz is never 503 while the program serves on")
		}
	}
}

// stops does what TestStop does. It reports false if the time to leave was over before all was asked.
func stops(t *testing.T, leave time.Duration) bool {
	api, _, stop := start(t, settings{model: tiny, listen: "localhost:0", admin: "localhost:0", bert: bert.Options{Pooling: bert.Mean},
		limits: limits{bytes: 4096, inputs: 8, running: 2, time: time.Minute}, leave: leave, drain: time.Minute})
	ask := func(path string) int {
		client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
		resp, err := client.Get(api + path)
		if err != nil {
			return 0 // the program accepts no more
		}
		defer resp.Body.Close()
		return resp.StatusCode
	}
	if got := ask("/readyz"); got != http.StatusOK {
		t.Fatalf("/readyz while it serves: %d", got)
	}
	body, rest := io.Pipe()
	answered, ended := make(chan int), make(chan struct{})
	go func() {
		status := 0
		if resp, err := http.Post(api+"/v1/embeddings", "application/json", body); err != nil {
			t.Error(err)
		} else {
			status = resp.StatusCode
			resp.Body.Close()
		}
		answered <- status
	}()
	io.WriteString(rest, `{"input": `)
	go func() {
		stop()
		close(ended)
	}()
	ready := ask("/readyz")
	for ; ready == http.StatusOK; ready = ask("/readyz") {
		time.Sleep(time.Millisecond)
	}
	healthy, listed := ask("/healthz"), ask("/v1/models")
	for ask("/healthz") != 0 {
		time.Sleep(time.Millisecond)
	}
	select {
	case <-ended:
		t.Error("the program has ended with a request under way")
	default:
	}
	io.WriteString(rest, `"a mat"}`)
	rest.Close()
	if got := <-answered; got != http.StatusOK {
		t.Errorf("the request under way: %d", got)
	}
	<-ended
	if ready == 0 || healthy == 0 || listed == 0 {
		return false
	}
	if ready != http.StatusServiceUnavailable || healthy != http.StatusOK || listed != http.StatusOK {
		t.Errorf("while it leaves: /readyz %d, /healthz %d, /v1/models %d", ready, healthy, listed)
	}
	return true
}

type writer func(string)

func (w writer) Write(b []byte) (int, error) {
	w(string(b))
	return len(b), nil
}
