package httprange

import (
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// StatusError is a response with a status that refuses the request. For errors.Is it is [ErrStatus], fs.ErrPermission
// with status 401 or 403, and fs.ErrNotExist with 404 or 410.
type StatusError struct {
	Code   int         // such as 404
	Header http.Header // of the answer
	// Text is the beginning of the response's text, in one line, with characters escaped that do not print. It leaves
	// out what may be secret in the request's address and Options.Header. It is empty for HTML, for bytes that are no text, and
	// if it says no more than the code.
	Text string
	// Elsewhere is the server that refused, if it is the target of a redirect from another server: Options.Header was
	// not sent to it.
	Elsewhere string

	retryAfter time.Duration // that the server asks to wait
}

// Error returns the status and, as far as they are known, the server that refused, how long to wait, and the server's text.
func (e *StatusError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%v: %s", ErrStatus, e.status())
	if e.Elsewhere != "" {
		fmt.Fprintf(&b, " by %s, where a redirect has led and no header was sent", e.Elsewhere)
	}
	if e.retryAfter > 0 {
		fmt.Fprintf(&b, ", to come back in %v", e.retryAfter.Round(time.Second))
	}
	if e.Text != "" {
		fmt.Fprintf(&b, ": %s", e.Text)
	}
	return b.String()
}

// status returns the code and its text, such as "404 Not Found".
func (e *StatusError) status() string {
	return strings.TrimSpace(fmt.Sprint(e.Code, " ", http.StatusText(e.Code)))
}

// Is reports whether target is ErrStatus, or the error of package fs that the code stands for: see StatusError. It serves errors.Is.
func (e *StatusError) Is(target error) bool {
	switch e.Code {
	case http.StatusUnauthorized, http.StatusForbidden:
		return target == ErrStatus || target == fs.ErrPermission
	case http.StatusNotFound, http.StatusGone:
		return target == ErrStatus || target == fs.ErrNotExist
	}
	return target == ErrStatus
}

const (
	maxText      = 300         // characters of a server's text that are shown
	maxTextBytes = 4 << 10     // bytes of it that are read
	maxTextWait  = time.Second // that it takes
)

// addText sets status.Text to the beginning of the body of resp, as far as that can be read. Text stays empty for HTML, for an encoded
// body, and for text that only repeats the status. addText sets status.Elsewhere to the server of resp if that is not the file's own.
// It does so too if the request lacked Options.Header. It sets watch, the timer that ends the request, to maxTextWait.
func (r *Reader) addText(status *StatusError, resp *http.Response, watch *time.Timer) {
	isElsewhere := origin(resp.Request.URL) != origin(r.url)
	for name := range r.opts.Header {
		isElsewhere = isElsewhere || resp.Request.Header[name] == nil
	}
	if isElsewhere {
		status.Elsewhere = origin(resp.Request.URL)
	}
	if contentEncoding(resp) == "" && !strings.Contains(resp.Header.Get("Content-Type"), "html") {
		watch.Reset(maxTextWait)
		text, _ := io.ReadAll(io.LimitReader(resp.Body, maxTextBytes)) // after an error, what came before it
		status.Text = excerpt(r.redact(string(text), resp.Request))
		if strings.Contains(strings.ToLower(status.status()), strings.ToLower(status.Text)) {
			status.Text = ""
		}
	}
}

// excerpt returns the first maxText characters of a server's text, in one line. Characters that do not print are escaped. It returns
// "" for bytes that are no text: invalid UTF-8, or a zero byte.
func excerpt(text string) string {
	var b strings.Builder
	n := 0
	for _, c := range strings.Join(strings.Fields(text), " ") {
		if n++; n > maxText {
			b.WriteString("…")
			break
		}
		switch {
		case c == utf8.RuneError || c == 0:
			return ""
		case unicode.IsPrint(c):
			b.WriteRune(c)
		default:
			escaped := strconv.QuoteRune(c)
			b.WriteString(escaped[1 : len(escaped)-1])
		}
	}
	return b.String()
}

// quoted returns the first maxText bytes of a server's text in quotes, with characters escaped that do not print.
func quoted(text string) string { return strconv.Quote(text[:min(len(text), maxText)]) }

// redact returns text, which a server has sent, with "…" in place of what may be secret. A response may repeat values of queries,
// passwords and headers. They are those of the file's address, of Options.Header, and of last, the request that the text answers.
func (r *Reader) redact(text string, last *http.Request) string {
	var secrets []string
	for _, u := range []*url.URL{r.url, last.URL} {
		secrets = append(secrets, u.RawQuery)
		for pair := range strings.SplitSeq(u.RawQuery, "&") {
			_, value, _ := strings.Cut(pair, "=")
			plain, _ := url.QueryUnescape(value)
			secrets = append(secrets, value, plain)
		}
		if password, ok := u.User.Password(); ok {
			secrets = append(secrets, password)
		}
	}
	for _, values := range append(slices.Collect(maps.Values(r.opts.Header)), last.Header["Authorization"], last.Header["X-Amz-Security-Token"]) {
		for _, value := range values {
			secrets = append(append(secrets, value), strings.Fields(value)...) // "Bearer …"
		}
	}
	if _, password, ok := (&http.Request{Header: r.opts.Header}).BasicAuth(); ok {
		secrets = append(secrets, password)
	}
	slices.SortFunc(secrets, func(a, b string) int { return len(b) - len(a) }) // a secret that contains another goes first
	var pairs []string
	for _, s := range secrets {
		if len(s) >= 4 { // else it is no secret, and may be in any word
			pairs = append(pairs, s, "…")
		}
	}
	return strings.NewReplacer(pairs...).Replace(text)
}
