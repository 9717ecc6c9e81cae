package httprange

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// follow sends a request for the file, follows redirects, and returns the last response, whatever its status. complete may change each
// request before it is sent. Each request is made anew: no header goes from one to the next, nor an address as Referer. Only requests
// to the file's own server have Options.Header and what Authorizer adds, until a redirect leaves that server. follow fails as
// followFrom does.
//
// Requests go to r.target, where redirects of an earlier one have led. It may be a signed address, and expire. If it refuses, follow asks
// the file's own address once more. It also does if redirects of the own address lead to another server that refuses.
func (r *Reader) follow(ctx context.Context, complete func(*http.Request)) (*http.Response, error) {
	own := &redirectTarget{url: r.url, onOwnServer: true}
	at := cmp.Or(r.target.Load(), own)
	resp, err := r.followFrom(ctx, at, complete)
	if err != nil || !slices.Contains(refusedAddress, resp.StatusCode) || at == own && origin(resp.Request.URL) == origin(r.url) {
		return resp, err
	}
	drainAndClose(resp)
	r.target.CompareAndSwap(at, nil)
	return r.followFrom(ctx, own, complete)
}

// redirectTarget is an address that requests are sent to: the file's own, or one that redirects have led to. onOwnServer means that no
// redirect has left the server of the file's own address.
type redirectTarget struct {
	url         *url.URL
	onOwnServer bool
}

// refusedAddress lists the statuses with which servers refuse an address that is unknown or has expired.
var refusedAddress = []int{
	http.StatusBadRequest, http.StatusUnauthorized, http.StatusForbidden, http.StatusNotFound, http.StatusGone,
}

// followFrom sends a request to the address in start, follows redirects, and returns the last response. It stores where redirects have led
// to a range in r.target. After status 401 from the file's own server, it asks Options.Authorizer for other credentials, once. It fails if
// sending, Authorizer, CheckRedirect or redirection does.
func (r *Reader) followFrom(ctx context.Context, start *redirectTarget, complete func(*http.Request)) (*http.Response, error) {
	var via []*http.Request // that were redirected
	var resp *http.Response
	onOwnServer, renewed := start.onOwnServer, false
	for to := start.url; ; {
		onOwnServer = onOwnServer && origin(to) == origin(r.url)
		req, err := r.newRequest(ctx, to, onOwnServer, complete)
		if err != nil {
			return nil, err
		}
		if check := r.opts.Client.CheckRedirect; check != nil && len(via) > 0 {
			req.Response = resp
			if err = check(req, via); err == http.ErrUseLastResponse {
				err = fmt.Errorf("%w: a redirect to %s, which Options.Client does not follow", ErrResponse, origin(to))
			}
			if err != nil {
				return nil, err
			}
		}
		if resp, err = r.client.Do(req); err != nil {
			return nil, err
		}
		if onOwnServer && !renewed && resp.StatusCode == http.StatusUnauthorized && r.opts.Authorizer != nil {
			renewed = true
			again, err := r.opts.Authorizer.Refused(resp)
			if again || err != nil {
				drainAndClose(resp)
			}
			switch {
			case err != nil:
				return nil, err
			case again:
				continue // to the same address, with the new credentials
			}
		}
		next, err := redirection(resp, len(via))
		if next == nil && err == nil {
			if len(via) > 0 && hasRange(resp) {
				r.target.Store(&redirectTarget{to, onOwnServer})
			}
			return resp, nil
		}
		drainAndClose(resp)
		if err != nil {
			return nil, err
		}
		via, to = append(via, req), next
	}
}

// newRequest returns a request for the address to. complete may change it. If onOwnServer is true, the request has Options.Header and
// what Authorizer adds. newRequest fails if Authorizer does.
func (r *Reader) newRequest(ctx context.Context, to *url.URL, onOwnServer bool, complete func(*http.Request)) (*http.Request, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, to.String(), nil)
	if err != nil {
		return nil, err
	}
	if onOwnServer {
		req.Header = r.opts.Header.Clone()
	}
	hasCredentials := len(r.opts.Header) > 0 || r.opts.Authorizer != nil
	if hasCredentials && usesBrowserFetch() { // a browser that follows redirects would send the header to their targets
		req.Header.Set("js.fetch:redirect", "manual")
	}
	complete(req)
	if onOwnServer && r.opts.Authorizer != nil {
		err = r.opts.Authorizer.Authorize(req)
	}
	return req, err
}

// drainAndClose closes the body of resp. It first reads up to 2 KiB of it: the connection of a short body is used again.
func drainAndClose(resp *http.Response) {
	io.CopyN(io.Discard, resp.Body, 2<<10)
	resp.Body.Close()
}

// maxRedirects is the number of redirects at which a request fails, as in net/http.
const maxRedirects = 10

// redirection returns the address that resp redirects to, or nil if resp is no redirect. count is the number of redirects before. It fails
// for too many, if a browser hides the target, and for a redirect from https to http, or to any other scheme.
func redirection(resp *http.Response, count int) (*url.URL, error) {
	location := resp.Header.Get(locationHeader)
	if resp.StatusCode == 0 { // of a browser's fetch that does not follow redirects
		return nil, fmt.Errorf("%w: a redirect, whose target a browser does not show: Options.Header might be sent to another server", ErrResponse)
	}
	if location == "" {
		return nil, nil
	}
	from := resp.Request.URL
	to, err := from.Parse(location)
	switch {
	case err != nil || to.Host == "":
		return nil, fmt.Errorf("%w: a redirect to no http or https address", ErrResponse)
	case count >= maxRedirects-1:
		return nil, fmt.Errorf("%w: %d redirects", ErrResponse, count+1)
	case to.Scheme != "https" && (to.Scheme != "http" || from.Scheme == "https"): // by http, others could change the file on its way
		return nil, fmt.Errorf("%w: a redirect from %s to %s", ErrResponse, from.Scheme, quoted(to.Scheme))
	}
	return to, nil
}

// locationHeader has the Location of a redirect instead: http.Client would follow that one, and quote in an error
// what it cannot parse. A server cannot send a header of this name.
const locationHeader = "\x00location"

// hideRedirects is a transport that hides the Location of redirects from http.Client, which then follows none: followFrom does.
type hideRedirects struct{ http.RoundTripper }

// RoundTrip sends req, and moves the Location of a redirect to locationHeader. It fails if sending does.
func (t hideRedirects) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := t.RoundTripper.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	resp.Request = req
	switch resp.StatusCode {
	case http.StatusMovedPermanently, http.StatusFound, http.StatusSeeOther, http.StatusTemporaryRedirect, http.StatusPermanentRedirect:
		if location, ok := resp.Header["Location"]; ok {
			resp.Header[locationHeader] = location
			delete(resp.Header, "Location")
		}
	}
	return resp, nil
}

// withoutRedirects returns a copy of c that returns redirects as responses instead of following them: see hideRedirects.
func withoutRedirects(c *http.Client) *http.Client {
	own := *c
	if own.Transport == nil {
		own.Transport = http.DefaultTransport
	}
	own.Transport = hideRedirects{own.Transport}
	return &own
}

// ownServerHeader returns the header of requests to the address's own server: a copy of header, with the user and password
// of an address if header has no Authorization. user may be nil.
func ownServerHeader(header http.Header, user *url.Userinfo) http.Header {
	own := make(http.Header, len(header)+1)
	for name, values := range header {
		for _, value := range values {
			own.Add(name, value)
		}
	}
	if user != nil && own.Get("Authorization") == "" {
		password, _ := user.Password()
		(&http.Request{Header: own}).SetBasicAuth(user.Username(), password)
	}
	return own
}

var defaultPorts = map[string]string{"http": "80", "https": "443"}

// origin returns scheme, host and port of u, such as "https://host:8443" (RFC 6454, section 4). It leaves out the scheme's default port.
func origin(u *url.URL) string {
	host := strings.TrimSuffix(strings.ToLower(u.Host), ":")
	return (&url.URL{Scheme: u.Scheme, Host: strings.TrimSuffix(host, ":"+defaultPorts[u.Scheme])}).String()
}
