package httprange_test

import (
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/tensormap/tensormap/loader/httprange"
)

// refused opens the file of a server that answers so.
func refused(t *testing.T, opts *httprange.Options, answer http.HandlerFunc) *httprange.StatusError {
	t.Helper()
	s := serve(t, nil)
	s.fault = func(_ int64, w http.ResponseWriter, req *http.Request) bool { answer(w, req); return true }
	address := strings.Replace(s.URL, "http://", "http://user:hush+hush@", 1) + "/dir/x?sig=hush%2Bhush&user=me"
	_, err := httprange.Open(t.Context(), address, opts)
	var status *httprange.StatusError
	if !errors.As(err, &status) || !errors.Is(err, httprange.ErrStatus) {
		t.Fatal(err)
	}
	text := err.Error()
	if len(text) > 2000 || strings.Contains(text, "hush") || strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsPrint(r) }) || !utf8.ValidString(text) {
		t.Errorf("%q", text)
	}
	return status
}

// TestStatusText: the error has the server's text, a bounded part of it that no terminal obeys
// and that does not repeat secrets.
func TestStatusText(t *testing.T) {
	for _, test := range []struct{ contentType, text, want string }{
		{"text/plain", "", ""},
		{"text/plain", "403 Forbidden\n", ""},
		{"text/plain", "forbidden", ""},
		{"text/plain", "Access to model x is restricted.\n\n  Log in.\n", "Access to model x is restricted. Log in."},
		{"application/json", `{"error":"Invalid token"}`, `{"error":"Invalid token"}`},
		{"application/xml", "<Error><Code>AccessDenied</Code></Error>", "<Error><Code>AccessDenied</Code></Error>"},
		{"text/html; charset=utf-8", "<html><body>Forbidden</body></html>", ""},
		{"", "\x1b[2J\u202egpj", `\x1b[2J\u202egpj`},
		{"", "PK\x03\x04\x00", ""},
		{"text/plain", "\xff\xd8\xff\xe0", ""},
		{"text/plain", strings.Repeat("é", 5_000), strings.Repeat("é", 300) + "…"},
		{"text/plain", strings.Repeat("x", 1<<20), strings.Repeat("x", 300) + "…"},
		{"text/plain", "not with ?sig=hush%2Bhush&user=me or hush+hush at all", "not with ?… or … at all"},
		{"text/plain", "Bearer hush is no key, hush is not", "… is no key, … is not"},
	} {
		opts := quick()
		opts.Header = http.Header{"X-Api-Key": {"Bearer hush"}}
		status := refused(t, opts, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", test.contentType)
			w.WriteHeader(http.StatusForbidden)
			fmt.Fprint(w, test.text)
		})
		if status.Code != http.StatusForbidden || status.Text != test.want || status.Elsewhere != "" {
			t.Errorf("%.50q is told as %d %q", test.text, status.Code, status.Text)
		}
		if test.want != "" && !strings.HasSuffix(status.Error(), "the server refuses: 403 Forbidden: "+test.want) {
			t.Error(status)
		}
	}
	// What stands for a password is one, also that of an address to which a redirect leads.
	repeat := func(w http.ResponseWriter, req *http.Request) {
		w.WriteHeader(http.StatusUnauthorized)
		fmt.Fprint(w, "wrong: ", strings.TrimPrefix(req.Header.Get("Authorization"), "Basic "))
	}
	elsewhere := record(t, repeat)
	for _, answer := range []http.HandlerFunc{repeat, func(w http.ResponseWriter, req *http.Request) {
		http.Redirect(w, req, strings.Replace(elsewhere.URL, "http://", "http://another:hush@", 1), http.StatusFound)
	}} {
		if status := refused(t, quick(), answer); status.Text != "wrong: …" {
			t.Error(status)
		}
	}
}

// TestSlowStatusText: a text that does not come is not waited for.
func TestSlowStatusText(t *testing.T) {
	protocols(t, func(t *testing.T, protocol string) {
		s := inBubble(t, nil, protocol)
		s.fault = func(_ int64, w http.ResponseWriter, req *http.Request) bool {
			w.Header().Set("Content-Type", "text/plain")
			w.WriteHeader(http.StatusNotFound)
			fmt.Fprint(w, "no such")
			http.NewResponseController(w).Flush()
			<-req.Context().Done()
			return true
		}
		start := time.Now()
		_, err := httprange.Open(t.Context(), s.URL, s.options(nil))
		var status *httprange.StatusError
		if took := time.Since(start); !errors.As(err, &status) || status.Text != "no such" || took != time.Second || s.requests.Load() != 1 {
			t.Errorf("%v after %v", err, took)
		}
		synctest.Wait()
	})
}

// TestStatusIs: errors.Is knows what the code means, as of a file.
func TestStatusIs(t *testing.T) {
	for code, want := range map[int]error{401: fs.ErrPermission, 403: fs.ErrPermission, 404: fs.ErrNotExist, 410: fs.ErrNotExist, 400: nil, 500: nil} {
		err := error(refused(t, quick(), func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(code) }))
		for _, is := range []error{fs.ErrPermission, fs.ErrNotExist} {
			if errors.Is(err, is) != (is == want) {
				t.Errorf("%d is %v: %t", code, is, is != want)
			}
		}
	}
}

// TestStatusElsewhere: a server that was not given the header does not say why it refuses.
func TestStatusElsewhere(t *testing.T) {
	elsewhere := record(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusUnauthorized) })
	opts := quick()
	opts.Header = http.Header{"Authorization": {"Bearer hush"}}
	status := refused(t, opts, func(w http.ResponseWriter, req *http.Request) {
		http.Redirect(w, req, elsewhere.URL+"/?sig=hush", http.StatusFound)
	})
	if status.Elsewhere != elsewhere.URL || !strings.Contains(status.Error(), elsewhere.URL) {
		t.Error(status)
	}
}

// TestQuotedAnswers: what a server says in headers is bounded and harmless in messages too.
func TestQuotedAnswers(t *testing.T) {
	evil := "\x1b[2J" + strings.Repeat("x", 100_000)
	for name, header := range map[string]string{"ETag": "ETag", "Content-Range": "Content-Range", "Content-Encoding": "Content-Encoding"} {
		t.Run(name, func(t *testing.T) {
			s := serve(t, noise(5_000))
			opts := quick()
			opts.Client = &http.Client{Transport: roundTrip(func(req *http.Request) (*http.Response, error) {
				resp, err := http.DefaultTransport.RoundTrip(req)
				if err == nil && !strings.HasPrefix(req.Header.Get("Range"), "bytes=0-") {
					resp.Header.Set(header, evil)
				}
				return resp, err
			})}
			_, err := readAll(open(t, s, opts))
			if err == nil || len(err.Error()) > 1_000 || strings.Contains(err.Error(), "\x1b") {
				t.Errorf("%.2000q", err)
			}
		})
	}
}
