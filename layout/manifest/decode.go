package manifest

import (
	"bytes"
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
	m := &File{lim: limits, text: bytes.Clone(doc), index: &layout.Index{
		Format:   layout.Manifest,
		Size:     size,
		Sections: []layout.Section{{Name: "manifest", Size: size}},
		Names:    layout.NewNames(0),
	}}
	d := decoder{text: m.text, lim: limits, m: m}
	if err := d.decode(); err != nil {
		return nil, err
	}
	return m, nil
}

// Index describes the file, which has no tensors of its own.
func (m *File) Index() *layout.Index { return m.index }

// decoder makes a File of a JSON object. First it checks all of the text and notes where the values are. Then it reads the values
// that it knows.
type decoder struct {
	text      []byte
	lim       layout.Limits
	values    map[string]value // by key, of those in known
	firstKeys [][]byte         // of the object, for an error
	m         *File
}

// value is the value of a key of the manifest.
type value struct {
	at, end uint64
	n       int // members or elements
}

// known are the keys that one of the two kinds of manifests has.
var known = []string{"shards", "shard_count", "tensor_shard_map", "weight_map", "metadata", "sharded", "apr_version", "signature", "encryption"}

// decode tells the kind of the manifest by its keys, and reads the values of that kind.
func (d *decoder) decode() error {
	if err := d.locateValues(); err != nil {
		return err
	}
	apr2 := d.has("shards") || d.has("shard_count") || d.has("tensor_shard_map")
	index := d.has("weight_map")
	switch {
	case apr2 && index:
		return d.errorf(0, "manifest", layout.ErrInvalid, "has the keys of an APR2 manifest and of a SafeTensors index")
	case apr2:
		return runStages(d.shards, d.checkShardCount, d.shardMap, d.metadata)
	case index:
		return runStages(d.weightMap, d.metadata, d.totalSize)
	}
	return d.errorf(0, "manifest", layout.ErrUnsupported,
		"a JSON object%s, but neither an APR2 manifest (keys shard_count, shards and tensor_shard_map) nor a SafeTensors index (key weight_map)", d.describeKeys())
}

// runStages runs one stage after the other, up to the first that fails.
func runStages(stages ...func() error) error {
	for _, stage := range stages {
		if err := stage(); err != nil {
			return err
		}
	}
	return nil
}

// shownKeys is how many keys an error names of an object that is something else.
const shownKeys = 4

// locateValues parses the whole text, and sets d.values to where the values of known keys are. It fails for malformed JSON.
func (d *decoder) locateValues() error {
	d.values = make(map[string]value)
	s := d.scan(0)
	for key := range s.Members("an object") {
		v := value{at: s.Offset()}
		v.n = s.Skip()
		v.end = s.Offset()
		if slices.Contains(known, string(key)) {
			d.values[string(key)] = v
		}
		if len(d.firstKeys) <= shownKeys {
			d.firstKeys = append(d.firstKeys, key)
		}
	}
	s.End()
	return s.Err()
}

// maxShards is the most shards of a model. Each takes several hundred bytes of memory.
const maxShards = 1 << 16

// tooManyShards returns an error for more than maxShards.
func (d *decoder) tooManyShards(at uint64, field string, shards int) error {
	if shards > maxShards {
		return d.errorf(at, field, layout.ErrLimit, "more than %d shards", maxShards)
	}
	return nil
}

// scan returns a scanner of the text from offset at on.
func (d *decoder) scan(at uint64) jsontext.Scanner[[]byte] {
	return jsontext.New(d.text[at:], layout.Manifest, at, "manifest", d.lim)
}

// has reports whether the manifest has a key.
func (d *decoder) has(key string) bool {
	_, ok := d.values[key]
	return ok
}

// describeKeys returns text for an error that names the first keys of the object.
func (d *decoder) describeKeys() string {
	var names []string
	for _, key := range d.firstKeys {
		names = append(names, layout.Quote(key))
	}
	if len(names) == 0 {
		return " without keys"
	}
	if len(names) > shownKeys {
		names[shownKeys] = "…"
	}
	return " with the keys " + strings.Join(names, ", ")
}

// errorf returns the error that the field at offset at of the text breaks a rule.
func (d *decoder) errorf(at uint64, field string, sentinel error, format string, args ...any) *layout.FormatError {
	return layout.Errorf(layout.Manifest, at, field, sentinel, format, args...)
}

// leaf is a value of JSON, without the members of an object or array.
type leaf struct {
	kind byte   // its first byte, '0' for numbers; 0 if there is no value
	text string // of a string or number
	at   uint64
}

// readLeaf reads the value that comes next, and skips the members of an object or array. Errors are left in s.
func readLeaf(s *jsontext.Scanner[[]byte]) leaf {
	v := leaf{kind: s.Next(), at: s.Offset()}
	switch {
	case v.kind == '"':
		v.text = string(s.Text())
	case v.kind == '-' || v.kind-'0' <= 9:
		v.kind, v.text = '0', string(s.Number())
	default:
		s.Skip()
	}
	return v
}

// valueOf returns the value of a key of the manifest. If there is no such key, it has the kind 0, and the offset of the manifest's start
// for errors.
func (d *decoder) valueOf(key string) leaf {
	v, ok := d.values[key]
	if !ok {
		return leaf{at: d.start()}
	}
	if c := d.text[v.at]; c == '{' || c == '[' {
		return leaf{kind: c, at: v.at} // to be read piece by piece
	}
	s := d.scan(v.at)
	return readLeaf(&s)
}

// start returns where the manifest's object starts.
func (d *decoder) start() uint64 { return jsontext.Locate(d.text) }

// String returns text for an error that says what the value is, such as "an object", or that there is none.
func (v leaf) String() string {
	switch v.kind {
	case 0, 'n':
		return "nothing"
	case '"':
		return "the text " + quote(v.text)
	case '0':
		return quote(v.text)
	case 't':
		return "true"
	case 'f':
		return "false"
	case '{':
		return "an object"
	}
	return "a list"
}

// uint64 returns the value of a number. It reports false if v is no number, is negative, has a fraction, or needs more than 64 bits.
func (v leaf) uint64() (uint64, bool) {
	u, err := strconv.ParseUint(v.text, 10, 64)
	return u, err == nil && v.kind == '0'
}

// mistyped returns the error that v is not of the wanted type, such as "an object". which begins the reason, such as "shard 2: ".
func (d *decoder) mistyped(v leaf, field, which, want string) *layout.FormatError {
	return d.errorf(v.at, field, layout.ErrInvalid, "%s%s where %s should be", which, v, want)
}

// shards reads the list of files (APR2). It fails if it is empty, too long, names a file twice, or an entry is invalid.
func (d *decoder) shards() error {
	d.m.Of = layout.APR2
	d.m.sharded, d.m.signed, d.m.versioned = d.valueOf("sharded").kind == 't', d.has("signature"), d.has("apr_version")
	if d.has("encryption") {
		keys, err := encrypted.Parse(d.text, layout.Manifest, 0, &d.lim)
		if err != nil {
			return err
		}
		d.m.Encryption = keys.Encryption
	}
	list := d.valueOf("shards")
	if list.kind != '[' {
		return d.mistyped(list, "shards", "", "a list of objects")
	}
	n := d.values["shards"].n
	if n == 0 {
		return d.errorf(list.at, "shards", layout.ErrInvalid, "no shards")
	}
	if err := d.tooManyShards(list.at, "shards", n); err != nil {
		return err
	}
	d.m.Shards = make([]Shard, 0, n)
	names := make(map[string]int, n)
	s := d.scan(list.at)
	for s.Open('[', "a list"); s.More(']'); {
		i := len(d.m.Shards)
		x, at, err := d.shard(&s, i)
		if err != nil {
			return err
		}
		d.m.Shards = append(d.m.Shards, x)
		if first, twice := names[x.Name]; twice {
			return d.errorf(at, "shards.file", layout.ErrDuplicate, "shards %d and %d are both %s", first, i, quote(x.Name))
		}
		names[x.Name] = i
	}
	return nil
}

// shardKeys are the keys of a shard that are read: its name, its size, and texts.
var shardKeys = [...]string{"file", "size", "crc32", "head_sha256", "sha256"}

// shard reads entry i of the list of files, and returns where its name stands. It fails if the name is not plain, or a value is of the
// wrong type.
func (d *decoder) shard(s *jsontext.Scanner[[]byte], i int) (x Shard, at uint64, err error) {
	wrong := func(v leaf, field, want string) error {
		return d.mistyped(v, field, fmt.Sprintf("shard %d: ", i), want)
	}
	if s.Next() != '{' {
		return x, 0, wrong(readLeaf(s), "shards", "an object")
	}
	var fields [len(shardKeys)]leaf
	for k := range fields {
		fields[k].at = s.Offset() // if it is missing
	}
	for s.Open('{', "an object"); s.More('}'); {
		key, _ := s.Key()
		if k := slices.Index(shardKeys[:], string(key)); k >= 0 {
			fields[k] = readLeaf(s)
		} else {
			s.Skip()
		}
	}
	file, size := fields[0], fields[1]
	if file.kind != '"' {
		return x, 0, wrong(file, "shards.file", "the name of a file")
	}
	if reason := whyNotPlain(file.text); reason != "" {
		return x, 0, d.errorf(file.at, "shards.file", layout.ErrInvalid, "%s %s", quote(file.text), reason)
	}
	if x.Size, x.Sized = size.uint64(); !x.Sized {
		return x, 0, wrong(size, "shards.size", "a number of bytes")
	}
	for k := 2; k < len(fields); k++ {
		if v := fields[k]; v.kind != 0 && v.kind != '"' {
			return x, 0, wrong(v, "shards."+shardKeys[k], "text")
		}
	}
	crc, head, digest := fields[2], fields[3], fields[4]
	x.Name, x.CRC32, x.HeadSHA256, x.SHA256 = file.text, crc.text, head.text, digest.text
	d.m.checksumOffsets = append(d.m.checksumOffsets, checksumOffsets{crc.at, digest.at})
	return x, file.at, nil
}

// checkShardCount returns an error unless shard_count is the length of the list of shards (APR2).
func (d *decoder) checkShardCount() error {
	const key = "shard_count"
	v := d.valueOf(key)
	n, ok := v.uint64()
	if !ok {
		return d.mistyped(v, key, "", "a number of shards")
	}
	if n != uint64(len(d.m.Shards)) {
		return d.errorf(v.at, key, layout.ErrInvalid, "%d, but shards lists %d", n, len(d.m.Shards))
	}
	return nil
}

// shardMap reads which tensor is in which of the shards listed before (APR2). It fails if a value is not the position of a shard.
func (d *decoder) shardMap() error {
	const key = "tensor_shard_map"
	return d.readMap(key, func(s *jsontext.Scanner[[]byte], name []byte) (uint32, error) {
		v := readLeaf(s)
		i, ok := v.uint64()
		switch {
		case !ok:
			return 0, d.mistyped(v, key, "", "the position of a shard").OfTensor(name)
		case i >= uint64(len(d.m.Shards)):
			return 0, d.errorf(v.at, key, layout.ErrInvalid, "shard %s of %d", v.text, len(d.m.Shards)).OfTensor(name)
		}
		return uint32(i), nil
	})
}

// readMap reads the object under key, which maps tensors to shards. read reads the value of one tensor. readMap fails if there is no such
// object, it is too long, or read fails.
func (d *decoder) readMap(key string, read func(s *jsontext.Scanner[[]byte], name []byte) (shard uint32, err error)) error {
	object := d.valueOf(key)
	if object.kind != '{' {
		return d.mistyped(object, key, "", "an object")
	}
	n := d.values[key].n
	if uint64(n) > d.lim.Tensors {
		return d.errorf(object.at, key, layout.ErrLimit, "%d tensors, more than %d", n, d.lim.Tensors)
	}
	d.m.tensors = make([]place, 0, n)
	s := d.scan(object.at)
	for s.Open('{', "an object"); s.More('}'); {
		name, _ := s.Key()
		shard, err := read(&s, name)
		if err != nil {
			return err
		}
		d.m.tensors = append(d.m.tensors, place{name, shard})
	}
	return nil
}

// weightMap reads which tensor is in which file (SafeTensors), and sorts the files by name. It fails if a name is not plain, or there are
// no tensors.
func (d *decoder) weightMap() error {
	const key = "weight_map"
	d.m.Of, d.m.FollowLinks = layout.SafeTensors, true
	positions := make(map[string]uint32) // of files, in the order of the map
	err := d.readMap(key, func(s *jsontext.Scanner[[]byte], name []byte) (uint32, error) {
		if s.Next() != '"' {
			return 0, d.mistyped(readLeaf(s), key, "", "the name of a file").OfTensor(name)
		}
		at, file := s.Offset(), s.Text()
		i, seen := positions[string(file)]
		if !seen {
			if reason := whyNotPlain(string(file)); reason != "" {
				return 0, d.errorf(at, key, layout.ErrInvalid, "%s %s", layout.Quote(file), reason).OfTensor(name)
			}
			i = uint32(len(positions))
			positions[string(file)] = i
		}
		return i, d.tooManyShards(at, key, len(positions))
	})
	if err != nil {
		return err
	}
	if len(d.m.tensors) == 0 {
		return d.errorf(d.values[key].at, key, layout.ErrInvalid, "no tensors")
	}
	names := slices.Sorted(maps.Keys(positions))
	sorted := make([]uint32, len(names))
	d.m.Shards = make([]Shard, len(names))
	for i, name := range names {
		d.m.Shards[i].Name = name
		sorted[positions[name]] = uint32(i)
	}
	for i := range d.m.tensors {
		d.m.tensors[i].shard = sorted[d.m.tensors[i].shard]
	}
	return nil
}

// metadata sets the text of the model's metadata, if the manifest has any. It fails if that is no object.
func (d *decoder) metadata() error {
	v := d.valueOf("metadata")
	switch v.kind {
	case 0:
	case '{':
		d.m.metadata = d.text[v.at:d.values["metadata"].end]
	default:
		return d.mistyped(v, "metadata", "", "an object")
	}
	return nil
}

// totalSize reads total_size, if the metadata has it as a number (SafeTensors).
func (d *decoder) totalSize() error {
	if d.m.metadata == nil {
		return nil
	}
	s := d.scan(d.values["metadata"].at)
	for s.Open('{', "an object"); s.More('}'); {
		key, _ := s.Key()
		if v := readLeaf(&s); string(key) == "total_size" && v.kind == '0' {
			d.m.total = v.text
		}
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
