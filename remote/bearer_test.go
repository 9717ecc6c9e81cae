package remote

import (
	"context"
	"errors"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/tensormap/tensormap/loader/httprange"
	"oras.land/oras-go/v2/registry/remote/auth"
)

func TestParseChallenge(t *testing.T) {
	for text, want := range map[string]map[string]string{
		`Bearer realm="https://auth.example/token",service="registry.example",scope="repository:a/b:pull,push"`: {
			"": "bearer", "realm": "https://auth.example/token", "service": "registry.example", "scope": "repository:a/b:pull,push"},
		`basic Realm="with = and , in it"`: {"": "basic", "realm": "with = and , in it"},
		`Bearer realm=token, error=none`:   {"": "bearer", "realm": "token", "error": "none"},
		`Bearer realm="open`:               {"": "bearer", "realm": "open"},
		`Negotiate`:                        {"": "negotiate"},
		``:                                 {"": ""},
	} {
		scheme, params := parseChallenge(text)
		params[""] = scheme
		if !maps.Equal(params, want) {
			t.Errorf("%s: %v, want %v", text, params, want)
		}
	}
}

// What a server of tokens may get and say.
func TestTokens(t *testing.T) {
	var form string
	answer := `{"access_token": "fresh"}`
	tokens := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		form = r.FormValue("grant_type") + " " + r.FormValue("refresh_token") + " " + r.FormValue("scope")
		w.Write([]byte(answer))
	}))
	defer tokens.Close()
	kept := auth.Credential{RefreshToken: "long-lived"}
	ask := func(host, realm string) (string, error) {
		b := &bearer{host: host, repo: "a/b", credential: func(context.Context, string) (auth.Credential, error) { return kept, nil }}
		return b.answer(t.Context(), &http.Response{Header: http.Header{"Www-Authenticate": {`Bearer realm="` + realm + `"`}}})
	}
	if header, err := ask("127.0.0.1:5000", tokens.URL); header != "Bearer fresh" || err != nil || form != "refresh_token long-lived repository:a/b:pull" {
		t.Errorf("%q %v for %q", header, err, form)
	}
	form = ""
	for _, realm := range []string{tokens.URL, "ftp://127.0.0.1/", "https://user@127.0.0.1/", "/token", ""} {
		if header, err := ask("registry.example", realm); !errors.Is(err, httprange.ErrResponse) || header != "" {
			t.Errorf("%s: %q %v", realm, header, err)
		}
	}
	if form != "" {
		t.Error("a credential went to a realm without https")
	}
	for _, kept = range []auth.Credential{{RefreshToken: "long-lived"}, {}} {
		for _, answer = range []string{`{}`, `no`, `{"token": "two\r\nlines"}`} {
			if header, err := ask("127.0.0.1:5000", tokens.URL); !errors.Is(err, httprange.ErrResponse) || header != "" || strings.Contains(err.Error(), "long-lived") {
				t.Errorf("%s: %q %v", answer, header, err)
			}
		}
	}
}
