package remote

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/tensormap/tensormap/loader/httprange"
	"oras.land/oras-go/v2/registry/remote/auth"
)

// visited is a transport that notes where requests go.
type visited struct{ at []string }

func (v *visited) RoundTrip(req *http.Request) (*http.Response, error) {
	v.at = append(v.at, req.URL.Scheme+"://"+req.URL.Host)
	return http.DefaultTransport.RoundTrip(req)
}

// challenged returns what a client with these credentials answers when the registry at host challenges it, and where it asked.
func challenged(t *testing.T, host string, credential auth.Credential, challenges ...string) (header string, visits []string, err error) {
	t.Helper()
	v := &visited{}
	b := &bearer{
		host: host, repo: "a/b", http: httprange.Options{Client: &http.Client{Transport: v}},
		credential: func(context.Context, string) (auth.Credential, error) { return credential, nil },
	}
	scheme := "https"
	if isLoopback(host) {
		scheme = "http"
	}
	req, _ := http.NewRequest(http.MethodGet, scheme+"://"+host+"/v2/a/b/manifests/latest", nil)
	header, err = b.answerChallenge(t.Context(), &http.Response{Header: http.Header{"Www-Authenticate": challenges}, Request: req})
	return header, v.at, err
}

// What a server of tokens may get and say. The requests are those of distribution's specification of token authentication.
func TestTokens(t *testing.T) {
	var got []string
	status, answer := http.StatusOK, `{"token": "fresh"}`
	tokens := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		user, password, _ := r.BasicAuth()
		got = append(got, fmt.Sprint(r.Method, " ", r.FormValue("service"), " ", r.FormValue("scope"), " ", r.FormValue("grant_type"), " ", r.FormValue("refresh_token"), " ", user, ":", password))
		w.WriteHeader(status)
		w.Write([]byte(answer))
	}))
	defer tokens.Close()
	challenge := `Bearer realm="` + tokens.URL + `/token",service="registry"`
	password := auth.Credential{Username: "user", Password: "secret"}
	for _, c := range []struct {
		credential           auth.Credential
		challenge            string
		header, request, say string
	}{
		{auth.Credential{}, challenge, "Bearer fresh", "GET registry repository:a/b:pull   :", `{"token": "fresh"}`},
		{password, challenge + `,scope="repository:x/y:pull"`, "Bearer fresh", "GET registry repository:x/y:pull   user:secret", `{"token": "fresh"}`},
		{auth.Credential{RefreshToken: "long-lived"}, challenge, "Bearer fresh", "POST registry repository:a/b:pull refresh_token long-lived :", `{"access_token": "fresh"}`},
		{auth.Credential{AccessToken: "kept"}, challenge, "Bearer kept", "", ""},
		{password, `Basic realm="registry"`, "Basic dXNlcjpzZWNyZXQ=", "", ""},
		{auth.Credential{}, `Basic realm="registry"`, "", "", ""},
		{password, "Negotiate", "", "", ""},
	} {
		got, answer = nil, c.say
		header, _, err := challenged(t, "127.0.0.1:5000", c.credential, "Negotiate", c.challenge)
		if want := slices.DeleteFunc([]string{c.request}, func(s string) bool { return s == "" }); header != c.header || err != nil || !slices.Equal(got, want) {
			t.Errorf("%s: %q %v for %q", c.challenge, header, err, got)
		}
	}
	for _, credential := range []auth.Credential{{RefreshToken: "long-lived"}, password, {}} {
		for _, answer = range []string{`{}`, `no`, `{"token": "two\r\nlines", "access_token": "two\r\nlines"}`} {
			if header, _, err := challenged(t, "127.0.0.1:5000", credential, challenge); !errors.Is(err, httprange.ErrResponse) || header != "" || strings.Contains(err.Error(), "long-lived") {
				t.Errorf("%s: %q %v", answer, header, err)
			}
		}
	}
	status, answer = http.StatusUnauthorized, `{"errors": [{"code": "UNAUTHORIZED", "message": "\u001b[2J"}]}`
	if header, _, err := challenged(t, "127.0.0.1:5000", password, challenge); !errors.Is(err, fs.ErrPermission) || header != "" || strings.ContainsAny(err.Error(), "\x1b") {
		t.Errorf("%q %v", header, err)
	}
}

// TestRealms: the address that a challenge names gets no password if it is this machine's, the link's or the cloud's own, or has no TLS.
// A registry on loopback may have its tokens from the same host.
func TestRealms(t *testing.T) {
	tokens := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "http://169.254.169.254/latest/meta-data/", http.StatusFound)
	}))
	defer tokens.Close()
	tls := httptest.NewTLSServer(http.NotFoundHandler())
	defer tls.Close()
	password := auth.Credential{Username: "user", Password: "secret"}
	for _, c := range [][2]string{
		{"203.0.113.5", tokens.URL}, // http, and loopback
		{"203.0.113.5", tls.URL},
		{"203.0.113.5", "https://[::1]:5000/token"},
		{"203.0.113.5", "https://[::ffff:127.0.0.1]/token"},
		{"203.0.113.5", "https://169.254.169.254/latest/"},
		{"203.0.113.5", "https://[fd00:ec2::254]/"},
		{"203.0.113.5", "https://[fe80::1]/"},
		{"203.0.113.5", "http://203.0.113.7/token"},
		{"203.0.113.5", "ftp://203.0.113.5/"},
		{"203.0.113.5", "https://user@203.0.113.5/"},
		{"127.0.0.1:5000", "http://203.0.113.7/token"}, // the password in the clear
		{"127.0.0.1:5000", "http://169.254.169.254/latest/"},
		{"127.0.0.1:5000", "http://127.0.0.2:5000/token"},
		{"127.0.0.1:5000", "http://[::1]:5000/token"},
		{"127.0.0.1:5000", "/token"},
		{"127.0.0.1:5000", ""},
	} {
		for _, credential := range []auth.Credential{password, {RefreshToken: "secret"}, {}} {
			header, visits, err := challenged(t, c[0], credential, `Bearer realm="`+c[1]+`"`)
			if !errors.Is(err, httprange.ErrResponse) || header != "" || len(visits) > 0 || strings.Contains(err.Error(), "secret") {
				t.Errorf("%s, %s: %q %v, asked %s", c[0], c[1], header, err, visits)
			}
		}
	}
	header, visits, err := challenged(t, "127.0.0.1:5000", password, `Bearer realm="`+tokens.URL+`"`)
	if !errors.Is(err, httprange.ErrResponse) || header != "" || !slices.Equal(visits, []string{tokens.URL}) {
		t.Errorf("a redirect to %q: %q %v", visits, header, err)
	}
}
