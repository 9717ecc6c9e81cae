package httprange_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tensormap/tensormap/loader/httprange"
)

// recorder notes all requests to a server.
type recorder struct {
	*httptest.Server
	mu   sync.Mutex
	seen []*http.Request
}

func record(t *testing.T, handler http.HandlerFunc) *recorder {
	s := new(recorder)
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		s.mu.Lock()
		s.seen = append(s.seen, req)
		s.mu.Unlock()
		handler(w, req)
	}))
	t.Cleanup(s.Close)
	return s
}

// take returns the requests since it was last called.
func (s *recorder) take() []*http.Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	seen := s.seen
	s.seen = nil
	return seen
}

// headersOf lists the headers that requests may have: those of a range, and those that
// net/http sends in any case.
var headersOf = []string{"Range", "Accept-Encoding", "If-Match", "User-Agent"}

// secrets lists what in requests is none of the business of a server that a redirect leads to.
func secrets(requests []*http.Request) (found []string) {
	for _, req := range requests {
		for name, values := range req.Header {
			if !slices.Contains(headersOf, name) {
				found = append(found, fmt.Sprintf("%s: %s", name, values))
			}
		}
		if strings.Contains(fmt.Sprint(req.URL, req.Header), "hush") {
			found = append(found, fmt.Sprint(req.URL, req.Header))
		}
	}
	return found
}

// credentials are headers that servers ask for, under the names that net/http knows and others.
func credentials() http.Header {
	header := http.Header{"x-lower-case": {"hush"}}
	for _, name := range []string{"Authorization", "Proxy-Authorization", "Cookie", "X-Api-Key", "Private-Token", "X-Custom", "Referer", "User-Agent"} {
		header.Set(name, "hush")
	}
	return header
}

// TestRedirectKeepsSecrets: what is for the address's own server goes nowhere else, neither
// with the first request nor with later ones, and not again to a server that another has
// sent the request back to.
func TestRedirectKeepsSecrets(t *testing.T) {
	content := noise(5_000)
	file := func(w http.ResponseWriter, req *http.Request) {
		w.Header().Set("ETag", `"v1"`)
		http.ServeContent(w, req, "", time.Time{}, bytes.NewReader(content))
	}
	elsewhere := record(t, file)
	var home, between *recorder
	between = record(t, func(w http.ResponseWriter, req *http.Request) {
		http.Redirect(w, req, home.URL+"/back", http.StatusTemporaryRedirect)
	})
	home = record(t, func(w http.ResponseWriter, req *http.Request) {
		switch req.URL.Path {
		case "/away":
			http.Redirect(w, req, elsewhere.URL+"/file?of=elsewhere", http.StatusFound)
		case "/about":
			http.Redirect(w, req, between.URL, http.StatusFound)
		case "/near":
			http.Redirect(w, req, "file", http.StatusFound)
		default:
			file(w, req)
		}
	})
	own := &http.Client{Transport: &http.Transport{}} // follows redirects as net/http does
	for _, client := range []*http.Client{nil, own} {
		for _, test := range []struct {
			path string
			at   *recorder // where the file is
			safe bool      // it may have the credentials
		}{{"/away", elsewhere, false}, {"/about", home, false}, {"/near", home, true}} {
			opts := quick()
			opts.Client, opts.Header = client, credentials()
			address := strings.Replace(home.URL, "http://", "http://user:hush@", 1) + test.path + "?sig=hush"
			r, err := httprange.Open(t.Context(), address, opts)
			if err != nil {
				t.Fatal(err)
			}
			b, err := readAll(r)
			if err != nil || !bytes.Equal(b, content) {
				t.Errorf("%s: %v", test.path, err)
			}
			r.Close()
			atHome, atBetween, atElsewhere := home.take(), between.take(), elsewhere.take()
			if leaked := secrets(slices.Concat(atBetween, atElsewhere)); leaked != nil {
				t.Errorf("%s: another server sees %q", test.path, leaked)
			}
			for _, req := range atHome {
				first := req.URL.Path == test.path
				for name := range credentials() {
					if sent := req.Header.Get(name) == "hush"; sent != (first || test.safe) {
						t.Errorf("%s: %s is sent to %s: %t", test.path, name, req.URL, sent)
					}
				}
				if !first && req.URL.RawQuery != "" {
					t.Errorf("%s: the query is sent to %s", test.path, req.URL)
				}
			}
			if at := map[*recorder]int{home: len(atHome), elsewhere: len(atElsewhere)}[test.at]; at < 6 || len(atHome)+len(atBetween)+len(atElsewhere) > at+2 {
				t.Errorf("%s: %d requests, %d elsewhere", test.path, len(atHome), len(atElsewhere))
			}
		}
	}
}

// TestExpiringAddress: later requests go where the first was led, until that address is refused.
func TestExpiringAddress(t *testing.T) {
	content := noise(9_000)
	var signed, good atomic.Int64
	store := record(t, func(w http.ResponseWriter, req *http.Request) {
		if req.URL.Path != fmt.Sprint("/", good.Load()) {
			http.Error(w, "expired", http.StatusForbidden)
			return
		}
		w.Header().Set("ETag", `"v1"`)
		http.ServeContent(w, req, "", time.Time{}, bytes.NewReader(content))
	})
	home := record(t, func(w http.ResponseWriter, req *http.Request) {
		good.Store(signed.Add(1))
		http.Redirect(w, req, fmt.Sprint(store.URL, "/", signed.Load()), http.StatusFound)
	})
	opts := quick()
	opts.Header, opts.Size = credentials(), int64(len(content))
	r, err := httprange.Open(t.Context(), home.URL+"/file", opts)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if n := len(home.take()); n != 0 || r.Size() != opts.Size {
		t.Errorf("%d requests for a file of known size, %d", n, r.Size())
	}
	read := func(off int64) {
		t.Helper()
		b := make([]byte, 100)
		if _, err := r.ReadAt(b, off); err != nil || !bytes.Equal(b, content[off:off+100]) {
			t.Errorf("at %d: %v", off, err)
		}
	}
	for off := range int64(20) {
		read(300 * off)
	}
	if a, b := len(home.take()), len(store.take()); a != 1 || b != 20 {
		t.Errorf("%d requests to the address, %d where it leads", a, b)
	}
	good.Store(-1) // the signature expires
	read(5_000)
	read(6_000)
	seen := store.take()
	if a, b := len(home.take()), len(seen); a != 1 || b != 3 {
		t.Errorf("%d requests to the address, %d where it leads, after it had expired", a, b)
	}
	if leaked := secrets(seen); leaked != nil {
		t.Errorf("another server sees %q", leaked)
	}
	good.Store(-1)
	home.Close()
	if _, err := r.ReadAt(make([]byte, 100), 7_000); err == nil {
		t.Error("read from an address that has expired")
	}
}

// TestKnownSize: a size that is wrong is a change.
func TestKnownSize(t *testing.T) {
	s := serve(t, noise(5_000))
	opts := quick()
	opts.Size = 4_000
	r, err := httprange.Open(t.Context(), s.URL, opts)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if _, err := r.ReadAt(make([]byte, 10), 0); !errors.Is(err, httprange.ErrChanged) {
		t.Error(err)
	}
}

// TestUserOfAddress is sent to the address's own server, unless a header says who it is.
func TestUserOfAddress(t *testing.T) {
	s := record(t, func(w http.ResponseWriter, req *http.Request) {
		http.ServeContent(w, req, "", time.Time{}, bytes.NewReader(noise(500)))
	})
	address := strings.Replace(s.URL, "http://", "http://user:pass%20word@", 1)
	for _, header := range []http.Header{nil, {"authorization": {"Bearer x"}}} {
		opts := quick()
		opts.Header = header
		r, err := httprange.Open(t.Context(), address, opts)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := r.OpenSibling(t.Context(), "x"); err != nil {
			t.Error(err)
		}
		r.Close()
		for _, req := range s.take() {
			user, password, _ := req.BasicAuth()
			if bearer := req.Header.Get("Authorization") == "Bearer x"; bearer != (header != nil) || !bearer && (user != "user" || password != "pass word") {
				t.Errorf("%s is sent", req.Header["Authorization"])
			}
		}
	}
}

// TestOrigins: scheme, host and port are the server, however they are written.
func TestOrigins(t *testing.T) {
	for _, test := range []struct {
		from, to string
		same     bool
	}{
		{"http://models.example/a", "/b", true},
		{"http://models.example/a", "http://MODELS.example:80/b", true},
		{"http://models.example:80/a", "http://models.example:/b", true},
		{"https://models.example/a", "https://models.example:443/b", true},
		{"http://[::1]/a", "//[::1]:80/b", true},
		{"http://models.example/a", "https://models.example/b", false},
		{"http://models.example/a", "http://models.example:81/b", false},
		{"http://models.example/a", "http://cdn.models.example/b", false},
		{"http://models.example/a", "http://models.example./b", false},
		{"http://models.example/a", "http://models.example@evil.example/b", false},
		{"http://models.example/a", "http://user:models@models.example/b", true},
	} {
		var sent []string
		opts := quick()
		opts.Header = http.Header{"X-Api-Key": {"hush"}}
		opts.Client = &http.Client{Transport: roundTrip(func(req *http.Request) (*http.Response, error) {
			sent = append(sent, req.Header.Get("X-Api-Key"))
			if req.URL.Path == "/a" {
				return &http.Response{StatusCode: 302, Header: http.Header{"Location": {test.to}}, Body: http.NoBody}, nil
			}
			return &http.Response{StatusCode: 200, ContentLength: 3, Body: io.NopCloser(strings.NewReader("abc"))}, nil
		})}
		r, err := httprange.Open(t.Context(), test.from, opts)
		if err != nil {
			t.Fatal(err)
		}
		r.Close()
		if !slices.Equal(sent, []string{"hush", map[bool]string{true: "hush"}[test.same]}) {
			t.Errorf("%s to %s: %q", test.from, test.to, sent)
		}
	}
}

// TestRedirectLoop: going around in circles is no fault that passes.
func TestRedirectLoop(t *testing.T) {
	var requests atomic.Int64
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		requests.Add(1)
		http.Redirect(w, req, "/again?secret=hush", http.StatusFound)
	}))
	t.Cleanup(s.Close)
	_, err := httprange.Open(t.Context(), s.URL, &httprange.Options{Pause: time.Millisecond})
	if !errors.Is(err, httprange.ErrResponse) || strings.Contains(err.Error(), "hush") || requests.Load() > 10 {
		t.Errorf("%v after %d requests", err, requests.Load())
	}
}

// TestRedirectAway: nobody is sent from https to what is not, nor to what is no address. No
// message repeats where it was to go.
func TestRedirectAway(t *testing.T) {
	plain := serve(t, noise(500))
	for _, to := range []string{
		plain.URL, "ftp://host/x?secret=hush", "file:///etc/hush", "http:///hush", "https:hush", "hush" + strings.Repeat("x", 1000) + "://host",
		"http://user:hush@host:port/hush", "http://[hush/", "https://host/%zz?sig=hush", "https://ho st/hush",
	} {
		var requests atomic.Int64
		s := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
			requests.Add(1)
			w.Header().Set("Location", to)
			w.WriteHeader(http.StatusFound)
		}))
		t.Cleanup(s.Close)
		opts := quick()
		opts.Client = s.Client()
		opts.Header = http.Header{"Authorization": {"hush"}}
		_, err := httprange.Open(t.Context(), s.URL, opts)
		if !errors.Is(err, httprange.ErrResponse) || len(err.Error()) > 500 || requests.Load() != 1 || plain.requests.Load() != 0 ||
			strings.Contains(err.Error(), "hush") != strings.HasPrefix(to, "hush") {
			t.Errorf("%s: %v after %d requests", to, err, requests.Load())
		}
	}
}

// TestCheckRedirect: a client may be more strict.
func TestCheckRedirect(t *testing.T) {
	errStrict := errors.New("not there")
	elsewhere := serve(t, noise(500))
	home := record(t, func(w http.ResponseWriter, req *http.Request) {
		http.Redirect(w, req, elsewhere.URL+"?sig=hush", http.StatusFound)
	})
	for _, test := range []struct{ says, want error }{{nil, nil}, {errStrict, errStrict}, {http.ErrUseLastResponse, httprange.ErrResponse}} {
		var asked atomic.Int64
		opts := quick()
		opts.Client = &http.Client{CheckRedirect: func(req *http.Request, via []*http.Request) error {
			asked.Add(1)
			if req.Response.StatusCode != http.StatusFound || len(via) != 1 || "http://"+via[0].URL.Host != home.URL || "http://"+req.URL.Host != elsewhere.URL {
				t.Errorf("%v after %v", req, via)
			}
			return test.says
		}}
		before := elsewhere.requests.Load()
		r, err := httprange.Open(t.Context(), home.URL, opts)
		if !errors.Is(err, test.want) || (err == nil) != (test.want == nil) || asked.Load() == 0 || (elsewhere.requests.Load() > before) != (err == nil) {
			t.Errorf("%v: %v", test.says, err)
		} else if err == nil {
			r.Close()
		} else if strings.Contains(err.Error(), "hush") {
			t.Error(err)
		}
	}
}
