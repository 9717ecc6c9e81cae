package explore

import (
	"context"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/tensormap/tensormap/explore/internal/answer"
	"github.com/tensormap/tensormap/loader"
	"github.com/tensormap/tensormap/loader/survey"
)

// Options tune Handler and WriteFile. Nil and zero fields mean the defaults.
type Options struct {
	// Compared takes a lease of the model that the page compares with. If Compared is nil, the page
	// compares nothing.
	Compared func() (*loader.Lease, error)
	// From and ComparedFrom are the paths or addresses that the models were opened by, as the page shows them. "" stands for
	// their Path.
	From, ComparedFrom string
	// Workers bounds the goroutines that read values at once: one reads single tensors that a page asks for, the others the
	// figures of all. Less than 2 means 2. 0, for servers, also makes reading pause half of the time.
	Workers int
	// Signature says whose signature of the model was verified. "" means that none was: the page then shows the signer that
	// the model claims, as not verified.
	Signature string
}

// The page's files, which go generate makes of page. make web publishes the same ones.
//
//go:generate go run ./internal/pack page built
//go:embed built
var pageFiles embed.FS

// Bounds of what the handler does at once, and of what it keeps.
const (
	maxStreams = 64               // streams of lines
	maxWaiting = 64               // requests of a queue
	keepFor    = 30 * time.Minute // what was derived from models, after the last request
	writeTime  = time.Minute      // that a client may take for one line, or for sendBytes of another answer
	sendBytes  = 256 << 10
)

// Handler returns a handler that serves the page and its data. It serves below any prefix: see http.StripPrefix. open takes a
// lease of the model that is served now. The handler releases it at the end of the request, or of the work that several
// requests wait for. It answers GET and HEAD alone, changes nothing, and refuses data to pages of other origins. It
// authenticates nobody and takes any Host: mount it where profiles are. On a loopback listener check the Host, against DNS
// rebinding.
//
// An error of open becomes the answer: the page shows its text, with 503 if it is loader.ErrClosed or of a context, and 500
// otherwise. The handler caches figures by [loader.FileInfo].ContentID: another open model of the same files has them at once,
// and one of changed files never. Writes through a shared mapping may not change the ContentID: the page then shows old figures.
// Figures of models that are no longer served are cached for 100,000 tensors at most. All are dropped half an hour after the last
// request, unless a page is open.
func Handler(open func() (*loader.Lease, error), opts *Options) http.Handler {
	if opts == nil {
		opts = &Options{}
	}
	h := &handler{open: open, opts: *opts, isPolite: opts.Workers == 0, tensors: newQueue(), lists: newQueue(),
		streams: make(chan struct{}, maxStreams)}
	h.opts.Workers = max(h.opts.Workers, 2)
	return h
}

type handler struct {
	open func() (*loader.Lease, error)
	opts Options
	// isPolite makes reading of values leave half of its time to other requests.
	isPolite bool

	tensors queue         // of requests that read values of one tensor, or draw a map
	lists   queue         // of requests that search all names
	streams chan struct{} // one for each stream of lines

	mu      sync.Mutex
	models  [2]served  // the model and the compared one
	results []*results // the one used last stands last
	forget  *time.Timer
}

// queue lets requests do something one at a time.
type queue struct {
	turn    chan struct{} // held by the request whose turn it is
	waiting chan struct{} // one for each request that waits for turn, or holds it
}

func newQueue() queue { return queue{make(chan struct{}, 1), make(chan struct{}, maxWaiting)} }

// inTurn waits for the turn of a request in q, and returns the answer that find does. It is written after the turn: others do not
// wait for its client. inTurn fails if find does, if too many requests wait, or if ctx ends.
func inTurn(ctx context.Context, q queue, find func() (any, error)) (any, error) {
	select {
	case q.waiting <- struct{}{}:
		defer func() { <-q.waiting }()
	default:
		return nil, failed(http.StatusServiceUnavailable, "Too many requests wait for their turn.")
	}
	select {
	case q.turn <- struct{}{}:
		defer func() { <-q.turn }()
		return find()
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// reading returns options for package survey that read all tensors.
func (h *handler) reading() survey.Options {
	opts := survey.Options{Workers: h.opts.Workers - 1}
	if h.isPolite {
		last := time.Now()
		opts.Progress = func(_, _ uint64) { last = pause(last) }
	}
	return opts
}

// Bounds of a pause. Shorter ones would last longer than they are meant to: systems wake who sleeps a millisecond late.
const (
	minPause = 1 * time.Millisecond
	maxPause = 20 * time.Millisecond
)

// pause sleeps as long as it is since the end of the last pause, and returns the end of this one. If that is not worth a pause
// yet, it returns last.
func pause(last time.Time) time.Time {
	worked := time.Since(last)
	if worked < minPause {
		return last
	}
	time.Sleep(min(worked, maxPause))
	return time.Now()
}

// request is a request for data about a model. Its lease lasts until the answer is written.
type request struct {
	ctx   context.Context
	query url.Values
	*shown
	lease        *loader.Lease
	isOfCompared bool // asks about the compared model
}

// request takes a lease for a request for data/NAME, which the caller releases. It fails as lease does.
func (h *handler) request(ctx context.Context, name string, query url.Values) (*request, error) {
	side := theModel
	if name == "metadata" && query.Has("compared") {
		side = theCompared
	}
	s, l, err := h.lease(side)
	if err != nil {
		return nil, err
	}
	return &request{ctx, query, s, l, side == theCompared}, nil
}

// stream is an answer of several lines: it calls write with each. It fails if write does, or if no line can be made.
type stream func(write func(line any) error) error

// answers has the functions that return the answer to data/…, by what follows: a stream, a *picture, or else what is written as
// JSON. An error that they return is answered as a Problem.
var answers = map[string]func(*handler, *request) (any, error){
	"model":    (*handler).model,
	"rows":     (*handler).rows,
	"list":     (*handler).list,
	"compare":  (*handler).compare,
	"map":      (*handler).maps,
	"metadata": (*handler).metadata,
	"stats":    (*handler).stats,
	"tensor":   ofTensor((*handler).tensor),
	"picture":  ofTensor((*handler).picture),
	"values":   ofTensor((*handler).values),
	"norms":    ofTensor((*handler).norms),
}

// contentTypes are the types of the page's files, by suffix.
var contentTypes = map[string]string{
	".html": "text/html; charset=utf-8",
	".css":  "text/css; charset=utf-8",
	".js":   "text/javascript; charset=utf-8",
}

// policy lets the page's own files run, and nothing else, whatever names in a model hold.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	head := w.Header()
	head.Set("Content-Security-Policy", policy)
	head.Set("X-Content-Type-Options", "nosniff")
	head.Set("Referrer-Policy", "no-referrer")
	head.Set("Cross-Origin-Opener-Policy", "same-origin")
	head.Set("Cross-Origin-Resource-Policy", "same-origin")
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		head.Set("Allow", "GET, HEAD")
		http.Error(w, "GET and HEAD only", http.StatusMethodNotAllowed)
		return
	}
	name := strings.TrimPrefix(r.URL.Path, "/")
	data, isData := strings.CutPrefix(name, "data/")
	switch {
	case r.URL.Path == "" && redirectBelow(w, r):
	case isData:
		h.answer(w, r, data)
	default:
		serveFile(w, r, name)
	}
}

// redirectBelow redirects from the handler's address without its last slash, below which the page's relative addresses would
// not lead to the handler. It returns false if the address that was asked for ends with a slash, which http.StripPrefix may have
// stripped.
func redirectBelow(w http.ResponseWriter, r *http.Request) bool {
	at, err := url.ParseRequestURI(r.RequestURI)
	switch {
	case err != nil:
		http.NotFound(w, r)
	case strings.HasSuffix(at.Path, "/"):
		return false
	default:
		w.Header().Set("Location", "./"+url.PathEscape(path.Base(at.Path))+"/")
		w.WriteHeader(http.StatusMovedPermanently)
	}
	return true
}

// serveFile serves a file of the page.
func serveFile(w http.ResponseWriter, r *http.Request, name string) {
	if name == "" {
		name = "index.html"
	}
	kind := contentTypes[path.Ext(name)]
	text, err := fs.ReadFile(pageFiles, path.Join("built", name))
	if kind == "" || err != nil || path.Clean(name) != name {
		http.NotFound(w, r)
		return
	}
	w.Header().Set("Content-Type", kind)
	w.Header().Set("Cache-Control", "no-cache")
	w.Header().Set("Content-Length", strconv.Itoa(len(text)))
	if r.Method == http.MethodGet {
		w.Write(text)
	}
}

// answer answers data/NAME.
func (h *handler) answer(w http.ResponseWriter, r *http.Request, name string) {
	w.Header().Set("Cache-Control", "no-store")
	var err error
	switch {
	case isForeign(r):
		err = failed(http.StatusForbidden, "A page of another origin asked for this.")
	case answers[name] == nil:
		err = failed(http.StatusNotFound, "There is no data of this name.")
	default:
		err = h.writeData(w, r, name)
	}
	if err != nil && r.Context().Err() == nil {
		p, status := problemOf(err)
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		json.NewEncoder(w).Encode(p)
	}
}

// writeData writes the answer to data/NAME, whose header names the model unless it is the compared one. It fails if there is no
// answer, if the client is gone, or if that takes nothing for long.
func (h *handler) writeData(w http.ResponseWriter, r *http.Request, name string) error {
	asked, err := h.request(r.Context(), name, r.URL.Query())
	if err != nil {
		return err
	}
	defer asked.lease.Release()
	if !asked.isOfCompared {
		w.Header().Set("Model", asked.shown.answer.ID)
	}
	a, err := answers[name](h, asked)
	if err != nil {
		return err
	}
	switch a := a.(type) {
	case stream:
		return h.writeLines(w, a)
	case *picture:
		w.Header().Set("Content-Type", "application/octet-stream")
		w.Header().Set("Tiles", a.Tiles)
		return send(w, a.Bytes)
	}
	text, err := json.Marshal(a)
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "application/json")
	return send(w, text)
}

// isForeign reports whether the page of another origin sends a request, as browsers say it.
func isForeign(r *http.Request) bool {
	if !slices.Contains([]string{"", "none", "same-origin"}, r.Header.Get("Sec-Fetch-Site")) {
		return true
	}
	origin := r.Header.Get("Origin")
	from, err := url.Parse(origin)
	return origin != "" && (err != nil || from.Host != r.Host)
}

// Problem is an error as the page shows it: a sentence, the command's line, and what to do.
type Problem = answer.Problem

// problem is an error with the status of its answer.
type problem struct {
	Problem
	status int
}

func (p *problem) Error() string { return p.Text }

// failed returns an error whose text people read.
func failed(status int, format string, args ...any) error {
	return &problem{Problem{Text: fmt.Sprintf(format, args...)}, status}
}

// problemOf returns err as the page shows it, and the status of its answer.
func problemOf(err error) (Problem, int) {
	if p, ok := errors.AsType[*problem](err); ok {
		return p.Problem, p.status
	}
	p, status := Problem{Text: "This cannot be read.", Line: "tensormap: " + err.Error()}, http.StatusInternalServerError
	switch {
	case errors.Is(err, loader.ErrUnsupported):
		p.Text, status = "This tensor has no values that could be shown.", http.StatusUnprocessableEntity
	case errors.Is(err, loader.ErrNotFound):
		p.Text, status = "The model has no such tensor.", http.StatusNotFound
	case errors.Is(err, loader.ErrClosed):
		p.Text, p.Hint, status = "No model is served, or it was replaced meanwhile.", "Load the page again.", http.StatusServiceUnavailable
	case errors.Is(err, loader.ErrChanged):
		p.Text, p.Hint, status = "A file has changed since the model was opened.", "Open the model again.", http.StatusConflict
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		p.Text, status = "Reading was ended.", http.StatusServiceUnavailable
	}
	return p, status
}

// send writes b. It fails if the client is gone, or takes nothing for long: the lease ends with the request.
func send(w http.ResponseWriter, b []byte) error {
	for next := range slices.Chunk(b, sendBytes) {
		err := inTime(http.NewResponseController(w), func() error {
			_, err := w.Write(next)
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// inTime calls write, which fails if the client takes nothing for long. No deadline is left behind: one would end a stream of
// HTTP/2 that has nothing to write for long.
func inTime(ctrl *http.ResponseController, write func() error) error {
	ctrl.SetWriteDeadline(time.Now().Add(writeTime)) // not all writers can
	defer ctrl.SetWriteDeadline(time.Time{})
	return write()
}

// writeLines answers with lines of JSON, and sends each at once. It fails if lines does, if too many streams are open, if the client
// is gone, or if that takes nothing for long.
func (h *handler) writeLines(w http.ResponseWriter, lines stream) error {
	select {
	case h.streams <- struct{}{}:
		defer func() { <-h.streams }()
	default:
		return failed(http.StatusServiceUnavailable, "Too many pages are open.")
	}
	w.Header().Set("Content-Type", "application/x-ndjson")
	w.Header().Set("X-Accel-Buffering", "no") // asks proxies to pass lines on
	ctrl := http.NewResponseController(w)
	return lines(func(line any) error {
		text, err := json.Marshal(line)
		if err != nil {
			return err
		}
		return inTime(ctrl, func() error {
			if _, err := w.Write(append(text, '\n')); err != nil {
				return err
			}
			if err := ctrl.Flush(); !errors.Is(err, http.ErrNotSupported) {
				return err
			}
			return nil
		})
	})
}
