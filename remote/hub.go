package remote

import (
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
	"strings"

	"github.com/tensormap/tensormap/loader/httprange"
	"github.com/tensormap/tensormap/remote/internal/rooted"
)

// hub is the Hugging Face Hub, and its cache on this machine.
type hub struct {
	endpoint *url.URL
	cache    rooted.Path // the folder of the repositories
	token    string
	opts     *Options // whose HTTP has no token yet: see options
}

// newHub returns the Hub that the environment describes, as huggingface_hub reads it. It fails if HF_ENDPOINT is no address, or if the
// file of the token exists and cannot be read. It also fails if there is no home directory and none of HF_HOME and XDG_CACHE_HOME is set.
func newHub(o *Options) (*hub, error) {
	h := &hub{opts: o}
	endpoint := envOr("HF_ENDPOINT", "https://huggingface.co")
	var err error
	if h.endpoint, err = url.Parse(strings.TrimSuffix(endpoint, "/")); err != nil || h.endpoint.Host == "" {
		return nil, errors.New("HF_ENDPOINT is no address")
	}
	home := os.Getenv("HF_HOME")
	if home == "" {
		dir, err := cacheHome()
		if err != nil {
			return nil, err
		}
		home = filepath.Join(dir, "huggingface")
	}
	h.cache.Dir = envOr("HF_HUB_CACHE", envOr("HUGGINGFACE_HUB_CACHE", filepath.Join(home, "hub")))
	if h.token = envOr("HF_TOKEN", os.Getenv("HUGGING_FACE_HUB_TOKEN")); h.token == "" {
		text, err := os.ReadFile(envOr("HF_TOKEN_PATH", filepath.Join(home, "token")))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
		h.token = string(text)
	}
	h.token = strings.TrimSpace(h.token)
	return h, nil
}

// options returns the options of requests to the Hub: h.opts.HTTP, with the token unless they have a header Authorization.
func (h *hub) options() *httprange.Options {
	if h.token != "" && h.opts.HTTP.Header.Get("Authorization") == "" {
		return withHeader(*h.opts.HTTP, "Authorization", "Bearer "+h.token)
	}
	return h.opts.HTTP
}

// getJSON decodes the JSON that the Hub's API has at address into the value that into points to. next is the address of the next page, or
// "" after the last. getJSON returns errOffline offline. It fails if the request does, for malformed JSON, or if nextPage fails.
func (h *hub) getJSON(ctx context.Context, address string, into any) (next string, err error) {
	if isOffline() {
		return "", errOffline
	}
	body, head, err := httprange.Get(ctx, address, maxResponseBytes, h.options())
	if err != nil {
		return "", h.explain(err)
	}
	if err := json.Unmarshal(body, into); err != nil {
		return "", fmt.Errorf("%s: %w: %v", httprange.NameOf(address), httprange.ErrResponse, err)
	}
	return h.nextPage(head)
}

// nextPage returns the address of the next page of a listing, which a response's header Link names (RFC 8288). It returns "" for the last
// page. It fails if the next page is on another server than the Hub, or if its address is malformed.
func (h *hub) nextPage(head http.Header) (string, error) {
	for _, line := range head.Values("Link") {
		for link := range strings.SplitSeq(line, ",") {
			target, params, _ := strings.Cut(strings.TrimSpace(link), ">")
			if !strings.Contains(params, `rel="next"`) {
				continue
			}
			u, err := h.endpoint.Parse(strings.TrimPrefix(target, "<"))
			if err != nil || u.Scheme != h.endpoint.Scheme || u.Host != h.endpoint.Host {
				return "", fmt.Errorf("%w: the next page of a listing is on another server", httprange.ErrResponse)
			}
			return u.String(), nil
		}
	}
	return "", nil
}

// explain adds to err what the Hub means by it, if err is a *httprange.StatusError with a known code. It returns other errors as they are,
// and nil for nil.
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

// resolveCommit returns the id of the commit that the revision of a stands for. A revision that is such an id it returns as it is.
// Otherwise it asks the Hub, and writes the id to the cache; it only logs if that fails. Offline it returns the id in the cache, or
// errOffline if there is none. It fails if the Hub refuses, or has no such revision.
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
	// Revision v1/x cannot be cached beside a revision v1: its folder would have the name of that one's file.
	if err := h.writeUnlessNoCache(ref, []byte(answer.SHA)); err != nil {
		h.opts.logger().Warn("the commit of a revision is not cached", "revision", a.revision, "reason", err)
	}
	return answer.SHA, nil
}

// writeUnlessNoCache writes text to the file at path in a cache, by writeCacheFile. It does nothing with Options.NoCache.
func (h *hub) writeUnlessNoCache(path rooted.Path, text []byte) error {
	if h.opts.NoCache {
		return nil
	}
	return writeCacheFile(path, text)
}

// entry is a file of a repository at a commit.
type entry struct {
	Size      int64  `json:"size"`
	BlobID    string `json:"blob_id"` // git's; of an entry of snapshotFiles the id of etag
	LFSSHA256 string `json:"lfs_sha256,omitempty"`
	LFSSize   int64  `json:"lfs_size,omitempty"`
	XetHash   string `json:"xet_hash,omitempty"`
}

// etag returns the id of the file's content: SHA-256 of a large file, git's id of a small one, or "" if it is unknown.
func (e entry) etag() string {
	if e.LFSSHA256 != "" {
		return e.LFSSHA256
	}
	return e.BlobID
}

// treeVersion is the version of the format of tree.
const treeVersion = 1

// tree is a listing as huggingface_hub caches it in trees/COMMIT.json.
type tree struct {
	FormatVersion int              `json:"format_version"`
	Files         map[string]entry `json:"files"`
}

// listFiles returns the files of a commit of the repository repo, by name. It uses a listing in ownCache, this module's cache, or in the
// Hub's cache, if there is one. Otherwise it requests the pages of the listing from the Hub, and writes them to ownCache. It fails if a
// request or writing the cache does. It also fails if the listing has too many pages or names, or if entry.check refuses a file.
func (h *hub) listFiles(ctx context.Context, repo, commit string, ownCache rooted.Path) (map[string]entry, error) {
	// The listing is not written to the Hub's trees: huggingface_hub takes one there for a promise that all files are cached.
	listing := ownCache.Join("listings", derivedID("hf://"+repo, commit)+".json")
	for _, path := range []rooted.Path{listing, h.repository(repo).Join("trees", commit+".json")} {
		var cached tree
		if text, err := path.Read(); err == nil && json.Unmarshal(text, &cached) == nil && cached.FormatVersion == treeVersion && checkTree(cached.Files) == nil {
			return cached.Files, nil
		}
	}
	listed := tree{treeVersion, make(map[string]entry)}
	var taken listingSize
	address := h.endpoint.String() + "/api/models/" + repo + "/tree/" + commit + "?recursive=true"
	for pages := 0; address != ""; pages++ {
		if pages == maxPages {
			return nil, fmt.Errorf("%w: a listing of more than %d pages", httprange.ErrResponse, maxPages)
		}
		var err error
		if address, err = h.getJSON(ctx, address, &treePage{files: listed.Files, listingBytes: &taken}); err != nil {
			return nil, err
		}
	}
	text, err := json.Marshal(listed)
	if err != nil {
		return nil, err
	}
	return listed.Files, h.writeUnlessNoCache(listing, text)
}

// treePage decodes one page of a listing, as the API sends it. It adds its files to files, and their names' bytes to listingBytes.
type treePage struct {
	files        map[string]entry
	listingBytes *listingSize
}

// UnmarshalJSON adds the files on a page of a listing to p.files, and skips folders. It fails for malformed JSON, or if entry.check refuses
// a file. It also fails once the names on all pages need more than maxListingBytes bytes.
func (p *treePage) UnmarshalJSON(text []byte) error {
	type element struct {
		Type string `json:"type"`
		Path string `json:"path"`
		Size int64  `json:"size"`
		OID  string `json:"oid"`
		LFS  *struct {
			OID  string `json:"oid"`
			Size int64  `json:"size"`
		} `json:"lfs"`
		XetHash string `json:"xetHash"`
	}
	return eachJSONElement(text, func(f element) error {
		if f.Type != "file" {
			return nil
		}
		e := entry{Size: f.Size, BlobID: f.OID, XetHash: f.XetHash}
		if f.LFS != nil {
			e.LFSSHA256, e.LFSSize = f.LFS.OID, f.LFS.Size
		}
		if err := p.listingBytes.addFile(f.Path, e.BlobID, e.LFSSHA256, e.XetHash); err != nil {
			return err
		}
		p.files[f.Path] = e
		return e.check(f.Path)
	})
}

// check returns an error if checkName refuses name, or for a negative size. It returns one unless BlobID is git's id, and LFSSHA256 is a
// SHA-256 or "". It accepts any LFSSize, which nothing uses.
func (e entry) check(name string) error {
	if err := checkName(name); err != nil {
		return err
	}
	if !gitID.MatchString(e.BlobID) || !digestID.MatchString(e.etag()) || e.LFSSHA256 != "" && len(e.LFSSHA256) != 64 || e.Size < 0 {
		return fmt.Errorf("%q: its digest %.80q or its size %d cannot be", name, e.etag(), e.Size)
	}
	return nil
}

// checkTree returns the first error of entry.check for the files of a cached listing, or nil.
func checkTree(files map[string]entry) error {
	for name, e := range files {
		if err := e.check(name); err != nil {
			return err
		}
	}
	return nil
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
