//go:build js

// Command web answers the page of package explore inside the browser. It runs in worker.js, a Web Worker, and serves the
// requests that the page posts with the handler that a server mounts. README.md has the messages.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"runtime/debug"
	"sync"
	"syscall/js"

	"github.com/tensormap/tensormap/explore"
	"github.com/tensormap/tensormap/loader"
)

// Bounds of the page's memory.
const (
	cacheBytes  = 8 << 20  // of copied and expanded tensors that nothing reads
	memoryLimit = 96 << 20 // of Go's heap, above which its collector works harder
)

func main() {
	debug.SetMemoryLimit(memoryLimit)
	s := &site{running: make(map[int]context.CancelFunc)}
	js.Global().Set("receive", js.FuncOf(func(_ js.Value, args []js.Value) any {
		s.receive(args[0])
		return nil
	}))
	select {}
}

// site is what the page looks at: a model, and perhaps one to compare it with.
type site struct {
	mu      sync.Mutex
	models  [2]*loader.Model // nil if it is not open
	handler http.Handler     // of both; nil if no model is open
	running map[int]context.CancelFunc
}

// receive takes a message of the page. It returns at once: what the message asks for is done by a goroutine.
func (s *site) receive(message js.Value) {
	id := message.Get("id").Int()
	s.mu.Lock()
	defer s.mu.Unlock()
	if message.Get("stop").Truthy() {
		if stop := s.running[id]; stop != nil {
			stop()
		}
		return
	}
	ctx, stop := context.WithCancel(context.Background())
	s.running[id] = stop
	w := &response{id: id, ctx: ctx, header: make(http.Header)}
	go func() {
		defer func() {
			stop()
			s.mu.Lock()
			defer s.mu.Unlock()
			delete(s.running, id)
		}()
		if path := message.Get("path"); path.Type() == js.TypeString {
			s.serve(ctx, w, path.String())
			w.end()
		} else {
			s.open(ctx, w, message)
		}
	}()
}

// serve answers the request for a path below the page's address. A panic answers with status 500, as it ends one request of
// a server.
func (s *site) serve(ctx context.Context, w *response, path string) {
	defer func() {
		if p := recover(); p != nil {
			w.fail(http.StatusInternalServerError, "This failed by a mistake of the program.", fmt.Errorf("%v", p), "")
		}
	}()
	s.mu.Lock()
	handler := s.handler
	s.mu.Unlock()
	if handler == nil {
		w.fail(http.StatusNotFound, "No model is open.", loader.ErrClosed, "Drop one, choose one, or give an address.")
		return
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "/"+path, nil)
	if err != nil {
		w.fail(http.StatusBadRequest, "This is no path.", err, "")
		return
	}
	handler.ServeHTTP(w, request)
}

// open opens the model of a message: its files, or its address. It takes the place of the model that was open, or with side
// "b" of the one to compare with. It posts that it is open, or the problem; then the models that were open stay.
func (s *site) open(ctx context.Context, w *response, message js.Value) {
	var m *loader.Model
	var err error
	if address := message.Get("address"); address.Type() == js.TypeString {
		m, err = openAddress(ctx, address.String())
	} else {
		m, err = openFiles(ctx, message.Get("files"))
	}
	if err != nil {
		text, hint := explain(err)
		w.refuse(text, err, hint)
		return
	}
	side := 0
	if b := message.Get("side"); b.Type() == js.TypeString && b.String() == "b" {
		side = 1
	}
	if err := s.show(m, side); err != nil {
		m.Close()
		w.refuse("Open a model first, then one to compare it with.", err, "")
		return
	}
	w.post(map[string]any{"opened": true})
}

// show makes m the model of a side. A new first model leaves nothing to compare with. It fails for the second side without a
// first.
func (s *site) show(m *loader.Model, side int) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if side == 1 && s.models[0] == nil {
		return errors.New("nothing to compare with")
	}
	for i := side; i < len(s.models); i++ {
		if old := s.models[i]; old != nil {
			old.Close()
			s.models[i] = nil
		}
	}
	s.models[side] = m
	opts := explore.Options{Workers: 2} // no other requests want pauses
	if b := s.models[1]; b != nil {
		opts.Compared = b.Acquire
	}
	s.handler = explore.Handler(s.models[0].Acquire, &opts)
	return nil
}

func loaderOptions() *loader.Options { return &loader.Options{CacheBytes: cacheBytes} }

// chunkBytes is what an answer gathers before it posts it.
const chunkBytes = 64 << 10

// response is the answer to one request. It posts status, headers and chunks to the page.
type response struct {
	id     int
	ctx    context.Context
	header http.Header
	status int // 0 until it is posted
	chunk  []byte
}

var _ http.Flusher = (*response)(nil)

func (w *response) Header() http.Header { return w.header }

// WriteHeader posts the status and the headers. Later calls do nothing.
func (w *response) WriteHeader(status int) {
	if w.status != 0 {
		return
	}
	w.status = status
	headers := make(map[string]any)
	for name := range w.header {
		headers[name] = w.header.Get(name)
	}
	w.post(map[string]any{"status": status, "headers": headers})
}

// Write gathers b for the next chunk. It fails once the page has ended the request.
func (w *response) Write(b []byte) (int, error) {
	if err := context.Cause(w.ctx); err != nil {
		return 0, err
	}
	w.WriteHeader(http.StatusOK)
	if w.chunk = append(w.chunk, b...); len(w.chunk) >= chunkBytes {
		w.Flush()
	}
	return len(b), nil
}

// Flush posts what is gathered.
func (w *response) Flush() {
	w.WriteHeader(http.StatusOK)
	if len(w.chunk) == 0 {
		return
	}
	bytes := js.Global().Get("Uint8Array").New(len(w.chunk))
	js.CopyBytesToJS(bytes, w.chunk)
	w.chunk = w.chunk[:0]
	w.post(map[string]any{"chunk": bytes}, bytes.Get("buffer"))
}

// end posts what is left, and that nothing follows.
func (w *response) end() {
	w.Flush()
	w.post(map[string]any{"end": true})
}

// post posts a message of the request. The page takes over the buffers.
func (w *response) post(message map[string]any, buffers ...any) {
	if w.ctx.Err() != nil {
		return
	}
	message["id"] = w.id
	js.Global().Call("postMessage", message, buffers)
}

// fail answers with an error as the page shows it: text for people, the line that the command prints, and what to do.
func (w *response) fail(status int, text string, err error, hint string) {
	w.header.Set("Content-Type", "application/json")
	w.WriteHeader(status)
	json.NewEncoder(w).Encode(explore.Problem{Text: text, Line: "tensormap: " + err.Error(), Hint: hint})
}

// refuse posts the same of a model that is not opened.
func (w *response) refuse(text string, err error, hint string) {
	w.post(map[string]any{"problem": map[string]any{"text": text, "line": "tensormap: " + err.Error(), "hint": hint}})
}
