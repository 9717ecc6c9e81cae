package remote

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/tensormap/tensormap/loader/httprange"
	"oras.land/oras-go/v2/registry/remote/auth"
	"oras.land/oras-go/v2/registry/remote/credentials"
)

// bearer adds to requests what a registry's challenge asks for (distribution-spec, "Token
// Authentication"): a token for one repository, or user and password. It is safe for concurrent use.
type bearer struct {
	host, repo string
	http       httprange.Options // of requests to the server of tokens
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

// Refused implements httprange.Authorizer. One request renews the token for all who were refused.
func (b *bearer) Refused(resp *http.Response) (again bool, err error) {
	b.renewing.Lock()
	defer b.renewing.Unlock()
	if resp.Request.Header.Get("Authorization") != b.current() {
		return true, nil
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

// answer returns the header that meets a challenge, or "" if there is none.
func (b *bearer) answer(ctx context.Context, resp *http.Response) (string, error) {
	credential, err := b.credential(ctx, b.host)
	if err != nil {
		return "", fmt.Errorf("credentials for %s: %w", b.host, err)
	}
	for _, challenge := range resp.Header.Values("WWW-Authenticate") {
		scheme, params := parseChallenge(challenge)
		switch {
		case scheme == "bearer" && credential.AccessToken != "":
			return "Bearer " + credential.AccessToken, nil
		case scheme == "bearer":
			token, err := b.token(ctx, params, credential)
			if err != nil {
				return "", fmt.Errorf("token for %s: %w", b.host, err)
			}
			return "Bearer " + token, nil
		case scheme == "basic" && credential.Password != "":
			return basic(credential).Get("Authorization"), nil
		}
	}
	return "", nil
}

func basic(c auth.Credential) http.Header {
	req := &http.Request{Header: make(http.Header)}
	if c.Username != "" || c.Password != "" {
		req.SetBasicAuth(c.Username, c.Password)
	}
	return req.Header
}

// parseChallenge reads a WWW-Authenticate header with one challenge (RFC 9110, section 11.6.1).
func parseChallenge(text string) (scheme string, params map[string]string) {
	scheme, rest, _ := strings.Cut(strings.TrimSpace(text), " ")
	params = make(map[string]string)
	for rest != "" {
		name, after, ok := strings.Cut(rest, "=")
		if !ok {
			break
		}
		var value string
		if after, quoted := strings.CutPrefix(after, `"`); quoted {
			value, rest, _ = strings.Cut(after, `"`)
			_, rest, _ = strings.Cut(rest, ",")
		} else {
			value, rest, _ = strings.Cut(after, ",")
		}
		params[strings.ToLower(strings.Trim(name, " ,"))] = strings.TrimSpace(value)
	}
	return strings.ToLower(scheme), params
}

// token asks the server that a challenge names for a token to read the repository.
func (b *bearer) token(ctx context.Context, params map[string]string, c auth.Credential) (string, error) {
	realm, err := url.Parse(params["realm"])
	if err != nil || realm.Host == "" || realm.User != nil || realm.Scheme != "https" && (realm.Scheme != "http" || !isLoopback(b.host)) {
		return "", fmt.Errorf("%w: a challenge whose realm is no https address", httprange.ErrResponse)
	}
	ask := realm.Query()
	if params["service"] != "" {
		ask.Set("service", params["service"])
	}
	ask.Set("scope", cmp.Or(params["scope"], "repository:"+b.repo+":pull"))
	var body []byte
	if c.RefreshToken != "" {
		body, err = b.exchange(ctx, realm, ask, c)
	} else {
		if c.Username != "" {
			ask.Set("account", c.Username)
		}
		o := b.http
		o.Header = basic(c)
		if b.sign != nil && c == auth.EmptyCredential && realm.Host == b.host {
			signature, err := b.sign(realm, ask)
			if err != nil {
				return "", err
			}
			if signature != "" {
				o.Header.Set("Authorization", signature)
			}
		}
		realm.RawQuery = ask.Encode()
		body, _, err = httprange.Get(ctx, realm.String(), mostToken, &o)
	}
	if err != nil {
		return "", err
	}
	var answer struct {
		Token       string `json:"token"`
		AccessToken string `json:"access_token"`
	}
	if json.Unmarshal(body, &answer) != nil {
		return "", fmt.Errorf("%w: no JSON", httprange.ErrResponse)
	}
	token := cmp.Or(answer.Token, answer.AccessToken)
	if token == "" || strings.ContainsFunc(token, func(c rune) bool { return c <= ' ' || c > '~' }) {
		return "", fmt.Errorf("%w: no token", httprange.ErrResponse)
	}
	return token, nil
}

// mostToken bounds an answer with a token.
const mostToken = 1 << 20

// exchange turns the refresh token that docker login has kept into an access token (RFC 6749,
// section 6).
func (b *bearer) exchange(ctx context.Context, realm *url.URL, form url.Values, c auth.Credential) ([]byte, error) {
	form.Set("grant_type", "refresh_token")
	form.Set("refresh_token", c.RefreshToken)
	form.Set("client_id", "tensormap")
	timeout := b.http.Timeout
	if timeout <= 0 {
		timeout = 30 * time.Second
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, realm.Scheme+"://"+realm.Host+realm.EscapedPath(), strings.NewReader(form.Encode()))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	client := http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	if b.http.Client != nil {
		client.Transport = b.http.Client.Transport
	}
	resp, err := client.Do(req)
	if err != nil {
		if failed := new(url.Error); errors.As(err, &failed) { // without the address
			err = failed.Err
		}
		return nil, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, &httprange.StatusError{Code: resp.StatusCode, Header: resp.Header}
	}
	return io.ReadAll(io.LimitReader(resp.Body, mostToken))
}
