package remote

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/tensormap/tensormap/loader/httprange"
	"oras.land/oras-go/v2/registry/remote/auth"
	"oras.land/oras-go/v2/registry/remote/credentials"
	"oras.land/oras-go/v2/registry/remote/errcode"
)

// bearer adds to requests the header that a registry's challenge asks for (distribution-spec, "Token
// Authentication"): with a token for one repository, or user and password. It is safe for concurrent use.
type bearer struct {
	host, repo string
	http       httprange.Options // its Client alone serves the server of tokens, which must not get the caller's Header
	credential func(ctx context.Context, host string) (auth.Credential, error)
	// sign, if set, returns the Authorization of a request for a token at the registry's own address, which has no
	// credentials then. It adds to the query.
	sign func(realm *url.URL, query url.Values) (string, error)

	renewMu       sync.Mutex
	authorization atomic.Value // the header, a string; nil until a challenge was answered
}

// dockerCredential returns the credential that ~/.docker/config.json or its helpers have for the registry host, or an empty one. It fails
// if they cannot be read.
func dockerCredential(ctx context.Context, host string) (auth.Credential, error) {
	store, err := credentials.NewStoreFromDocker(credentials.StoreOptions{})
	if err != nil {
		return auth.Credential{}, err
	}
	return credentials.Credential(store)(ctx, host)
}

// Authorize sets the request's Authorization header, once a token or a password is known. It always returns nil.
func (b *bearer) Authorize(req *http.Request) error {
	if header, ok := b.authorization.Load().(string); ok {
		req.Header.Set("Authorization", header)
	}
	return nil
}

// Refused renews the header Authorization after resp, a response of status 401 with a challenge. One call renews it for all requests that
// were refused with the same header. again is true if the request is worth sending again. again is false if there are no credentials, or if
// the new header is the refused one. Refused fails if answerChallenge does.
func (b *bearer) Refused(resp *http.Response) (again bool, err error) {
	b.renewMu.Lock()
	defer b.renewMu.Unlock()
	current, _ := b.authorization.Load().(string)
	if resp.Request.Header.Get("Authorization") != current {
		return true, nil // another call has renewed it meanwhile
	}
	header, err := b.answerChallenge(resp.Request.Context(), resp)
	if err != nil || header == "" || header == current {
		return false, err
	}
	b.authorization.Store(header)
	return true, nil
}

// answerChallenge returns the header Authorization that a registry asks for in resp, its refusal. It returns "" if there are no credentials
// for the header. oras-go's client requests the token. To make it do so, answerChallenge gives it a tokenTransport, which plays the
// registry: it answers with the challenge in resp, and sends nothing there. answerChallenge fails if credentials cannot be read, or if a
// token cannot be requested. It fails with httprange.ErrResponse for a malformed answer, and for a token with other than printable ASCII.
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
	if !strings.Contains(t.challenge, "scope=") { // the client asks for a token of what is to be read
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
	_, err = client.Do(req) // t answers without bodies, so that there is nothing to close
	switch refusal := new(errcode.ErrorResponse); {
	case errors.Is(err, auth.ErrBasicCredentialNotFound):
		return "", nil
	case errors.As(err, &refusal):
		err = &httprange.StatusError{Code: refusal.StatusCode}
	case t.networkErr != nil:
		err = t.networkErr
	case err != nil:
		err = fmt.Errorf("%w: %w", httprange.ErrResponse, err)
	case strings.ContainsFunc(t.authorization, func(c rune) bool { return c < ' ' || c > '~' }): // a header cannot have them
		err = fmt.Errorf("%w: no token", httprange.ErrResponse)
	}
	if err != nil {
		return "", fmt.Errorf("token for %s: %w", b.host, err)
	}
	return t.authorization, nil
}

// tokenTransport is the transport of oras-go's client when it answers a challenge. It answers requests to the registry itself, with
// the challenge, and stores the Authorization that the client then sends. It sends other requests to the server of tokens.
type tokenTransport struct {
	*bearer
	registry, challenge string

	authorization string // the header Authorization of the client's last request to the registry
	networkErr    error  // of the last request for a token: the network's, or the error of sign
}

// RoundTrip plays the registry for oras-go's client, so that the client requests a token. It answers a request to t.registry itself, and
// stores the request's Authorization in t.authorization. With an Authorization, the answer is success. Without one, the answer is the
// refusal with t.challenge. Every other request is for a token, and RoundTrip sends it. It first signs a GET request to t.host that has no
// Authorization, if t.sign is set. It refuses an address without TLS on another machine, and an address with a user. It fails if signing or
// sending does, and stores the error in t.networkErr.
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
		req.URL.RawQuery = query.Encode() // sign may have added to it
		if signature != "" {
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
