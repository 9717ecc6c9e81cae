package httprange

import (
	"net/http"
	"strings"
	"time"
)

// version is what a server says that tells one version of a file from another.
type version struct {
	etag     string
	modified string
	strong   bool // no other version has the same: by the ETag, or by the date, which is over
}

// versionOf returns the version that the headers ETag and Last-Modified of resp tell. The version is strong if the ETag is strong. It is
// also strong if Last-Modified is a second or more before the response's Date (RFC 9110, section 8.8.2.2). Without the two headers,
// versionOf returns the zero value.
func versionOf(resp *http.Response) version {
	v := version{etag: resp.Header.Get("ETag"), modified: resp.Header.Get("Last-Modified")}
	modified, err1 := http.ParseTime(v.modified)
	date, err2 := http.ParseTime(resp.Header.Get("Date"))
	v.strong = v.strongETag() || err1 == nil && err2 == nil && date.Sub(modified) >= time.Second
	return v
}

// strongETag reports whether the server promises that no other version has the ETag. It reports false for none, a weak or a malformed one.
func (v version) strongETag() bool { return strings.HasPrefix(v.etag, `"`) }

// encode returns the text for Reader.Version, which parseVersion reads. The text is the strong ETag, or else the date. If there is a weak
// ETag too, it follows the date in a second line. encode returns "" if v is not strong.
func (v version) encode() string {
	switch {
	case v.strongETag():
		return v.etag
	case v.strong:
		return strings.TrimSuffix(v.modified+"\n"+v.etag, "\n")
	}
	return ""
}

// parseVersion returns the strong version that encode has made text of. text is a strong ETag, or a date in HTTP's format, which a second
// line with a weak ETag may follow. For any other text, such as "", the result is not strong, and the caller must not use it.
func parseVersion(text string) version {
	v := version{etag: text, strong: true}
	if !v.strongETag() {
		v.modified, v.etag, _ = strings.Cut(text, "\n")
		_, err := http.ParseTime(v.modified)
		v.strong = err == nil
	}
	return v
}

// condition sets a header of req by which the server refuses req if the file has another version: If-Match or If-Unmodified-Since. It sets
// none if v has neither a strong ETag nor a date. A weak ETag must not be a condition (RFC 9110, section 13.1.1): checkOrStoreVersion
// compares weak ones.
func (v version) condition(req *http.Request) {
	switch {
	case v.strongETag():
		req.Header.Set("If-Match", v.etag)
	case v.modified != "":
		req.Header.Set("If-Unmodified-Since", v.modified)
	}
}

// String returns the version's headers for messages, or "neither ETag nor Last-Modified".
func (v version) String() string {
	var said []string
	if v.etag != "" {
		said = append(said, "ETag "+quoted(v.etag))
	}
	if v.modified != "" {
		said = append(said, "Last-Modified "+quoted(v.modified))
	}
	if said == nil {
		return "neither ETag nor Last-Modified"
	}
	return strings.Join(said, " and ")
}
