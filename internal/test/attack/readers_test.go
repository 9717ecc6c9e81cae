//go:build unix

package attack

import (
	"bytes"
	"context"
	"errors"
	"io"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tensormap/tensormap/loader"
)

var errLiar = errors.New("the reader fails")

// A liar is an io.ReaderAt that does not keep the rules of one, from some request on.
type liar struct {
	mu       sync.Mutex
	rng      *rand.Rand
	r        *bytes.Reader
	lie      string
	calm     int // requests that are answered honestly
	lied     atomic.Bool
	released chan struct{}
}

// lies are what a reader may do. Those with wrong bytes are not among what must be noticed.
var lies = []string{"error", "short", "short and nil", "too many", "negative", "early EOF", "EOF with all", "noise", "slow", "mute", "panic"}

func (l *liar) ReadAt(p []byte, off int64) (int, error) {
	l.mu.Lock()
	honest := l.calm > 0 || l.rng.IntN(3) > 0
	l.calm--
	n, seed := l.rng.IntN(len(p)+1), l.rng.Uint64()
	l.mu.Unlock()
	if honest {
		return l.r.ReadAt(p, off)
	}
	l.lied.Store(true)
	switch l.lie {
	case "error":
		return 0, errLiar
	case "short":
		n, _ = l.r.ReadAt(p[:n], off)
		return n, errLiar
	case "short and nil":
		n, _ = l.r.ReadAt(p[:n], off)
		return n, nil
	case "too many":
		l.r.ReadAt(p, off)
		return len(p) + 1 + n, nil
	case "negative":
		return -1 - n, nil
	case "early EOF":
		n, _ = l.r.ReadAt(p[:n], off)
		return n, io.EOF
	case "EOF with all":
		n, _ := l.r.ReadAt(p, off)
		return n, io.EOF
	case "noise":
		copy(p, noise(rand.New(rand.NewPCG(seed, 0)), min(len(p), 1000)))
		return len(p), nil
	case "slow":
		time.Sleep(time.Millisecond)
	case "mute":
		<-l.released
	case "panic":
		panic(errLiar)
	}
	return l.r.ReadAt(p, off)
}

// beginReaders opens models through readers that lie.
func beginReaders(a *arena) func(*round) {
	list := slices.DeleteFunc(models(a), (*model).sharded)
	names := slices.Sorted(maps.Keys(calls))
	return func(r *round) {
		all := pick(r.Rand, list)
		l := &liar{rng: r.split(), r: bytes.NewReader(all.files[all.path]), lie: pick(r.Rand, lies), calm: r.IntN(6), released: make(chan struct{})}
		r.count(l.lie, 1)
		time.AfterFunc(20*time.Millisecond, func() { close(l.released) })
		ends(all.name+" by a reader with "+l.lie, func() { r.listen(l, all, names) })
	}
}

// listen calls everything on a model of the reader's. A panic of the reader's has to reach the
// caller, where it can be recovered, from whatever goroutine it comes.
func (r *round) listen(l *liar, all *model, names []string) {
	size := l.r.Size()
	var m *loader.Model
	err := r.caught(func() (err error) {
		m, err = loader.OpenReaderAt(context.Background(), l, size, all.with(loader.Options{CacheBytes: []int64{0, -1, 50_000}[r.IntN(3)]}))
		return err
	})
	if err != nil {
		r.count("refused", 1)
		if !l.lied.Load() {
			r.errorf("%s: %s: %v", all.name, l.lie, err)
		}
		return
	}
	defer m.Close()
	for range 1 + r.IntN(12) {
		t, call := &all.tensors[r.IntN(len(all.tensors))], pick(r.Rand, names)
		l.lied.Store(false)
		err := r.caught(func() error { return r.callOn(r.Rand, m, nil, all, t, call) })
		switch {
		case err == nil:
			r.count("right", 1)
		case !errors.Is(err, errWrong):
			r.count("errors", 1)
		case l.lie == "noise":
			r.count("undetectable", 1)
		default:
			r.errorf("%s: %s of %s from a reader with %q: %v", all.name, call, t.name, l.lie, err)
		}
	}
}

// caught makes the reader's panic an error, and no other panic.
func (r *round) caught(f func() error) (err error) {
	defer func() {
		if v := recover(); v != nil {
			if v != errLiar {
				if e, ok := v.(error); !ok || !errors.Is(e, errLiar) {
					panic(v)
				}
			}
			r.count("panics that reached the caller", 1)
			err = errLiar
		}
	}()
	return f()
}
