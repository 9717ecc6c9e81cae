package remote

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io/fs"
	"net"
	"path/filepath"
	"regexp"
	"strings"
	"unicode"

	"github.com/tensormap/tensormap/loader/httprange"
)

// checkName returns an error unless name is a relative path within its folder, with slashes, that is safe to print.
func checkName(name string) error {
	if strings.ContainsFunc(name, controls) {
		return fmt.Errorf("%.80q, the name of a file, has control characters", name)
	}
	if !fs.ValidPath(name) || name == "." || strings.ContainsAny(name, "\\\x00") || !filepath.IsLocal(filepath.FromSlash(name)) {
		return fmt.Errorf("%.80q is no name of a file in a repository", name)
	}
	return nil
}

// controls reports whether a terminal may not show c as a character: controls of the terminal, of the direction of
// text, or of lines.
func controls(c rune) bool {
	return unicode.In(c, unicode.Cc, unicode.Bidi_Control, unicode.Zl, unicode.Zp)
}

// maxAnswer is the maximum size of a server's response that is a manifest or a page of a listing, in bytes.
const maxAnswer = 16 << 20

// maxPages is the maximum number of pages of a listing.
const maxPages = 1000

// maxNames is the maximum of bytes that the names in all pages of a listing take.
var maxNames = 64 << 20

// minName is the number of bytes that a file of a listing counts for, beside its texts.
const minName = 256

// names counts the bytes of maxNames that the files of a listing have taken.
type names int

// take adds the bytes that a file's texts take, and minName, to the count. It fails once the count exceeds maxNames.
func (n *names) take(texts ...string) error {
	*n += minName
	for _, text := range texts {
		*n += names(len(text))
	}
	if int(*n) > maxNames {
		return fmt.Errorf("%w: a listing of more names than fit in %d bytes, of which each file takes %d and its texts", httprange.ErrResponse, maxNames, minName)
	}
	return nil
}

// eachElement calls use with the elements of a JSON array, one by one. An array of empty elements takes no more
// memory than its text. null has no elements.
func eachElement[T any](text []byte, use func(T) error) error {
	d := json.NewDecoder(bytes.NewReader(text))
	if open, err := d.Token(); err != nil || open == nil { // null
		return err
	} else if open != json.Delim('[') {
		return fmt.Errorf("%v, not a list", open)
	}
	var element, none T
	for ; d.More(); element = none {
		if err := d.Decode(&element); err != nil {
			return err
		}
		if err := use(element); err != nil {
			return err
		}
	}
	return nil
}

// withoutUser returns rest, an address after its scheme, without user and password, which messages must not show.
func withoutUser(rest string) string {
	host, path, ok := strings.Cut(rest, "/")
	host = host[strings.LastIndexByte(host, '@')+1:]
	if ok {
		return host + "/" + path
	}
	return host
}

// isLoopback reports whether host, with or without a port, is localhost or a loopback address.
func isLoopback(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	host = strings.Trim(host, "[]")
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// digestID matches git's id of a blob, and SHA-256.
var digestID = regexp.MustCompile(`^([0-9a-f]{40}|[0-9a-f]{64})$`)

// sha256Digest matches a digest as registries write it.
var sha256Digest = regexp.MustCompile(`^sha256:[0-9a-f]{64}$`)

// digestOf returns the SHA-256 of body, as registries write it.
func digestOf(body []byte) string {
	sum := sha256.Sum256(body)
	return "sha256:" + hex.EncodeToString(sum[:])
}

// identity returns an id of content that has no known digest: it is that of an address and a strong validator.
func identity(address, validator string) string {
	sum := sha256.Sum256([]byte(address + "\n" + validator))
	return "v-" + hex.EncodeToString(sum[:])
}

// hostName matches the host of a registry, with or without a port.
var hostName = regexp.MustCompile(`^(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?)(:[0-9]{1,5})?$`)
