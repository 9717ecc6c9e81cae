//go:build js

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"path"
	"strings"

	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/loader"
	"github.com/tensormap/tensormap/loader/httprange"
	"github.com/tensormap/tensormap/shard"
)

// errCrossOrigin means that a server keeps pages of other origins from what they need of its answers.
var errCrossOrigin = errors.New("the server hides Content-Range from pages of other origins (it has to send Access-Control-Expose-Headers)")

// client sends requests by the browser's fetch. A condition would make the browser ask first whether it may send one, which
// few servers answer. Package httprange compares the version that each answer tells all the same.
var client = &http.Client{Transport: fetching{}}

type fetching struct{}

// RoundTrip sends a request. It fails with errCrossOrigin if the browser hides the bounds of a range.
func (fetching) RoundTrip(r *http.Request) (*http.Response, error) {
	plain := r.Clone(r.Context())
	for _, condition := range []string{"If-Match", "If-Unmodified-Since", "If-Range", "Accept-Encoding", "User-Agent"} {
		plain.Header.Del(condition)
	}
	resp, err := http.DefaultTransport.RoundTrip(plain)
	if err == nil && resp.StatusCode == http.StatusPartialContent && resp.Header.Get("Content-Range") == "" {
		resp.Body.Close()
		return nil, errCrossOrigin
	}
	return resp, err
}

var rangeOptions = &httprange.Options{Client: client, Parallel: 4, RequestBytes: stepBytes, Attempts: 2}

// openAddress opens the model at an address of the web, or of the Hugging Face Hub.
func openAddress(ctx context.Context, address string) (*loader.Model, error) {
	if at, ok := hubAddress(address); ok {
		return openHub(ctx, at)
	}
	return openURL(ctx, address)
}

// openURL opens the model in the file at an address, and in the files beside it. The files are closed with the model.
func openURL(ctx context.Context, address string) (*loader.Model, error) {
	f, err := httprange.Open(ctx, address, rangeOptions)
	if err != nil {
		return nil, err
	}
	m, err := loader.OpenReaderAt(ctx, f, f.Size(), loaderOptions())
	if err != nil {
		f.Close()
		return nil, err
	}
	go func() {
		<-m.Done()
		f.Close()
	}()
	return m, nil
}

const hub = "https://huggingface.co/"

// hubModel is an address of the Hub: a repository, a revision, and perhaps a file or folder in it.
type hubModel struct{ repository, revision, file string }

// hubAddress parses hf://org/name[@revision][/file] and what a browser shows of the same.
func hubAddress(address string) (at hubModel, ok bool) {
	rest, ok := strings.CutPrefix(address, "hf://")
	if !ok {
		if rest, ok = strings.CutPrefix(address, hub); !ok {
			return at, false
		}
	}
	rest = strings.TrimPrefix(strings.Trim(rest, "/"), "models/")
	segments := strings.SplitN(rest, "/", 3)
	if len(segments) < 2 {
		return at, false
	}
	name, revision, _ := strings.Cut(segments[1], "@")
	at = hubModel{segments[0] + "/" + name, revision, ""}
	if len(segments) == 3 {
		at.file = segments[2]
		if p := strings.SplitN(at.file, "/", 3); len(p) > 1 && (p[0] == "tree" || p[0] == "blob" || p[0] == "resolve") {
			at.revision, at.file = p[1], strings.Join(p[2:], "/")
		}
	}
	if at.revision == "" {
		at.revision = "main"
	}
	return at, true
}

// openHub opens a model of the Hub: the file that the address names, or what loader.Open would choose in its folder. All files
// come from the commit that the revision is now.
func openHub(ctx context.Context, at hubModel) (*loader.Model, error) {
	var repository struct {
		SHA   string                       `json:"sha"`
		Files []struct{ RFilename string } `json:"siblings"`
	}
	if err := getJSON(ctx, hub+"api/models/"+at.repository+"/revision/"+url.PathEscape(at.revision), &repository); err != nil {
		return nil, err
	}
	in := hubFolder(hub + at.repository + "/resolve/" + url.PathEscape(repository.SHA) + "/")
	var names []string // of files in the folder at.file
	for _, f := range repository.Files {
		switch {
		case f.RFilename == at.file:
			return openURL(ctx, in.address(at.file))
		case path.Dir(f.RFilename) == path.Clean("./"+at.file):
			names = append(names, path.Base(f.RFilename))
		}
	}
	if at.file != "" {
		in = hubFolder(in.address(at.file + "/"))
	}
	name, err := choose(ctx, in, names)
	if err != nil {
		return nil, fmt.Errorf("%s: a repository with %w", at.repository, err)
	}
	return openURL(ctx, in.address(name))
}

// hubFolder is the address of a folder of a repository at a commit.
type hubFolder string

// address returns the address of a path in the folder.
func (h hubFolder) address(name string) string {
	return string(h) + (&url.URL{Path: name}).EscapedPath()
}

// Open opens the file of a name.
func (h hubFolder) Open(ctx context.Context, name string) (loader.FolderFile, error) {
	f, err := httprange.Open(ctx, h.address(name), rangeOptions)
	if err != nil {
		return loader.FolderFile{}, err
	}
	return loader.FolderFile{Name: name, Source: hubFile{f}}, nil
}

// hubFile is a file of the Hub as a source.
type hubFile struct{ *httprange.Reader }

// ReadAt fills p with the bytes from off on, or fails, as ReadFull does.
func (h hubFile) ReadAt(ctx context.Context, p []byte, off int64) error {
	return h.ReadFull(ctx, p, off)
}

// listBytes bounds the list of a repository's files.
const listBytes = 8 << 20

// getJSON asks for a document and decodes it into v.
func getJSON(ctx context.Context, address string, v any) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return err
	}
	resp, err := client.Do(r)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: the server refuses: %s", address, resp.Status)
	}
	return json.NewDecoder(io.LimitReader(resp.Body, listBytes)).Decode(v)
}

// explain returns what people read of an error of opening, and what to do.
func explain(err error) (text, hint string) {
	switch {
	case errors.Is(err, errCrossOrigin):
		return "The server does not let pages read ranges of this file.", "Download the file and drop it here, or look at it with tensormap explore ADDRESS."
	case strings.Contains(err.Error(), "fetch() failed"):
		return "The browser gets no answer from this address.", "The server may not allow pages of other origins (CORS). Download the file and drop it here, or look at it with tensormap explore ADDRESS."
	case errors.Is(err, httprange.ErrNoRanges):
		return "The server sends this file only as a whole.", "Download the file and drop it here."
	case errors.Is(err, httprange.ErrStatus):
		return "The server refuses this address.", "The page sends no password and no token: is it public?"
	case errors.Is(err, shard.ErrNoModel):
		return "There is no model among these files.", "Drop a model file, or a folder that has one."
	case errors.Is(err, layout.ErrTruncated):
		return "A file of this model is cut off.", "A download that stopped looks like this: compare the size with its source."
	case errors.Is(err, layout.ErrFormat):
		return "This is no model that is known here.", "Drop a model file, or a folder that has one."
	case errors.Is(err, fs.ErrNotExist):
		return "A file of this model is missing.", "Drop the folder that has all of its files."
	}
	return "The model cannot be opened.", "Compare the sizes of its files with the sizes at their source."
}
