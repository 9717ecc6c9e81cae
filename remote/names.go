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

// checkName makes sure that the name of a file in a folder leads out of no folder, and is safe to print.
func checkName(name string) error {
	if strings.ContainsFunc(name, controls) {
		return fmt.Errorf("%.80q, the name of a file, has control characters", name)
	}
	if !fs.ValidPath(name) || name == "." || strings.ContainsAny(name, "\\\x00") || !filepath.IsLocal(filepath.FromSlash(name)) {
		return fmt.Errorf("%.80q is no name of a file in a repository", name)
	}
	return nil
}

// controls reports whether a terminal may do something else than show the character: what controls it, the direction of
// text, or its lines.
func controls(c rune) bool {
	return unicode.In(c, unicode.Cc, unicode.Bidi_Control, unicode.Zl, unicode.Zp)
}

// maxAnswer bounds one answer of the API: a page of a listing has 1,000 files.
const maxAnswer = 16 << 20

// maxPages bounds a listing.
const maxPages = 1000

// maxNames bounds what the names in a listing take, in bytes: of all its pages, whatever its source.
var maxNames = 64 << 20

// minName is what a file counts for beside its texts: what is made of it takes more than that.
const minName = 256

// names counts what the files of a listing have taken of maxNames.
type names int

// take counts a file.
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

// eachElement calls use with the elements of a JSON array, one by one: an answer of many that say nothing takes no more memory
// than its text.
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

// withoutUser returns what follows a scheme as messages show it: without user and password before the host.
func withoutUser(rest string) string {
	host, path, ok := strings.Cut(rest, "/")
	host = host[strings.LastIndexByte(host, '@')+1:]
	if ok {
		return host + "/" + path
	}
	return host
}

// isLoopback reports whether host, with or without a port, is this machine.
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

var sha256Digest = regexp.MustCompile(`^sha256:[0-9a-f]{64}$`)

func digestOf(body []byte) string {
	sum := sha256.Sum256(body)
	return "sha256:" + hex.EncodeToString(sum[:])
}

// identity returns the id of content that its address and a strong validator tell from other content.
func identity(address, validator string) string {
	sum := sha256.Sum256([]byte(address + "\n" + validator))
	return "v-" + hex.EncodeToString(sum[:])
}

// hostName matches the host of a registry, with or without a port.
var hostName = regexp.MustCompile(`^(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?)(:[0-9]{1,5})?$`)
