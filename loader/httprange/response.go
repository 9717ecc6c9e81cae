package httprange

import (
	"fmt"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// byteRange is a Content-Range: n bytes from first on, of total.
type byteRange struct{ first, n, total int64 }

// rangeIn returns the range of the file that resp has. limit is in bytes. A server without ranges sends the whole file instead: isWhole is
// then true, if the file has at most limit bytes. isWhole is also true for status 416 of an empty file. For a larger file without ranges,
// rangeIn fails with ErrNoRanges. For a status other than 200 and 206 it fails as statusError says. It fails with ErrResponse for an
// encoded or malformed range, and for several ranges. With status 200 it also does so for a range that is not as long as the body.
func rangeIn(resp *http.Response, limit int64) (rng byteRange, isWhole bool, err error) {
	n, encoding, kind := resp.ContentLength, contentEncoding(resp), resp.Header.Get("Content-Type")
	text := strings.Join(resp.Header["Content-Range"], ", ")
	switch {
	case resp.StatusCode == http.StatusRequestedRangeNotSatisfiable && text == "bytes */0":
		return rng, true, nil
	case resp.StatusCode == http.StatusOK && !hasRange(resp):
		if 0 <= n && n <= limit && encoding == "" {
			return byteRange{0, n, n}, true, nil
		}
		return rng, false, ErrNoRanges
	case !hasRange(resp):
		return rng, false, statusError(resp)
	case encoding != "":
		return rng, false, fmt.Errorf("%w: Content-Encoding %s of a range", ErrResponse, quoted(encoding))
	case strings.HasPrefix(strings.ToLower(kind), "multipart/byteranges"): // the body is not the range
		return rng, false, fmt.Errorf("%w: Content-Type %s for one range", ErrResponse, quoted(kind))
	}
	rng, ok := parseContentRange(text)
	switch {
	case !ok:
		err = fmt.Errorf("%w: Content-Range %s", ErrResponse, quoted(text))
	case resp.StatusCode == http.StatusOK && n != rng.n:
		err = fmt.Errorf("%w: status 200 and Content-Range %s, with %d bytes", ErrResponse, quoted(text), n)
	}
	return rng, false, err
}

// hasRange reports whether resp says that it is a range: by status 206, or by a Content-Range with status 200, as some servers and
// proxies send.
func hasRange(resp *http.Response) bool {
	return resp.StatusCode == http.StatusPartialContent || resp.StatusCode == http.StatusOK && resp.Header["Content-Range"] != nil
}

// statusError returns the error of a response with a status that was not expected. For a status from 300 on, the error is a *StatusError.
// Its Text is empty until addText sets it. For a lower status the error is ErrResponse: such a response refuses nothing, and its body gives
// no reason.
func statusError(resp *http.Response) error {
	if resp.StatusCode < http.StatusMultipleChoices {
		return fmt.Errorf("%w: unexpected status %d %s", ErrResponse, resp.StatusCode, http.StatusText(resp.StatusCode))
	}
	return &StatusError{Code: resp.StatusCode, Header: resp.Header, retryAfter: retryAfter(resp)}
}

var contentRange = regexp.MustCompile(`(?i)^bytes ([0-9]{1,18})-([0-9]{1,18})/([0-9]{1,18})$`) // 18 digits fit in an int64

// parseContentRange parses "bytes FIRST-LAST/TOTAL". ok is false if text is something else, if FIRST is more than LAST, or if LAST is
// not less than TOTAL.
func parseContentRange(text string) (_ byteRange, ok bool) {
	match := contentRange.FindStringSubmatch(text)
	if match == nil {
		return byteRange{}, false
	}
	var n [3]int64
	for i, digits := range match[1:] {
		n[i], _ = strconv.ParseInt(digits, 10, 64) // never fails for what contentRange matches
	}
	first, last, total := n[0], n[1], n[2]
	return byteRange{first, last - first + 1, total}, first <= last && last < total
}

// checkWithin returns an error unless the range begins at off and has at most n bytes: a server may send fewer.
func (b byteRange) checkWithin(off, n int64) error {
	if b.first != off || b.n > n {
		return fmt.Errorf("%w: bytes %d to %d where %d to %d were asked for", ErrResponse, b.first, b.first+b.n, off, off+n)
	}
	return nil
}

// contentEncoding returns the Content-Encoding of resp, or "" if the body is the file's own bytes. It leaves out the encoding identity. It
// also leaves out aws-chunked, which describes the request that stored an object: servers of S3's protocol may repeat it (S3's API,
// PutObject).
func contentEncoding(resp *http.Response) string {
	var all []string
	for e := range strings.SplitSeq(strings.Join(resp.Header["Content-Encoding"], ","), ",") {
		if e = strings.TrimSpace(e); e != "" && !strings.EqualFold(e, "identity") && !strings.EqualFold(e, "aws-chunked") {
			all = append(all, e)
		}
	}
	return strings.Join(all, ", ")
}

// retryAfter returns how long the header Retry-After of resp, seconds or a date, asks to wait. It returns 0 without that header, for a
// malformed one, for more than 2³¹ seconds, and for a date that is past.
func retryAfter(resp *http.Response) time.Duration {
	text := resp.Header.Get("Retry-After")
	if seconds, err := strconv.ParseUint(text, 10, 31); err == nil {
		return time.Duration(seconds) * time.Second
	}
	if at, err := http.ParseTime(text); err == nil {
		return max(0, time.Until(at))
	}
	return 0
}
