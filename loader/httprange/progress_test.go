package httprange_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tensormap/tensormap/internal/parallel/paralleltest"
	"github.com/tensormap/tensormap/loader/httprange"
)

type fault = func(int64, http.ResponseWriter, *http.Request) bool

// rest sleeps until a request has gone, at most: at the end of a bubble no time passes.
func rest(req *http.Request, d time.Duration) {
	select {
	case <-time.After(d):
	case <-req.Context().Done():
	}
}

// silence accepts requests and never answers.
func silence(_ int64, _ http.ResponseWriter, req *http.Request) bool {
	<-req.Context().Done()
	return true
}

// capped answers with ranges of at most n bytes.
func capped(s *server, n int64) fault {
	return func(_ int64, w http.ResponseWriter, req *http.Request) bool {
		first, last := span(req)
		last = min(last, first+n-1)
		s.answer(w, first, last, s.content[first:last+1])
		return true
	}
}

// drips sends n bytes each time that some time has passed.
func drips(s *server, n int64, each time.Duration) fault {
	return func(_ int64, w http.ResponseWriter, req *http.Request) bool {
		first, last := span(req)
		w.Header().Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", first, last, len(s.content)))
		w.WriteHeader(http.StatusPartialContent)
		for at := first; at <= last && req.Context().Err() == nil; at += n {
			w.Write(s.content[at:min(at+n, last+1)])
			http.NewResponseController(w).Flush()
			rest(req, each)
		}
		return true
	}
}

// busy answers 503, and asks to come back later.
func busy(after string) fault {
	return func(_ int64, w http.ResponseWriter, _ *http.Request) bool {
		w.Header().Set("Retry-After", after)
		w.WriteHeader(http.StatusServiceUnavailable)
		return true
	}
}

// protocols runs a test in a bubble, once for each protocol.
func protocols(t *testing.T, test func(t *testing.T, protocol string)) {
	for _, protocol := range []string{"h1", "h2"} {
		t.Run(protocol, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { test(t, protocol) })
		})
	}
}

// TestOneByteAnswers: 800 KB took 669,000 requests of a server that gives a byte each time.
func TestOneByteAnswers(t *testing.T) {
	protocols(t, func(t *testing.T, protocol string) {
		s := inBubble(t, noise(800_000), protocol)
		r := open(t, s, nil)
		s.fault = capped(s, 1)
		before := s.requests.Load()
		_, err := r.ReadAt(make([]byte, 600_000), 200_000)
		var e *httprange.Error
		if n := s.requests.Load() - before; !errors.Is(err, httprange.ErrStalled) || n != 5 || !errors.As(err, &e) || e.Offset != 200_005 {
			t.Errorf("%v after %d requests", err, n)
		}
	})
}

// TestRequestsAreBounded by the formula that Options.Attempts states, however much the server
// gives at a time.
func TestRequestsAreBounded(t *testing.T) {
	content := noise(200_000)
	const from, size, piece, attempts = 10_000, 180_000, 50_000, 5
	for _, each := range []int64{1, 100, 819, 820, 1_000, 4_095, 4_096, 4_097, 30_000} {
		t.Run(fmt.Sprint(each), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := inBubble(t, content, "h1")
				r := open(t, s, &httprange.Options{RequestBytes: piece, PrefixBytes: 100, Attempts: attempts, Pause: time.Millisecond})
				s.fault = capped(s, each)
				before := s.requests.Load()
				b := make([]byte, size)
				_, err := r.ReadAt(b, from)
				n, most := s.requests.Load()-before, int64(0)
				for at := 0; at < size; at += piece {
					most += attempts * (1 + min(piece, int64(size-at))/4096)
				}
				enough := each*attempts >= 4096
				if n > most || enough != (err == nil) || enough && !bytes.Equal(b, content[from:][:size]) {
					t.Errorf("%d requests, want %d at most; %v", n, most, err)
				}
			})
		})
	}
}

// TestTimeout: whatever a server does in place of sending the file, a read ends after 30 s
// without progress, and at once if it would have to wait longer.
func TestTimeout(t *testing.T) {
	for _, test := range []struct {
		name     string
		fault    func(s *server) fault
		want     error
		from, to time.Duration
	}{
		{"silence", func(*server) fault { return silence }, httprange.ErrStalled, 30 * time.Second, 30 * time.Second},
		{"a byte a second", func(s *server) fault { return drips(s, 1, time.Second) }, httprange.ErrStalled, 30 * time.Second, 30 * time.Second},
		{"1000 bytes in 8 s", func(s *server) fault { return drips(s, 1_000, 8*time.Second) }, httprange.ErrStalled, 30 * time.Second, 30 * time.Second},
		{"busy for a second", func(*server) fault { return busy("1") }, httprange.ErrStatus, 4 * time.Second, 6 * time.Second},
		{"busy for 10 s", func(*server) fault { return busy("10") }, httprange.ErrStatus, 20 * time.Second, 20 * time.Second},
		{"busy for an hour", func(*server) fault { return busy("3600") }, httprange.ErrStatus, 0, 0},
		{"busy until 2099", func(*server) fault { return busy("Thu, 01 Jan 2099 00:00:00 GMT") }, httprange.ErrStatus, 0, 0},
		{"busy and slow", func(*server) fault {
			return func(n int64, w http.ResponseWriter, req *http.Request) bool {
				rest(req, 14*time.Second)
				return busy("5")(n, w, req)
			}
		}, httprange.ErrStalled, 30 * time.Second, 30 * time.Second},
	} {
		t.Run(test.name, func(t *testing.T) {
			protocols(t, func(t *testing.T, protocol string) {
				s := inBubble(t, noise(800_000), protocol)
				r := open(t, s, nil)
				s.fault = test.fault(s)
				start := time.Now()
				_, err := r.ReadAt(make([]byte, 600_000), 200_000)
				if took := time.Since(start); !errors.Is(err, test.want) || took < test.from || took > test.to {
					t.Errorf("%v after %v, want %v after %v to %v", err, took, test.want, test.from, test.to)
				}
			})
		})
	}
}

// TestOpenTimeout: opening has the same progress.
func TestOpenTimeout(t *testing.T) {
	protocols(t, func(t *testing.T, protocol string) {
		s := inBubble(t, noise(800_000), protocol)
		s.fault = silence
		start := time.Now()
		_, err := httprange.Open(t.Context(), s.URL, s.options(&httprange.Options{Timeout: 10 * time.Second}))
		if took := time.Since(start); !errors.Is(err, httprange.ErrStalled) || took != 10*time.Second {
			t.Errorf("%v after %v", err, took)
		}
	})
}

// TestSilent: whoever waits hears of a silent server after 3 s, or half of a shorter progress, once until it
// makes progress again, and of no other server.
func TestSilent(t *testing.T) {
	for _, test := range []struct {
		name    string
		timeout time.Duration
		fault   func(s *server) fault
		want    []time.Duration
	}{
		{"silence", 0, func(*server) fault { return silence }, []time.Duration{3 * time.Second}},
		{"short progress", 4 * time.Second, func(*server) fault { return silence }, []time.Duration{2 * time.Second}},
		{"busy", 0, func(*server) fault { return busy("20") }, []time.Duration{3 * time.Second}},
		{"fits", 0, func(s *server) fault { return drips(s, 20_000, 10*time.Second) }, []time.Duration{3 * time.Second, 13 * time.Second}},
		{"too little", 0, func(s *server) fault { return drips(s, 1, time.Second) }, []time.Duration{3 * time.Second}},
		{"slow", 0, func(s *server) fault { return drips(s, 4_096, 2*time.Second) }, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			protocols(t, func(t *testing.T, protocol string) {
				s := inBubble(t, noise(200_000), protocol)
				var start time.Time
				var mu sync.Mutex // the calls come on another goroutine
				var heard []time.Duration
				r := open(t, s, &httprange.Options{Timeout: test.timeout, Silent: func(host string) {
					if host != "models.example" {
						t.Errorf("of %q", host)
					}
					mu.Lock()
					defer mu.Unlock()
					heard = append(heard, time.Since(start))
				}})
				s.fault = test.fault(s)
				start = time.Now()
				_, err := r.ReadAt(make([]byte, 50_000), 150_000)
				synctest.Wait()
				if !slices.Equal(heard, test.want) {
					t.Errorf("heard after %v, want %v (%v)", heard, test.want, err)
				}
			})
		})
	}
}

// TestSilentPanics: it does so to the read that waits, at once, and not to a goroutine that nobody waits for.
func TestSilentPanics(t *testing.T) {
	protocols(t, func(t *testing.T, protocol string) {
		s := inBubble(t, noise(200_000), protocol)
		quiet := false
		o := &httprange.Options{RequestBytes: 20_000, Silent: func(string) {
			if quiet {
				panic(t.Name())
			}
		}}
		r := open(t, s, o)
		s.fault, quiet = silence, true
		for what, read := range map[string]func(){
			"ReadAt":  func() { r.ReadAt(make([]byte, 50_000), 150_000) },
			"Open":    func() { httprange.Open(t.Context(), s.URL, s.options(o)) },
			"sibling": func() { r.OpenSibling(t.Context(), "other") },
			"Get":     func() { httprange.Get(t.Context(), s.URL, 1<<20, s.options(o)) },
		} {
			start := time.Now()
			panicked, _ := paralleltest.Ending(read)
			if took := time.Since(start); panicked != t.Name() || took != 3*time.Second {
				t.Errorf("%s: recovered %v after %v", what, panicked, took)
			}
		}
		synctest.Wait() // for the server
		s.fault = nil
		if _, err := r.ReadAt(make([]byte, 50_000), 150_000); err != nil { // the turns were given back
			t.Error(err)
		}
	})
}

// TestSlowIsNotStalled: what comes slowly comes, however long it takes.
func TestSlowIsNotStalled(t *testing.T) {
	protocols(t, func(t *testing.T, protocol string) {
		s := inBubble(t, noise(200_000), protocol)
		r := open(t, s, nil)
		s.fault = drips(s, 1_000, 2*time.Second)
		before, start := s.requests.Load(), time.Now()
		b := make([]byte, 60_000)
		_, err := r.ReadAt(b, 140_000)
		if took := time.Since(start); err != nil || !bytes.Equal(b, s.content[140_000:]) || took < 118*time.Second {
			t.Errorf("%v after %v", err, took)
		}
		if n := s.requests.Load() - before; n != 1 {
			t.Errorf("%d requests", n)
		}
	})
}

// TestQueueTimeout: reads that wait for others end with them if the server has stalled, and
// not while one of them comes on.
func TestQueueTimeout(t *testing.T) {
	protocols(t, func(t *testing.T, protocol string) {
		s := inBubble(t, noise(200_000), protocol)
		r := open(t, s, &httprange.Options{Parallel: 2})
		all := func() (errs []error, took time.Duration) {
			start := time.Now()
			errs = make([]error, 10)
			var wg sync.WaitGroup
			for i := range errs {
				wg.Go(func() { _, errs[i] = r.ReadAt(make([]byte, 20_000), 150_000+int64(i)) })
			}
			wg.Wait()
			return errs, time.Since(start)
		}
		s.fault = drips(s, 1_000, time.Second)
		if errs, took := all(); errors.Join(errs...) != nil || took < 90*time.Second {
			t.Errorf("%v after %v", errs, took)
		}
		synctest.Wait()
		s.fault = silence
		errs, took := all()
		for _, err := range errs {
			if !errors.Is(err, httprange.ErrStalled) {
				t.Error(err)
			}
		}
		if took != 30*time.Second {
			t.Errorf("reads of a silent server end after %v", took)
		}
	})
}

func TestRetryAfter(t *testing.T) {
	protocols(t, func(t *testing.T, protocol string) {
		s := inBubble(t, noise(500), protocol)
		r := open(t, s, quick())
		start := time.Now()
		s.fault = func(n int64, w http.ResponseWriter, req *http.Request) bool { return n == 2 && busy("25")(n, w, req) }
		if _, err := r.ReadAt(make([]byte, 100), 300); err != nil {
			t.Fatal(err)
		}
		if waited := time.Since(start); waited != 25*time.Second {
			t.Errorf("came back after %v", waited)
		}
	})
}

// TestCloseEndsReads at once, whatever they wait for, as the end of their context does.
func TestCloseEndsReads(t *testing.T) {
	for name, fault := range map[string]func(s *server) fault{
		"silence":     func(*server) fault { return silence },
		"drips":       func(s *server) fault { return drips(s, 1, time.Millisecond) },
		"Retry-After": func(*server) fault { return busy("20") },
	} {
		t.Run(name, func(t *testing.T) {
			protocols(t, func(t *testing.T, protocol string) {
				s := inBubble(t, noise(200_000), protocol)
				r := open(t, s, &httprange.Options{Parallel: 2})
				s.fault = fault(s)
				ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
				defer cancel()
				start := time.Now()
				_, err := r.ReadAtContext(ctx, make([]byte, 50_000), 150_000)
				if took := time.Since(start); !errors.Is(err, context.DeadlineExceeded) || took != 3*time.Second {
					t.Errorf("with a context: %v after %v", err, took)
				}
				start = time.Now()
				time.AfterFunc(2*time.Second, func() { r.Close() })
				var wg sync.WaitGroup
				for range 5 { // some of which wait their turn
					wg.Go(func() {
						_, err := r.ReadAt(make([]byte, 50_000), 150_000)
						if took := time.Since(start); !errors.Is(err, os.ErrClosed) || took != 2*time.Second {
							t.Errorf("%v after %v", err, took)
						}
					})
				}
				wg.Wait()
				if _, err := r.ReadAt(make([]byte, 50_000), 150_000); !errors.Is(err, os.ErrClosed) {
					t.Errorf("after Close: %v", err)
				}
			})
		})
	}
}

// TestNothingStays: no goroutine outlives readers, however their reads ended. The bubble's end
// finds those that do.
func TestNothingStays(t *testing.T) {
	begin := func(w http.ResponseWriter, req *http.Request) {
		w.Header().Set("Content-Range", "bytes "+strings.TrimPrefix(req.Header.Get("Range"), "bytes=")+"/1048576")
		w.WriteHeader(http.StatusPartialContent)
	}
	for name, answer := range map[string]func(s *server) fault{
		"whole": nil,
		"cut": func(*server) fault {
			return func(_ int64, w http.ResponseWriter, req *http.Request) bool {
				begin(w, req)
				panic(http.ErrAbortHandler)
			}
		},
		"refused": func(*server) fault {
			return func(_ int64, w http.ResponseWriter, _ *http.Request) bool {
				w.WriteHeader(http.StatusForbidden)
				return true
			}
		},
		"silent":   func(*server) fault { return silence },
		"dripping": func(s *server) fault { return drips(s, 1, time.Second) },
	} {
		t.Run(name, func(t *testing.T) {
			protocols(t, func(t *testing.T, protocol string) {
				s := inBubble(t, make([]byte, 1<<20), protocol)
				for range 3 {
					synctest.Wait() // for requests that have been given up
					s.fault = nil
					r := open(t, s, &httprange.Options{RequestBytes: 100_000})
					if answer != nil {
						s.fault = answer(s)
					}
					n, err := io.ReadFull(io.NewSectionReader(r, 0, r.Size()), make([]byte, r.Size()))
					if (err == nil) != (answer == nil) {
						t.Errorf("%d bytes, %v", n, err)
					}
					r.Close()
				}
			})
		})
	}
}

// TestDeadConnection: a connection that is dead without a word, as after a router has forgotten
// it, is given up for a new one, also if all requests share it.
func TestDeadConnection(t *testing.T) {
	protocols(t, func(t *testing.T, protocol string) {
		s := inBubbleBy(t, noise(200_000), protocol, httprange.DefaultTransport())
		var cut atomic.Bool
		s.cut.Store(&cut)
		r := open(t, s, nil)
		cut.Store(true)
		s.cut.Store(nil)
		start, b := time.Now(), make([]byte, 50_000)
		if _, err := r.ReadAt(b, 150_000); err != nil || !bytes.Equal(b, s.content[150_000:]) {
			t.Errorf("%v after %v", err, time.Since(start))
		}
	})
}
