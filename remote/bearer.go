package remote

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"

	"github.com/tensormap/tensormap/loader/httprange"
	"oras.land/oras-go/v2/registry/remote/auth"
	"oras.land/oras-go/v2/registry/remote/credentials"
	"oras.land/oras-go/v2/registry/remote/errcode"
)

// bearer adds to requests what a registry's challenge asks for (distribution-spec, "Token
// Authentication"): a token for one repository, or user and password. It is safe for concurrent use.
type bearer struct {
	host, repo string
	http       httprange.Options // its Client sends requests to the server of tokens
	credential func(ctx context.Context, host string) (auth.Credential, error)
	// sign, if set, returns the Authorization of a request for a token at the registry's own address, which has no
	// credentials then. It adds to the query.
	sign func(realm *url.URL, query url.Values) (string, error)

	mu     sync.Mutex
	header string // "" until a challenge has come

	renewing sync.Mutex
}

// dockerCredential returns what ~/.docker/config.json and its helpers have for a registry.
func dockerCredential(ctx context.Context, host string) (auth.Credential, error) {
	store, err := credentials.NewStoreFromDocker(credentials.StoreOptions{})
	if err != nil {
		return auth.Credential{}, err
	}
	return credentials.Credential(store)(ctx, host)
}

// current returns the Authorization of requests, or "".
func (b *bearer) current() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.header
}

// Authorize implements httprange.Authorizer.
func (b *bearer) Authorize(req *http.Request) error {
	if header := b.current(); header != "" {
		req.Header.Set("Authorization", header)
	}
	return nil
}

// Refused implements httprange.Authorizer: it gets a token, or a new one, as the response resp asks. One request renews
// it for all reads that were refused. again is false if there are no credentials, or they were refused again.
func (b *bearer) Refused(resp *http.Response) (again bool, err error) {
	b.renewing.Lock()
	defer b.renewing.Unlock()
	if resp.Request.Header.Get("Authorization") != b.current() {
		return true, nil // another read has renewed it meanwhile
	}
	header, err := b.answer(resp.Request.Context(), resp)
	if err != nil || header == "" || header == b.current() {
		return false, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.header = header
	return true, nil
}

// answer returns the Authorization that the challenge in resp asks for, or "" if there are no credentials for it.
// oras-go's client requests the token: it repeats the request by the transport t, which gives it the challenge.
func (b *bearer) answer(ctx context.Context, resp *http.Response) (string, error) {
	credential, err := b.credential(ctx, b.host)
	if err != nil {
		return "", fmt.Errorf("credentials for %s: %w", b.host, err)
	}
	t := &tokens{bearer: b, registry: resp.Request.URL.String()}
	for _, challenge := range resp.Header.Values("WWW-Authenticate") {
		scheme, _, _ := strings.Cut(challenge, " ")
		if strings.EqualFold(scheme, "bearer") || strings.EqualFold(scheme, "basic") {
			t.challenge = challenge
			break
		}
	}
	if !strings.Contains(t.challenge, "scope=") {
		ctx = auth.AppendScopesForHost(ctx, b.host, auth.ScopeRepository(b.repo, auth.ActionPull))
	}
	client := auth.Client{
		Client: &http.Client{Transport: t}, ClientID: "tensormap",
		Credential: func(context.Context, string) (auth.Credential, error) { return credential, nil },
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, t.registry, nil)
	if err != nil {
		return "", err
	}
	_, err = client.Do(req) // t answers, without bodies, and stores what the client sends in t.header
	switch refusal := new(errcode.ErrorResponse); {
	case errors.Is(err, auth.ErrBasicCredentialNotFound):
		return "", nil
	case errors.As(err, &refusal):
		err = &httprange.StatusError{Code: refusal.StatusCode}
	case t.failed != nil:
		err = t.failed
	case err != nil:
		err = fmt.Errorf("%w: %w", httprange.ErrResponse, err)
	case strings.ContainsFunc(t.header, func(c rune) bool { return c < ' ' || c > '~' }):
		err = fmt.Errorf("%w: no token", httprange.ErrResponse)
	default:
		return t.header, nil
	}
	return "", fmt.Errorf("token for %s: %w", b.host, err)
}

// tokens is the transport of oras-go's client when it answers a challenge. It plays the registry: it repeats the
// challenge, and stores the Authorization that the client answers with. Other requests go to the server of tokens.
type tokens struct {
	*bearer
	registry, challenge string

	header string // the client's Authorization
	failed error  // of the network, or of sign
}

// RoundTrip implements http.RoundTripper. The registry's address it answers itself. A request for a token it sends, signed
// if there is a function sign; it fails if a secret would go to another machine without TLS.
func (t *tokens) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.URL.String() == t.registry {
		t.header = req.Header.Get("Authorization")
		resp := &http.Response{StatusCode: http.StatusOK, Header: make(http.Header), Body: http.NoBody, Request: req}
		if t.header == "" {
			resp.StatusCode = http.StatusUnauthorized
			resp.Header.Set("WWW-Authenticate", t.challenge)
		}
		return resp, nil
	}
	if req.URL.Scheme != "https" && !isLoopback(req.URL.Host) || req.URL.User != nil {
		return nil, errors.New("the server of tokens has no https address")
	}
	if t.sign != nil && req.Method == http.MethodGet && req.URL.Host == t.host && req.Header.Get("Authorization") == "" {
		req = req.Clone(req.Context())
		query := req.URL.Query()
		signature, err := t.sign(req.URL, query)
		if err != nil {
			t.failed = err
			return nil, err
		}
		if req.URL.RawQuery = query.Encode(); signature != "" {
			req.Header.Set("Authorization", signature)
		}
	}
	transport := http.DefaultTransport
	if t.bearer.http.Client != nil && t.bearer.http.Client.Transport != nil {
		transport = t.bearer.http.Client.Transport
	}
	resp, err := transport.RoundTrip(req)
	t.failed = err
	return resp, err
}
