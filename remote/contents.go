package remote

import (
	"cmp"
	"fmt"
	"strings"
)

// newFolder returns a folder without files. The revision is the name of its snapshot in this module's cache.
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

// add adds a file, with a place in this module's cache unless it has one. It fails if name is that of another file.
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

// placed returns o as the file called name: with its name for messages, its place, and the link that names it.
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
