// Package hubtest serves models as the Hugging Face Hub does, for tests: its API, redirects of large
// files to signed addresses on another server that expire, and small files of its own.
package hubtest

import (
	"bytes"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tensormap/tensormap/internal/test/modeltest"
)

// Hub has one repository at one commit. Its fields may be changed between requests, under Lock.
type Hub struct {
	*httptest.Server // the Hub itself
	CDN              *httptest.Server
	Repo, Commit     string
	Token            string            // that the repository needs, if any
	Files            map[string][]byte // by path
	Large            int               // size in bytes from which files are LFS
	Expired          int64             // signed addresses up to this number are refused
	PageSize         int               // of listings; 0 means all
	// Fault, if set, answers in the CDN's place if it reports true.
	Fault func(w http.ResponseWriter, r *http.Request) bool
	// Network, if set, is called before each answer, and returns the writer of the answer.
	Network func(w http.ResponseWriter) http.ResponseWriter

	sync.Mutex
	modeltest.Recorder          // of both servers
	digests            sync.Map // string by first byte
	signed             int64
}

// Signed begins the paths of signed addresses, and no others.
const Signed = "/signed/"

// New starts a Hub with these files. It sets the environment variables of the test so that its address and an empty
// cache are used.
func New(t testing.TB, files map[string][]byte) *Hub {
	h := &Hub{Repo: "org/model", Commit: strings.Repeat("c0ffee01", 5), Files: files, Large: 1000}
	h.Server = httptest.NewServer(h.behindNetwork(h.serve))
	h.CDN = httptest.NewServer(h.behindNetwork(h.serveSigned))
	t.Cleanup(h.Server.Close)
	t.Cleanup(h.CDN.Close)
	for name, value := range map[string]string{
		"HF_ENDPOINT": h.URL, "HF_HOME": t.TempDir(), "XDG_CACHE_HOME": t.TempDir(),
		"HF_TOKEN": "", "HF_TOKEN_PATH": "", "HUGGING_FACE_HUB_TOKEN": "", "HF_HUB_CACHE": "", "HF_HUB_OFFLINE": "", "TRANSFORMERS_OFFLINE": "",
	} {
		t.Setenv(name, value) // and back when the test ends
		if value == "" {
			os.Unsetenv(name)
		}
	}
	return h
}

// behindNetwork returns a handler that serves by way of h.Network.
func (h *Hub) behindNetwork(serve http.HandlerFunc) http.Handler {
	recorded := h.Record(serve)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h.Lock()
		network := h.Network
		h.Unlock()
		if network != nil {
			w = network(w)
		}
		recorded.ServeHTTP(w, r)
	})
}

// refuse answers with a status, and with the code of the Hub's errors.
func refuse(w http.ResponseWriter, status int, code string) {
	w.Header().Set("X-Error-Code", code)
	http.Error(w, code, status)
}

// serve answers requests to the Hub's API and for its files.
func (h *Hub) serve(w http.ResponseWriter, r *http.Request) {
	h.Lock()
	defer h.Unlock()
	if h.Token != "" && r.Header.Get("Authorization") != "Bearer "+h.Token {
		refuse(w, http.StatusUnauthorized, "RepoNotFound")
		return
	}
	api := "/api/models/" + h.Repo
	switch {
	case strings.HasPrefix(r.URL.Path, api+"/revision/"), r.URL.Path == api:
		if revision := strings.TrimPrefix(r.URL.Path, api+"/revision/"); revision != "main" && revision != h.Commit && revision != "refs/pr/1" && revision != api {
			refuse(w, http.StatusNotFound, "RevisionNotFound")
			return
		}
		var siblings []map[string]string
		for _, name := range slices.Sorted(maps.Keys(h.Files)) {
			siblings = append(siblings, map[string]string{"rfilename": name})
		}
		json.NewEncoder(w).Encode(map[string]any{"id": h.Repo, "sha": h.Commit, "siblings": siblings, "private": false, "tags": []string{}, "downloads": 0, "likes": 0})
	case strings.HasPrefix(r.URL.Path, api+"/tree/"+h.Commit):
		h.list(w, r)
	case strings.HasPrefix(r.URL.Path, "/"+h.Repo+"/resolve/"):
		_, name, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"+h.Repo+"/resolve/"), "/")
		h.resolve(w, r, name)
	default:
		refuse(w, http.StatusNotFound, "RepoNotFound")
	}
}

// list answers with a page of the tree.
func (h *Hub) list(w http.ResponseWriter, r *http.Request) {
	var page []map[string]any
	names := slices.Sorted(maps.Keys(h.Files))
	from, _ := strconv.Atoi(r.URL.Query().Get("cursor"))
	to := len(names)
	if h.PageSize > 0 && to > from+h.PageSize {
		to = from + h.PageSize
		w.Header().Set("Link", fmt.Sprintf(`<%s%s?recursive=true&cursor=%d>; rel="next"`, h.URL, r.URL.Path, to))
	}
	for _, name := range names[from:to] {
		content := h.Files[name]
		inGit := content
		e := map[string]any{"type": "file", "path": name, "size": len(content)}
		if len(content) >= h.Large {
			inGit = []byte("pointer of " + name)
			e["lfs"] = map[string]any{"oid": h.digest(content), "size": len(content), "pointerSize": 134}
		}
		e["oid"] = BlobID(inGit)
		page = append(page, e)
	}
	page = append(page, map[string]any{"type": "directory", "path": "folder", "size": 0, "oid": BlobID(nil)})
	json.NewEncoder(w).Encode(page)
}

// BlobID returns git's id of a file's content.
func BlobID(content []byte) string {
	h := sha1.New()
	fmt.Fprintf(h, "blob %d\x00%s", len(content), content)
	return hex.EncodeToString(h.Sum(nil))
}

// Digest returns the SHA-256 of content.
func Digest(content []byte) string {
	sum := sha256.Sum256(content)
	return hex.EncodeToString(sum[:])
}

// digest returns Digest(content), which it computes once for each content: nobody writes to one that is served.
func (h *Hub) digest(content []byte) string {
	if len(content) == 0 {
		return Digest(nil)
	}
	known, ok := h.digests.Load(&content[0])
	if !ok {
		known, _ = h.digests.LoadOrStore(&content[0], Digest(content))
	}
	return known.(string)
}

// resolve answers a request for a file: with its content if that is small, else with a redirect to a signed address.
func (h *Hub) resolve(w http.ResponseWriter, r *http.Request, name string) {
	content, ok := h.Files[name]
	if !ok {
		refuse(w, http.StatusNotFound, "EntryNotFound")
		return
	}
	w.Header().Set("X-Repo-Commit", h.Commit)
	w.Header().Set("Accept-Ranges", "bytes")
	if len(content) < h.Large {
		w.Header().Set("ETag", `"`+BlobID(content)+`"`)
		http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(content))
		return
	}
	h.signed++
	w.Header().Set("X-Linked-Etag", `"`+h.digest(content)+`"`)
	w.Header().Set("X-Linked-Size", strconv.Itoa(len(content)))
	w.Header().Set("Location", fmt.Sprintf("%s%s%d/%s?signature=hush", h.CDN.URL, Signed, h.signed, name))
	w.WriteHeader(http.StatusFound)
}

// serveSigned answers a request for a signed address, unless Fault does.
func (h *Hub) serveSigned(w http.ResponseWriter, r *http.Request) {
	h.Lock()
	fault := h.Fault
	h.Unlock()
	if fault != nil && fault(w, r) {
		return
	}
	h.Lock()
	number, name, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, Signed), "/")
	n, err := strconv.ParseInt(number, 10, 64)
	content, ok := h.Files[name]
	good := err == nil && ok && n > h.Expired && r.URL.Query().Get("signature") == "hush"
	h.Unlock()
	if !good {
		http.Error(w, "expired", http.StatusForbidden)
		return
	}
	w.Header().Set("ETag", `"cdn-`+h.digest(content)[:16]+`"`)
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(content))
}
