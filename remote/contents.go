package remote

import (
	"cmp"
	"fmt"
	"strings"
)

// newFolder returns a folder without files. Its complete files get their names in the folder revision of this module's
// snapshots. It fails if there is no home directory.
func newFolder(o *Options, address, revision string) (*folder, error) {
	cache, err := o.cache()
	return &folder{
		opts: o, address: address, objects: make(map[string]object),
		dir: cache.Join("snapshots", revision),
		name: func(file string) string {
			if file == "" {
				return address
			}
			return strings.TrimSuffix(address, "/") + "/" + file
		},
	}, err
}

// add adds o as the file called name, with a path in this module's cache unless o has one. It fails if another file has
// the name, and for a name that leaves the folder.
func (d *folder) add(name string, o object) error {
	o, err := d.placed(name, o)
	if err == nil {
		err = d.taken.take(name)
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

// placed returns o as the file called name: with its name for messages, its path in the cache, and the link that leads
// from its name in the snapshot to it. It fails for a name that leaves the folder.
func (d *folder) placed(name string, o object) (object, error) {
	if err := checkName(name); err != nil {
		return o, err
	}
	o.name = d.name(name)
	if o.id == "" { // it is not cached
		return o, nil
	}
	at, err := d.opts.ownPlace(o.id)
	if err != nil {
		return o, err
	}
	at.path = cmp.Or(o.place.path, at.path)
	at.link = func() error { return point(d.below(name), at.path) }
	o.place = at
	return o, nil
}
