package main

import (
	"context"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"mime"
	"net"
	"net/http"
	"net/http/pprof"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/tensormap/tensormap/explore"
	"github.com/tensormap/tensormap/loader"
	"github.com/tensormap/tensormap/metrics"
)

// limits are what one request and all requests may take.
type limits struct {
	bytes           int64
	inputs, running int
	time            time.Duration
}

type server struct {
	models     *models
	limits     limits
	adminNames []string // which Host of a request for the administration may be, in addition to addresses
	log        *slog.Logger

	stopping atomic.Bool // /readyz says so

	waiting, running chan struct{} // a request puts one into each, and takes it out at its end

	registry *prometheus.Registry
	seconds  *prometheus.HistogramVec
	tokens   prometheus.Counter
}

// newServer returns a server without a model.
func newServer(s settings, log *slog.Logger) *server {
	running := max(s.limits.running, 1)
	listening, _, _ := net.SplitHostPort(s.admin)
	srv := &server{
		models: &models{bert: s.bert, log: log}, limits: s.limits, log: log,
		adminNames: append([]string{"localhost", listening}, s.adminHosts...),
		waiting:    make(chan struct{}, 11*running), running: make(chan struct{}, running),
		registry: prometheus.NewRegistry(),
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "embedserver_request_duration_seconds", Help: "Time of requests for embeddings.", Buckets: prometheus.ExponentialBuckets(0.002, 2, 14),
		}, []string{"code"}),
		tokens: prometheus.NewCounter(prometheus.CounterOpts{Name: "embedserver_tokens_total", Help: "Tokens that were embedded."}),
	}
	collector := metrics.New()
	if err := collector.Add("embedder", &srv.models.current); err != nil {
		panic(err) // only a name that is taken
	}
	srv.models.warming = func() *loader.WarmOptions { return collector.Warming("embedder", nil) }
	srv.registry.MustRegister(srv.seconds, srv.tokens, collector)
	return srv
}

// api returns what clients, probes and Prometheus ask.
func (s *server) api() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("POST /v1/embeddings", promhttp.InstrumentHandlerDuration(s.seconds, answers(s.embeddings)))
	mux.Handle("GET /v1/models", answers(s.list))
	mux.HandleFunc("GET /healthz", func(http.ResponseWriter, *http.Request) {})
	mux.Handle("GET /readyz", answers(func(r *http.Request) (any, error) {
		if s.stopping.Load() {
			return nil, failed(http.StatusServiceUnavailable, errors.New("the server stops"))
		}
		if !s.models.ready() {
			return nil, failed(http.StatusServiceUnavailable, errors.New("no model is loaded yet"))
		}
		return map[string]bool{"ready": true}, nil
	}))
	mux.Handle("GET /metrics", promhttp.HandlerFor(s.registry, promhttp.HandlerOpts{}))
	return mux
}

// administration returns what only the operator may ask: profiles, which model is served, and a page that shows it.
func (s *server) administration() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("POST /admin/models", answers(s.swap))
	mux.Handle("GET /admin/models", answers(func(*http.Request) (any, error) { return s.models.current.Stats(), nil }))
	mux.Handle("/debug/model/", http.StripPrefix("/debug/model", explore.Handler(func() (*loader.Lease, error) {
		_, lease, err := s.models.current.Acquire(context.Background())
		return lease, err
	}, nil)))
	mux.HandleFunc("/debug/pprof/", pprof.Index)
	mux.HandleFunc("/debug/pprof/cmdline", pprof.Cmdline)
	mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("/debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("/debug/pprof/trace", pprof.Trace)
	return onlyTo(s.adminNames, mux)
}

// onlyTo returns a handler that passes requests on to h if they were sent to an address or to one of the names. It answers others by 403:
// a page whose name was rebound to an address of this server would count as one of its own in a browser.
func onlyTo(names []string, h http.Handler) http.Handler {
	refuse := answers(func(r *http.Request) (any, error) {
		return nil, failed(http.StatusForbidden, fmt.Errorf("the server is not called %q: --admin-host NAME allows a name", r.Host))
	})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		host := (&url.URL{Host: r.Host}).Hostname()
		_, err := netip.ParseAddr(host)
		isNamed := host != "" && slices.ContainsFunc(names, func(name string) bool { return strings.EqualFold(name, host) })
		if err != nil && !isNamed {
			refuse.ServeHTTP(w, r)
			return
		}
		h.ServeHTTP(w, r)
	})
}

// httpError is an error with the status of its answer.
type httpError struct {
	status int
	error
}

func failed(status int, err error) error { return httpError{status, err} }

// answers makes a handler of a function that returns what is answered as JSON. An error is answered as OpenAI does. An
// error without a status is 503 if the model or the time is gone, else 500. The time to send an answer begins once f has returned.
func answers(f func(*http.Request) (any, error)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		control := http.NewResponseController(w)
		control.SetWriteDeadline(time.Time{}) // such as while a model is loaded
		answer, err := f(r)
		if by, _ := r.Context().Value(http.ServerContextKey).(*http.Server); by != nil && by.WriteTimeout > 0 {
			control.SetWriteDeadline(time.Now().Add(by.WriteTimeout))
		}
		status := http.StatusOK
		if err != nil {
			var is httpError
			switch {
			case errors.As(err, &is):
				status = is.status
			case errors.Is(err, loader.ErrClosed), errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
				status = http.StatusServiceUnavailable
			default:
				status = http.StatusInternalServerError
			}
			kind := "invalid_request_error"
			if status >= http.StatusInternalServerError {
				kind = "server_error"
			}
			if status == http.StatusTooManyRequests || status == http.StatusServiceUnavailable {
				w.Header().Set("Retry-After", "1")
			}
			answer = map[string]any{"error": map[string]any{"message": err.Error(), "type": kind, "param": nil, "code": nil}}
		}
		text, err := json.Marshal(answer)
		if err != nil { // such as a NaN, of weights that are
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		w.Write(text)
	})
}

// parse reads a request's body, JSON of at most limit bytes, into v. The error has the status of what is wrong with it.
func parse(r *http.Request, limit int64, v any) error {
	if kind, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type")); kind != "application/json" { // which pages of other origins cannot send
		return failed(http.StatusUnsupportedMediaType, errors.New("the header Content-Type must be application/json"))
	}
	err := json.NewDecoder(http.MaxBytesReader(nil, r.Body, limit)).Decode(v)
	if tooLong := new(http.MaxBytesError); errors.As(err, &tooLong) {
		return failed(http.StatusRequestEntityTooLarge, fmt.Errorf("the body has more than %d bytes", limit))
	}
	if err != nil {
		return failed(http.StatusBadRequest, fmt.Errorf("the body: %w", err))
	}
	return nil
}

// texts is the input of a request: a string or several. Tokens, which OpenAI takes too, are refused: the tokens of another
// tokenizer would give vectors of other texts.
type texts []string

func (t *texts) UnmarshalJSON(b []byte) error {
	var one string
	if err := json.Unmarshal(b, &one); err == nil {
		*t = texts{one}
		return nil
	}
	if err := json.Unmarshal(b, (*[]string)(t)); err != nil {
		return errors.New("input is a string or an array of strings; tokens are this model's own affair")
	}
	return nil
}

// embeddings answers POST /v1/embeddings under one lease of the model that was current when it began.
func (s *server) embeddings(r *http.Request) (any, error) {
	select {
	case s.waiting <- struct{}{}:
		defer func() { <-s.waiting }()
	default:
		return nil, failed(http.StatusTooManyRequests, errors.New("too many requests wait"))
	}
	var asked struct {
		Input      texts  `json:"input"`
		Encoding   string `json:"encoding_format"`
		Dimensions *int   `json:"dimensions"`
	}
	if err := parse(r, s.limits.bytes, &asked); err != nil {
		return nil, err
	}
	if n := len(asked.Input); n == 0 || n > s.limits.inputs {
		return nil, failed(http.StatusBadRequest, fmt.Errorf("%d inputs, of 1 to %d", n, s.limits.inputs))
	}
	if asked.Encoding != "" && asked.Encoding != "float" && asked.Encoding != "base64" {
		return nil, failed(http.StatusBadRequest, fmt.Errorf("encoding_format %q is neither float nor base64", asked.Encoding))
	}
	ctx, cancel := context.WithTimeout(r.Context(), s.limits.time)
	defer cancel()
	select {
	case s.running <- struct{}{}:
		defer func() { <-s.running }()
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	model, lease, err := s.models.current.Acquire(ctx)
	if err != nil {
		return nil, err
	}
	defer lease.Release()
	if d := asked.Dimensions; d != nil && *d != model.Dimensions() {
		return nil, failed(http.StatusBadRequest, fmt.Errorf("%d dimensions: this model has %d", *d, model.Dimensions()))
	}
	tokens := make([][]int, len(asked.Input))
	total := 0
	for i, text := range asked.Input {
		tokens[i] = model.Tokens(text, math.MaxInt)
		if n := len(tokens[i]); n > model.MaxTokens() {
			return nil, failed(http.StatusBadRequest, fmt.Errorf("input %d has %d tokens, the model takes %d", i, n, model.MaxTokens()))
		}
		total += len(tokens[i])
	}
	type embedding struct {
		Object    string `json:"object"`
		Index     int    `json:"index"`
		Embedding any    `json:"embedding"`
	}
	list := make([]embedding, len(tokens))
	for i := range tokens {
		v, err := model.Embed(ctx, tokens[i])
		if err != nil {
			return nil, err
		}
		list[i] = embedding{"embedding", i, v}
		if asked.Encoding == "base64" {
			b, _ := binary.Append(nil, binary.LittleEndian, v) // of floats: never fails
			list[i].Embedding = base64.StdEncoding.EncodeToString(b)
		}
	}
	s.tokens.Add(float64(total))
	return map[string]any{"object": "list", "data": list, "model": model.name,
		"usage": map[string]int{"prompt_tokens": total, "total_tokens": total}}, nil
}

// list answers GET /v1/models: the one that is served.
func (s *server) list(r *http.Request) (any, error) {
	model, lease, err := s.models.current.Acquire(r.Context())
	if err != nil {
		return nil, err
	}
	defer lease.Release()
	return map[string]any{"object": "list", "data": []any{map[string]any{"id": model.name, "object": "model", "owned_by": "embedserver"}}}, nil
}

// swap answers POST /admin/models once the model that it names is served. Requests that run go on with the one before.
func (s *server) swap(r *http.Request) (any, error) {
	var asked struct {
		Model string `json:"model"`
	}
	if err := parse(r, 64<<10, &asked); err != nil {
		return nil, err
	}
	if asked.Model == "" {
		return nil, failed(http.StatusBadRequest, errors.New(`no "model"`))
	}
	if err := s.models.load(r.Context(), asked.Model); err != nil {
		return nil, failed(http.StatusUnprocessableEntity, err)
	}
	return s.models.current.Stats(), nil
}
