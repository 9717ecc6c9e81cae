package trust

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"github.com/zeebo/blake3"
	"golang.org/x/crypto/blake2b"

	"github.com/tensormap/tensormap/layout"
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

	granularity layout.Granularity // ByFile, or ByShard
	newHash     func() hash.Hash
	files       map[string]*signed
	names       []string // of files, in order
}

// signed is a file that the statement lists.
type signed struct {
	size    uint64 // if hasSize
	hasSize bool   // the statement tells the size: of a file in shards
	digest  []byte // of the whole file, unless it is in shards
	chunks  *chunks
}

// chunks are the digests of the chunks of a file.
type chunks struct {
	size uint64 // bytes of each chunk but the last
	sums []byte // their digests, one after the other
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
func ParseStatement(payload []byte) (*Statement, error) {
	s, err := parseStatement(payload)
	if err != nil {
		return nil, fmt.Errorf("signed statement: %w", withOffset(err))
	}
	return s, nil
}

// parseStatement does what ParseStatement does. Its errors do not say that they are about a statement.
func parseStatement(payload []byte) (*Statement, error) {
	if len(payload) > payloadBytes {
		return nil, fmt.Errorf("%w: %d bytes, more than %d", layout.ErrLimit, len(payload), payloadBytes)
	}
	var (
		s         = &Statement{files: make(map[string]*signed)}
		predicate string
		subjects  []resource
		form      serialization
		resources []resource
		err       error
		js        = jsontext.New(payload, layout.Unknown, 0, "JSON", bundleLimits.WithDefaults())
		seen      = make(map[string]bool)
	)
	for key := range js.Members("an object") {
		seen[string(key)] = true
		switch string(key) {
		case "_type":
			err = checkText(js.Text(), "_type", statementType)
		case "predicateType":
			predicate = string(js.Text())
		case "subject":
			subjects, err = parseSubjects(&js)
		case "predicate":
			for key := range js.Members("an object") {
				seen["predicate."+string(key)] = true
				switch string(key) {
				case "serialization":
					form, err = s.parseSerialization(&js)
				case "resources":
					resources, err = parseResources(&js)
				}
				if err != nil {
					break
				}
			}
		}
		if err != nil {
			return nil, err
		}
	}
	js.End()
	if err := js.Err(); err != nil {
		return nil, err
	}
	required := []string{"_type", "predicateType", "subject", "predicate"}
	if predicate == predicateType {
		required = append(required, "predicate.serialization", "predicate.resources")
	}
	for _, key := range required {
		if !seen[key] {
			return nil, invalid("no %s", key)
		}
	}
	switch predicate {
	case predicateType:
		return s, s.setSigned(form, resources, subjects)
	case digestsType:
		return s, s.setResources(serialization{method: "files", hash: "sha256"}, subjects)
	}
	return nil, checkText([]byte(predicate), "predicateType", predicateType)
}

// checkText returns an error unless the string called name has the one value that is valid.
func checkText(got []byte, name, want string) error {
	if string(got) != want {
		return invalid("%s %s, not %s", name, layout.Quote(got), want)
	}
	return nil
}

// parseSubjects reads the array "subject": one model with its root digest, or in statements of version 0.2 all files. It fails for a
// subject without name or digest. Malformed JSON is an error of js.
func parseSubjects(js *jsontext.Scanner[[]byte]) (list []resource, err error) {
	for js.Open('[', "an array"); js.More(']'); {
		r := resource{algorithm: "sha256"}
		for key := range js.Members("an object") {
			switch string(key) {
			case "name":
				r.name = string(js.Text())
			case "digest":
				for key := range js.Members("an object") {
					if string(key) == "sha256" {
						if r.digest, err = parseHex(string(js.Text()), sha256.Size); err != nil {
							return nil, fmt.Errorf("subject: %w", err)
						}
					}
				}
			case "annotations":
				for key := range js.Members("an object") {
					if string(key) == "actual_hash_algorithm" {
						r.algorithm = strings.TrimPrefix(string(js.Text()), "file-")
					}
				}
			}
		}
		if js.Err() == nil && (r.name == "" || r.digest == nil) {
			return nil, invalid("a subject without a name or a sha256")
		}
		list = append(list, r)
	}
	return list, nil
}

// parseHex decodes text. It fails unless text is 2n lower-case hexadecimal digits.
func parseHex(text string, n int) ([]byte, error) {
	b, err := hex.DecodeString(text)
	if err != nil || len(b) != n || text != strings.ToLower(text) {
		return nil, invalid("digest %s, not %d lower-case hexadecimal digits", quote(text), 2*n)
	}
	return b, nil
}

// parseSerialization reads the object "serialization". It returns method, hash and size of shards, and sets s.AllowSymlinks and
// s.IgnorePaths. It fails for a size of shards that cannot be.
func (s *Statement) parseSerialization(js *jsontext.Scanner[[]byte]) (form serialization, err error) {
	for key := range js.Members("an object") {
		switch string(key) {
		case "method":
			form.method = string(js.Text())
		case "hash_type":
			form.hash = string(js.Text())
		case "allow_symlinks":
			c := js.Next()
			if s.AllowSymlinks = c == 't'; c != 't' && c != 'f' {
				js.Unexpected("true or false")
			}
		case "shard_size":
			n, ok := parseUint(string(js.Number()))
			if js.Err() == nil && (!ok || n == 0) {
				return form, invalid("shard_size is not a positive whole number")
			}
			form.shardSize = n
		case "ignore_paths":
			if js.Next() == 'n' {
				continue // null
			}
			for js.Open('[', "an array"); js.More(']'); {
				s.IgnorePaths = append(s.IgnorePaths, string(js.Text()))
			}
		}
	}
	return form, nil
}

// parseResources reads the array "resources". It fails for a digest that is not hexadecimal, and for invalid annotations. Malformed JSON
// is an error of js.
func parseResources(js *jsontext.Scanner[[]byte]) (list []resource, err error) {
	for js.Open('[', "an array"); js.More(']'); {
		var r resource
		var digest string
		for key := range js.Members("an object") {
			switch string(key) {
			case "name":
				r.name = string(js.Text())
			case "digest":
				digest = string(js.Text())
			case "algorithm":
				r.algorithm = string(js.Text())
			case "annotations":
				if r.chunks, err = parseAnnotations(js); err != nil {
					return nil, fmt.Errorf("resource %s: %w", quote(r.name), err)
				}
			}
		}
		if js.Err() != nil {
			return nil, nil // which the caller reports
		}
		if r.digest, err = hex.DecodeString(digest); err != nil || digest != strings.ToLower(digest) {
			return nil, fmt.Errorf("resource %s: %w", quote(r.name), invalid("digest %s is not lower-case hexadecimal", quote(digest)))
		}
		list = append(list, r)
	}
	return list, nil
}

// parseAnnotations reads the digests of chunks, or returns nil if there are none. It ignores other annotations, and
// other versions of this one.
func parseAnnotations(js *jsontext.Scanner[[]byte]) (c *chunks, err error) {
	for key := range js.Members("an object") {
		if string(key) != ChunksAnnotation {
			continue
		}
		c = new(chunks)
		digests := false
		for key := range js.Members("an object") {
			switch string(key) {
			case "size":
				n, ok := parseUint(string(js.Number()))
				if js.Err() == nil && (!ok || !layout.ChunkOK(n, 0)) {
					return nil, invalid("%s: size is not a power of two from %d to %d", ChunksAnnotation, layout.MinChunk, layout.MaxChunk)
				}
				c.size = n
			case "digests":
				if c.sums, err = decode64(string(js.Text())); err != nil {
					return nil, fmt.Errorf("%s: digests: %w", ChunksAnnotation, err)
				}
				digests = true
			}
		}
		if js.Err() == nil && (c.size == 0 || !digests || len(c.sums)%sha256.Size != 0 || len(c.sums)/sha256.Size > layout.MaxChunks) {
			return nil, invalid("%s: wants a size, and at most %d digests of %d bytes", ChunksAnnotation, layout.MaxChunks, sha256.Size)
		}
	}
	return c, nil
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
	if root := subjects[0].digest; len(resources) > 0 && !bytes.Equal(all.Sum(nil), root) {
		return fmt.Errorf("%w: the subject has the digest %x, but the resources have %x", ErrSignature, root, all.Sum(nil))
	}
	return s.setResources(form, resources)
}

// setResources sets s.files, s.names, s.newHash and s.granularity from the resources. It fails for an unknown hash or method, and if a
// resource is invalid or listed twice.
func (s *Statement) setResources(form serialization, resources []resource) error {
	if len(resources) == 0 {
		return invalid("no resources")
	}
	switch form.hash {
	case "sha256":
		s.newHash = sha256.New
	case "blake2b":
		s.newHash = func() hash.Hash {
			h, _ := blake2b.New512(nil) // which fails for a key only
			return h
		}
	case "blake3":
		s.newHash = func() hash.Hash { return blake3.New() }
	default:
		return fmt.Errorf("%w: hash_type %s; sha256, blake2b and blake3 are known", layout.ErrUnsupported, quote(form.hash))
	}
	size := s.newHash().Size()
	for _, r := range resources {
		if len(r.digest) != size {
			return fmt.Errorf("resource %s: %w", quote(r.name), invalid("a digest of %d bytes, not %d", len(r.digest), size))
		}
	}
	var err error
	switch form.method {
	case "files":
		s.granularity = layout.ByFile
		err = s.setFiles(form, resources)
	case "shards":
		s.granularity = layout.ByShard
		err = s.setShards(form, resources)
	default:
		return fmt.Errorf("%w: serialization method %s; files and shards are known", layout.ErrUnsupported, quote(form.method))
	}
	for name := range s.files {
		s.names = append(s.names, name)
	}
	slices.Sort(s.names)
	return errors.Join(err, checkCaseCollisions(s.names))
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
			return fmt.Errorf("%w: %s and %s are one file on this system", layout.ErrDuplicate, quote(other), quote(name))
		}
		folded[key] = name
	}
	return nil
}

// setFiles sets s.files from resources that are files. It fails for another algorithm than form's, an invalid name, or one listed twice.
func (s *Statement) setFiles(form serialization, resources []resource) error {
	for _, r := range resources {
		if r.algorithm != form.hash {
			return fmt.Errorf("resource %s: %w", quote(r.name), invalid("algorithm %s, but hash_type %s", quote(r.algorithm), quote(form.hash)))
		}
		check := checkName
		if len(resources) == 1 {
			check = checkOnlyName
		}
		if err := check(r.name); err != nil {
			return err
		}
		if s.files[r.name] != nil {
			return fmt.Errorf("resource %s: %w: it is listed twice", quote(r.name), layout.ErrDuplicate)
		}
		s.files[r.name] = &signed{digest: r.digest, chunks: r.chunks}
	}
	return nil
}

// setShards sets s.files from resources that are shards of files. By the specification their algorithm is that of the file, but the
// reference client writes another word, with the size in it. It fails unless the shards of each file follow each other from its start.
func (s *Statement) setShards(form serialization, resources []resource) error {
	if form.shardSize == 0 {
		return invalid("method shards without shard_size")
	}
	type shard struct {
		start, end uint64
		digest     []byte
	}
	shards := make(map[string][]shard)
	for _, r := range resources {
		if r.algorithm != form.hash && r.algorithm != fmt.Sprintf("%s-sharded-%d", form.hash, form.shardSize) {
			return fmt.Errorf("resource %s: %w", quote(r.name), invalid("algorithm %s, but hash_type %s", quote(r.algorithm), quote(form.hash)))
		}
		name, start, end, ok := cutShard(r.name)
		if !ok || start >= end || end-start > form.shardSize || start%form.shardSize != 0 {
			return fmt.Errorf("resource %s: %w", quote(r.name), invalid("not NAME:START:END of a shard of %d bytes", form.shardSize))
		}
		if err := checkOnlyName(name); err != nil {
			return err
		}
		shards[name] = append(shards[name], shard{start, end, r.digest})
	}
	for name, list := range shards {
		if name == "." && len(shards) > 1 {
			return checkName(name)
		}
		slices.SortFunc(list, func(a, b shard) int { return cmp.Compare(a.start, b.start) })
		f := &signed{hasSize: true, chunks: &chunks{size: form.shardSize}}
		for i, p := range list {
			switch {
			case p.start < f.size:
				return fmt.Errorf("resource %s: %w: the shard at %d is listed twice", quote(name), layout.ErrDuplicate, p.start)
			case p.start != f.size, i < len(list)-1 && p.end-p.start != form.shardSize:
				return fmt.Errorf("resource %s: %w", quote(name), invalid("no shard has byte %d", f.size))
			}
			f.size = p.end
			f.chunks.sums = append(f.chunks.sums, p.digest...)
		}
		s.files[name] = f
	}
	return nil
}

// cutShard splits NAME:START:END, the name of a shard. ok is false for other names.
func cutShard(name string) (file string, start, end uint64, ok bool) {
	j := strings.LastIndexByte(name, ':')
	if j < 0 {
		return "", 0, 0, false
	}
	i := strings.LastIndexByte(name[:j], ':')
	if i < 0 {
		return "", 0, 0, false
	}
	start, err := strconv.ParseUint(name[i+1:j], 10, 62)
	end, err2 := strconv.ParseUint(name[j+1:], 10, 62)
	return name[:i], start, end, err == nil && err2 == nil
}

// checkOnlyName does what checkName does for the only file of a model, which may also be called ".".
func checkOnlyName(name string) error {
	if name == "." {
		return nil
	}
	return checkName(name)
}

// checkName returns an error for names of files that lead out of the directory, and for names that no writer gives.
func checkName(name string) error {
	if name == "" || name[0] == '/' || name != path.Clean(name) || name == "." || strings.HasPrefix(name, "../") || name == ".." ||
		strings.ContainsRune(name, 0) || !filepath.IsLocal(filepath.FromSlash(name)) || runtime.GOOS == "windows" && strings.ContainsAny(name, `\:`) {
		return fmt.Errorf("resource %s: %w", quote(name), invalid("not a plain path below the model's directory"))
	}
	return nil
}

// Digests returns the digests of the file called name. The only file of a statement may be called "." there. A file
// that is not listed is ErrUnsigned. One of another size than the signed one, which in tells, is layout.ErrChecksum.
func (s *Statement) Digests(name string, in layout.Input) (*layout.Digests, error) {
	f := s.files[name]
	if only := s.files["."]; f == nil && only != nil {
		f = only
	}
	if f == nil && s.granularity == layout.ByShard && in.Size() == 0 { // which has no shards
		return &layout.Digests{Chunk: 1, Granularity: s.granularity}, nil
	}
	if f == nil {
		return nil, fmt.Errorf("%w: the signature does not list %s", ErrUnsigned, quote(name))
	}
	if f.chunks == nil {
		return wholeFileDigests(in.Size(), s.newHash, f.digest)
	}
	d := &layout.Digests{End: in.Size(), New: s.newHash, Granularity: s.granularity}
	if s.granularity == layout.ByFile {
		d.New, d.Granularity = nil, layout.ByChunk
	}
	d.Chunk, d.Sums = f.chunks.size, f.chunks.sums
	size := uint64(d.HashSize())
	if f.hasSize && f.size != d.End || d.Count()*size != uint64(len(d.Sums)) {
		return nil, fmt.Errorf("%w: the file has %d bytes, which the signed one had not", layout.ErrChecksum, d.End)
	}
	return d, nil
}

// statementJSON is the payload that Sign writes.
type statementJSON struct {
	Type    string `json:"_type"`
	Subject [1]struct {
		Name   string            `json:"name"`
		Digest map[string]string `json:"digest"`
	} `json:"subject"`
	PredicateType string `json:"predicateType"`
	Predicate     struct {
		Serialization struct {
			Method        string   `json:"method"`
			HashType      string   `json:"hash_type"`
			AllowSymlinks bool     `json:"allow_symlinks"`
			IgnorePaths   []string `json:"ignore_paths,omitempty"`
		} `json:"serialization"`
		Resources []resourceJSON `json:"resources"`
	} `json:"predicate"`
}

type resourceJSON struct {
	Name        string                `json:"name"`
	Algorithm   string                `json:"algorithm"`
	Digest      string                `json:"digest"`
	Annotations map[string]chunksJSON `json:"annotations,omitempty"`
}

type chunksJSON struct {
	Size    uint64 `json:"size"`
	Digests string `json:"digests"`
}

// encodeStatement returns the payload for files, which are in the order of their names.
func encodeStatement(model string, names []string, files []signed, ignored []string, links bool) ([]byte, error) {
	st := statementJSON{Type: statementType, PredicateType: predicateType}
	st.Predicate.Serialization.Method, st.Predicate.Serialization.HashType = "files", "sha256"
	st.Predicate.Serialization.AllowSymlinks, st.Predicate.Serialization.IgnorePaths = links, ignored
	all := sha256.New()
	for i, f := range files {
		all.Write(f.digest)
		st.Predicate.Resources = append(st.Predicate.Resources, resourceJSON{names[i], "sha256", hex.EncodeToString(f.digest),
			map[string]chunksJSON{ChunksAnnotation: {f.chunks.size, base64.StdEncoding.EncodeToString(f.chunks.sums)}}})
	}
	st.Subject[0].Name, st.Subject[0].Digest = model, map[string]string{"sha256": hex.EncodeToString(all.Sum(nil))}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	err := e.Encode(st)
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), err
}
