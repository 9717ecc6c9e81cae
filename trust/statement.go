package trust

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"hash"
	"maps"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"github.com/zeebo/blake3"
	"golang.org/x/crypto/blake2b"

	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/layout/encrypted"
	"github.com/tensormap/tensormap/layout/jsontext"
)

// ChunksAnnotation is the key of a resource's annotation that has the digests of its chunks:
//
//	{"size": 4194304, "digests": "base64 of the SHA-256 of every chunk, one behind the other"}
//
// size is a power of two from 65,536 to 2^30, with at most 32,768 chunks.
const ChunksAnnotation = "dev.tensormap.chunks/v1"

// Statement is what a signature vouches for: the files of a directory and their digests. It gives a
// [loader.Model] its digests.
//
// [loader.Model]: https://pkg.go.dev/github.com/tensormap/tensormap/loader#Model
type Statement struct {
	Name          string   // of the model, for people
	IgnorePaths   []string // that are not signed, with all below them
	AllowSymlinks bool

	newHash     func() hash.Hash   // of whole files, and of shards
	chunkHash   func() hash.Hash   // of chunks, which may be shards
	granularity layout.Granularity // ByChunk, or ByShard
	files       map[string]*signed
	names       []string // of files, in order
}

// signed is a file that the statement lists.
type signed struct {
	digest []byte // of the whole file, or nil if it is in shards
	size   uint64 // of a file in shards
	chunks *chunks
}

// chunks are the digests of the chunks of a file, as ChunksAnnotation has them.
type chunks struct {
	Size uint64 `json:"size"`    // bytes of each chunk but the last
	Sums []byte `json:"digests"` // their digests, one after the other
}

// Files lists the signed files by ascending name.
func (s *Statement) Files() []string { return s.names }

// Lists reports whether the statement has a file of this name, which must then be there.
func (s *Statement) Lists(name string) bool { return s.files[name] != nil }

// serialization tells what the resources of a statement are: files or shards of files, and their hash.
type serialization struct {
	method, hash string
	shardSize    uint64
}

// resource is one entry of the list of what is signed: a file, or a shard of one.
type resource struct {
	name, algorithm string
	digest          []byte
	chunks          *chunks
}

// ParseStatement reads the payload of a bundle whose signature has been verified. It checks all that
// can be checked without the files: the names, the digests' lengths, the digest over all of them.
func ParseStatement(payload []byte) (_ *Statement, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("signed statement: %w", withOffset(err))
		}
	}()
	var (
		s         Statement
		predicate string
		subjects  []resource
		form      serialization
		resources []resource
		js        = jsontext.New(payload, layout.Unknown, 0, "JSON", bundleLimits.WithDefaults())
	)
	js.Record(0, "an object", []string{"_type", "predicateType", "subject", "predicate"}, func(i int) {
		switch i {
		case 0:
			readExpected(&js, "_type", statementType)
		case 1:
			predicate = js.Text()
		case 2:
			subjects = readSubjects(&js)
		case 3:
			for key := range js.Members("an object") {
				switch key {
				case "serialization":
					form = s.readSerialization(&js)
				case "resources":
					resources = readResources(&js)
				}
			}
		}
	})
	js.End()
	if err := js.Err(); err != nil {
		return nil, err
	}
	switch predicate {
	case predicateType:
		err = s.setSigned(form, resources, subjects)
	case digestsType:
		err = s.setResources(serialization{method: "files", hash: "sha256"}, subjects)
	default:
		err = invalid("predicateType %s, not %s", layout.Quote(predicate), predicateType)
	}
	if err != nil {
		return nil, err
	}
	return &s, nil
}

// readSubjects reads the array "subject": one model with its root digest, or in statements of version 0.2 all files. A subject must have
// a name and a digest.
func readSubjects(js *scanner) (list []resource) {
	for js.Open('[', "an array"); js.More(']'); {
		at := js.Offset()
		r := resource{algorithm: "sha256"}
		for key := range js.Members("an object") {
			switch key {
			case "name":
				r.name = strings.Clone(js.Text())
			case "digest":
				for key := range js.Members("an object") {
					if key == "sha256" {
						r.digest = readHex(js)
					}
				}
			case "annotations":
				for key := range js.Members("an object") {
					if key == "actual_hash_algorithm" {
						r.algorithm = strings.TrimPrefix(js.Text(), "file-")
					}
				}
			}
		}
		if r.name == "" || r.digest == nil {
			js.Fail(at, layout.ErrInvalid, "a subject without a name or a sha256")
		}
		list = append(list, r)
	}
	return list
}

// readHex reads a string of lower-case hexadecimal digits, and decodes it.
func readHex(js *scanner) []byte {
	at := js.Offset()
	text := js.Text()
	b, err := hex.DecodeString(text)
	if err != nil || text != strings.ToLower(text) {
		js.Fail(at, layout.ErrInvalid, "digest %s is not lower-case hexadecimal", layout.Quote(text))
	}
	return b
}

// readUint reads a whole number of at least 0. It may be written as a float up to 2^53, as the reference client writes all numbers.
func readUint(js *scanner) uint64 {
	at := js.Offset()
	text := js.Number()
	if n, err := strconv.ParseUint(text, 10, 64); err == nil {
		return n
	}
	f, err := strconv.ParseFloat(text, 64)
	if err != nil || f < 0 || f > 1<<53 || f != float64(uint64(f)) {
		js.Fail(at, layout.ErrInvalid, "%s is not a whole number up to 2^53", layout.Quote(text))
		return 0
	}
	return uint64(f)
}

// readSerialization reads the object "serialization". It returns method, hash and size of shards, and sets s.AllowSymlinks and
// s.IgnorePaths.
func (s *Statement) readSerialization(js *scanner) (form serialization) {
	for key := range js.Members("an object") {
		switch key {
		case "method":
			form.method = js.Text()
		case "hash_type":
			form.hash = js.Text()
		case "allow_symlinks":
			c := js.Next()
			if s.AllowSymlinks = c == 't'; c != 't' && c != 'f' {
				js.Unexpected("true or false")
			}
		case "shard_size":
			form.shardSize = readUint(js)
		case "ignore_paths":
			if js.Next() == 'n' {
				continue // null
			}
			for js.Open('[', "an array"); js.More(']'); {
				s.IgnorePaths = append(s.IgnorePaths, strings.Clone(js.Text()))
			}
		}
	}
	return form
}

// readResources reads the array "resources".
func readResources(js *scanner) (list []resource) {
	for js.Open('[', "an array"); js.More(']'); {
		var r resource
		for key := range js.Members("an object") {
			switch key {
			case "name":
				r.name = strings.Clone(js.Text())
			case "digest":
				r.digest = readHex(js)
			case "algorithm":
				r.algorithm = js.Text()
			case "annotations":
				r.chunks = readAnnotations(js)
			}
		}
		list = append(list, r)
	}
	return list
}

// readAnnotations reads the digests of chunks, or returns nil if there are none. It ignores other annotations, and
// other versions of this one.
func readAnnotations(js *scanner) (c *chunks) {
	for key, at := range js.Members("an object") {
		if key != ChunksAnnotation {
			continue
		}
		c = new(chunks)
		js.Record(at, "an object", []string{"size", "digests"}, func(i int) {
			if i == 0 {
				c.Size = readUint(js)
			} else {
				c.Sums = encrypted.ReadBase64(js, fieldValue, -1)
			}
		})
		if !layout.ChunkOK(c.Size, 0) || len(c.Sums)%sha256.Size != 0 || len(c.Sums)/sha256.Size > layout.MaxChunks {
			js.Fail(at, layout.ErrInvalid, "%s: wants a size that is a power of two from %d to %d, and at most %d digests of %d bytes",
				ChunksAnnotation, layout.MinChunk, layout.MaxChunk, layout.MaxChunks, sha256.Size)
		}
	}
	return c
}

// setSigned sets the files to the resources, after it has checked that there is one subject, with the root digest: SHA-256 over the
// digests of all resources, whatever their hash is.
func (s *Statement) setSigned(form serialization, resources, subjects []resource) error {
	if len(subjects) != 1 {
		return invalid("%d subjects, where exactly one is allowed", len(subjects))
	}
	s.Name = subjects[0].name
	all := sha256.New()
	for _, r := range resources {
		all.Write(r.digest)
	}
	if root := subjects[0].digest; !bytes.Equal(all.Sum(nil), root) {
		return fmt.Errorf("%w: the subject has the digest %x, but the resources have %x", ErrSignature, root, all.Sum(nil))
	}
	return s.setResources(form, resources)
}

// hashTypes has the functions that make the hashes which resources may have, by the names in "hash_type".
var hashTypes = map[string]func() hash.Hash{
	"sha256": sha256.New,
	"blake2b": func() hash.Hash {
		h, _ := blake2b.New512(nil) // which fails for a key only
		return h
	},
	"blake3": func() hash.Hash { return blake3.New() },
}

// setResources sets s.files, s.names and how they are hashed from the resources. It fails for an unknown hash or method, and if a
// resource is invalid or listed twice. By the specification the algorithm of a shard is the file's, but the reference client
// writes another word, with the size in it.
func (s *Statement) setResources(form serialization, resources []resource) error {
	if len(resources) == 0 {
		return invalid("no resources")
	}
	if s.newHash = hashTypes[form.hash]; s.newHash == nil {
		return fmt.Errorf("%w: hash_type %s; sha256, blake2b and blake3 are known", layout.ErrUnsupported, layout.Quote(form.hash))
	}
	size := s.newHash().Size()
	s.files = make(map[string]*signed)
	s.chunkHash, s.granularity = sha256.New, layout.ByChunk
	algorithm, inShards := form.hash, form.method == "shards"
	if inShards {
		s.chunkHash, s.granularity = s.newHash, layout.ByShard
		algorithm = fmt.Sprintf("%s-sharded-%d", form.hash, form.shardSize)
	} else if form.method != "files" {
		return fmt.Errorf("%w: serialization method %s; files and shards are known", layout.ErrUnsupported, layout.Quote(form.method))
	}
	for _, r := range resources {
		switch {
		case len(r.digest) != size:
			return r.invalid("a digest of %d bytes, not %d", len(r.digest), size)
		case r.algorithm != form.hash && r.algorithm != algorithm:
			return r.invalid("algorithm %s, but hash_type %s", layout.Quote(r.algorithm), layout.Quote(form.hash))
		case inShards: // setShards sets the files
		case s.files[r.name] != nil:
			return fmt.Errorf("resource %s: %w: it is listed twice", layout.Quote(r.name), layout.ErrDuplicate)
		default:
			s.files[r.name] = &signed{digest: r.digest, chunks: r.chunks}
		}
	}
	if inShards {
		if err := s.setShards(form.shardSize, resources); err != nil {
			return err
		}
	}
	s.names = slices.Sorted(maps.Keys(s.files))
	for _, name := range s.names {
		if err := checkName(name); err != nil && (name != "." || len(s.names) > 1) {
			return err
		}
	}
	return checkCaseCollisions(s.names)
}

// checkCaseCollisions returns an error if two names differ only in case, on systems where they are one file.
func checkCaseCollisions(names []string) error {
	if runtime.GOOS != "windows" && runtime.GOOS != "darwin" {
		return nil
	}
	folded := make(map[string]string)
	for _, name := range names {
		key := strings.ToLower(name)
		if other, ok := folded[key]; ok {
			return fmt.Errorf("%w: %s and %s are one file on this system", layout.ErrDuplicate, layout.Quote(other), layout.Quote(name))
		}
		folded[key] = name
	}
	return nil
}

// invalid returns an error about the resource: one that wraps layout.ErrInvalid.
func (r *resource) invalid(format string, args ...any) error {
	return fmt.Errorf("resource %s: %w", layout.Quote(r.name), invalid(format, args...))
}

// setShards sets s.files from resources that are shards of files, of size bytes each but the last of a file. It fails unless the
// shards of each file follow each other from its start.
func (s *Statement) setShards(size uint64, resources []resource) error {
	if size == 0 {
		return invalid("method shards without shard_size")
	}
	type shard struct {
		file       string
		start, end uint64
		digest     []byte
	}
	var shards []shard
	for _, r := range resources {
		rest, end, ok := cutNumber(r.name)
		file, start, ok2 := cutNumber(rest)
		if !ok || !ok2 || start >= end || end-start > size || start%size != 0 {
			return r.invalid("not NAME:START:END of a shard of %d bytes", size)
		}
		shards = append(shards, shard{file, start, end, r.digest})
	}
	slices.SortFunc(shards, func(a, b shard) int { return cmp.Compare(a.start, b.start) })
	for _, p := range shards {
		f := s.files[p.file]
		if f == nil {
			f = &signed{chunks: &chunks{Size: size}}
			s.files[p.file] = f
		}
		if p.start < f.size {
			return fmt.Errorf("resource %s: %w: the shard at %d is listed twice", layout.Quote(p.file), layout.ErrDuplicate, p.start)
		}
		if p.start != f.size { // also after a shard that is too short, because p.start is a multiple of size
			return fmt.Errorf("resource %s: %w", layout.Quote(p.file), invalid("no shard has byte %d", f.size))
		}
		f.size = p.end
		f.chunks.Sums = append(f.chunks.Sums, p.digest...)
	}
	return nil
}

// cutNumber cuts a colon and a number of less than 63 bits off the end of s. ok is false if it has no such end.
func cutNumber(s string) (before string, n uint64, ok bool) {
	i := strings.LastIndexByte(s, ':')
	n, err := strconv.ParseUint(s[i+1:], 10, 62)
	return s[:max(i, 0)], n, i >= 0 && err == nil
}

// checkName returns an error for names of files that lead out of the directory, and for names that no writer gives.
func checkName(name string) error {
	if name == "." || name != path.Clean(name) || !filepath.IsLocal(filepath.FromSlash(name)) || strings.ContainsRune(name, 0) ||
		runtime.GOOS == "windows" && strings.ContainsAny(name, `\:`) {
		return fmt.Errorf("resource %s: %w", layout.Quote(name), invalid("not a plain path below the model's directory"))
	}
	return nil
}

// Digests returns the digests of the file called name. The only file of a statement may be called "." there. A file
// that is not listed is ErrUnsigned. One of another size than the signed one, which in tells, is layout.ErrChecksum.
func (s *Statement) Digests(name string, in layout.Input) (*layout.Digests, error) {
	f := cmp.Or(s.files[name], s.files["."])
	if f == nil && s.granularity == layout.ByShard && in.Size() == 0 { // which has no shards
		return &layout.Digests{Chunk: 1, Granularity: s.granularity}, nil
	}
	if f == nil {
		return nil, fmt.Errorf("%w: the signature does not list %s", ErrUnsigned, layout.Quote(name))
	}
	if f.chunks == nil {
		return wholeFileDigests(in.Size(), s.newHash, f.digest)
	}
	d := &layout.Digests{End: in.Size(), New: s.chunkHash, Granularity: s.granularity, Chunk: f.chunks.Size, Sums: f.chunks.Sums}
	if f.digest == nil && f.size != d.End || d.Count()*uint64(d.HashSize()) != uint64(len(d.Sums)) {
		return nil, fmt.Errorf("%w: the file has %d bytes, which the signed one had not", layout.ErrChecksum, d.End)
	}
	return d, nil
}

// encodeStatement returns the payload for files, which are in the order of their names.
func encodeStatement(model string, names []string, files []signed, ignored []string, links bool) ([]byte, error) {
	type resource struct {
		Name        string             `json:"name"`
		Algorithm   string             `json:"algorithm"`
		Digest      string             `json:"digest"`
		Annotations map[string]*chunks `json:"annotations"`
	}
	resources := make([]resource, len(files))
	all := sha256.New()
	for i, f := range files {
		all.Write(f.digest)
		resources[i] = resource{names[i], "sha256", hex.EncodeToString(f.digest), map[string]*chunks{ChunksAnnotation: f.chunks}}
	}
	serialization := map[string]any{"method": "files", "hash_type": "sha256", "allow_symlinks": links}
	if ignored != nil {
		serialization["ignore_paths"] = ignored
	}
	return json.Marshal(map[string]any{
		"_type":         statementType,
		"subject":       []any{map[string]any{"name": model, "digest": map[string]string{"sha256": hex.EncodeToString(all.Sum(nil))}}},
		"predicateType": predicateType,
		"predicate":     map[string]any{"serialization": serialization, "resources": resources},
	})
}
