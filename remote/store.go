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

// Store is a bucket of objects that another package speaks to. S3 is one of this package; remote/blob,
// a module of its own, has those of Google and Azure.
type Store interface {
	// Address returns what messages call a key.
	Address(key string) string
	// Identity returns a name for the key that no other store has for one of its own.
	Identity(key string) string
	// List yields the objects and folders directly under prefix, which is empty or ends with a slash. Names of folders
	// end with a slash. List ends with its first error.
	List(ctx context.Context, prefix string) iter.Seq2[StoredObject, error]
	// Connect returns the source of one version of an object. Reads of another one are ErrChanged. ctx bounds
	// what Connect asks, not what the source does.
	Connect(ctx context.Context, key string, of StoredObject) (Source, error)
}

// StoredObject is what a listing says of an object.
type StoredObject struct {
	Name string // the key without the prefix; of a folder, up to its slash
	Size int64  // in bytes
	// Version tells the content from any other that the key has had or will have, such as a strong ETag.
	// Nothing is kept of an object without one.
	Version string
}

// inStore returns the files beside the object that key names, or under it as a prefix.
func inStore(ctx context.Context, s Store, key string, o *Options) (*folder, error) {
	fail := func(err error) (*folder, error) { return nil, fmt.Errorf("%s: %w", s.Address(key), err) }
	dir, file := path.Split(key)
	found, folders, err := list(ctx, s, dir, o)
	if one, ok := s.(stater); ok && file != "" && (errors.Is(err, fs.ErrPermission) || errors.Is(err, errOffline)) {
		d, unlisted := inUnlisted(ctx, one, key, o)
		if unlisted == nil {
			return d, nil
		}
		return fail(err)
	}
	if err != nil {
		return fail(err)
	}
	named := func(o StoredObject) bool { return o.Name == file }
	if !slices.ContainsFunc(found, named) && slices.Contains(folders, file) {
		dir, file = key+"/", ""
		if found, _, err = list(ctx, s, dir, o); err != nil {
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
	d.file = file
	slices.SortFunc(found, func(a, b StoredObject) int { return strings.Compare(a.Name, b.Name) })
	revision := sha256.New()
	for _, object := range found {
		if object.Name != file && checkName(object.Name) != nil {
			continue // whatever it is, nothing of a model
		}
		fmt.Fprintf(revision, "%s\n%s\n%d\n", s.Identity(dir+object.Name), object.Version, object.Size)
		if err := d.add(object.Name, stored(s, dir+object.Name, object)); err != nil {
			return fail(err)
		}
	}
	d.dir = d.dir.Join("v-" + hex.EncodeToString(revision.Sum(nil)))
	return d, nil
}

// stater is a Store that knows of one object without a listing, for which credentials may have no right.
type stater interface {
	Store
	Stat(ctx context.Context, key string) (StoredObject, error)
}

// inUnlisted returns the object that key names, and those beside it as they are asked for.
func inUnlisted(ctx context.Context, s stater, key string, o *Options) (*folder, error) {
	dir, file := path.Split(key)
	var d *folder
	stat := func(ctx context.Context, name string) (object, error) {
		l, err := recall(s.Identity(dir+name), "object", o, func(l *listing) error {
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
		if d == nil {
			if d, err = newFolder(o, s.Address(strings.TrimSuffix(dir, "/")), identity(s.Identity(key), of.Version)); err != nil {
				return object{}, err
			}
		}
		found, err := d.placed(name, stored(s, dir+name, of))
		if found.id != "" {
			found.place.link = func() error { return relink(d.below(name), found.place.path) }
		}
		return found, err
	}
	first, err := stat(ctx, file)
	if err != nil {
		return nil, err
	}
	d.file, d.objects[file] = file, first
	d.lookup = func(ctx context.Context, name string) (object, error) {
		found, err := stat(ctx, name)
		if errors.Is(err, fs.ErrPermission) { // S3's answer without the right to list, for GetObject of no key too
			err = &fs.PathError{Op: "open", Path: d.name(name), Err: fmt.Errorf("%w, or may not be read: %w", fs.ErrNotExist, err)}
		}
		return found, err
	}
	return d, nil
}

// listing is what a store has said of a prefix.
type listing struct {
	Objects []StoredObject `json:"objects"`
	Folders []string       `json:"folders"`
}

// list returns what the store has under a prefix.
func list(ctx context.Context, s Store, prefix string, o *Options) ([]StoredObject, []string, error) {
	l, err := recall(s.Identity(prefix), "", o, func(l *listing) error {
		var taken names
		for object, err := range s.List(ctx, prefix) {
			if err == nil {
				err = taken.take(object.Name, object.Version)
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

// recall returns what ask says of a place in a store, or offline what it said when the store was last asked.
func recall(place, kind string, o *Options, ask func(*listing) error) (l listing, err error) {
	cache, err := o.cache()
	if err != nil {
		return l, err
	}
	kept := cache.Join("listings", identity(place, kind)+".json")
	if isOffline() {
		if text, err := kept.Read(); err != nil || json.Unmarshal(text, &l) != nil {
			return l, errOffline
		}
		return l, nil
	}
	if err := ask(&l); err != nil || o.NoCache {
		return l, err
	}
	text, err := json.Marshal(l)
	if err == nil {
		err = writeWhole(kept, text)
	}
	return l, err
}

// stored returns content that its version tells from other content at the key.
func stored(s Store, key string, of StoredObject) object {
	o := object{size: of.Size, connect: func(ctx context.Context, _ string) (Source, error) {
		if isOffline() {
			return nil, errOffline
		}
		return s.Connect(ctx, key, of)
	}}
	if of.Version != "" {
		o.id = identity(s.Identity(key), of.Version)
	}
	return o
}
