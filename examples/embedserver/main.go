// Command embedserver answers OpenAI's /v1/embeddings with a BERT of any format, quantization or address:
//
//	go run -C examples/embedserver . --model hf://sentence-transformers/all-MiniLM-L6-v2
//	curl localhost:8080/v1/embeddings -H 'Content-Type: application/json' -d '{"input": "A cat sits."}'
//
// It is a program to start from: weights are bound once per model, a request takes one lease, models are swapped while
// requests run. See README.md beside it.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/tensormap/tensormap/examples/bert"
)

// settings are the command's flags.
type settings struct {
	model, watch  string
	listen, admin string
	adminHosts    []string
	bert          bert.Options
	limits        limits
	send, poll    time.Duration
	leave, drain  time.Duration
}

func main() {
	var s settings
	flag.StringVar(&s.model, "model", "", "the model: a file, a directory or an address")
	flag.StringVar(&s.watch, "watch", "", "a directory of models: the last of its names is served, also once a later one appears")
	flag.StringVar(&s.listen, "listen", "localhost:8080", "address of the API, /healthz, /readyz and /metrics")
	flag.StringVar(&s.admin, "admin", "", "address of /admin/models, /debug/model and /debug/pprof; off unless given")
	flag.Func("admin-host", "another name of the address of --admin, such as a Service's; may be given several times", func(name string) error {
		s.adminHosts = append(s.adminHosts, name)
		return nil
	})
	flag.StringVar(&s.bert.Vocabulary, "vocab", "", "path of a vocab.txt; without it, the vocabulary beside or in the model")
	flag.StringVar((*string)(&s.bert.Pooling), "pooling", "", "mean or cls; without it, what the model's files say")
	flag.Int64Var(&s.limits.bytes, "max-bytes", 1<<20, "bytes of a request's body")
	flag.IntVar(&s.limits.inputs, "max-inputs", 256, "texts of a request")
	flag.IntVar(&s.limits.running, "max-running", 2, "requests that compute at once; ten times as many wait, others get 429")
	flag.DurationVar(&s.limits.time, "timeout", 30*time.Second, "time of a request")
	flag.DurationVar(&s.send, "send-timeout", time.Minute, "time that a client gets to take an answer")
	flag.DurationVar(&s.poll, "poll", 2*time.Second, "time between two looks into the watched directory")
	flag.DurationVar(&s.leave, "leave", 0, "time between SIGTERM, when /readyz begins to answer 503, and the end of accepting")
	flag.DurationVar(&s.drain, "drain", 30*time.Second, "time that running requests get when the server stops")
	flag.Parse()
	if flag.NArg() > 0 || (s.model == "") == (s.watch == "") {
		fmt.Fprintln(os.Stderr, "say either --model or --watch, and no arguments")
		flag.Usage()
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, s, slog.Default()); err != nil {
		slog.Error(err.Error())
		os.Exit(1)
	}
}

// run serves until ctx ends. Then it is not ready, serves on while balancers notice, and lets running requests end. The error is of
// the first model, of listening, or of requests that did not end in time.
func run(ctx context.Context, s settings, log *slog.Logger) error {
	srv := newServer(s, log)
	api, err := net.Listen("tcp", s.listen)
	if err != nil {
		return err
	}
	servers := []*http.Server{serve(api, srv.api(), s.send, log)}
	log.Info("listening", "api", api.Addr().String())
	if s.admin != "" {
		admin, err := net.Listen("tcp", s.admin)
		if err != nil {
			return errors.Join(err, servers[0].Close())
		}
		servers = append(servers, serve(admin, srv.administration(), s.send, log))
		log.Info("listening", "admin", admin.Addr().String())
	}
	if s.watch != "" {
		go srv.models.watch(ctx, s.watch, s.poll)
	} else {
		err = srv.models.load(ctx, s.model)
	}
	if err == nil {
		<-ctx.Done()
		srv.stopping.Store(true)
		log.Info("not ready", "leave", s.leave)
		time.Sleep(s.leave)
		log.Info("stopping", "drain", s.drain)
	}
	drain, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.drain)
	defer cancel()
	for _, server := range servers {
		err = errors.Join(err, server.Shutdown(drain))
	}
	return errors.Join(err, srv.models.close(drain))
}

// serve serves the requests that a listener accepts, until the server that it returns is shut down. A client that does not take an
// answer within the time to send loses its connection.
func serve(l net.Listener, h http.Handler, send time.Duration, log *slog.Logger) *http.Server {
	server := &http.Server{Handler: h, ReadHeaderTimeout: 10 * time.Second, ReadTimeout: time.Minute, WriteTimeout: send,
		IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 64 << 10, ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelDebug)}
	go func() {
		if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			log.Error("serving ended", "err", err)
		}
	}()
	return server
}
