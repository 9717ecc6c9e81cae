package httprange

import (
	"errors"
	"fmt"
	"net/url"
)

// The reasons that a read fails for, beside those of the network.
var (
	ErrNoRanges = errors.New("the server does not answer range requests")
	ErrChanged  = errors.New("the file has changed on the server")
	ErrStatus   = errors.New("the server refuses")
	ErrResponse = errors.New("the server's answer makes no sense")
	ErrStalled  = errors.New("no data for too long")
)

// Error says which file could not be read where, and why.
type Error struct {
	URL    string // without password and query, which may be secrets
	Offset int64
	Err    error
}

func (e *Error) Error() string { return fmt.Sprintf("%s: offset %d: %v", e.URL, e.Offset, e.Err) }

func (e *Error) Unwrap() error { return e.Err }

// wrap adds file and offset to err. The client's errors repeat the address, query and all:
// only what they wrap is kept.
func (r *Reader) wrap(off int64, err error) error {
	var client *url.Error
	if errors.As(err, &client) {
		err = client.Err
	}
	return &Error{r.name, off, err}
}

// publicName is how messages call a file.
func publicName(u *url.URL) string {
	name := *u
	name.RawQuery, name.Fragment = "", ""
	return name.Redacted()
}

// passing reports whether trying again may help.
func passing(err error) bool {
	var status *statusError
	if errors.As(err, &status) {
		return status.passing()
	}
	return !errors.Is(err, ErrNoRanges) && !errors.Is(err, ErrChanged) && !errors.Is(err, ErrResponse)
}
