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
)

// StatusError is an answer that is no part of the file. It is [ErrStatus] for errors.Is, and
// by its code fs.ErrPermission or fs.ErrNotExist.
type StatusError struct {
	Code   int         // such as 404
	Header http.Header // of the answer
	// Text is the beginning of the answer's text, in one line, with everything escaped that
	// does not print. It leaves out what the request's address and Options.Header may keep
	// secret. It is empty of a page for browsers, and if it says no more than the code.
	Text string
	// Elsewhere is the server that refused, if redirects had led to it from another one:
	// Options.Header was not sent to it.
	Elsewhere string

	after time.Duration // that the server asks to wait
}

func (e *StatusError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%v: %s", ErrStatus, e.status())
	if e.Elsewhere != "" {
		fmt.Fprintf(&b, " by %s, where a redirect has led and no header was sent", e.Elsewhere)
	}
	if e.after > 0 {
		fmt.Fprintf(&b, ", to come back in %v", e.after.Round(time.Second))
	}
	if e.Text != "" {
		fmt.Fprintf(&b, ": %s", e.Text)
	}
	return b.String()
}

// status returns code and its meaning.
func (e *StatusError) status() string {
	return strings.TrimSpace(fmt.Sprint(e.Code, " ", http.StatusText(e.Code)))
}

// Is reports whether target says the same, as errors.Is asks.
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

// addText adds what the server says in resp.
func (r *Reader) addText(status *StatusError, resp *http.Response, watch *time.Timer) {
	if r.withheld(resp.Request) || origin(resp.Request.URL) != origin(r.url) {
		status.Elsewhere = origin(resp.Request.URL)
	}
	if encoding(resp) == "" && !strings.Contains(resp.Header.Get("Content-Type"), "html") {
		watch.Reset(maxTextWait)
		text, _ := io.ReadAll(io.LimitReader(resp.Body, maxTextBytes))
		status.Text = excerpt(r.redact(string(text), resp.Request))
		if strings.Contains(strings.ToLower(status.status()), strings.ToLower(status.Text)) {
			status.Text = ""
		}
	}
}

// excerpt returns the beginning of a server's text, printable and in one line.
func excerpt(text string) string {
	var b strings.Builder
	n := 0
	for _, c := range strings.Join(strings.Fields(text), " ") {
		if n++; n > maxText {
			b.WriteString("…")
			break
		}
		if unicode.IsPrint(c) {
			b.WriteRune(c)
		} else {
			escaped := strconv.QuoteRune(c)
			b.WriteString(escaped[1 : len(escaped)-1])
		}
	}
	return b.String()
}

// quoted returns the beginning of what a server says, in quotes.
func quoted(text string) string { return strconv.Quote(text[:min(len(text), maxText)]) }

// redact cuts out of text what the requests for the file have said that may be secret: an
// answer may repeat it. asked is the last one.
func (r *Reader) redact(text string, asked *http.Request) string {
	var said []string
	for _, u := range []*url.URL{r.url, asked.URL} {
		said = append(said, u.RawQuery)
		for pair := range strings.SplitSeq(u.RawQuery, "&") {
			_, value, _ := strings.Cut(pair, "=")
			plain, _ := url.QueryUnescape(value)
			said = append(said, value, plain)
		}
		if password, ok := u.User.Password(); ok {
			said = append(said, password)
		}
	}
	for _, values := range append(slices.Collect(maps.Values(r.opts.Header)), asked.Header["Authorization"], asked.Header["X-Amz-Security-Token"]) {
		for _, value := range values {
			said = append(append(said, value), strings.Fields(value)...) // "Bearer …"
		}
	}
	if _, password, ok := (&http.Request{Header: r.opts.Header}).BasicAuth(); ok {
		said = append(said, password)
	}
	slices.SortFunc(said, func(a, b string) int { return len(b) - len(a) }) // what has another in it goes first
	var pairs []string
	for _, s := range said {
		if len(s) >= 4 { // else it is no secret, and may be in any word
			pairs = append(pairs, s, "…")
		}
	}
	return strings.NewReplacer(pairs...).Replace(text)
}
