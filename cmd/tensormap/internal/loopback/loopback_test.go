package loopback

import (
	"context"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

// shown answers what a guard lets through.
var shown = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.Write([]byte("shown")) })

// send sends a request to a guard, with headers in pairs.
func send(g *guard, method, target string, header ...string) *http.Response {
	r := httptest.NewRequest(method, target, nil)
	r.Host = "127.0.0.1:80"
	for i := 0; i < len(header); i += 2 {
		if header[i] == "Host" {
			r.Host = header[i+1]
		} else {
			r.Header.Set(header[i], header[i+1])
		}
	}
	w := httptest.NewRecorder()
	g.ServeHTTP(w, r)
	return w.Result()
}

// TestToken: the token is exchanged for a cookie once, does not stay in the address, and no other request passes.
func TestToken(t *testing.T) {
	g := newGuard(80, shown)
	for _, target := range []string{"/", "/data/model", "/?token=", "/?token=" + g.token[1:], "/?token=" + g.token + "A", "/?token=" + g.session, "/?token=a&token=" + g.token} {
		if r := send(g, "GET", target); r.StatusCode != http.StatusForbidden {
			t.Errorf("%s: %d", target, r.StatusCode)
		}
	}
	for _, method := range []string{"POST", "HEAD", "PUT"} {
		if r := send(g, method, "/?token="+g.token); r.StatusCode != http.StatusForbidden {
			t.Errorf("%s: %d", method, r.StatusCode)
		}
	}
	r := send(g, "GET", "/?token="+g.token)
	cookies := r.Cookies()
	if r.StatusCode != http.StatusSeeOther || r.Header.Get("Location") != "/" || len(cookies) != 1 || r.Header.Get("Cache-Control") != "no-store" || r.Header.Get("Referrer-Policy") != "no-referrer" {
		t.Fatalf("%d %v", r.StatusCode, r.Header)
	}
	c := cookies[0]
	if !c.HttpOnly || c.SameSite != http.SameSiteStrictMode || c.Path != "/" || c.Domain != "" || len(c.Value) < 20 || c.Value == g.token || !strings.Contains(c.Name, "80") {
		t.Errorf("%v", c)
	}
	if r := send(g, "GET", "/?token="+g.token); r.StatusCode != http.StatusForbidden {
		t.Errorf("a second time: %d", r.StatusCode)
	}
	cookie := c.Name + "=" + c.Value
	if r := send(g, "GET", "/data/model", "Cookie", cookie); r.StatusCode != http.StatusOK {
		t.Errorf("with the cookie: %d", r.StatusCode)
	}
	if r := send(g, "GET", "/?token="+g.token, "Cookie", cookie); r.StatusCode != http.StatusSeeOther {
		t.Errorf("the address again, in the same browser: %d", r.StatusCode)
	}
	for _, other := range []string{c.Name + "=", c.Name + "=" + c.Value[1:], c.Name + "=" + g.token, "tensormap-81=" + c.Value} {
		if r := send(g, "GET", "/data/model", "Cookie", other); r.StatusCode != http.StatusForbidden {
			t.Errorf("%s: %d", other, r.StatusCode)
		}
	}
}

// TestOnce: of many requests with the token at once, one has the cookie.
func TestOnce(t *testing.T) {
	g := newGuard(80, shown)
	var passed atomic.Int32
	var group sync.WaitGroup
	for range 50 {
		group.Go(func() {
			if send(g, "GET", "/?token="+g.token).StatusCode == http.StatusSeeOther {
				passed.Add(1)
			}
		})
	}
	group.Wait()
	if passed.Load() != 1 {
		t.Error(passed.Load())
	}
}

// TestTokenOfAnother: a token or a cookie of one server opens no other, as of one that served at the same port before.
func TestTokenOfAnother(t *testing.T) {
	before, g := newGuard(80, shown), newGuard(80, shown)
	for target, cookie := range map[string]string{"/?token=" + before.token: "", "/": before.cookie + "=" + before.session, "/?token=" + g.session: before.cookie + "=" + before.token} {
		if r := send(g, "GET", target, "Cookie", cookie); r.StatusCode != http.StatusForbidden || r.Header.Get("Set-Cookie") != "" {
			t.Errorf("%s: %d %v", target, r.StatusCode, r.Header)
		}
	}
	if r := send(g, "GET", "/?token="+g.token); r.StatusCode != http.StatusSeeOther {
		t.Errorf("its own token, afterwards: %d", r.StatusCode)
	}
}

// TestForeign: the page of another origin that guesses has nothing, and spends nothing. Without the cookie it is not told what is served.
func TestForeign(t *testing.T) {
	g := newGuard(80, shown)
	foreign := []string{"Sec-Fetch-Site", "cross-site", "Origin", "https://example.org"}
	for _, target := range []string{"/", "/data/model", "/?token=guess", "/data/model?token=" + strings.ToLower(g.token)} {
		r := send(g, "GET", target, foreign...)
		body, _ := io.ReadAll(r.Body)
		if r.StatusCode != http.StatusForbidden || r.Header.Get("Set-Cookie") != "" || r.Header.Get("Access-Control-Allow-Origin") != "" || strings.Contains(string(body), "shown") {
			t.Errorf("%s: %d %v %s", target, r.StatusCode, r.Header, body)
		}
	}
	if r := send(g, "GET", "/?token="+g.token); r.StatusCode != http.StatusSeeOther {
		t.Errorf("the token, afterwards: %d", r.StatusCode)
	}
}

// TestLink: the address may be a link of another site. To what it redirects to the browser would send no cookie.
func TestLink(t *testing.T) {
	g := newGuard(80, shown)
	r := send(g, "GET", "/a&b?token="+g.token, "Sec-Fetch-Site", "cross-site")
	if r.StatusCode != http.StatusOK || r.Header.Get("Refresh") != "0; url=/a&b" || len(r.Cookies()) != 1 || r.Header.Get("Cache-Control") != "no-store" {
		t.Errorf("%d %v", r.StatusCode, r.Header)
	}
	body, err := io.ReadAll(r.Body)
	if text := string(body); err != nil || !strings.Contains(text, `href="/a&amp;b"`) || !strings.Contains(text, "<link rel=icon href=data:,>") {
		t.Errorf("without an icon the browser asks for one: %s %v", body, err)
	}
	if r := send(g, "GET", "/?token="+g.token, "Sec-Fetch-Site", "cross-site"); r.StatusCode != http.StatusForbidden {
		t.Errorf("a second time: %d", r.StatusCode)
	}
}

// TestNames: only names of the loopback interface pass, so that a page whose name leads here now has no part in it.
func TestNames(t *testing.T) {
	g := newGuard(80, shown)
	cookie := g.cookie + "=" + g.session
	for _, host := range []string{"127.0.0.1:80", "localhost:80", "[::1]:80", "127.0.0.1", "localhost", "[::1]"} { // 80 is left out
		if r := send(g, "GET", "/", "Host", host, "Cookie", cookie); r.StatusCode != http.StatusOK {
			t.Errorf("%s: %d", host, r.StatusCode)
		}
	}
	for _, host := range []string{"example.org", "example.org:80", "127.0.0.1:81", "localhost.example.org:80", "", "0.0.0.0:80", "127.0.0.1:80@example.org", "LOCALHOST.:80"} {
		for _, target := range []string{"/", "/?token=" + g.token} {
			if r := send(g, "GET", target, "Host", host, "Cookie", cookie); r.StatusCode != http.StatusMisdirectedRequest || r.Header.Get("Set-Cookie") != "" {
				t.Errorf("%q: %d", host, r.StatusCode)
			}
		}
	}
}

// TestPorts: a name without a port passes at port 80 alone.
func TestPorts(t *testing.T) {
	g := newGuard(8080, shown)
	for host, want := range map[string]int{"127.0.0.1:8080": http.StatusOK, "127.0.0.1": http.StatusMisdirectedRequest, "127.0.0.1:80": http.StatusMisdirectedRequest} {
		if r := send(g, "GET", "/", "Host", host, "Cookie", g.cookie+"="+g.session); r.StatusCode != want {
			t.Errorf("%s: %d", host, r.StatusCode)
		}
	}
}

// TestLocation: the token is taken off the address, which stays one of this server.
func TestLocation(t *testing.T) {
	g := newGuard(80, shown)
	for _, path := range []string{"//example.org/", "///example.org/"} {
		if r := send(g, "GET", "http://127.0.0.1"+path+"?token="+g.token, "Cookie", g.cookie+"="+g.session); r.Header.Get("Location") != "/example.org/" {
			t.Errorf("%s: %v", path, r.Header)
		}
	}
}

// TestServe: a browser follows the address to the page; the end of the context ends requests too.
func TestServe(t *testing.T) {
	ctx, end := context.WithCancel(t.Context())
	started := make(chan struct{})
	s, err := Listen(ctx, 0, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/wait" {
			close(started)
			<-r.Context().Done()
		}
		w.Write([]byte("shown"))
	}))
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error)
	go func() { ended <- s.Serve(ctx) }()
	if !strings.HasPrefix(s.Address(), "http://127.0.0.1:") {
		t.Error(s.Address())
	}
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	browser := http.Client{Jar: jar}
	r, err := browser.Get(s.Address())
	if err != nil || r.StatusCode != http.StatusOK || r.Request.URL.RawQuery != "" {
		t.Fatal(r, err)
	}
	r.Body.Close()
	base, _, _ := strings.Cut(s.Address(), "?")
	go browser.Get(base + "wait")
	<-started
	end()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if _, err := Listen(t.Context(), -1, shown); err == nil {
		t.Error("a port below 0")
	}
}
