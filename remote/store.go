package remote

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"path"
	"slices"
	"strings"
)

// Store is a bucket of objects. This package has that of S3, for addresses; package remote/blob, a module of its own, has
// those of Google and Azure.
type Store interface {
	// Address returns the name of a key for messages.
	Address(key string) string
	// Identity returns a name of the key that is unique among all stores.
	Identity(key string) string
	// List yields the objects and folders directly under prefix, which is empty or ends with a slash. Names of folders
	// end with a slash. List ends with its first error.
	List(ctx context.Context, prefix string) iter.Seq2[StoredObject, error]
	// Connect returns the source of one version of an object. Reads of another one are ErrChanged. ctx bounds
	// what Connect asks, not what the source does.
	Connect(ctx context.Context, key string, object StoredObject) (Source, error)
}

// StoredObject is what a listing says of an object.
type StoredObject struct {
	Name string // the key without the prefix; of a folder, up to its slash
	Size int64  // in bytes
	// Version tells the content from any other that the key has had or will have, such as a strong ETag. An object
	// without a Version is not cached.
	Version string
}

// folderInStore returns a folder of the object that key names and those beside it, or of the objects under key as a prefix. If
// the store may not be listed, the others are looked up when they are opened. It fails if there are no objects.
func folderInStore(ctx context.Context, s Store, key string, o *Options) (*folder, error) {
	fail := func(err error) (*folder, error) { return nil, fmt.Errorf("%s: %w", s.Address(key), err) }
	dir, file := path.Split(key)
	found, folders, err := listPrefix(ctx, s, dir, o)
	if one, ok := s.(storeWithStat); ok && file != "" && (errors.Is(err, fs.ErrPermission) || errors.Is(err, errOffline)) {
		d, unlisted := folderWithoutListing(ctx, one, key, o)
		if unlisted == nil {
			return d, nil
		}
		return fail(err)
	}
	if err != nil {
		return fail(err)
	}
	named := func(o StoredObject) bool { return o.Name == file }
	if !slices.ContainsFunc(found, named) && slices.Contains(folders, file) { // key is a prefix
		dir, file = key+"/", ""
		if found, _, err = listPrefix(ctx, s, dir, o); err != nil {
			return fail(err)
		}
	}
	if len(found) == 0 || file != "" && !slices.ContainsFunc(found, named) {
		return nil, &fs.PathError{Op: "open", Path: s.Address(key), Err: fs.ErrNotExist}
	}
	d, err := newFolder(o, s.Address(strings.TrimSuffix(dir, "/")), "")
	if err != nil {
		return fail(err)
	}
	d.addressedFile = file
	slices.SortFunc(found, func(a, b StoredObject) int { return strings.Compare(a.Name, b.Name) })
	revision := sha256.New()
	for _, object := range found {
		if object.Name != file && checkName(object.Name) != nil {
			continue // no file of a model
		}
		fmt.Fprintf(revision, "%s\n%s\n%d\n", s.Identity(dir+object.Name), object.Version, object.Size)
		if err := d.addFile(object.Name, storedObject(s, dir+object.Name, object)); err != nil {
			return fail(err)
		}
	}
	d.snapshotDir = d.snapshotDir.Join("v-" + hex.EncodeToString(revision.Sum(nil))) // a snapshot for each set of versions
	return d, nil
}

// storeWithStat is a Store that describes one object without a listing, which credentials may not allow.
type storeWithStat interface {
	Store
	Stat(ctx context.Context, key string) (StoredObject, error)
}

// folderWithoutListing returns a folder of the object that key names, which looks up others beside it when they are opened. It
// fails if that object cannot be looked up.
func folderWithoutListing(ctx context.Context, s storeWithStat, key string, o *Options) (*folder, error) {
	dir, file := path.Split(key)
	var d *folder
	stat := func(ctx context.Context, name string) (object, error) {
		l, err := askOrReadCache(s.Identity(dir+name), "object", o, func(l *listing) error {
			of, err := s.Stat(ctx, dir+name)
			l.Objects = []StoredObject{of}
			return err
		})
		if err == nil && len(l.Objects) != 1 {
			err = errOffline
		}
		if err != nil {
			return object{}, err
		}
		of := l.Objects[0]
		if d == nil { // this is the object that key names: its version tells the snapshot
			if d, err = newFolder(o, s.Address(strings.TrimSuffix(dir, "/")), derivedID(s.Identity(key), of.Version)); err != nil {
				return object{}, err
			}
			d.followsServer = true
		}
		return d.withCachePaths(name, storedObject(s, dir+name, of))
	}
	first, err := stat(ctx, file)
	if err != nil {
		return nil, err
	}
	d.addressedFile, d.objects[file] = file, first
	d.lookup = func(ctx context.Context, name string) (object, error) {
		found, err := stat(ctx, name)
		if errors.Is(err, fs.ErrPermission) { // S3's answer without the right to list, for GetObject of no key too
			err = &fs.PathError{Op: "open", Path: d.messageName(name), Err: fmt.Errorf("%w, or may not be read: %w", fs.ErrNotExist, err)}
		}
		return found, err
	}
	return d, nil
}

// listing is what a store has told of a prefix.
type listing struct {
	Objects []StoredObject `json:"objects"`
	Folders []string       `json:"folders"`
}

// listPrefix returns the objects directly under a prefix, and the names of folders there, without slashes. Offline it returns
// what was cached of an earlier call. It fails if the names exceed maxListingBytes bytes.
func listPrefix(ctx context.Context, s Store, prefix string, o *Options) ([]StoredObject, []string, error) {
	l, err := askOrReadCache(s.Identity(prefix), "", o, func(l *listing) error {
		var taken listingSize
		for object, err := range s.List(ctx, prefix) {
			if err == nil {
				err = taken.addFile(object.Name, object.Version)
			}
			if err != nil {
				return err
			}
			if folder, ok := strings.CutSuffix(object.Name, "/"); ok {
				l.Folders = append(l.Folders, folder)
			} else {
				l.Objects = append(l.Objects, object)
			}
		}
		return nil
	})
	return l.Objects, l.Folders, err
}

// askOrReadCache calls ask to fill l, the listing of a prefix or an object of a store, and caches it. The file's name is a digest
// of identity and kind. Offline it returns the cached listing instead, or errOffline if there is none. It fails if ask does, or
// if the system does in writing the cache.
func askOrReadCache(identity, kind string, o *Options, ask func(*listing) error) (l listing, err error) {
	cache, err := o.cache()
	if err != nil {
		return l, err
	}
	path := cache.Join("listings", derivedID(identity, kind)+".json")
	if isOffline() {
		if text, err := path.Read(); err != nil || json.Unmarshal(text, &l) != nil {
			return l, errOffline
		}
		return l, nil
	}
	if err := ask(&l); err != nil || o.NoCache {
		return l, err
	}
	text, err := json.Marshal(l)
	if err == nil {
		err = writeCacheFile(path, text)
	}
	return l, err
}

// storedObject returns the content of the object at a key of s, in the version that listed has. It sends no request. Without a
// version it has no id, and so is not cached.
func storedObject(s Store, key string, listed StoredObject) object {
	o := object{size: listed.Size, connect: func(ctx context.Context, _ string) (Source, error) {
		if isOffline() {
			return nil, errOffline
		}
		return s.Connect(ctx, key, listed)
	}}
	if listed.Version != "" {
		o.id = derivedID(s.Identity(key), listed.Version)
	}
	return o
}
