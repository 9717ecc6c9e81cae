package remote

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/tensormap/tensormap/loader/httprange"
	"github.com/tensormap/tensormap/remote/internal/rooted"
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

// hubPattern matches an address after hf:// and models/. Its groups are ORG/NAME, @REVISION and /FILE. A revision has no slash, but
// refs/pr/N and refs/convert/NAME have two.
var hubPattern = regexp.MustCompile(`^(\w[\w.-]{0,95}/\w[\w.-]{0,95})(@(?:refs/(?:pr|convert)/)?[^/]*)?(/.*)?$`)

// parseHub parses rest, the part of an address after hf://, as huggingface_hub's HfFileSystem does. rest must be
// ORG/NAME[@REVISION][/FILE]. It drops models/ before ORG. The revision is main if there is none. a.file is "" if there is no FILE.
// parseHub fails for other text, and for data sets, spaces, kernels and buckets.
func parseHub(rest string) (a hubAddress, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("hf://%s: %w", rest, err)
		}
	}()
	text := strings.TrimPrefix(rest, "models/")
	if kind, _, _ := strings.Cut(text, "/"); slices.Contains([]string{"datasets", "spaces", "kernels", "buckets"}, kind) {
		return a, fmt.Errorf("%s have no models that are opened by address", kind)
	}
	match := hubPattern.FindStringSubmatch(text)
	if match == nil || strings.Contains(match[1], "--") || strings.Contains(match[1], "..") { // the cache replaces the slash by "--"
		return a, errors.New("not ORG/NAME[@REVISION][/FILE]")
	}
	a = hubAddress{match[1], mainRevision, strings.Trim(match[3], "/")}
	if revision, ok := strings.CutPrefix(match[2], "@"); ok {
		a.revision, err = url.PathUnescape(revision)
		// It must be the path of a file below the folder refs of the cache, on any system.
		if r := a.revision; err == nil && (!fs.ValidPath(r) || r == "." || len(r) > 255 || strings.ContainsAny(r, "\\\x00:")) {
			err = fmt.Errorf("%q is no revision", r)
		}
		if err != nil {
			return a, err
		}
	}
	if a.file != "" {
		err = checkName(a.file)
	}
	return a, err
}

// browserPath matches the path, with its percent-encoding, of a model's page, of a folder or file in it, or of a download. Its groups are
// repository, revision and folder, and revision and file.
var browserPath = regexp.MustCompile(`^/([\w.-]+/[\w.-]+)(?:/tree/([^/]+)(/.*)?|/(?:blob|resolve)/([^/]+)(/.+))?$`)

// parseBrowserAddress parses u, the address of a model, a folder or a file at the Hub's endpoint, as a browser shows or downloads it.
// a.file is the path of the folder or file, or "" for the model. ok is false for every other address, and for a malformed one.
func parseBrowserAddress(u, endpoint *url.URL) (a hubAddress, ok bool) {
	if u.Host != endpoint.Host || u.Scheme != endpoint.Scheme || u.RawQuery != "" && u.RawQuery != "download=true" {
		return a, false
	}
	encoded := "/" + strings.Trim(strings.TrimPrefix(u.EscapedPath(), endpoint.EscapedPath()), "/")
	match := browserPath.FindStringSubmatch(encoded)
	if match == nil || strings.HasPrefix(encoded, "/api/") {
		return a, false
	}
	text := match[1]
	if revision := match[2] + match[4]; revision != "" { // it stays encoded: it may have encoded slashes
		file, err := url.PathUnescape(match[3] + match[5])
		if err != nil {
			return a, false
		}
		text += "@" + revision + file
	}
	a, err := parseHub(text)
	return a, err == nil
}

// hub is the Hugging Face Hub, and its cache on this machine.
type hub struct {
	endpoint *url.URL
	cache    rooted.Path // the folder of the repositories
	token    string
	opts     *Options
	http     *httprange.Options // of opts, with the token unless they have a header Authorization
}

// newHub returns the Hub that the environment describes, as huggingface_hub reads it. It fails if HF_ENDPOINT is no address, or if the
// file of the token exists and cannot be read. It also fails if there is no home directory and none of HF_HOME and XDG_CACHE_HOME is set.
func newHub(o *Options) (*hub, error) {
	h := &hub{opts: o, http: o.HTTP}
	endpoint := envOr("HF_ENDPOINT", "https://huggingface.co")
	var err error
	if h.endpoint, err = url.Parse(strings.TrimSuffix(endpoint, "/")); err != nil || h.endpoint.Host == "" {
		return nil, errors.New("HF_ENDPOINT is no address")
	}
	user, err := os.UserHomeDir()
	if err != nil && os.Getenv("HF_HOME") == "" && os.Getenv("XDG_CACHE_HOME") == "" {
		return nil, err
	}
	caches := envOr("XDG_CACHE_HOME", filepath.Join(user, ".cache")) // on every system, as huggingface_hub has it
	home := envOr("HF_HOME", filepath.Join(caches, "huggingface"))
	h.cache.Dir = envOr("HF_HUB_CACHE", envOr("HUGGINGFACE_HUB_CACHE", filepath.Join(home, "hub")))
	if h.token = envOr("HF_TOKEN", os.Getenv("HUGGING_FACE_HUB_TOKEN")); h.token == "" {
		text, err := os.ReadFile(envOr("HF_TOKEN_PATH", filepath.Join(home, "token")))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
		h.token = string(text)
	}
	if h.token = strings.TrimSpace(h.token); h.token != "" && o.HTTP.Header.Get("Authorization") == "" {
		h.http = withHeader(*o.HTTP, "Authorization", "Bearer "+h.token)
	}
	return h, nil
}

// getJSON decodes the JSON that the Hub's API has at address into the value that into points to. next is the address of the next page,
// which a response's header Link names (RFC 8288). next is "" after the last page. getJSON returns errOffline offline. It fails if the
// request does, and for malformed JSON. It also fails if the address of the next page is malformed or leads to another server.
func (h *hub) getJSON(ctx context.Context, address string, into any) (next string, err error) {
	if isOffline() {
		return "", errOffline
	}
	body, head, err := httprange.Get(ctx, address, maxResponseBytes, h.http)
	if err != nil {
		return "", h.explain(err)
	}
	if err := json.Unmarshal(body, into); err != nil {
		return "", fmt.Errorf("%s: %w: %v", httprange.NameOf(address), httprange.ErrResponse, err)
	}
	link := nextLink.FindStringSubmatch(strings.Join(head.Values("Link"), ","))
	if link == nil {
		return "", nil
	}
	u, err := h.endpoint.Parse(link[1])
	if err != nil || u.Scheme != h.endpoint.Scheme || u.Host != h.endpoint.Host {
		return "", fmt.Errorf("%w: the next page of a listing is on another server", httprange.ErrResponse)
	}
	return u.String(), nil
}

// nextLink matches the link to the next page in a header Link. Its group is the address.
var nextLink = regexp.MustCompile(`<([^>]*)>[^,]*rel="next"`)

// explain returns err with the meaning that its code has at the Hub, if err is a *httprange.StatusError with a known code. It returns other
// errors as they are, and nil for nil.
func (h *hub) explain(err error) error {
	status := new(httprange.StatusError)
	if !errors.As(err, &status) {
		return err
	}
	var means string
	switch code := status.Header.Get("X-Error-Code"); {
	case status.Elsewhere != "" && errors.Is(err, fs.ErrPermission):
		means = "the storage refuses the address that the Hub has signed"
	case code == "GatedRepo":
		means = "the model is gated: ask for access on its page, and set HF_TOKEN"
	case code == "RepoNotFound" && h.token == "":
		means = "no such model, or a private one that HF_TOKEN opens"
	case code == "RepoNotFound":
		means = "no such model, or HF_TOKEN does not open it"
	case code == "RevisionNotFound":
		means = "no such revision"
	case code == "EntryNotFound":
		means = "no such file"
	case status.Code == http.StatusUnauthorized:
		means = "HF_TOKEN is missing or refused"
	case status.Code == http.StatusForbidden:
		means = "HF_TOKEN does not open it"
	default:
		return err
	}
	return fmt.Errorf("%w (%s)", err, means)
}

// gitID matches git's id of a commit or of a file's content.
var gitID = regexp.MustCompile(`^[0-9a-f]{40}$`)

// resolveCommit returns the id of the commit that a.revision stands for. A revision that is an id stands for itself. For others
// resolveCommit asks the Hub, and writes the id to the cache. If writing fails, it only logs that. Offline it returns the id in the cache,
// or errOffline if there is none. It fails if the Hub has no such revision, or if the request fails.
func (h *hub) resolveCommit(ctx context.Context, a hubAddress) (string, error) {
	if gitID.MatchString(a.revision) {
		return a.revision, nil
	}
	ref := h.repository(a.repo).Join("refs", filepath.FromSlash(a.revision))
	if isOffline() {
		text, err := ref.Read()
		if id := strings.TrimSpace(string(text)); err == nil && gitID.MatchString(id) {
			return id, nil
		}
		return "", errOffline
	}
	var answer struct {
		SHA string `json:"sha"`
	}
	address := h.endpoint.String() + "/api/models/" + a.repo + "/revision/" + url.PathEscape(a.revision)
	if _, err := h.getJSON(ctx, address, &answer); err != nil {
		return "", err
	}
	if !gitID.MatchString(answer.SHA) {
		return "", fmt.Errorf("%w: %.80q is no commit", httprange.ErrResponse, answer.SHA)
	}
	// Revision v1/x cannot be cached next to a revision v1: the folder v1 would have the name of the file for revision v1.
	if err := h.opts.remember(ref, []byte(answer.SHA)); err != nil {
		h.opts.logger().Warn("the commit of a revision is not cached", "revision", a.revision, "reason", err)
	}
	return answer.SHA, nil
}

// entry is a file of a repository at a commit.
type entry struct {
	Size      int64  `json:"size"`
	BlobID    string `json:"blob_id"` // git's id of the content; in an entry of snapshotFiles the id that etag returns
	LFSSHA256 string `json:"lfs_sha256,omitempty"`
}

// etag returns the id of the file's content: SHA-256 of a large file, git's id of a small one, or "" if it is unknown.
func (e entry) etag() string { return cmp.Or(e.LFSSHA256, e.BlobID) }

// treeVersion is the version of the format of tree.
const treeVersion = 1

// tree is a listing as huggingface_hub caches it in trees/COMMIT.json.
type tree struct {
	FormatVersion int              `json:"format_version"`
	Files         map[string]entry `json:"files"`
}

// treeElement is an element of a page of a listing, as the API sends it.
type treeElement struct {
	Type string `json:"type"` // "file", or else a folder
	Path string `json:"path"`
	Size int64  `json:"size"`
	OID  string `json:"oid"`
	LFS  struct {
		OID string `json:"oid"`
	} `json:"lfs"`
}

// listFiles returns the files of a commit of the repository repo, by name. It looks for a listing in this module's cache, then in the
// Hub's. If both lack it, listFiles requests the pages of the listing from the Hub, and writes them to this module's cache. It fails if a
// request or writing does, if the listing has too many pages or names, or if entry.check refuses a file.
func (h *hub) listFiles(ctx context.Context, repo, commit string) (map[string]entry, error) {
	// The listing is not written to the Hub's trees: huggingface_hub takes one there for a promise that all files are cached.
	own := h.opts.listingPath("hf://"+repo, commit)
	for _, path := range []rooted.Path{own, h.repository(repo).Join("trees", commit+".json")} {
		var cached tree
		if readJSON(path, &cached) == nil && cached.isUsable() {
			return cached.Files, nil
		}
	}
	listed := tree{treeVersion, make(map[string]entry)}
	var taken listingSize
	addFile := forEachElement[treeElement](func(f treeElement) error {
		if f.Type != "file" {
			return nil
		}
		e := entry{f.Size, f.OID, f.LFS.OID}
		if err := taken.addFile(f.Path, e.BlobID, e.LFSSHA256); err != nil {
			return err
		}
		listed.Files[f.Path] = e
		return e.check(f.Path)
	})
	address := h.endpoint.String() + "/api/models/" + repo + "/tree/" + commit + "?recursive=true"
	for pages := 0; address != ""; pages++ {
		if pages == maxPages {
			return nil, fmt.Errorf("%w: a listing of more than %d pages", httprange.ErrResponse, maxPages)
		}
		var err error
		if address, err = h.getJSON(ctx, address, &addFile); err != nil {
			return nil, err
		}
	}
	return listed.Files, h.opts.rememberJSON(own, listed)
}

// check returns an error if checkName refuses name, or if the size is negative. BlobID must be an id of git, and LFSSHA256 a SHA-256 or
// empty: otherwise check returns an error too.
func (e entry) check(name string) error {
	if err := checkName(name); err != nil {
		return err
	}
	isSHA256 := len(e.LFSSHA256) == 64 && digestID.MatchString(e.LFSSHA256)
	if !gitID.MatchString(e.BlobID) || e.LFSSHA256 != "" && !isSHA256 || e.Size < 0 {
		return fmt.Errorf("%q: its digest %.80q or its size %d cannot be", name, e.etag(), e.Size)
	}
	return nil
}

// isUsable reports whether a cached listing has a known version, and files that entry.check accepts.
func (t *tree) isUsable() bool {
	for name, e := range t.Files {
		if e.check(name) != nil {
			return false
		}
	}
	return t.FormatVersion == treeVersion
}

// repository returns the folder of the repository repo, ORG/NAME without "--", in the Hub's cache.
func (h *hub) repository(repo string) rooted.Path {
	return h.cache.Join("models--" + strings.ReplaceAll(repo, "/", "--"))
}

// repositories returns the folders of models in the Hub's cache, or none if it cannot be read.
func (h *hub) repositories() (dirs []rooted.Path) {
	entries, _ := os.ReadDir(h.cache.String())
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), "models--") {
			dirs = append(dirs, h.cache.Join(e.Name()))
		}
	}
	return dirs
}

// hubFolder returns the files at rest, an address after hf://. It fails for a malformed address, or if newHub or snapshot does.
func hubFolder(ctx context.Context, rest string, o *Options) (*folder, error) {
	a, err := parseHub(rest)
	if err != nil {
		return nil, err
	}
	h, err := newHub(o)
	if err != nil {
		return nil, err
	}
	return h.snapshot(ctx, a)
}

// snapshot returns the folder of the model at address a, at the commit that its revision stands for. Offline, if no listing of the files is
// cached, the folder has the files of the commit in the Hub's cache. It fails if the revision has no commit, or if the files cannot be
// listed.
func (h *hub) snapshot(ctx context.Context, a hubAddress) (*folder, error) {
	commit, err := h.resolveCommit(ctx, a)
	if err != nil {
		return nil, fmt.Errorf("%v: %w", a, err)
	}
	repository := h.repository(a.repo)
	snapshotDir := repository.Join("snapshots", commit)
	files, err := h.listFiles(ctx, a.repo, commit)
	if errors.Is(err, errOffline) {
		if files = snapshotFiles(snapshotDir.String()); len(files) > 0 {
			err = nil
		}
	}
	if err != nil {
		return nil, fmt.Errorf("%v: %w", a, err)
	}
	d := newFolder(h.opts, hubAddress{repo: a.repo, revision: a.revision}.String(), "")
	d.addressedFile, d.snapshotDir = a.file, snapshotDir
	for name, e := range files {
		link := d.snapshotPath(name)
		blob := repository.Join("blobs", e.etag())
		if e.etag() == "" { // snapshotFiles has found it: only the file in the snapshot can be read
			blob = link
		}
		d.objects[name] = object{
			name: d.messageName(name), size: e.Size, id: e.etag(), origin: h.endpoint.String(),
			connect: func(ctx context.Context, version string) (Source, error) {
				address := h.endpoint.String() + (&url.URL{Path: "/" + a.repo + "/resolve/" + commit + "/" + name}).EscapedPath()
				return h.opts.openSource(ctx, address, h.http, e.Size, version, h.explain)
			},
			paths: cachePaths{path: blob, name: link, lock: h.cache.Join(".locks", repository.Name, e.etag()+".lock"), isHubs: true},
		}
	}
	return d, nil
}

// snapshotFiles returns the files in dir, the folder of a snapshot of the Hub's cache, by their slash-separated names. Most are links to a
// file whose name is its digest. Then the digest becomes the entry's BlobID. A plain file, as on a system without links, gets an empty
// BlobID. snapshotFiles leaves out what it cannot read.
func snapshotFiles(dir string) map[string]entry {
	files := make(map[string]entry)
	filepath.WalkDir(dir, func(path string, f fs.DirEntry, err error) error {
		if err != nil || f.IsDir() {
			return nil
		}
		name, err := filepath.Rel(dir, path)
		name = filepath.ToSlash(name)
		info, statErr := os.Stat(path)
		if err != nil || statErr != nil || !info.Mode().IsRegular() || checkName(name) != nil {
			return nil
		}
		e := entry{Size: info.Size()}
		target, _ := os.Readlink(path)
		if etag := filepath.Base(target); digestID.MatchString(etag) {
			e.BlobID = etag
		}
		files[name] = e
		return nil
	})
	return files
}
