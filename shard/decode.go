package shard

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/tensormap/tensormap/layout"
)

// decoder makes a Manifest of a JSON object.
type decoder struct {
	doc  []byte
	root layout.Metadata
	lim  layout.Limits
	m    *Manifest
}

func (d *decoder) decode() error {
	apr2 := d.has("shards") || d.has("shard_count") || d.has("tensor_shard_map")
	index := d.has("weight_map")
	switch {
	case apr2 && index:
		return d.errorf(nil, "manifest", layout.ErrInvalid, "has the keys of an APR2 manifest and of a SafeTensors index")
	case apr2:
		return inOrder(d.shards, d.count, d.shardMap, d.metadata, d.marks)
	case index:
		return inOrder(d.weightMap, d.metadata, d.totalSize)
	}
	return d.errorf(nil, "manifest", layout.ErrUnsupported,
		"a JSON object%s, but neither an APR2 manifest (keys shard_count, shards and tensor_shard_map) nor a SafeTensors index (key weight_map)", d.seen())
}

// inOrder runs one stage after the other, up to the first that fails.
func inOrder(stages ...func() error) error {
	for _, stage := range stages {
		if err := stage(); err != nil {
			return err
		}
	}
	return nil
}

func (d *decoder) has(key string) bool {
	_, ok := d.root.Get(key)
	return ok
}

// seen names a few keys of an object that is something else.
func (d *decoder) seen() string {
	const few = 4
	var names []string
	for key := range d.root.All() {
		if len(names) == few {
			names = append(names, "…")
			break
		}
		names = append(names, quote(key))
	}
	if len(names) == 0 {
		return " without keys"
	}
	return " with the keys " + strings.Join(names, ", ")
}

// errorf is an error about the value that path leads to.
func (d *decoder) errorf(path []any, field string, sentinel error, format string, args ...any) error {
	return layout.Errorf(layout.Manifest, locate(d.doc, path...), field, sentinel, format, args...)
}

// shards reads the list of files (APR2).
func (d *decoder) shards() error {
	d.m.Of, d.m.keys = layout.APR2, apr2Keys
	v, _ := d.root.Get("shards")
	list, ok := v.([]any)
	if !ok {
		return d.mistyped(v, "a list of objects", "shards")
	}
	if len(list) == 0 {
		return d.errorf([]any{"shards"}, "shards", layout.ErrInvalid, "no shards")
	}
	known := make(map[string]int)
	for i, v := range list {
		s, err := d.shard(i, v)
		if err != nil {
			return err
		}
		d.m.Shards = append(d.m.Shards, s)
		if first, twice := known[s.Name]; twice {
			return d.errorf(d.m.file(i), "shards.file", layout.ErrDuplicate, "shards %d and %d are both %s", first, i, quote(s.Name))
		}
		known[s.Name] = i
	}
	return nil
}

func (d *decoder) shard(i int, v any) (s Shard, err error) {
	o, ok := v.(layout.Metadata)
	if !ok {
		return s, d.mistyped(v, "an object", "shards", i)
	}
	v, _ = o.Get("file")
	if s.Name, ok = v.(string); !ok {
		return s, d.mistyped(v, "the name of a file", "shards", i, "file")
	}
	if reason := notPlain(s.Name); reason != "" {
		return s, d.errorf([]any{"shards", i, "file"}, "shards.file", layout.ErrInvalid, "%s %s", quote(s.Name), reason)
	}
	v, _ = o.Get("size")
	if s.Size, s.Sized = whole(v); !s.Sized {
		return s, d.mistyped(v, "a number of bytes", "shards", i, "size")
	}
	for _, sum := range []struct {
		key  string
		text *string
	}{{"crc32", &s.CRC32}, {"sha256", &s.SHA256}} {
		if v, has := o.Get(sum.key); has {
			if *sum.text, ok = v.(string); !ok {
				return s, d.mistyped(v, "text", "shards", i, sum.key)
			}
		}
	}
	return s, nil
}

func (d *decoder) count() error {
	v, _ := d.root.Get("shard_count")
	n, ok := whole(v)
	if !ok {
		return d.mistyped(v, "a number of shards", "shard_count")
	}
	if n != uint64(len(d.m.Shards)) {
		return d.errorf([]any{"shard_count"}, "shard_count", layout.ErrInvalid, "%d, but shards lists %d", n, len(d.m.Shards))
	}
	return nil
}

func (d *decoder) shardMap() error {
	const key = "tensor_shard_map"
	entries, err := d.entries(key)
	if err != nil {
		return err
	}
	for _, e := range entries {
		i, ok := whole(e.Value)
		if !ok {
			return d.mistyped(e.Value, "the position of a shard", key, e.Key)
		}
		if i >= uint64(len(d.m.Shards)) {
			return d.errorf([]any{key, e.Key}, key, layout.ErrInvalid, "tensor %s: shard %d of %d", quote(e.Key), i, len(d.m.Shards))
		}
		d.m.places = append(d.m.places, place{e.Key, int(i)})
	}
	return nil
}

// entries are those of the object called key.
func (d *decoder) entries(key string) (layout.Metadata, error) {
	v, _ := d.root.Get(key)
	o, ok := v.(layout.Metadata)
	if !ok {
		return nil, d.mistyped(v, "an object", key)
	}
	if uint64(len(o)) > d.lim.Tensors {
		return nil, d.errorf([]any{key}, key, layout.ErrLimit, "%d tensors, more than %d", len(o), d.lim.Tensors)
	}
	d.m.places = make([]place, 0, len(o))
	return o, nil
}

// marks notes what is there for readers of other kinds.
func (d *decoder) marks() error {
	v, _ := d.root.Get("sharded")
	d.m.flagged = v == true
	d.m.versioned = d.has("apr_version")
	return nil
}

// weightMap reads which tensor is in which file (SafeTensors). The files get the order of
// their names.
func (d *decoder) weightMap() error {
	const key = "weight_map"
	d.m.Of, d.m.keys, d.m.FollowLinks = layout.SafeTensors, indexKeys, true
	entries, err := d.entries(key)
	if err != nil {
		return err
	}
	if len(entries) == 0 {
		return d.errorf([]any{key}, key, layout.ErrInvalid, "no tensors")
	}
	known := make(map[string]int)
	for i, e := range entries {
		name, ok := e.Value.(string)
		if !ok {
			return d.mistyped(e.Value, "the name of a file", key, e.Key)
		}
		if _, seen := known[name]; !seen {
			if reason := notPlain(name); reason != "" {
				return d.errorf([]any{key, e.Key}, key, layout.ErrInvalid, "tensor %s: %s %s", quote(e.Key), quote(name), reason)
			}
			known[name] = 0
			d.m.Shards = append(d.m.Shards, Shard{Name: name, first: i})
		}
	}
	slices.SortFunc(d.m.Shards, func(a, b Shard) int { return strings.Compare(a.Name, b.Name) })
	for i := range d.m.Shards {
		known[d.m.Shards[i].Name] = i
	}
	for _, e := range entries {
		d.m.places = append(d.m.places, place{e.Key, known[e.Value.(string)]})
	}
	return nil
}

func (d *decoder) metadata() error {
	v, ok := d.root.Get("metadata")
	if !ok {
		return nil
	}
	if d.m.metadata, d.m.described = v.(layout.Metadata); !d.m.described {
		return d.mistyped(v, "an object", "metadata")
	}
	return nil
}

func (d *decoder) totalSize() error {
	v, _ := d.m.metadata.Get("total_size")
	if n, ok := v.(json.Number); ok {
		d.m.total = n.String()
	}
	return nil
}

// mistyped is the error of finding v, or nothing, where path leads.
func (d *decoder) mistyped(v any, want string, path ...any) error {
	field, _ := path[0].(string)
	if len(path) == 3 { // of a shard
		field = fmt.Sprintf("%v.%v", path[0], path[2])
	}
	return d.errorf(path, field, layout.ErrInvalid, "%s%s where %s should be", position(path), kind(v), want)
}

// position says which of many the value at path belongs to.
func position(path []any) string {
	if len(path) == 1 {
		return ""
	}
	if name, ok := path[1].(string); ok {
		return fmt.Sprintf("tensor %s: ", quote(name))
	}
	return fmt.Sprintf("shard %v: ", path[1])
}

// kind says what a value of JSON is, or that there is none.
func kind(v any) string {
	switch v := v.(type) {
	case nil:
		return "nothing"
	case json.Number:
		return quote(v.String())
	case string:
		return "the text " + quote(v)
	case bool:
		return strconv.FormatBool(v)
	case layout.Metadata:
		return "an object"
	}
	return "a list"
}

// whole is v as a number that is whole, not negative, and fits.
func whole(v any) (uint64, bool) {
	n, ok := v.(json.Number)
	if !ok {
		return 0, false
	}
	u, err := strconv.ParseUint(n.String(), 10, 64)
	return u, err == nil
}

// longestName is more bytes than any file system's names have: most allow 255, Apple's 255
// characters.
const longestName = 255 * 4

// notPlain says why name is not the name of a file in the manifest's own directory, on
// whatever system; "" where it is.
func notPlain(name string) string {
	switch {
	case name == "" || name == "." || name == "..":
		return "is not the name of a file"
	case strings.ContainsAny(name, `/\`):
		return "is a path: shards are named without one, and lie beside the manifest"
	case strings.ContainsRune(name, 0):
		return "holds a NUL byte"
	case len(name) > longestName:
		return "is longer than file systems allow"
	case !filepath.IsLocal(name):
		return "is reserved by the system"
	}
	return ""
}
