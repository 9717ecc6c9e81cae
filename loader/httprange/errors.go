package httprange

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"strings"
	"unicode"

	"github.com/tensormap/tensormap/mmapio"
)

// The reasons for which a read fails, beside errors of the network.
var (
	ErrNoRanges    = errors.New("the server does not answer range requests")
	ErrChanged     = mmapio.ErrChanged
	ErrUnversioned = errors.New("the server does not tell versions of the file apart") // see Options.RequireVersion
	ErrStatus      = errors.New("the server refuses")                                  // of every StatusError
	ErrResponse    = errors.New("the server's answer makes no sense")
	ErrStalled     = errors.New("the server makes no progress")
)

// Error says where a file could not be read, and why. It comes in a *[fs.PathError], whose
// path is the file's Name: the reader's errors look like those of an *os.File.
type Error struct {
	Offset int64 // in the file, in bytes
	Err    error
}

func (e *Error) Error() string { return fmt.Sprintf("offset %d: %v", e.Offset, e.Err) }

func (e *Error) Unwrap() error { return e.Err }

// wrap returns a *fs.PathError with the file's name. It wraps an *Error with the offset off, which wraps err, the error of a read there.
// wrap leaves out the address, which may have secrets.
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

// isTemporary reports whether the request that failed with err may succeed later. A refusal is temporary with status 408 or 429, and from
// 500 on, but not with 501.
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
