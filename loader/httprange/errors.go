package httprange

import (
	"crypto/tls"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/tensormap/tensormap/mmapio"
)

// The reasons for which a read fails, other than errors of the network.
var (
	ErrNoRanges    = errors.New("the server does not answer range requests")
	ErrChanged     = mmapio.ErrChanged
	ErrUnversioned = errors.New("the server does not tell versions of the file apart") // see Options.RequireVersion
	ErrStatus      = errors.New("the server refuses")                                  // of every StatusError
	ErrResponse    = errors.New("the server's answer makes no sense")
	ErrStalled     = errors.New("the server makes no progress")
)

// Error says where a file could not be read, and why. It comes in a *[fs.PathError], whose
// path is the file's Name: the reader's errors look like the errors of an *os.File.
type Error struct {
	Offset int64 // in the file, in bytes
	Err    error
}

func (e *Error) Error() string { return fmt.Sprintf("offset %d: %v", e.Offset, e.Err) }

func (e *Error) Unwrap() error { return e.Err }

// wrap returns err, the error of a read at offset off, as a *fs.PathError with the file's name. In it is an *Error with off and err. wrap
// leaves out the address in err, which may have secrets.
func (r *Reader) wrap(off int64, err error) error {
	return &fs.PathError{Op: "read", Path: r.name, Err: &Error{off, withoutAddress(err)}}
}

// withoutAddress returns the error inside a *url.Error, if err has one, else err. The rest of a *url.Error is the address, which may
// have secrets.
func withoutAddress(err error) error {
	if client, ok := errors.AsType[*url.Error](err); ok {
		return client.Err
	}
	return err
}

// NameOf returns the name that messages give the file at address, as Reader.Name does: the address without user, password and query.
// It returns "(not an address)" for what is none.
func NameOf(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return "(not an address)"
	}
	return publicName(u)
}

// publicName returns the name that messages give a file: its address without user, password and query, which may be secrets.
// The path is unescaped if all of its characters print. Otherwise it is escaped: it might control a terminal.
func publicName(u *url.URL) string {
	file := u.Path
	if strings.ContainsFunc(file, func(r rune) bool { return !unicode.IsPrint(r) }) {
		file = u.EscapedPath()
	}
	return u.Scheme + "://" + u.Host + file
}

// isTemporary reports whether a request that failed with err may succeed later. A refusal is temporary with status 408 or 429, and from 500
// on, but not with 501. Other errors are temporary with these exceptions: an unknown host, a bad certificate, an error of the caller's
// writer, ErrNoRanges, ErrChanged, ErrUnversioned and ErrResponse.
func isTemporary(err error) bool {
	if status, ok := errors.AsType[*StatusError](err); ok {
		return status.Code >= 500 && status.Code != http.StatusNotImplemented ||
			status.Code == http.StatusTooManyRequests || status.Code == http.StatusRequestTimeout
	}
	if host, ok := errors.AsType[*net.DNSError](err); ok && host.IsNotFound ||
		errors.As(err, new(*tls.CertificateVerificationError)) || errors.As(err, new(*writeError)) {
		return false
	}
	for _, lasting := range []error{ErrNoRanges, ErrChanged, ErrUnversioned, ErrResponse} {
		if errors.Is(err, lasting) {
			return false
		}
	}
	return true
}

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
	text := ErrStatus.Error() + ": " + e.status()
	if e.Elsewhere != "" {
		text += " by " + e.Elsewhere + ", where a redirect has led and no header was sent"
	}
	if e.retryAfter > 0 {
		text += ", to come back in " + e.retryAfter.Round(time.Second).String()
	}
	if e.Text != "" {
		text += ": " + e.Text
	}
	return text
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

// addText sets status.Text to the beginning of the body of resp, as far as the body can be read. Text stays empty for HTML, for an encoded
// body, and for text that only repeats the status. addText sets status.Elsewhere to the server of resp in two cases: the server is not the
// file's own, or the request lacked Options.Header. To limit the reading, addText sets watch, the timer that ends the request, to
// maxTextWait.
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

// redact returns text, which a server has sent, with "…" in place of possible secrets. The text may repeat values of queries, passwords and
// headers. redact takes the secrets from the file's address, from Options.Header, and from last, the request that text answers. It leaves
// values of fewer than 4 bytes.
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
			secrets = append(secrets, password, base64.StdEncoding.EncodeToString([]byte(u.User.Username()+":"+password)))
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
