package manifest

import (
	"encoding/json"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/layout/encrypted"
	"github.com/tensormap/tensormap/layout/jsontext"
)

// Decode reads a manifest or index. A nil lim means the defaults. The error is a
// *[layout.FormatError] whose Format is layout.Manifest. It wraps layout.ErrUnsupported if
// the file is a JSON object of another kind.
func Decode(in layout.Input, lim *layout.Limits) (*File, error) {
	limits := lim.WithDefaults()
	size := in.Size()
	if size > limits.HeaderBytes { // before it is read
		return nil, layout.Errorf(layout.Manifest, 0, "manifest", layout.ErrHeader, "%d bytes of JSON, more than %d", size, limits.HeaderBytes)
	}
	doc, err := layout.Region(in, layout.Manifest, 0, "manifest", 0, size)
	if err != nil {
		return nil, err
	}
	m := &File{lim: limits, text: string(doc), index: &layout.Index{
		Format:   layout.Manifest,
		Size:     size,
		Sections: []layout.Section{{Name: "manifest", Size: size}},
		Names:    layout.NewNames(0),
	}}
	object, err := jsontext.Parse(m.text, layout.Manifest, 0, "manifest", limits)
	if err != nil {
		return nil, err
	}
	if err := m.readObject(object); err != nil {
		return nil, err
	}
	return m, nil
}

// Index describes the file, which has no tensors of its own.
func (m *File) Index() *layout.Index { return m.index }

// readObject sets the fields of m from the object that its text is. Keys tell the kind of the manifest. It fails if the object is something
// else, or a value is missing or invalid.
func (m *File) readObject(object layout.Metadata) (err error) {
	isAPR2 := has(object, "shards") || has(object, "shard_count") || has(object, "tensor_shard_map")
	isIndex := has(object, "weight_map")
	switch {
	case isAPR2 && isIndex:
		return m.errorf(nil, "manifest", layout.ErrInvalid, "has the keys of an APR2 manifest and of a SafeTensors index")
	case isAPR2:
		err = m.readAPR2(object)
	case isIndex:
		err = m.readWeightMap(object)
	default:
		return m.errorf(nil, "manifest", layout.ErrUnsupported,
			"a JSON object%s, but neither an APR2 manifest (keys shard_count, shards and tensor_shard_map) nor a SafeTensors index (key weight_map)", describeKeys(object))
	}
	if err != nil || !has(object, "metadata") {
		return err
	}
	metadata, err := m.objectOf(object, "metadata")
	if err != nil {
		return err
	}
	m.hasMetadata = true
	if total, _ := metadata.Get("total_size"); m.Of == layout.SafeTensors {
		number, _ := total.(json.Number)
		m.total = string(number)
	}
	return nil
}

// has reports whether object has a key.
func has(object layout.Metadata, key string) bool {
	_, ok := object.Get(key)
	return ok
}

// describeKeys returns text for an error that names the first keys of an object.
func describeKeys(object layout.Metadata) string {
	const shown = 4
	if len(object) == 0 {
		return " without keys"
	}
	var names []string
	for _, e := range object[:min(len(object), shown)] {
		names = append(names, layout.Quote(e.Key))
	}
	if len(object) > shown {
		names = append(names, "…")
	}
	return " with the keys " + strings.Join(names, ", ")
}

// describe returns text for an error that says what a value is, such as "an object". A nil value is "nothing".
func describe(v any) string {
	switch v := v.(type) {
	case nil:
		return "nothing"
	case string:
		return "the text " + layout.Quote(v)
	case json.Number:
		return layout.Quote(string(v))
	case layout.Metadata:
		return "an object"
	case []any:
		return "a list"
	}
	return fmt.Sprint(v)
}

// mistyped returns the error that v, the value that path leads to, is not of the wanted type, such as "an object". A missing value is nil.
func (m *File) mistyped(path []any, field string, v any, want string) *layout.FormatError {
	return m.errorf(path, field, layout.ErrInvalid, "%s where %s should be", describe(v), want)
}

// objectOf returns the object that is the value of a key. It fails if there is none.
func (m *File) objectOf(object layout.Metadata, key string) (layout.Metadata, error) {
	v, _ := object.Get(key)
	inner, ok := v.(layout.Metadata)
	if !ok {
		return nil, m.mistyped([]any{key}, key, v, "an object")
	}
	return inner, nil
}

// maxShards is the most shards of a model. Each takes several hundred bytes of memory.
const maxShards = 1 << 16

// tooManyShards returns the error that the value that path leads to names more than maxShards.
func (m *File) tooManyShards(path []any, field string) error {
	return m.errorf(path, field, layout.ErrLimit, "more than %d shards", maxShards)
}

// readAPR2 reads an APR2 manifest: the list of shards, their number, and which tensor is in which of them. It fails if one of the three is
// missing, invalid, or contradicts another.
func (m *File) readAPR2(object layout.Metadata) error {
	sharded, _ := object.Get("sharded")
	m.Of, m.sharded, m.signed, m.versioned = layout.APR2, sharded == true, has(object, "signature"), has(object, "apr_version")
	if has(object, "encryption") {
		keys, err := encrypted.Parse([]byte(m.text), layout.Manifest, 0, &m.lim)
		if err != nil {
			return err
		}
		m.Encryption = keys.Encryption
	}
	if err := m.readShards(object); err != nil {
		return err
	}
	count, _ := object.Get("shard_count")
	n, ok := layout.As[uint64](count)
	if !ok {
		return m.mistyped([]any{"shard_count"}, "shard_count", count, "a number of shards")
	}
	if n != uint64(len(m.Shards)) {
		return m.errorf([]any{"shard_count"}, "shard_count", layout.ErrInvalid, "%d, but shards lists %d", n, len(m.Shards))
	}
	return m.readMap(object, "tensor_shard_map", func(name string, v any) (int, error) {
		number, _ := v.(json.Number)
		shard, err := strconv.ParseUint(string(number), 10, 64)
		path := []any{"tensor_shard_map", name}
		switch {
		case err != nil:
			return 0, m.mistyped(path, "tensor_shard_map", v, "the position of a shard").OfTensor([]byte(name))
		case shard >= uint64(len(m.Shards)):
			return 0, m.errorf(path, "tensor_shard_map", layout.ErrInvalid, "shard %s of %d", v, len(m.Shards)).OfTensor([]byte(name))
		}
		return int(shard), nil
	})
}

// readShards reads the list of files (APR2). It fails if it is empty, too long, names a file twice, or an entry is invalid.
func (m *File) readShards(object layout.Metadata) error {
	v, _ := object.Get("shards")
	list, ok := v.([]any)
	path := []any{"shards"}
	switch {
	case !ok:
		return m.mistyped(path, "shards", v, "a list of objects")
	case len(list) == 0:
		return m.errorf(path, "shards", layout.ErrInvalid, "no shards")
	case len(list) > maxShards:
		return m.tooManyShards(path, "shards")
	}
	m.Shards = make([]Shard, 0, len(list))
	positions := make(map[string]int, len(list))
	for i, v := range list {
		s, err := m.shard(i, v)
		if err != nil {
			return err
		}
		if first, twice := positions[s.Name]; twice {
			return m.errorf([]any{"shards", i, "file"}, "shards.file", layout.ErrDuplicate, "shards %d and %d are both %s", first, i, layout.Quote(s.Name))
		}
		positions[s.Name] = i
		m.Shards = append(m.Shards, s)
	}
	return nil
}

// shard returns the shard that v, entry i of the list of files, describes. It fails if the name is not plain, or a value is of the wrong type.
func (m *File) shard(i int, v any) (s Shard, err error) {
	mistyped := func(v any, want, field string, key ...any) error {
		e := m.mistyped(append([]any{"shards", i}, key...), field, v, want)
		e.Reason = fmt.Sprintf("shard %d: %s", i, e.Reason)
		return e
	}
	object, ok := v.(layout.Metadata)
	if !ok {
		return s, mistyped(v, "an object", "shards")
	}
	file, _ := object.Get("file")
	if s.Name, ok = file.(string); !ok {
		return s, mistyped(file, "the name of a file", "shards.file", "file")
	}
	if reason := whyNotPlain(s.Name); reason != "" {
		return s, m.errorf([]any{"shards", i, "file"}, "shards.file", layout.ErrInvalid, "%s %s", layout.Quote(s.Name), reason)
	}
	size, _ := object.Get("size")
	if s.Size, s.Sized = layout.As[uint64](size); !s.Sized {
		return s, mistyped(size, "a number of bytes", "shards.size", "size")
	}
	texts := []*string{&s.CRC32, &s.HeadSHA256, &s.SHA256}
	for i, key := range []string{"crc32", "head_sha256", "sha256"} {
		v, stated := object.Get(key)
		if *texts[i], ok = v.(string); stated && !ok {
			return s, mistyped(v, "text", "shards."+key, key)
		}
	}
	return s, nil
}

// readMap reads the object under key, which maps tensors to shards. shardOf returns the position of the shard that v stands for, the value of
// the tensor called name. readMap fails if there is no such object, it is too long, or shardOf fails.
func (m *File) readMap(object layout.Metadata, key string, shardOf func(name string, v any) (int, error)) error {
	places, err := m.objectOf(object, key)
	if err != nil {
		return err
	}
	if uint64(len(places)) > m.lim.Tensors {
		return m.errorf([]any{key}, key, layout.ErrLimit, "%d tensors, more than %d", len(places), m.lim.Tensors)
	}
	m.tensors = make([]Place, len(places))
	for i, e := range places {
		shard, err := shardOf(e.Key, e.Value)
		if err != nil {
			return err
		}
		m.tensors[i] = Place{e.Key, shard}
	}
	return nil
}

// readWeightMap reads which tensor is in which file (SafeTensors), and sorts the files by name. It fails if a name is not plain, or there are
// no tensors.
func (m *File) readWeightMap(object layout.Metadata) error {
	const key = "weight_map"
	m.Of, m.FollowLinks = layout.SafeTensors, true
	positions := make(map[string]int) // of files, in the order of the map
	err := m.readMap(object, key, func(name string, v any) (int, error) {
		path := []any{key, name}
		file, ok := v.(string)
		if !ok {
			return 0, m.mistyped(path, key, v, "the name of a file").OfTensor([]byte(name))
		}
		i, seen := positions[file]
		if !seen {
			if reason := whyNotPlain(file); reason != "" {
				return 0, m.errorf(path, key, layout.ErrInvalid, "%s %s", layout.Quote(file), reason).OfTensor([]byte(name))
			}
			if len(positions) == maxShards {
				return 0, m.tooManyShards(path, key)
			}
			i = len(positions)
			positions[file] = i
		}
		return i, nil
	})
	if err != nil {
		return err
	}
	if len(m.tensors) == 0 {
		return m.errorf([]any{key}, key, layout.ErrInvalid, "no tensors")
	}
	m.Shards = make([]Shard, 0, len(positions))
	sorted := make([]int, len(positions))
	for i, name := range slices.Sorted(maps.Keys(positions)) {
		m.Shards = append(m.Shards, Shard{Name: name})
		sorted[positions[name]] = i
	}
	for i := range m.tensors {
		m.tensors[i].Shard = sorted[m.tensors[i].Shard]
	}
	return nil
}

// longestName is more bytes than any file system's names have. Most allow 255, Apple's 255
// characters.
const longestName = 255 * 4

// whyNotPlain returns why name is not the name of a file in the manifest's own directory on every system,
// or "".
func whyNotPlain(name string) string {
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
