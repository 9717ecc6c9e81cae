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
// request before it is sent. Each request gets a new header: no header of an earlier request, and no Referer. Only requests to the file's
// own server have Options.Header and what Authorizer adds. Once a redirect has left that server, later requests have neither. follow fails
// as followFrom does.
//
// The first request goes to r.target, if an earlier request was redirected, and else to the file's own address. r.target may be a signed
// address, which expires. So the server of r.target may refuse, or another server to which redirects have led. follow then forgets
// r.target, and sends one more request to the file's own address.
func (r *Reader) follow(ctx context.Context, complete func(*http.Request)) (*http.Response, error) {
	own := &redirectTarget{url: r.url, onOwnServer: true}
	at := cmp.Or(r.target.Load(), own)
	resp, err := r.followFrom(ctx, at, complete)
	isFromOwn := at == own && err == nil && origin(resp.Request.URL) == origin(r.url) // and no redirect led elsewhere
	if err != nil || isFromOwn || !slices.Contains(refusedAddress, resp.StatusCode) {
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

// followFrom sends a request to the address in start, follows redirects, and returns the last response. If redirects have led to a response
// with a range, followFrom stores the address of that response in r.target. After status 401 from the file's own server, it asks
// Options.Authorizer for other credentials. If there are some, it sends the request once more. It fails if sending, Authorizer,
// CheckRedirect or checkRedirect does. It also fails in a browser that does not show the target of a redirect.
func (r *Reader) followFrom(ctx context.Context, start *redirectTarget, complete func(*http.Request)) (*http.Response, error) {
	var latest *http.Request // the one that is sent, or was sent last
	onOwnServer := false     // whether latest goes to the file's own server, and no request before it went elsewhere
	prepare := func(req *http.Request) error {
		latest, onOwnServer = req, onOwnServer && origin(req.URL) == origin(r.url)
		return r.prepare(req, onOwnServer, complete)
	}
	client := *r.opts.Client
	// The client calls CheckRedirect before it follows a redirect. req is its next request, with a header that it copied. via are the
	// requests before.
	client.CheckRedirect = func(req *http.Request, via []*http.Request) error {
		err := checkRedirect(via[len(via)-1].URL, req.URL, len(via))
		if err == nil {
			err = prepare(req)
		}
		if check := r.opts.Client.CheckRedirect; check != nil && err == nil {
			if err = check(req, via); err == http.ErrUseLastResponse {
				err = fmt.Errorf("%w: a redirect to %s, which Options.Client does not follow", ErrResponse, origin(req.URL))
			}
		}
		return err
	}
	for renewed := false; ; renewed = true {
		onOwnServer = start.onOwnServer
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, start.url.String(), nil)
		if err != nil {
			return nil, err
		}
		if err := prepare(req); err != nil {
			return nil, err
		}
		resp, err := client.Do(req)
		if err != nil {
			return nil, withoutLocation(err)
		}
		resp.Request = latest // a transport of the caller's need not set it
		switch {
		case resp.StatusCode == 0: // of a browser's fetch that does not follow redirects
			err = fmt.Errorf("%w: a redirect, whose target a browser does not show: Options.Header might be sent to another server", ErrResponse)
		case resp.StatusCode == http.StatusUnauthorized && onOwnServer && r.opts.Authorizer != nil && !renewed:
			var again bool
			if again, err = r.opts.Authorizer.Refused(resp); again && err == nil {
				drainAndClose(resp)
				continue
			}
		case latest != req && hasRange(resp):
			r.target.Store(&redirectTarget{latest.URL, onOwnServer})
		}
		if err != nil {
			drainAndClose(resp)
			return nil, err
		}
		return resp, nil
	}
}

// prepare replaces the header of req. If onOwnServer is true, the new header has Options.Header and what Authorizer adds. complete may
// change req before Authorizer does. prepare fails if Authorizer does.
func (r *Reader) prepare(req *http.Request, onOwnServer bool, complete func(*http.Request)) error {
	req.Header = make(http.Header) // without the header of a redirected request, and without Referer
	if onOwnServer {
		req.Header = r.opts.Header.Clone()
	}
	hasCredentials := len(r.opts.Header) > 0 || r.opts.Authorizer != nil
	if hasCredentials && usesBrowserFetch() { // a browser that follows redirects would send the header to their targets
		req.Header.Set("js.fetch:redirect", "manual")
	}
	complete(req)
	if onOwnServer && r.opts.Authorizer != nil {
		return r.opts.Authorizer.Authorize(req)
	}
	return nil
}

// drainAndClose closes the body of resp. It first reads up to 2 KiB of it: the connection of a short body is used again.
func drainAndClose(resp *http.Response) {
	io.CopyN(io.Discard, resp.Body, 2<<10)
	resp.Body.Close()
}

// maxRedirects is the number of redirects at which a request fails, as in net/http.
const maxRedirects = 10

var errRedirectNowhere = fmt.Errorf("%w: a redirect to no http or https address", ErrResponse)

// checkRedirect returns an error unless a request may be redirected from the address from to the address to. count is the number of
// redirects, with this one. It refuses the maxRedirects-th redirect, and an address without a host. It refuses every scheme but https and
// http, and http after https.
func checkRedirect(from, to *url.URL, count int) error {
	switch {
	case to.Host == "":
		return errRedirectNowhere
	case count >= maxRedirects:
		return fmt.Errorf("%w: %d redirects", ErrResponse, count)
	case to.Scheme != "https" && (to.Scheme != "http" || from.Scheme == "https"): // by http, others could change the file on its way
		return fmt.Errorf("%w: a redirect from %s to %s", ErrResponse, from.Scheme, quoted(to.Scheme))
	}
	return nil
}

// withoutLocation returns the error inside err, an error of http.Client, without addresses that may have secrets. For a redirect to a
// malformed address, which the error would quote, it returns errRedirectNowhere.
func withoutLocation(err error) error {
	err = withoutAddress(err)
	if strings.HasPrefix(err.Error(), "failed to parse Location header") {
		return errRedirectNowhere
	}
	return err
}

// ownServerHeader returns a copy of header for requests to the file's own server. user is the user in the file's address, or nil. If header
// has no Authorization, the copy gets one from user's name and password.
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
