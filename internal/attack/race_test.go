//go:build unix

package attack

import (
	"bytes"
	"context"
	"errors"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tensormap/tensormap/loader"
	"github.com/tensormap/tensormap/mmapio"
)

// beginRace swaps models under requests, as a server does, with everything else at the same
// time. Each answer is the right one, or ErrClosed where no lease is held.
func beginRace(a *arena) func(*round) {
	list := models(a)
	names := slices.Sorted(maps.Keys(calls))
	return func(r *round) {
		versions := []*model{pick(r.Rand, list), pick(r.Rand, list)}
		s := &server{round: r, versions: versions, names: names, mapped: r.chance(2), cache: []int64{0, -1, 40_000}[r.IntN(3)]}
		for i, m := range versions {
			dir := filepath.Join(r.dir, number(i))
			check(os.Mkdir(dir, 0o777))
			s.paths = append(s.paths, m.put(dir))
		}
		s.serve(time.Duration(5+r.IntN(60)) * time.Millisecond)
		r.nothingMapped()
	}
}

// A server serves requests by whichever model is current.
type server struct {
	*round
	versions []*model
	paths    []string
	names    []string
	mapped   bool
	cache    int64
	current  atomic.Pointer[serving]
}

// serving is an open model and what it holds.
type serving struct {
	m   *loader.Model
	all *model
}

func (s *server) open(rng *rand.Rand, i int) *serving {
	path, o := s.paths[i], s.versions[i].with(loader.Options{CacheBytes: s.cache, NoMap: !s.mapped})
	if !s.versions[i].sharded() && rng.IntN(4) == 0 {
		b := must(os.ReadFile(path))
		return &serving{must(loader.OpenReaderAt(context.Background(), bytes.NewReader(b), int64(len(b)), o)), s.versions[i]}
	}
	return &serving{must(loader.Open(path, o)), s.versions[i]}
}

func (s *server) serve(d time.Duration) {
	s.current.Store(s.open(s.Rand, 0))
	var over atomic.Bool
	var wg sync.WaitGroup
	for range 6 {
		rng := s.split()
		wg.Go(func() {
			for !over.Load() {
				s.request(rng)
			}
		})
	}
	rng := s.split()
	wg.Go(func() { // the swapper
		for !over.Load() {
			next := s.open(rng, rng.IntN(len(s.versions)))
			old := s.current.Swap(next)
			if rng.IntN(2) == 0 {
				runtime.Gosched()
			}
			if err := old.m.Close(); err != nil {
				s.errorf("Close: %v", err)
			}
			s.count("swaps", 1)
			time.Sleep(time.Duration(rng.IntN(2000)) * time.Microsecond)
		}
	})
	time.Sleep(d)
	over.Store(true)
	ends("a server", wg.Wait)
	s.current.Load().m.Close()
}

// request makes some calls on the current model, with a lease or without.
func (s *server) request(rng *rand.Rand) {
	now := s.current.Load()
	var lease *loader.Lease
	if rng.IntN(3) > 0 {
		l, err := now.m.Acquire()
		if err != nil {
			if !errors.Is(err, loader.ErrClosed) {
				s.errorf("Acquire: %v", err)
			}
			return
		}
		defer l.Release()
		lease = l
	}
	s.count("requests", 1)
	for range 1 + rng.IntN(4) {
		t, call := &now.all.tensors[rng.IntN(len(now.all.tensors))], s.names[rng.IntN(len(s.names))]
		if lease == nil && !strings.Contains(call, "Dequantize") && !strings.Contains(call, "Tensor.At") &&
			!strings.Contains(call, "Values") && !strings.Contains(call, "ReadAt") && !strings.Contains(call, "Write") {
			continue // it would look at a view that nothing holds
		}
		err := s.callOn(rng, now.m, lease, now.all, t, call)
		switch {
		case err == nil:
			s.count("right", 1)
		case errors.Is(err, errWrong):
			s.errorf("%s: %s of %s: %v", now.all.name, call, t.name, err)
		case errors.Is(err, loader.ErrClosed):
			// Methods of the model itself end with it, whoever holds a lease.
			if lease != nil && strings.HasPrefix(call, "loader.Tensor.") {
				s.errorf("%s: %s of %s under a lease: %v", now.all.name, call, t.name, err)
			}
			s.count("closed", 1)
		default:
			s.count("errors", 1)
			if !expected(err) {
				s.errorf("%s: %s of %s: %v", now.all.name, call, t.name, err)
			}
		}
	}
}

// expected reports whether an error has another reason than the race.
func expected(err error) bool {
	for _, e := range []error{errors.ErrUnsupported, loader.ErrUnsupported, loader.ErrTooLarge, context.DeadlineExceeded, mmapio.ErrMisaligned} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// nothingMapped wants the address space to be without files once every model is closed.
func (r *round) nothingMapped() {
	maps, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		return // Linux alone tells
	}
	for line := range strings.Lines(string(maps)) {
		if strings.Contains(line, r.dir) {
			r.errorf("still mapped after every Close: %s", line)
		}
	}
	open := 0
	for _, e := range must(os.ReadDir("/proc/self/fd")) {
		if to, err := os.Readlink("/proc/self/fd/" + e.Name()); err == nil && strings.HasPrefix(to, r.dir) {
			open++
		}
	}
	if open > 0 {
		r.errorf("%d descriptors are open after every Close", open)
	}
}
