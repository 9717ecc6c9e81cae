package httprange_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tensormap/tensormap/loader/httprange"
)

// after lets the first n requests alone.
func after(n int64, fault func(w http.ResponseWriter, req *http.Request) bool) func(int64, http.ResponseWriter, *http.Request) bool {
	return func(i int64, w http.ResponseWriter, req *http.Request) bool { return i > n && fault(w, req) }
}

// every lets a fault happen to every nth request.
func every(n int64, fault func(w http.ResponseWriter, req *http.Request) bool) func(int64, http.ResponseWriter, *http.Request) bool {
	return func(i int64, w http.ResponseWriter, req *http.Request) bool { return i%n == 0 && fault(w, req) }
}

// Faults that pass end in the right bytes.
func TestPassingFaults(t *testing.T) {
	content := noise(20_000)
	s := &server{content: content} // for what it answers
	status := func(code int) func(http.ResponseWriter, *http.Request) bool {
		return func(w http.ResponseWriter, _ *http.Request) bool {
			w.WriteHeader(code)
			return true
		}
	}
	cut := func(part int64) func(http.ResponseWriter, *http.Request) bool {
		return func(w http.ResponseWriter, req *http.Request) bool {
			first, last := span(req)
			w.Header().Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", first, last, len(content)))
			w.Header().Set("Content-Length", fmt.Sprint(last-first+1))
			w.WriteHeader(http.StatusPartialContent)
			w.Write(content[first : first+(last-first)*part/100])
			http.NewResponseController(w).Flush()
			hangUp(w)
			return true
		}
	}
	for name, fault := range map[string]func(http.ResponseWriter, *http.Request) bool{
		"500": status(500), "502": status(502), "503": status(503), "429": status(429), "408": status(408),
		"cut before": func(w http.ResponseWriter, _ *http.Request) bool { hangUp(w); return true },
		"cut at 0 %": cut(0), "cut at 1 %": cut(1), "cut at 50 %": cut(50), "cut at 99 %": cut(99),
		"a shorter range than asked for": func(w http.ResponseWriter, req *http.Request) bool {
			first, last := span(req)
			middle := first + (last-first)/2
			s.answer(w, first, middle, content[first:middle+1])
			return true
		},
		"a body longer than its range": func(w http.ResponseWriter, req *http.Request) bool {
			first, last := span(req)
			middle := first + (last-first)/2
			body := append(bytes.Clone(content[first:middle+1]), make([]byte, last-middle)...)
			s.answer(w, first, middle, body)
			return true
		},
		"chunks that end early": func(w http.ResponseWriter, req *http.Request) bool {
			first, last := span(req)
			w.Header().Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", first, last, len(content)))
			w.WriteHeader(http.StatusPartialContent)
			w.Write(content[first : first+(last-first)/3])
			http.NewResponseController(w).Flush()
			return true
		},
		"silence": func(_ http.ResponseWriter, req *http.Request) bool {
			<-req.Context().Done()
			return true
		},
		"silence in the middle": func(w http.ResponseWriter, req *http.Request) bool {
			first, last := span(req)
			w.Header().Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", first, last, len(content)))
			w.Header().Set("Content-Length", fmt.Sprint(last-first+1))
			w.WriteHeader(http.StatusPartialContent)
			w.Write(content[first : first+1])
			http.NewResponseController(w).Flush()
			<-req.Context().Done()
			return true
		},
		"drips": func(w http.ResponseWriter, req *http.Request) bool {
			first, last := span(req)
			w.Header().Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", first, last, len(content)))
			w.WriteHeader(http.StatusPartialContent)
			for at := first; at <= last; at += 100 {
				w.Write(content[at:min(at+100, last+1)])
				http.NewResponseController(w).Flush()
				rest(req, time.Millisecond)
			}
			return true
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				own := inBubble(t, content, "h1")
				own.fault = every(3, fault)
				opts := impatient()
				opts.Attempts = 10 // one range may meet the fault several times
				r := open(t, own, opts)
				if b, err := readAll(r); err != nil || !bytes.Equal(b, content) {
					t.Errorf("%d bytes, right: %t; %v", len(b), bytes.Equal(b, content), err)
				}
				if n := own.requests.Load(); n <= 21 && name != "drips" {
					t.Errorf("%d requests: nothing was repeated", n)
				}
			})
		})
	}
}

// The first request is repeated too.
func TestOpenRetries(t *testing.T) {
	s := serve(t, noise(1_000))
	s.fault = func(n int64, w http.ResponseWriter, _ *http.Request) bool {
		if n < 3 {
			w.WriteHeader(http.StatusBadGateway)
		}
		return n < 3
	}
	if b, err := readAll(open(t, s, quick())); err != nil || !bytes.Equal(b, s.content) {
		t.Error(err)
	}
}

// Faults that stay end in an error that says so.
func TestLastingFaults(t *testing.T) {
	content := noise(5_000)
	for _, test := range []struct {
		name     string
		want     error
		requests int64 // at most, for one range; of a connection that breaks, net/http repeats some itself
		fault    func(s *server) func(w http.ResponseWriter, req *http.Request) bool
	}{
		{"500", httprange.ErrStatus, 3, func(*server) func(http.ResponseWriter, *http.Request) bool {
			return func(w http.ResponseWriter, _ *http.Request) bool { w.WriteHeader(500); return true }
		}},
		{"404", httprange.ErrStatus, 1, func(*server) func(http.ResponseWriter, *http.Request) bool {
			return func(w http.ResponseWriter, _ *http.Request) bool { w.WriteHeader(404); return true }
		}},
		{"403", httprange.ErrStatus, 1, func(*server) func(http.ResponseWriter, *http.Request) bool {
			return func(w http.ResponseWriter, _ *http.Request) bool { w.WriteHeader(403); return true }
		}},
		{"cut", io.EOF, 6, func(*server) func(http.ResponseWriter, *http.Request) bool {
			return func(w http.ResponseWriter, _ *http.Request) bool { hangUp(w); return true }
		}},
		{"silence", httprange.ErrStalled, 3, func(*server) func(http.ResponseWriter, *http.Request) bool {
			return func(_ http.ResponseWriter, req *http.Request) bool { <-req.Context().Done(); return true }
		}},
		{"whole file", httprange.ErrNoRanges, 1, func(s *server) func(http.ResponseWriter, *http.Request) bool {
			return func(w http.ResponseWriter, _ *http.Request) bool { w.Write(s.content); return true }
		}},
		{"other ETag, If-Match kept", httprange.ErrChanged, 1, func(s *server) func(http.ResponseWriter, *http.Request) bool {
			return func(w http.ResponseWriter, _ *http.Request) bool { w.Header().Set("ETag", `"v2"`); return false }
		}},
		{"other ETag, If-Match ignored", httprange.ErrChanged, 1, func(s *server) func(http.ResponseWriter, *http.Request) bool {
			return func(w http.ResponseWriter, req *http.Request) bool {
				w.Header().Set("ETag", `"v2"`)
				first, last := span(req)
				s.answer(w, first, last, s.content[first:last+1])
				return true
			}
		}},
		{"other size", httprange.ErrChanged, 1, func(s *server) func(http.ResponseWriter, *http.Request) bool {
			return func(w http.ResponseWriter, req *http.Request) bool {
				first, last := span(req)
				(&server{content: make([]byte, 6_000)}).answer(w, first, last, s.content[first:last+1])
				return true
			}
		}},
		{"shorter now", httprange.ErrChanged, 1, func(s *server) func(http.ResponseWriter, *http.Request) bool {
			return func(w http.ResponseWriter, _ *http.Request) bool { w.WriteHeader(416); return true }
		}},
		{"another range", httprange.ErrResponse, 1, func(s *server) func(http.ResponseWriter, *http.Request) bool {
			return func(w http.ResponseWriter, req *http.Request) bool {
				first, last := span(req)
				s.answer(w, first-1, last-1, s.content[first-1:last])
				return true
			}
		}},
		{"items of a range", httprange.ErrResponse, 1, func(*server) func(http.ResponseWriter, *http.Request) bool {
			return func(w http.ResponseWriter, _ *http.Request) bool {
				w.Header().Set("Content-Range", "items 200-699/5000")
				w.WriteHeader(http.StatusPartialContent)
				return true
			}
		}},
		{"a longer range", httprange.ErrResponse, 1, func(s *server) func(http.ResponseWriter, *http.Request) bool {
			return func(w http.ResponseWriter, req *http.Request) bool {
				first, last := span(req)
				s.answer(w, first, last+1, s.content[first:last+2])
				return true
			}
		}},
		{"several ranges", httprange.ErrResponse, 1, func(s *server) func(http.ResponseWriter, *http.Request) bool {
			return func(w http.ResponseWriter, _ *http.Request) bool {
				w.Header().Set("Content-Type", "multipart/byteranges; boundary=x")
				w.WriteHeader(http.StatusPartialContent)
				return true
			}
		}},
		{"two ranges of one body", httprange.ErrResponse, 1, func(s *server) func(http.ResponseWriter, *http.Request) bool {
			return func(w http.ResponseWriter, req *http.Request) bool {
				first, last := span(req)
				w.Header().Add("Content-Range", fmt.Sprintf("bytes %d-%d/5000", first, last))
				w.Header().Add("Content-Range", fmt.Sprintf("bytes %d-%d/5000", first+1, last+1))
				w.WriteHeader(http.StatusPartialContent)
				w.Write(s.content[first+1 : last+2])
				return true
			}
		}},
		{"one range as several", httprange.ErrResponse, 1, func(s *server) func(http.ResponseWriter, *http.Request) bool {
			return func(w http.ResponseWriter, req *http.Request) bool {
				first, last := span(req)
				w.Header().Set("Content-Type", "Multipart/ByteRanges; boundary=x")
				s.answer(w, first, last, append([]byte("--x\r\nContent-Type: application/octet-stream\r\n\r\n"), s.content[first:last+1]...))
				return true
			}
		}},
		{"compressed", httprange.ErrResponse, 1, func(s *server) func(http.ResponseWriter, *http.Request) bool {
			return func(w http.ResponseWriter, req *http.Request) bool {
				first, last := span(req)
				w.Header().Set("Content-Encoding", "gzip")
				s.answer(w, first, last, s.content[first:last+1])
				return true
			}
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := inBubble(t, content, "h1")
				opts := quick()
				if test.want == httprange.ErrStalled {
					opts = impatient()
				}
				r := open(t, s, opts)
				s.fault = after(1, test.fault(s))
				before := s.requests.Load()
				n, err := r.ReadAt(make([]byte, 500), 200)
				if n != 0 || !errors.Is(err, test.want) {
					t.Errorf("%d bytes, %v; want %v", n, err, test.want)
				}
				if got := s.requests.Load() - before; got > test.requests {
					t.Errorf("%d requests, want at most %d", got, test.requests)
				}
				var e *httprange.Error
				if !errors.As(err, &e) || e.Offset != 200 || strings.Contains(err.Error(), "secret") || !strings.Contains(err.Error(), "/dir/model.bin") {
					t.Errorf("the error does not say where: %v", err)
				}
				// One bad range is the end of all.
				if n, err := r.ReadAt(make([]byte, 4_000), 200); n != 0 || !errors.Is(err, test.want) {
					t.Errorf("in ranges: %d bytes, %v; want %v", n, err, test.want)
				}
			})
		})
	}
}

// TestLongHeaders: what a server may say before the file begins is bounded.
func TestLongHeaders(t *testing.T) {
	for size, want := range map[int]bool{60 << 10: true, 1 << 20: false} {
		s := serve(t, noise(5_000))
		s.fault = func(_ int64, w http.ResponseWriter, _ *http.Request) bool {
			w.Header().Set("X-Long", strings.Repeat("x", size))
			return false
		}
		r, err := httprange.Open(t.Context(), s.URL, quick())
		if (err == nil) != want || err != nil && s.requests.Load() > 3 {
			t.Errorf("%d bytes: %v after %d requests", size, err, s.requests.Load())
		}
		if err == nil {
			r.Close()
		}
	}
}
