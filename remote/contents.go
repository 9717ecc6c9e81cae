package remote

import (
	"cmp"
	"fmt"
	"strings"
)

// newFolder returns a folder to which files will be added. Those that are complete get links in the folder snapshots/REVISION of
// this module's cache. It fails if there is no home directory.
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

// addFile adds content o as the file called name, with a path in this module's cache unless o has one. It fails if other content
// has the name, for a name that leaves the folder, and once the listing takes more than maxListingBytes.
func (d *folder) addFile(name string, o object) error {
	o, err := d.withCachePaths(name, o)
	if err == nil {
		err = d.listingBytes.addFile(name)
	}
	if err != nil {
		return err
	}
	if old, ok := d.objects[name]; ok && old.id != o.id {
		return fmt.Errorf("two files called %s", name)
	}
	d.objects[name] = o
	return nil
}

// withCachePaths returns content o as the file called name: with its name for messages, its path in the cache, and the function
// that makes the link in the snapshot. It fails for a name that leaves the folder, or if there is no home directory.
func (d *folder) withCachePaths(name string, o object) (object, error) {
	if err := checkName(name); err != nil {
		return o, err
	}
	o.name = d.messageName(name)
	if o.id == "" { // it is not cached
		return o, nil
	}
	at, err := d.opts.ownCachePaths(o.id)
	if err != nil {
		return o, err
	}
	at.path = cmp.Or(o.paths.path, at.path)
	link := linkUnlessExists
	if d.followsServer {
		link = replaceLink
	}
	at.link = func() error { return link(d.snapshotPath(name), at.path) }
	o.paths = at
	return o, nil
}
