package httprange_test

import (
	"bytes"
	"errors"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tensormap/tensormap/loader/httprange"
)

// tokens hands out one token after another; each is good once a server has refused the one before.
type tokens struct {
	sync.Mutex
	n       byte
	refused int
	stop    bool
}

func (a *tokens) Authorize(req *http.Request) error {
	a.Lock()
	defer a.Unlock()
	req.Header.Set("Authorization", "Bearer secret-"+string('0'+a.n))
	return nil
}

func (a *tokens) Refused(resp *http.Response) (bool, error) {
	a.Lock()
	defer a.Unlock()
	a.refused++
	a.n++
	return !a.stop, nil
}

// A server that takes a token no more gets the next one, and the storage that it redirects to none.
func TestAuthorizer(t *testing.T) {
	content := bytes.Repeat([]byte("tensor"), 100_000)
	var mu sync.Mutex
	good := "Bearer secret-1"
	storage := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "" {
			t.Error("the storage was sent a token")
		}
		mu.Lock()
		defer mu.Unlock()
		if r.URL.Query().Get("for") != good {
			http.Error(w, "expired", http.StatusForbidden)
			return
		}
		w.Header().Set("ETag", `"1"`)
		http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(content))
	}))
	defer storage.Close()
	home := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		if sent := r.Header.Get("Authorization"); sent != good {
			http.Error(w, "no more of "+sent, http.StatusUnauthorized)
			return
		}
		http.Redirect(w, r, storage.URL+"/blob?for="+strings.ReplaceAll(good, " ", "+"), http.StatusTemporaryRedirect)
	}))
	defer home.Close()

	auth := &tokens{}
	r, err := httprange.Open(t.Context(), home.URL+"/blob", &httprange.Options{Authorizer: auth, PrefixBytes: 1000, Pause: time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	read := func() error {
		p := make([]byte, 5000)
		_, err := r.ReadAt(p, 200_000)
		if err == nil && !bytes.Equal(p, content[200_000:205_000]) {
			t.Error("other bytes")
		}
		return err
	}
	if err := read(); err != nil || auth.refused != 1 {
		t.Errorf("refused %d times: %v", auth.refused, err)
	}
	mu.Lock()
	good = "Bearer secret-2"
	mu.Unlock()
	if err := read(); err != nil || auth.refused != 2 {
		t.Errorf("refused %d times: %v", auth.refused, err)
	}
	for _, stop := range []bool{false, true} { // no request is repeated for ever
		mu.Lock()
		good = "none"
		mu.Unlock()
		auth.stop = stop
		err := read()
		if !errors.Is(err, fs.ErrPermission) || strings.Contains(err.Error(), "secret") || !strings.Contains(err.Error(), "no more of") {
			t.Errorf("%v", err)
		}
	}
	if auth.refused != 4 {
		t.Errorf("refused %d times", auth.refused)
	}
}
