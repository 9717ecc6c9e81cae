//go:build js

package main

import (
	"context"
	"encoding/json"
	"net/http"
	"syscall/js"

	"github.com/tensormap/tensormap/explore"
)

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
