package remote

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/remote/internal/rooted"
	"github.com/tensormap/tensormap/remote/internal/sparse"
)

// CacheEntry is a file in a cache of this machine.
type CacheEntry struct {
	// Names are the known addresses or names that lead to it.
	Names []string
	Path  string
	Size  int64     // of the complete file, in bytes
	Have  int64     // bytes that are present: Size of a complete file
	Disk  int64     // bytes that it takes on the disk
	Used  time.Time // when it was last opened, or changed if that is unknown
	// Shared says that it is in huggingface_hub's cache. PruneCache leaves it alone.
	Shared bool

	isPartial bool
	at        rooted.Path // Path below its cache
}

// Complete reports whether the file is complete and at its final path.
func (e *CacheEntry) Complete() bool { return !e.isPartial }

// Cache lists the files of this module's cache, complete or not, and the complete files of huggingface_hub's cache. It also lists this
// module's incomplete files that lie next to the caches of huggingface_hub and Ollama. The most recently used file comes first. opts may be
// nil; only its CacheDir is used. Cache fails if a folder cannot be read, or if there is no home directory.
func Cache(opts *Options) ([]CacheEntry, error) {
	o := opts.withDefaults()
	dir := o.cache
	if o.cacheErr != nil {
		return nil, o.cacheErr
	}
	list, err := listBlobs(dir.Join("blobs"), linkNames(dir.Join("snapshots").String()))
	if err != nil {
		return nil, err
	}
	for i, e := range list {
		if info, err := os.Stat(o.ownCachePaths(filepath.Base(e.Path)).lock.String()); err == nil {
			list[i].Used = info.ModTime() // openComplete sets this time
		}
	}
	partialDirs := []rooted.Path{dir, dir.Join("blobs", partialDirName)}
	if store, err := ollamaStore(); err == nil {
		partialDirs = append(partialDirs, store.Join("blobs", partialDirName))
	}
	if h, err := newHub(o); err == nil {
		for _, repository := range h.repositories() {
			partialDirs = append(partialDirs, repository.Join("blobs", partialDirName))
		}
		shared, err := h.cacheEntries()
		if err != nil {
			return nil, err
		}
		list = append(list, shared...)
	}
	for _, dir := range partialDirs {
		infos, err := sparse.List(dir)
		if err != nil {
			return nil, err
		}
		for _, i := range infos {
			data := sparse.DataPath(i.Path)
			e := CacheEntry{at: data, Path: data.String(), Size: i.Size, Have: i.Have, Disk: i.Disk, Used: i.Used, isPartial: true}
			if i.Name != "" {
				e.Names = []string{i.Name}
			}
			list = append(list, e)
		}
	}
	slices.SortStableFunc(list, func(a, b CacheEntry) int { return b.Used.Compare(a.Used) })
	return list, nil
}

// cacheEntries lists the complete files in the Hub's cache. An entry's Names are addresses such as hf://ORG/NAME/FILE, without revisions.
// cacheEntries fails if a folder cannot be read.
func (h *hub) cacheEntries() (list []CacheEntry, err error) {
	for _, dir := range h.repositories() {
		names := linkNames(dir.Join("snapshots").String())
		repo := "hf://" + strings.ReplaceAll(strings.TrimPrefix(dir.Name, "models--"), "--", "/") // as repository names it
		for blob, links := range names {
			for i, link := range links {
				_, file, _ := strings.Cut(link, "/") // after the commit
				links[i] = repo + "/" + file
			}
			names[blob] = slices.Compact(slices.Sorted(slices.Values(links)))
		}
		blobs, err := listBlobs(dir.Join("blobs"), names)
		if err != nil {
			return nil, err
		}
		for _, e := range blobs {
			e.Shared = true
			list = append(list, e)
		}
	}
	return list, nil
}

// linkNames returns the symbolic links below dir, by the base names of their targets. The links are slash-separated paths from dir.
// linkNames leaves out folders and links that cannot be read.
func linkNames(dir string) map[string][]string {
	names := make(map[string][]string)
	filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.Type() != fs.ModeSymlink {
			return nil
		}
		if target, err := os.Readlink(path); err == nil {
			blob := filepath.Base(target)
			name, _ := filepath.Rel(dir, path)
			names[blob] = append(names[blob], filepath.ToSlash(name))
		}
		return nil
	})
	return names
}

// listBlobs returns an entry for each regular file in dir whose name is an id: a digest, or a result of derivedID. names has the Names of
// the entries, by id. If dir does not exist, listBlobs returns none. It fails if dir cannot be read.
func listBlobs(dir rooted.Path, names map[string][]string) (list []CacheEntry, err error) {
	blobs, err := os.ReadDir(dir.String())
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	for _, b := range blobs {
		at := dir.Join(b.Name())
		info, err := os.Stat(at.String()) // repositories of the Hub may share a file by links
		if err != nil || !info.Mode().IsRegular() || !digestID.MatchString(strings.TrimPrefix(b.Name(), "v-")) {
			continue
		}
		size := info.Size()
		list = append(list, CacheEntry{Names: names[b.Name()], at: at, Path: at.String(), Size: size, Have: size, Disk: size, Used: info.ModTime()})
	}
	return list, nil
}

// Check reads the file, and compares its digest with its name. If the two differ, Check returns an error that wraps layout.ErrChecksum. For
// an incomplete file, or a name that is no digest, the error wraps errors.ErrUnsupported. Check also fails if reading does, or when ctx
// ends.
func (e *CacheEntry) Check(ctx context.Context) error {
	id := filepath.Base(e.Path)
	if e.isPartial || !digestID.MatchString(id) {
		return fmt.Errorf("%s: %w: no digest of it is known", e.Path, errors.ErrUnsupported)
	}
	f, err := rooted.OpenRegular(e.Path)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := checkContent(ctx, f, id, e.Size); err != nil {
		if errors.Is(err, layout.ErrChecksum) {
			err = fmt.Errorf("%w: remove it", err)
		}
		return fmt.Errorf("%s: %w", e.Path, err)
	}
	return nil
}

// Pruned is the result of PruneCache.
type Pruned struct {
	Removed []CacheEntry
	Held    []CacheEntry // files that stay only because a process has them open
	Left    int64        // bytes of the files that stay, Held or not, without files of other programs' caches
}

// PruneCache removes the least recently used files of this module's cache until the others take at most limit bytes. A file that a process
// has open stays, and is listed in Pruned.Held. Caches of other programs are neither counted nor pruned. PruneCache then removes old
// temporary files, and links whose files are missing. It fails if the cache cannot be listed. It also fails if a file cannot be removed,
// and returns what it has removed so far.
func PruneCache(limit int64, opts *Options) (*Pruned, error) {
	list, err := Cache(opts)
	if err != nil {
		return nil, err
	}
	list = slices.DeleteFunc(list, func(e CacheEntry) bool { return e.Shared })
	o, p := opts.withDefaults(), &Pruned{}
	for _, e := range list {
		p.Left += e.Disk
	}
	for _, e := range slices.Backward(list) { // Cache lists the least recently used last
		if p.Left <= limit {
			break
		}
		removed, err := sparse.Discard(e.at)
		switch {
		case err != nil:
			return p, err
		case !removed:
			p.Held = append(p.Held, e)
			continue
		}
		if !e.isPartial {
			o.ownCachePaths(filepath.Base(e.Path)).lock.Remove()
		}
		p.Removed = append(p.Removed, e)
		p.Left -= e.Disk
	}
	removeLeftovers(o.cache)
	return p, nil
}

// removeLeftovers removes three kinds of files below dir, the folder of this module's cache. It ignores errors.
//   - Temporary files of rooted.Path.Write and Symlink that are older than an hour: their processes are taken to have ended.
//   - Links in snapshots whose targets are missing.
//   - Empty folders in snapshots, and snapshots itself.
func removeLeftovers(dir rooted.Path) {
	var folders []rooted.Path
	filepath.WalkDir(dir.String(), func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return nil
		}
		name, _ := filepath.Rel(dir.String(), path)
		info, err := e.Info()
		_, targetErr := os.Stat(path)
		segments := strings.Split(name, string(filepath.Separator))
		switch isInSnapshots := segments[0] == "snapshots"; {
		case err != nil:
		case e.IsDir() && isInSnapshots:
			folders = append(folders, dir.Join(name))
		case e.Type() == fs.ModeSymlink && isInSnapshots && errors.Is(targetErr, fs.ErrNotExist),
			!e.IsDir() && rooted.IsTemporary(name) && time.Since(info.ModTime()) > time.Hour:
			dir.Join(name).Remove()
		}
		return nil
	})
	for _, folder := range slices.Backward(folders) { // inner ones first
		folder.Remove() // fails for a folder that is not empty
	}
}
