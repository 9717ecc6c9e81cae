package remote

import (
	"fmt"
	"net/url"
	"path"
	"regexp"
	"strings"
)

// hubAddress is an address in the Hugging Face Hub.
type hubAddress struct {
	repo     string // org/name
	revision string // never empty
	file     string // slash-separated, "" if the address names none
}

// String returns the address as hf://ORG/NAME[@REVISION][/FILE], without the revision main.
func (a hubAddress) String() string {
	s := "hf://" + a.repo
	if a.revision != mainRevision {
		s += "@" + a.revision
	}
	return strings.TrimSuffix(s+"/"+a.file, "/")
}

const mainRevision = "main"

// parseHub parses rest, the part of an address after hf://, as huggingface_hub's HfFileSystem does. rest must be
// ORG/NAME[@REVISION][/FILE]. It drops models/ before ORG. The revision is main if there is none. a.file is "" if there is no FILE.
// parseHub fails for other text, and for data sets, spaces, kernels and buckets.
func parseHub(rest string) (a hubAddress, err error) {
	fail := func(format string, args ...any) (hubAddress, error) {
		return a, fmt.Errorf("hf://%s: %w", rest, fmt.Errorf(format, args...))
	}
	text := strings.TrimPrefix(rest, "models/")
	for _, other := range []string{"datasets", "spaces", "kernels", "buckets"} {
		if strings.HasPrefix(text, other+"/") {
			return fail("%s have no models that are opened by address", other)
		}
	}
	org, text, _ := strings.Cut(text, "/")
	name, afterName := text, "" // @REVISION, /FILE, or both
	if i := strings.IndexAny(text, "@/"); i >= 0 {
		name, afterName = text[:i], text[i:]
	}
	a.repo, a.revision = org+"/"+name, mainRevision // without "--", by which the cache replaces the slash
	if !repoPart.MatchString(org) || !repoPart.MatchString(name) || strings.Contains(a.repo, "--") || strings.Contains(a.repo, "..") {
		return fail("not ORG/NAME[@REVISION][/FILE]")
	}
	if revision, ok := strings.CutPrefix(afterName, "@"); ok {
		if a.revision, afterName, err = cutRevision(revision); err != nil {
			return fail("%w", err)
		}
	}
	if a.file = strings.Trim(afterName, "/"); a.file != "" {
		if err := checkName(a.file); err != nil {
			return fail("%w", err)
		}
	}
	return a, nil
}

// repoPart matches an organization and a model's name.
var repoPart = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9._-]{0,95}$`)

// cutRevision splits text, which is REVISION[/FILE], into revision and rest. revision has no percent-encoding; rest begins with the slash
// before FILE, or is "". A revision has no slash, but refs/pr/N and refs/convert/NAME have two. cutRevision fails for malformed
// percent-encoding, or if checkRevision refuses the revision.
func cutRevision(text string) (revision, rest string, err error) {
	n := 1 // parts of the revision
	if strings.HasPrefix(text, "refs/pr/") || strings.HasPrefix(text, "refs/convert/") {
		n = 3
	}
	parts := strings.SplitN(text, "/", n+1)
	if len(parts) > n {
		rest = "/" + parts[n]
		parts = parts[:n]
	}
	if revision, err = url.PathUnescape(strings.Join(parts, "/")); err == nil {
		err = checkRevision(revision)
	}
	return revision, rest, err
}

// checkRevision returns an error unless revision can be the path of a file below the folder refs of the cache, on any system.
func checkRevision(revision string) error {
	if revision == "" || len(revision) > 255 || revision != path.Clean(revision) || strings.HasPrefix(revision, "/") ||
		revision == "." || revision == ".." || strings.HasPrefix(revision, "../") || strings.ContainsAny(revision, "\\\x00:") {
		return fmt.Errorf("%q is no revision", revision)
	}
	return nil
}

// parseBrowserAddress parses u, an address at the Hub's endpoint as a browser shows or downloads it. It may be that of a model, a folder or
// a file. a.file is the path of the folder or file, or "" for the model. ok is false for every other address, and for a malformed one.
func parseBrowserAddress(u, endpoint *url.URL) (a hubAddress, ok bool) {
	if u.Host != endpoint.Host || u.Scheme != endpoint.Scheme || u.RawQuery != "" && u.RawQuery != "download=true" {
		return a, false
	}
	var parts []string // split before they are decoded: a revision may have encoded slashes
	for part := range strings.SplitSeq(strings.Trim(strings.TrimPrefix(u.EscapedPath(), endpoint.EscapedPath()), "/"), "/") {
		part, err := url.PathUnescape(part)
		if err != nil {
			return a, false
		}
		parts = append(parts, part)
	}
	if len(parts) < 2 || parts[0] == "api" || !repoPart.MatchString(parts[0]) || !repoPart.MatchString(parts[1]) {
		return a, false
	}
	text := parts[0] + "/" + parts[1]
	switch { // the path is ORG/NAME, ORG/NAME/tree/REVISION or ORG/NAME/blob/REVISION/FILE
	case len(parts) == 2:
	case len(parts) > 3 && parts[2] == "tree", len(parts) > 4 && (parts[2] == "blob" || parts[2] == "resolve"):
		text += "@" + url.PathEscape(parts[3]) + "/" + strings.Join(parts[4:], "/")
	default:
		return a, false
	}
	a, err := parseHub(text)
	return a, err == nil
}
