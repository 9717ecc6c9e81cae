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

	mu            sync.Mutex
	authorization string // "" until a challenge has come

	renewMu sync.Mutex
}

// dockerCredential returns what ~/.docker/config.json and its helpers have for a registry. It fails if they cannot be read.
func dockerCredential(ctx context.Context, host string) (auth.Credential, error) {
	store, err := credentials.NewStoreFromDocker(credentials.StoreOptions{})
	if err != nil {
		return auth.Credential{}, err
	}
	return credentials.Credential(store)(ctx, host)
}

// currentAuthorization returns the header Authorization for requests, or "" before a challenge was answered.
func (b *bearer) currentAuthorization() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.authorization
}

// Authorize sets the request's Authorization header, once a token or a password is known. It always returns nil.
func (b *bearer) Authorize(req *http.Request) error {
	if header := b.currentAuthorization(); header != "" {
		req.Header.Set("Authorization", header)
	}
	return nil
}

// Refused gets the token or password that the response resp, of status 401, asks for. One request renews it for all reads that
// were refused. again is false if there are no credentials, or if they were refused again. It fails if the token cannot be had.
func (b *bearer) Refused(resp *http.Response) (again bool, err error) {
	b.renewMu.Lock()
	defer b.renewMu.Unlock()
	if resp.Request.Header.Get("Authorization") != b.currentAuthorization() {
		return true, nil // another read has renewed it meanwhile
	}
	header, err := b.answerChallenge(resp.Request.Context(), resp)
	if err != nil || header == "" || header == b.currentAuthorization() {
		return false, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.authorization = header
	return true, nil
}

// answerChallenge returns the Authorization that the challenge in resp asks for, or "" if there are no credentials for
// it. oras-go's client requests the token: it repeats the request by the transport t, which gives it the challenge. It
// fails if the server of tokens refuses or does not answer.
func (b *bearer) answerChallenge(ctx context.Context, resp *http.Response) (string, error) {
	credential, err := b.credential(ctx, b.host)
	if err != nil {
		return "", fmt.Errorf("credentials for %s: %w", b.host, err)
	}
	t := &tokenTransport{bearer: b, registry: resp.Request.URL.String()}
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
	_, err = client.Do(req) // t answers, without bodies, and stores what the client sends in t.authorization
	switch refusal := new(errcode.ErrorResponse); {
	case errors.Is(err, auth.ErrBasicCredentialNotFound):
		return "", nil
	case errors.As(err, &refusal):
		err = &httprange.StatusError{Code: refusal.StatusCode}
	case t.networkErr != nil:
		err = t.networkErr
	case err != nil:
		err = fmt.Errorf("%w: %w", httprange.ErrResponse, err)
	case strings.ContainsFunc(t.authorization, func(c rune) bool { return c < ' ' || c > '~' }):
		err = fmt.Errorf("%w: no token", httprange.ErrResponse)
	default:
		return t.authorization, nil
	}
	return "", fmt.Errorf("token for %s: %w", b.host, err)
}

// tokenTransport is the transport of oras-go's client when it answers a challenge. It answers requests to the registry itself, with
// the challenge, and stores the Authorization that the client then sends. Other requests it sends to the server of tokens.
type tokenTransport struct {
	*bearer
	registry, challenge string

	authorization string // the client's Authorization
	networkErr    error  // of the network, or of sign
}

// RoundTrip answers requests to the registry's address itself. It sends requests for a token, signed if t.sign is set.
// It fails if a secret would go to another machine without TLS, or if sending does.
func (t *tokenTransport) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.URL.String() == t.registry {
		t.authorization = req.Header.Get("Authorization")
		resp := &http.Response{StatusCode: http.StatusOK, Header: make(http.Header), Body: http.NoBody, Request: req}
		if t.authorization == "" {
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
			t.networkErr = err
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
	t.networkErr = err
	return resp, err
}
