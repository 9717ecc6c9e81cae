package httprange

import (
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// byteRange is a Content-Range: n bytes from first on, of total.
type byteRange struct{ first, n, total int64 }

// rangeIn returns the range of the file that resp has. isWhole is true if resp has no Content-Range, but the whole file, of at most
// limit bytes. For any other response, rangeIn fails as partialRange does.
func rangeIn(resp *http.Response, limit int64) (rng byteRange, isWhole bool, err error) {
	if rng, isWhole = wholeFileRange(resp, limit); !isWhole {
		rng, err = partialRange(resp)
	}
	return rng, isWhole, err
}

// partialRange returns the range that the Content-Range of resp states. It fails with ErrNoRanges for status 200 without that header.
// For any other status but 206 it fails as statusError says. It fails with ErrResponse if the range is encoded, malformed, one of
// several, or not as long as the body.
func partialRange(resp *http.Response) (byteRange, error) {
	switch resp.StatusCode {
	case http.StatusPartialContent: // goes on below
	case http.StatusOK:
		if !hasRange(resp) {
			return byteRange{}, ErrNoRanges
		}
	default:
		return byteRange{}, statusError(resp)
	}
	if e := contentEncoding(resp); e != "" {
		return byteRange{}, fmt.Errorf("%w: Content-Encoding %s of a range", ErrResponse, quoted(e))
	}
	if kind := resp.Header.Get("Content-Type"); strings.HasPrefix(strings.ToLower(kind), "multipart/byteranges") {
		return byteRange{}, fmt.Errorf("%w: Content-Type %s for one range", ErrResponse, quoted(kind)) // the body is not the range
	}
	text := strings.Join(resp.Header["Content-Range"], ", ")
	rng, ok := parseContentRange(text)
	if !ok {
		return byteRange{}, fmt.Errorf("%w: Content-Range %s", ErrResponse, quoted(text))
	}
	if resp.StatusCode == http.StatusOK && resp.ContentLength != rng.n {
		return byteRange{}, fmt.Errorf("%w: status 200 and Content-Range %s, with %d bytes", ErrResponse, quoted(text), resp.ContentLength)
	}
	return rng, nil
}

// hasRange reports whether resp says that it is a range: by status 206, or by a Content-Range beside status 200, as some servers and
// proxies send.
func hasRange(resp *http.Response) bool {
	return resp.StatusCode == http.StatusPartialContent || resp.StatusCode == http.StatusOK && resp.Header["Content-Range"] != nil
}

// statusError returns the error of a response whose status is not the one that was expected. It is a *StatusError for a status from 300
// on, whose Text is empty until addText sets it. It is ErrResponse for a lower status: that refuses nothing, and its body is no reason.
func statusError(resp *http.Response) error {
	if resp.StatusCode < http.StatusMultipleChoices {
		return fmt.Errorf("%w: unexpected status %d %s", ErrResponse, resp.StatusCode, http.StatusText(resp.StatusCode))
	}
	return &StatusError{Code: resp.StatusCode, Header: resp.Header, retryAfter: retryAfter(resp)}
}

// parseContentRange parses "bytes FIRST-LAST/TOTAL". ok is false if text is something else, if FIRST is more than LAST, or if LAST is
// not less than TOTAL.
func parseContentRange(text string) (_ byteRange, ok bool) {
	unit, rest, ok1 := strings.Cut(text, " ")
	bounds, totalText, ok2 := strings.Cut(rest, "/")
	firstText, lastText, ok3 := strings.Cut(bounds, "-")
	if !ok1 || !ok2 || !ok3 || !strings.EqualFold(unit, "bytes") {
		return byteRange{}, false
	}
	first, err1 := strconv.ParseUint(firstText, 10, 63)
	last, err2 := strconv.ParseUint(lastText, 10, 63)
	total, err3 := strconv.ParseUint(totalText, 10, 63)
	if errors.Join(err1, err2, err3) != nil || first > last || last >= total {
		return byteRange{}, false
	}
	return byteRange{int64(first), int64(last - first + 1), int64(total)}, true
}

// checkWithin returns an error unless the range begins at off and has at most n bytes: a server may send fewer.
func (b byteRange) checkWithin(off, n int64) error {
	if b.first != off || b.n > n {
		return fmt.Errorf("%w: bytes %d to %d where %d to %d were asked for", ErrResponse, b.first, b.first+b.n, off, off+n)
	}
	return nil
}

// wholeFileRange returns the range of a response that has a whole file of at most limit bytes, as servers without ranges send it. For
// status 416 of an empty file, which has no range, it returns the zero range. ok is false for any other response.
func wholeFileRange(resp *http.Response, limit int64) (_ byteRange, ok bool) {
	switch n := resp.ContentLength; resp.StatusCode {
	case http.StatusOK:
		return byteRange{0, n, n}, 0 <= n && n <= limit && contentEncoding(resp) == "" && !hasRange(resp)
	case http.StatusRequestedRangeNotSatisfiable:
		return byteRange{}, resp.Header.Get("Content-Range") == "bytes */0"
	}
	return byteRange{}, false
}

// contentEncoding returns the Content-Encoding of resp, or "" if the body is the file's own bytes. It leaves out identity, and
// aws-chunked: servers that speak S3's protocol may repeat that from the request that stored the object (S3's API, PutObject).
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
