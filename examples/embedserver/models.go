package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"sync"
	"time"

	"github.com/tensormap/tensormap/examples/bert"
	"github.com/tensormap/tensormap/loader"
	"github.com/tensormap/tensormap/remote"
)

// models is the model that is served, with its weights bound, and the models before it that drain.
type models struct {
	current loader.Current[*served] // closed before the first model and after close
	bert    bert.Options
	log     *slog.Logger
	warming func() *loader.WarmOptions // which tell the collector how far warming has come
	loading sync.Mutex                 // held while a model is opened: two at once would take the memory of both
}

// served is a model with the name that it was asked for by.
type served struct {
	name string
	*bert.Model
}

// load opens the model at a path or an address, binds its weights and reads them into memory. Then it is the current
// one, and the one before drains. If it cannot be loaded, the one before stays.
func (s *models) load(ctx context.Context, address string) error {
	s.loading.Lock()
	defer s.loading.Unlock()
	begun := time.Now()
	log := s.log.With("model", address)
	m, err := remote.Open(ctx, address, &remote.Options{Loader: &loader.Options{Logger: log, Hooks: loader.Hooks{
		Gone: func(drained time.Duration) {
			log.Info("gone", "drained", drained)
			go debug.FreeOSMemory() // what was cached goes back now, not at the next collection
		},
	}}})
	if err != nil {
		return err
	}
	b, err := bert.New(ctx, m, s.bert)
	if err == nil {
		_, err = m.WarmAll(ctx, s.warming())
	}
	if err != nil {
		return errors.Join(err, m.Close())
	}
	if err := s.current.Swap(m, &served{address, b}); err != nil {
		return err
	}
	log.Info("serving", "tensors", m.Len(), "dimensions", b.Dimensions(), "tokens", b.MaxTokens(), "took", time.Since(begun))
	return nil
}

// ready reports whether there is a model to serve.
func (s *models) ready() bool { return !s.current.Stats().Closed }

// watch serves the last name in dir, and looks for a later one at every interval until ctx ends. Names that begin with a
// dot do not count: a model is copied under such a name and then renamed, so that it appears whole. A model that
// cannot be loaded is tried again; it is logged once.
func (s *models) watch(ctx context.Context, dir string, every time.Duration) {
	var serving, problem string
	for {
		name, err := lastName(dir)
		if err == nil && name != serving {
			if err = s.load(ctx, filepath.Join(dir, name)); err == nil {
				serving, problem = name, ""
			}
		}
		if err != nil && ctx.Err() == nil && err.Error() != problem {
			problem = err.Error()
			goesOn := "the model before goes on"
			if !s.ready() {
				goesOn = "no model is served yet"
			}
			s.log.Error(goesOn, "watched", dir, "err", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(every):
		}
	}
}

// lastName returns the last name in dir that does not begin with a dot. The error tells that there is none.
func lastName(dir string) (string, error) {
	entries, err := os.ReadDir(dir) // in the order of names
	if err != nil {
		return "", err
	}
	for i := range entries {
		if name := entries[len(entries)-1-i].Name(); !strings.HasPrefix(name, ".") {
			return name, nil
		}
	}
	return "", fmt.Errorf("%s: no model in it", dir)
}

// close ends serving, and waits until all memory is released or ctx ends. The error tells how many models still drain.
func (s *models) close(ctx context.Context) error {
	err := s.current.Close()
	if s.current.Wait(ctx) != nil {
		stats := s.current.Stats()
		err = errors.Join(err, fmt.Errorf("%d models still in use, by %d leases", stats.Draining, stats.Leases))
	}
	return err
}
