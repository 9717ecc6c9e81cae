package remote

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io/fs"
	"net"
	"net/url"
	"path/filepath"
	"regexp"
	"strings"
	"unicode"

	"github.com/opencontainers/go-digest"
	"github.com/tensormap/tensormap/loader/httprange"
)

// checkName returns an error unless name is a relative path with slashes that stays within its folder, and without control characters.
func checkName(name string) error {
	if strings.ContainsFunc(name, isControl) {
		return fmt.Errorf("%.80q, the name of a file, has control characters", name)
	}
	if !fs.ValidPath(name) || name == "." || strings.ContainsAny(name, "\\\x00") || !filepath.IsLocal(filepath.FromSlash(name)) {
		return fmt.Errorf("%.80q is no name of a file in a repository", name)
	}
	return nil
}

// isControl reports whether c controls the terminal, the direction of text, or line breaks: it is not safe to print.
func isControl(c rune) bool {
	return unicode.In(c, unicode.Cc, unicode.Bidi_Control, unicode.Zl, unicode.Zp)
}

// maxResponseBytes is the maximum size of a server's response that is a manifest or a page of a listing, in bytes.
const maxResponseBytes = 16 << 20

// maxPages is the maximum number of pages of a listing.
const maxPages = 1000

// maxListingBytes is the maximum number of bytes that the names in all pages of a listing take, with fileOverhead for each file.
var maxListingBytes = 64 << 20

// fileOverhead is the number of bytes that listingSize adds for a file in addition to the bytes of its texts: about what its objects take in
// memory.
const fileOverhead = 256

// listingSize counts the bytes of maxListingBytes that the files of a listing have taken.
type listingSize int

// addFile adds one file to the count: fileOverhead and the bytes of texts. It fails once the count exceeds maxListingBytes.
func (n *listingSize) addFile(texts ...string) error {
	*n += fileOverhead
	for _, text := range texts {
		*n += listingSize(len(text))
	}
	if int(*n) > maxListingBytes {
		return fmt.Errorf("%w: a listing of more names than fit in %d bytes, where each file takes %d in addition to its texts", httprange.ErrResponse, maxListingBytes, fileOverhead)
	}
	return nil
}

// forEachElement is a function that the decoder of JSON calls with each element of an array: many empty ones take no memory.
type forEachElement[T any] func(T) error

// UnmarshalJSON calls use with each element of the JSON array in text, one after the other. For null it calls nothing. It fails for
// malformed JSON, for JSON that is no array, or if use fails.
func (use forEachElement[T]) UnmarshalJSON(text []byte) error {
	d := json.NewDecoder(bytes.NewReader(text))
	if open, err := d.Token(); err != nil || open == nil { // nil is null
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
	_, err := d.Token() // the closing bracket
	return err
}

// withoutUser returns rest, an address after its scheme, without USER:PASSWORD@, which messages must not show.
func withoutUser(rest string) string {
	host, _, _ := strings.Cut(rest, "/")
	return rest[strings.LastIndexByte(host, '@')+1:]
}

// isLoopback reports whether host, with or without a port, is localhost or a loopback address.
func isLoopback(host string) bool {
	name := (&url.URL{Host: host}).Hostname()
	return name == "localhost" || net.ParseIP(name).IsLoopback() // false for what ParseIP refuses
}

// digestID matches the hexadecimal digits of a digest: git's SHA-1 of a blob, or SHA-256.
var digestID = regexp.MustCompile(`^([0-9a-f]{40}|[0-9a-f]{64})$`)

// sha256Digest matches a digest as registries write it.
var sha256Digest = regexp.MustCompile(`^sha256:[0-9a-f]{64}$`)

// derivedID returns an id for content whose digest is unknown: "v-" and the SHA-256 of its address and a validator, such as an ETag.
func derivedID(address, validator string) string {
	return "v-" + digest.FromString(address+"\n"+validator).Encoded()
}

// hostName matches the host of a registry, with or without a port.
var hostName = regexp.MustCompile(`^(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?)(:[0-9]{1,5})?$`)
