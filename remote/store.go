package remote

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"path"
	"slices"
	"strings"

	"github.com/opencontainers/go-digest"
)

// Store is a bucket of objects. This package has the Store of S3, for addresses; package remote/blob, a module of its own, has
// the Stores of Google and Azure.
type Store interface {
	// Address returns the name of a key for messages.
	Address(key string) string
	// Identity returns a name of the key that is unique among all stores.
	Identity(key string) string
	// List yields the objects and folders directly under prefix, which is empty or ends with a slash. Names of folders
	// end with a slash. List ends with its first error.
	List(ctx context.Context, prefix string) iter.Seq2[StoredObject, error]
	// Connect returns the source of one version of an object. If the object has another version, reads fail with
	// httprange.ErrChanged. ctx bounds the requests of Connect, not those of the source.
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

// folderInStore returns a folder for key. If key names an object, the folder has that object and the objects beside it. It lacks objects
// beside the named one whose names checkName refuses. If key is a prefix, the folder has the objects under it. Listing s may be forbidden,
// or s may be offline. If s has Stat, folderInStore then calls folderWithoutListing. It fails with fs.ErrNotExist if there are no objects.
// It also fails if s cannot be listed, or if an object cannot be added.
func folderInStore(ctx context.Context, s Store, key string, o *Options) (*folder, error) {
	fail := func(err error) (*folder, error) { return nil, fmt.Errorf("%s: %w", s.Address(key), err) }
	dir, file := path.Split(key)
	found, err := listPrefix(ctx, s, dir, o)
	statMayHelp := errors.Is(err, fs.ErrPermission) || errors.Is(err, errOffline)
	if withStat, ok := s.(storeWithStat); ok && file != "" && statMayHelp {
		if d, err := folderWithoutListing(ctx, withStat, dir, file, "", o); err == nil {
			return d, nil
		}
	}
	isNamed := func(o StoredObject) bool { return o.Name == file }
	if err == nil && !slices.ContainsFunc(found.Objects, isNamed) && slices.Contains(found.Folders, file) { // key is a prefix
		dir, file = key+"/", ""
		found, err = listPrefix(ctx, s, dir, o)
	}
	if err != nil {
		return fail(err)
	}
	if len(found.Objects) == 0 || file != "" && !slices.ContainsFunc(found.Objects, isNamed) {
		return nil, &fs.PathError{Op: "open", Path: s.Address(key), Err: fs.ErrNotExist}
	}
	objects := slices.DeleteFunc(found.Objects, func(o StoredObject) bool { return !isNamed(o) && checkName(o.Name) != nil })
	slices.SortFunc(objects, func(a, b StoredObject) int { return strings.Compare(a.Name, b.Name) })
	versions := sha256.New()
	for _, object := range objects {
		fmt.Fprintf(versions, "%s\n%s\n%d\n", s.Identity(dir+object.Name), object.Version, object.Size)
	}
	d := newFolder(o, s.Address(strings.TrimSuffix(dir, "/")), "v-"+hex.EncodeToString(versions.Sum(nil))) // a snapshot for each set of versions
	d.addressedFile = file
	for _, object := range objects {
		if err := d.addFile(object.Name, storedObject(s, dir+object.Name, object)); err != nil {
			return fail(err)
		}
	}
	return d, nil
}

// objectStore opens objects one by one. Every Store is one.
type objectStore interface {
	Address(key string) string
	Identity(key string) string
	Connect(ctx context.Context, key string, object StoredObject) (Source, error)
}

// storeWithStat is an objectStore that describes one object without a listing, which credentials may not allow. known is the last answer, or
// the zero value.
type storeWithStat interface {
	objectStore
	Stat(ctx context.Context, key string, known StoredObject) (StoredObject, error)
}

// folderWithoutListing returns a folder of a store that is not listed. dir is "" or ends with a slash. The folder's objects have only the
// one called file under dir. Opening any other name asks the store for the object of that name under dir. In the cache, complete files get
// links in the folder snapshots/SNAPSHOT. If snapshot is "", its name is derived from the version of the object called file.
// folderWithoutListing fails if the store does not describe the object, or if file cannot be the name of a file.
func folderWithoutListing(ctx context.Context, s storeWithStat, dir, file, snapshot string, o *Options) (*folder, error) {
	named, err := statObject(ctx, s, dir+file, o)
	if err != nil {
		return nil, err
	}
	d := newFolder(o, s.Address(strings.TrimSuffix(dir, "/")), cmp.Or(snapshot, derivedID(s.Identity(dir+file), named.Version)))
	d.addressedFile = file
	if d.objects[file], err = d.place(file, storedObject(s, dir+file, named)); err != nil {
		return nil, err
	}
	d.lookup = func(ctx context.Context, name string) (object, error) {
		if err := checkName(name); err != nil {
			return object{}, err
		}
		found, err := statObject(ctx, s, dir+name, o)
		if err != nil {
			return object{}, err
		}
		return d.place(name, storedObject(s, dir+name, found))
	}
	return d, nil
}

// statObject returns what s.Stat tells of the object at key. It writes that to the cache, unless the object has no version. Offline it
// returns what the cache has, or errOffline if there is nothing. It fails if Stat fails, or if the cache cannot be written.
func statObject(ctx context.Context, s storeWithStat, key string, o *Options) (StoredObject, error) {
	path := o.listingPath(s.Identity(key), "stat")
	var known StoredObject
	err := readJSON(path, &known)
	if isOffline() {
		if err != nil || known.Version == "" {
			return StoredObject{}, fmt.Errorf("%s: %w", s.Address(key), errOffline)
		}
		return known, nil
	}
	now, err := s.Stat(ctx, key, known)
	if err != nil || now.Version == "" {
		return now, err
	}
	return now, o.rememberJSON(path, now)
}

// listing is what a store has told of a prefix.
type listing struct {
	Objects []StoredObject `json:"objects"`
	Folders []string       `json:"folders"` // without slashes
}

// listPrefix returns the objects and folders directly under prefix. It writes both to the cache. Offline it returns what the cache has, or
// errOffline if there is nothing. It fails if the store does, or if the names need more than maxListingBytes bytes.
func listPrefix(ctx context.Context, s Store, prefix string, o *Options) (l listing, err error) {
	path := o.listingPath(s.Identity(prefix), "")
	if isOffline() {
		if readJSON(path, &l) != nil {
			err = errOffline
		}
		return l, err
	}
	var taken listingSize
	for object, err := range s.List(ctx, prefix) {
		if err == nil {
			err = taken.addFile(object.Name, object.Version)
		}
		if err != nil {
			return l, err
		}
		if folder, ok := strings.CutSuffix(object.Name, "/"); ok {
			l.Folders = append(l.Folders, folder)
		} else {
			l.Objects = append(l.Objects, object)
		}
	}
	return l, o.rememberJSON(path, l)
}

// storedObject returns the content of the object at a key of s, in the version that listed has. It sends no request. If listed has no
// version, the content has no id, and is not cached. Offline the object's connect fails with errOffline.
func storedObject(s objectStore, key string, listed StoredObject) object {
	o := object{size: listed.Size, connect: func(ctx context.Context, _ string) (Source, error) {
		if isOffline() {
			return nil, errOffline
		}
		return s.Connect(ctx, key, listed)
	}}
	switch _, isWeb := s.(*web); {
	case isWeb && sha256Digest.MatchString(listed.Version): // download.digest
		o.id = digest.Digest(listed.Version).Encoded()
	case listed.Version != "":
		o.id = derivedID(s.Identity(key), listed.Version)
	}
	return o
}
