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
	current  loader.Current[*serving]
}

// serving is an open model, its tensors as a server binds them, and what they hold.
type serving struct {
	m     *loader.Model
	bound map[string]loader.Tensor
	all   *model
}

// swap makes version i the current model.
func (s *server) swap(rng *rand.Rand, i int) {
	next := &serving{s.open(rng, i), map[string]loader.Tensor{}, s.versions[i]}
	for t := range next.m.Tensors() {
		next.bound[t.Name()] = t
	}
	if err := s.current.Swap(next.m, next); err != nil {
		s.errorf("Swap: %v", err)
	}
}

func (s *server) open(rng *rand.Rand, i int) *loader.Model {
	path, o := s.paths[i], s.versions[i].with(loader.Options{CacheBytes: s.cache, NoMap: !s.mapped})
	if !s.versions[i].sharded() && rng.IntN(4) == 0 {
		b := must(os.ReadFile(path))
		return must(loader.OpenReaderAt(context.Background(), bytes.NewReader(b), int64(len(b)), o))
	}
	return must(loader.Open(path, o))
}

func (s *server) serve(d time.Duration) {
	s.swap(s.Rand, 0)
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
			s.swap(rng, rng.IntN(len(s.versions)))
			s.count("swaps", 1)
			time.Sleep(time.Duration(rng.IntN(2000)) * time.Microsecond)
		}
	})
	time.Sleep(d)
	over.Store(true)
	ends("a server", wg.Wait)
	if err := s.current.Close(); err != nil {
		s.errorf("Close: %v", err)
	}
	if left := s.current.Stats(); left.Draining > 0 || left.MappedBytes > 0 || left.HeapBytes > 0 {
		s.errorf("%d models are not gone: %+v", left.Draining, left)
	}
}

// request makes some calls on the current model, with a lease or without.
func (s *server) request(rng *rand.Rand) {
	now, lease, err := s.current.Acquire(context.Background())
	if err != nil {
		s.errorf("Acquire: %v", err)
		return
	}
	if rng.IntN(3) == 0 {
		lease.Release()
		lease = nil
	} else {
		defer lease.Release()
	}
	s.count("requests", 1)
	for range 1 + rng.IntN(4) {
		t, call := &now.all.tensors[rng.IntN(len(now.all.tensors))], s.names[rng.IntN(len(s.names))]
		if lease == nil && !strings.Contains(call, "Dequantize") && !strings.Contains(call, "Tensor.At") &&
			!strings.Contains(call, "Values") && !strings.Contains(call, "ReadAt") && !strings.Contains(call, "Write") {
			continue // it would look at a view that nothing holds
		}
		err := error(nil)
		if lease != nil && rng.IntN(2) == 0 {
			err = calls[call](&subject{Rand: rng, m: now.m, x: now.bound[t.name], dir: s.dir, all: now.all, want: t})
		} else {
			err = s.callOn(rng, now.m, lease, now.all, t, call)
		}
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
