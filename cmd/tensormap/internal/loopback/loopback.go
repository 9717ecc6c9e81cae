// Package loopback serves a handler to the browser of one person on this machine, and to nobody else.
package loopback

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"errors"
	"fmt"
	"html"
	"net"
	"net/http"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

// Server serves a handler at a port of the loopback interface. Its Address has a token that one request exchanges for a cookie,
// which all others must have.
type Server struct {
	net.Listener
	guard *guard
}

// Listen returns a server of h at a port, or at any free one if port is 0. It accepts requests once Serve is called.
func Listen(ctx context.Context, port int, h http.Handler) (*Server, error) {
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	if err != nil {
		return nil, err
	}
	return &Server{l, newGuard(l.Addr().(*net.TCPAddr).Port, h)}, nil
}

// Address returns the address to open once.
func (s *Server) Address() string { return "http://" + s.Addr().String() + "/?token=" + s.guard.token }

// Serve serves until ctx ends, and then ends all requests. It fails if the listener does.
func (s *Server) Serve(ctx context.Context) error {
	server := &http.Server{Handler: s.guard, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 64 << 10,
		BaseContext: func(net.Listener) context.Context { return ctx }}
	defer context.AfterFunc(ctx, func() { server.Close() })()
	err := server.Serve(s.Listener)
	if errors.Is(err, http.ErrServerClosed) {
		err = nil
	}
	return err
}

// guard passes requests with the cookie on to a handler. It refuses all that were not sent to a name of the loopback interface,
// as a name whose address was changed is not: the browser would take such a page for one of its own.
type guard struct {
	handler http.Handler
	hosts   map[string]bool
	cookie  string // its name: browsers do not tell ports apart
	session string

	token string
	spent atomic.Bool // the token has been exchanged
}

// newGuard returns a guard of h at a port.
func newGuard(port int, h http.Handler) *guard {
	g := &guard{handler: h, hosts: make(map[string]bool), cookie: "tensormap-" + strconv.Itoa(port), token: rand.Text(), session: rand.Text()}
	for _, name := range []string{"127.0.0.1", "localhost", "::1"} {
		g.hosts[net.JoinHostPort(name, strconv.Itoa(port))] = true
		if port == 80 { // browsers leave it out
			g.hosts[strings.TrimSuffix(net.JoinHostPort(name, ""), ":")] = true
		}
	}
	return g
}

// ServeHTTP passes a request with the cookie on to the handler. It answers one with the token by the cookie and a redirect, or a page that
// leads on, and refuses all others.
func (g *guard) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.Header().Set("Referrer-Policy", "no-referrer")
	if !g.hosts[r.Host] {
		http.Error(w, "This server has no such name.", http.StatusMisdirectedRequest)
		return
	}
	token, asks := r.URL.Query()["token"]
	switch {
	// The token works once. Its answer sets the cookie, which works from then on.
	case asks && r.Method == http.MethodGet && (g.hasCookie(r) || isSame(token[0], g.token) && !g.spent.Swap(true)):
		http.SetCookie(w, &http.Cookie{Name: g.cookie, Value: g.session, Path: "/", HttpOnly: true, SameSite: http.SameSiteStrictMode})
		w.Header().Set("Cache-Control", "no-store")
		to := "/" + strings.TrimLeft(r.URL.EscapedPath(), "/") // with two slashes it would be another host's
		if r.Header.Get("Sec-Fetch-Site") == "cross-site" {    // a redirect of another site's link has no cookie
			w.Header().Set("Refresh", "0; url="+to)
			w.Header().Set("Content-Type", "text/html; charset=utf-8")
			// Without an icon of its own the page would have the browser ask for /favicon.ico.
			fmt.Fprintf(w, "<!DOCTYPE html><title>tensormap</title><link rel=icon href=data:,><a href=\"%s\">The model</a>\n", html.EscapeString(to))
			return
		}
		w.Header().Set("Location", to)
		w.WriteHeader(http.StatusSeeOther)
	case g.hasCookie(r):
		g.handler.ServeHTTP(w, r)
	default:
		http.Error(w, "This address works once, in one browser. Run tensormap explore again for another one.", http.StatusForbidden)
	}
}

// hasCookie reports whether r has the cookie.
func (g *guard) hasCookie(r *http.Request) bool {
	c, err := r.Cookie(g.cookie)
	return err == nil && isSame(c.Value, g.session)
}

// isSame reports whether two secrets are the same, in a time that does not tell where they differ.
func isSame(a, b string) bool { return subtle.ConstantTimeCompare([]byte(a), []byte(b)) == 1 }

// OpenBrowser asks the system to show an address. It fails if the system has nothing that would.
func OpenBrowser(address string) error {
	command := []string{"xdg-open"}
	switch runtime.GOOS {
	case "darwin":
		command = []string{"open"}
	case "windows":
		command = []string{"rundll32", "url.dll,FileProtocolHandler"}
	}
	cmd := exec.Command(command[0], append(command[1:], address)...)
	if err := cmd.Start(); err != nil {
		return err
	}
	go cmd.Wait()
	return nil
}
