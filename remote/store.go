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

// folderInStore returns a folder for key. If key names an object, the folder has that object and those beside it. If key is a prefix, the
// folder has the objects under it. If listing s is forbidden or s is offline, but s has Stat, objects beside the named one are looked up
// when they are opened.
//
// folderInStore fails with fs.ErrNotExist if there are no objects. It also fails if s cannot be listed, or if an object cannot be added.
func folderInStore(ctx context.Context, s Store, key string, o *Options) (*folder, error) {
	fail := func(err error) (*folder, error) { return nil, fmt.Errorf("%s: %w", s.Address(key), err) }
	dir, file := path.Split(key)
	found, folders, listErr := listPrefix(ctx, s, dir, o)
	statMayHelp := errors.Is(listErr, fs.ErrPermission) || errors.Is(listErr, errOffline)
	if withStat, ok := s.(storeWithStat); ok && file != "" && statMayHelp {
		if d, err := folderWithoutListing(ctx, withStat, key, o); err == nil {
			return d, nil
		}
	}
	if listErr != nil {
		return fail(listErr)
	}
	isNamed := func(o StoredObject) bool { return o.Name == file }
	if !slices.ContainsFunc(found, isNamed) && slices.Contains(folders, file) { // key is a prefix
		dir, file = key+"/", ""
		if found, _, listErr = listPrefix(ctx, s, dir, o); listErr != nil {
			return fail(listErr)
		}
	}
	if len(found) == 0 || file != "" && !slices.ContainsFunc(found, isNamed) {
		return nil, &fs.PathError{Op: "open", Path: s.Address(key), Err: fs.ErrNotExist}
	}
	d, err := listedFolder(s, dir, file, found, o)
	if err != nil {
		return fail(err)
	}
	return d, nil
}

// listedFolder returns a folder of the objects found, which lie directly under dir. dir is "", or a prefix that ends with a slash. file is
// the name of the object that the address names, or "" if it names them all. listedFolder sorts found. It leaves out objects whose names
// checkName refuses. It fails if file is one, or if an object cannot be added.
func listedFolder(s Store, dir, file string, found []StoredObject, o *Options) (*folder, error) {
	d, err := newFolder(o, s.Address(strings.TrimSuffix(dir, "/")), "") // the revision follows below
	if err != nil {
		return nil, err
	}
	d.addressedFile = file
	slices.SortFunc(found, func(a, b StoredObject) int { return strings.Compare(a.Name, b.Name) })
	revision := sha256.New()
	for _, object := range found {
		if object.Name != file && checkName(object.Name) != nil {
			continue
		}
		fmt.Fprintf(revision, "%s\n%s\n%d\n", s.Identity(dir+object.Name), object.Version, object.Size)
		if err := d.addFile(object.Name, storedObject(s, dir+object.Name, object)); err != nil {
			return nil, err
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

// folderWithoutListing returns a folder that has only the object that key names, for a store that cannot be listed. Other names in the
// folder stand for objects beside it, which are looked up when they are opened. It fails if the object's size and version cannot be found
// out, or if its name cannot be a file's.
func folderWithoutListing(ctx context.Context, s storeWithStat, key string, o *Options) (*folder, error) {
	dir, file := path.Split(key)
	named, err := statObject(ctx, s, key, o)
	if err != nil {
		return nil, err
	}
	d, err := newFolder(o, s.Address(strings.TrimSuffix(dir, "/")), derivedID(s.Identity(key), named.Version)) // a snapshot for each version
	if err != nil {
		return nil, err
	}
	d.addressedFile, d.followsServer = file, true
	if d.objects[file], err = d.withCachePaths(file, storedObject(s, key, named)); err != nil {
		return nil, err
	}
	d.lookup = func(ctx context.Context, name string) (object, error) {
		found, err := statObject(ctx, s, dir+name, o)
		if errors.Is(err, fs.ErrPermission) { // S3 refuses requests for a missing object too, to those who may not list
			err = &fs.PathError{Op: "open", Path: d.messageName(name), Err: fmt.Errorf("%w, or may not be read: %w", fs.ErrNotExist, err)}
		}
		if err != nil {
			return object{}, err
		}
		return d.withCachePaths(name, storedObject(s, dir+name, found))
	}
	return d, nil
}

// statObject returns what s.Stat tells of the object at key, and writes it to the cache. Offline it returns what the cache has, or
// errOffline if there is nothing. It fails if Stat or writing the cache does.
func statObject(ctx context.Context, s storeWithStat, key string, o *Options) (StoredObject, error) {
	l, err := askOrReadCache(s.Identity(key), "object", o, func(l *listing) error {
		object, err := s.Stat(ctx, key)
		l.Objects = []StoredObject{object}
		return err
	})
	if err != nil {
		return StoredObject{}, err
	}
	if len(l.Objects) != 1 { // offline, from a damaged file of the cache
		return StoredObject{}, errOffline
	}
	return l.Objects[0], nil
}

// listing is what a store has told of a prefix, or of one object.
type listing struct {
	Objects []StoredObject `json:"objects"`
	Folders []string       `json:"folders"`
}

// listPrefix returns the objects directly under prefix, and the names of the folders there, without slashes. It writes both to the cache.
// Offline it returns what the cache has, or errOffline if there is nothing. It fails if the store or writing the cache does. It also fails
// if the names need more than maxListingBytes bytes.
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

// askOrReadCache calls ask, which fills a listing, writes the listing to the cache, and returns it. identity and kind name the listing in
// the cache. identity is that of a prefix or an object; kind tells apart listings of one identity. With o.NoCache nothing is written.
// Offline it returns the listing in the cache instead, or errOffline if there is none. It fails if ask or writing the cache does, or if
// there is no home directory.
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

// storedObject returns the content of the object at a key of s, in the version that listed has. It sends no request. Content without a
// version has no id, and so is not cached. Offline its connect fails with errOffline.
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
