package remote

import (
	"cmp"
	"fmt"
	"strings"
)

// newFolder returns an empty folder for the files at address. Complete files get links in the folder snapshots/REVISION of this module's
// cache; with revision "" the caller completes snapshotDir. newFolder fails if there is no home directory.
func newFolder(o *Options, address, revision string) (*folder, error) {
	cache, err := o.cache()
	return &folder{
		opts: o, address: address, objects: make(map[string]object),
		snapshotDir: cache.Join("snapshots", revision),
		messageName: func(file string) string {
			if file == "" {
				return address
			}
			return strings.TrimSuffix(address, "/") + "/" + file
		},
	}, err
}

// addFile adds content o to d.objects as the file called name. If o has no path in a cache, it gets one in this module's. addFile fails if
// the name is taken by content of another id. It fails if withCachePaths does. It also fails once all names of d need more than
// maxListingBytes bytes.
func (d *folder) addFile(name string, o object) error {
	o, err := d.withCachePaths(name, o)
	if err == nil {
		err = d.listingBytes.addFile(name)
	}
	if err != nil {
		return err
	}
	if old, ok := d.objects[name]; ok && (old.id != o.id || o.id == "") { // contents without ids may differ
		return fmt.Errorf("two files called %s", name)
	}
	d.objects[name] = o
	return nil
}

// withCachePaths returns o as the file called name: o.name becomes the name in messages. If o has an id, o.paths become those in this
// module's cache, with a link in the snapshot. Only an o.paths.path that is set stays.
//
// withCachePaths fails for a name that checkName refuses, or if there is no home directory. The object that it then returns can be read
// without a cache.
func (d *folder) withCachePaths(name string, o object) (object, error) {
	if err := checkName(name); err != nil {
		return o, err
	}
	o.name = d.messageName(name)
	if o.id == "" { // it is not cached
		return o, nil
	}
	paths, err := d.opts.ownCachePaths(o.id)
	if err != nil {
		return o, err
	}
	paths.path = cmp.Or(o.paths.path, paths.path)
	link := linkUnlessExists
	if d.followsServer { // the old link may lead to an older version
		link = replaceLink
	}
	paths.link = func() error { return link(d.snapshotPath(name), paths.path) }
	o.paths = paths
	return o, nil
}
