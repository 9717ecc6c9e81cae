//go:build unix

package attack

import (
	"errors"
	"fmt"
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

// A change is something that happens to a file while a model of it is open.
type change struct {
	kind string
	file string
	cut  int64 // the size that is left, of a file that is cut

	// What a mapping shows of the rest of the page that was cut is zeros, silently.
	from, to uint64
}

// beginTruncate cuts, replaces and rewrites files under every call that reads them.
func beginTruncate(a *arena) func(*round) {
	list := models(a)
	names := slices.Sorted(maps.Keys(calls))
	go func() { // the stacks move and what is unreachable goes while calls run
		for {
			runtime.GC()
			time.Sleep(time.Millisecond)
		}
	}()
	return func(r *round) { r.underCalls(pick(r.Rand, list), names) }
}

// ways open a model's file.
var ways = []struct {
	name   string
	mapped bool
	open   func(r *round, path string, o loader.Options) (*loader.Model, error)
}{
	{"Open", true, func(_ *round, path string, o loader.Options) (*loader.Model, error) { return loader.Open(path, &o) }},
	{"Open NoMap", false, func(_ *round, path string, o loader.Options) (*loader.Model, error) {
		o.NoMap = true
		return loader.Open(path, &o)
	}},
	{"OpenFile", true, func(_ *round, path string, o loader.Options) (*loader.Model, error) {
		f := must(os.Open(path))
		defer f.Close()
		return loader.OpenFile(f, &o)
	}},
}

// underCalls opens a model, changes one of its files, and calls what reads it.
func (r *round) underCalls(all *model, names []string) {
	path := all.put(r.dir)
	way := pick(r.Rand, ways)
	if all.sharded() && way.name == "OpenFile" {
		way = ways[0]
	}
	opts := all.with(loader.Options{CacheBytes: int64([]int{0, -1, 100_000}[r.IntN(3)])})
	m, err := way.open(r, path, *opts)
	if err != nil {
		r.errorf("%s %s: %v", way.name, all.name, err)
		return
	}
	defer m.Close()
	var lease *loader.Lease
	if r.chance(2) {
		lease = must(m.Acquire())
		defer lease.Release()
	}
	touched := slices.ContainsFunc(all.tensors, func(t tensor) bool { return t.logical }) // Open may read what tells shapes
	if r.chance(4) {
		touched = true
		r.callOn(r.Rand, m, lease, all, &all.tensors[r.IntN(len(all.tensors))], pick(r.Rand, names))
	}
	if all.sharded() {
		time.Sleep(10 * time.Millisecond) // the clock of files ticks; what is within a tick cannot be told
	}
	c := r.choose(all.weights())
	if way.mapped && c.kind == "truncate" {
		page := int64(os.Getpagesize())
		c.from, c.to = uint64(c.cut), uint64((c.cut+page-1)/page*page)
	}
	name := fmt.Sprintf("%s %s, %s %s to %d", way.name, all.name, c.kind, c.file, c.cut)
	var after atomic.Bool
	var wg sync.WaitGroup
	meanwhile := r.chance(3)
	rng := r.split()
	alter := func() {
		r.apply(c, all, rng)
		after.Store(true)
	}
	if meanwhile {
		pause := time.Duration(r.IntN(500)) * time.Microsecond
		wg.Go(func() { time.Sleep(pause); alter() })
	} else {
		alter()
	}
	r.count(c.kind, 1)
	for range 1 + r.IntN(12) {
		t, call, rng := &all.tensors[r.IntN(len(all.tensors))], pick(r.Rand, names), r.split()
		work := func() {
			err := r.callOn(rng, m, lease, all, t, call)
			r.judge(verdict{name, call, t, c, way.mapped, !meanwhile, touched}, all, m, err)
		}
		if r.chance(3) {
			wg.Add(1)
			go func() { defer wg.Done(); deep(rng.IntN(60), work) }()
		} else {
			done := make(chan struct{})
			go func() { defer close(done); deep(rng.IntN(60), work) }()
			<-done
		}
	}
	ends(name, wg.Wait)
}

// deep runs f with some of the stack used, so that what f calls grows it at any point.
//
//go:noinline
func deep(n int, f func()) byte {
	var pad [40]byte
	pad[n%len(pad)] = byte(n)
	if n == 0 {
		f()
		return pad[0]
	}
	return deep(n-1, f) + pad[n%len(pad)]
}

// callOn makes one call on one tensor.
func (r *round) callOn(rng *rand.Rand, m *loader.Model, l *loader.Lease, all *model, t *tensor, call string) error {
	x, err := m.Tensor(t.name)
	if l != nil {
		x, err = l.Tensor(t.name)
	}
	if err != nil {
		return err
	}
	r.count("calls", 1)
	return calls[call](&subject{Rand: rng, m: m, x: x, dir: r.dir, all: all, want: t})
}

// A verdict is everything that decides whether an answer is a finding.
type verdict struct {
	name, call string
	t          *tensor
	change     change
	mapped     bool
	before     bool // the change was over before the call began
	touched    bool // a call read the model before
}

// judge reports answers that break a promise.
func (r *round) judge(v verdict, all *model, m *loader.Model, err error) {
	switch {
	case err == nil:
		r.count("right", 1)
		if v.call == "loader.Model.Verify" && v.before && v.mustVerify(all) {
			r.errorf("%s: Verify finds nothing", v.name)
		}
	case errors.Is(err, mmapio.ErrFault):
		r.count("faults", 1)
	case !errors.Is(err, errWrong):
		r.count("errors", 1)
		if n := strings.Count(err.Error(), m.Files()[0].Path); n > 1 && !strings.Contains(v.call, "survey") && v.call != "loader.Model.Verify" {
			r.errorf("%s: %s says the path %d times: %v", v.name, v.call, n, err)
		}
	case v.cannotBeSeen(all, m):
		r.count("undetectable", 1)
	default:
		r.errorf("%s: %s of %s (file %d, offset %d, %d bytes): %v", v.name, v.call, v.t.name, v.t.file, v.t.offset, len(v.t.stored), err)
	}
}

// mustVerify reports whether a change leaves something that Verify promises to find.
func (v *verdict) mustVerify(all *model) bool {
	switch v.change.kind {
	case "truncate":
		return v.change.cut < int64(len(all.files[v.change.file]))
	case "rewrite", "regrow":
		return all.checksummed
	}
	return false
}

// cannotBeSeen reports whether nothing could tell that an answer is wrong: memory that shows
// the file shows what is written to it, and zeros behind its end up to the next page.
func (v *verdict) cannotBeSeen(all *model, m *loader.Model) bool {
	if strings.HasPrefix(v.call, "convert.") {
		return false // it is wrong about what it leaves behind
	}
	elsewhere := strings.HasSuffix(v.call, "Metadata") || strings.HasSuffix(v.call, "Scale") // not beside the tensor
	if !elsewhere {
		if !slices.ContainsFunc(v.t.places, func(p place) bool { return filepath.Base(m.Files()[p.file].Path) == v.change.file }) {
			return false
		}
		if all.sharded() && v.before && !v.touched && v.change.file != all.path {
			return false // it is opened anew, and held against what it was
		}
	}
	switch v.change.kind {
	case "truncate":
		return v.mapped && (elsewhere || slices.ContainsFunc(v.t.places, func(p place) bool {
			return filepath.Base(m.Files()[p.file].Path) == v.change.file && p.off < v.change.to && v.change.from < p.off+p.size
		}))
	case "rewrite", "regrow":
		return true
	}
	return false
}

// choose chooses a change.
func (r *round) choose(files []string) change {
	c := change{kind: []string{"truncate", "truncate", "truncate", "truncate", "replace", "rewrite", "regrow", "remove", "extend"}[r.IntN(9)]}
	c.file = pick(r.Rand, files)
	size := must(os.Stat(filepath.Join(r.dir, c.file))).Size()
	page := int64(os.Getpagesize())
	switch r.IntN(5) {
	case 0:
		c.cut = 0
	case 1:
		c.cut = min(page, size)
	case 2:
		c.cut = r.Int64N(size/page+1) * page
	case 3:
		c.cut = max(0, size-1-r.Int64N(10))
	default:
		c.cut = r.Int64N(size)
	}
	return c
}

// apply changes a file.
func (r *round) apply(c change, all *model, rng *rand.Rand) {
	path := filepath.Join(r.dir, c.file)
	content := all.files[c.file]
	switch c.kind {
	case "truncate":
		check(os.Truncate(path, c.cut))
	case "regrow": // to zeros
		check(os.Truncate(path, c.cut/2))
		check(os.Truncate(path, int64(len(content))))
	case "extend":
		check(os.Truncate(path, int64(len(content)+1+rng.IntN(10_000))))
	case "replace":
		other := filepath.Join(r.dir, ".other")
		check(os.WriteFile(other, noise(rng, rng.IntN(2*len(content))), 0o666))
		check(os.Rename(other, path))
	case "remove":
		check(os.Remove(path))
	case "rewrite":
		info := must(os.Stat(path))
		f := must(os.OpenFile(path, os.O_WRONLY, 0))
		at := rng.Int64N(int64(len(content)))
		b := noise(rng, int(min(int64(len(content))-at, 1+rng.Int64N(100_000))))
		must(f.WriteAt(b, at))
		check(f.Close())
		if rng.IntN(2) == 0 { // as rsync --times does
			check(os.Chtimes(path, info.ModTime(), info.ModTime()))
		}
	}
}

func noise(rng *rand.Rand, n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(rng.Uint32())
	}
	return b
}
