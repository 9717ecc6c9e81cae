package remote

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/remote/internal/rooted"
	"golang.org/x/crypto/ssh"
)

// ollamaAddress is a model of Ollama: of its registry, of another one, or of the store on this machine.
type ollamaAddress struct{ host, namespace, name, tag string }

const (
	ollamaHost      = "registry.ollama.ai"
	ollamaNamespace = "library"
)

// String returns the address as ollama://[[HOST/]NAMESPACE/]NAME:TAG, without Ollama's own host and namespace.
func (a ollamaAddress) String() string {
	s := "ollama://"
	if a.host != ollamaHost {
		s += a.host + "/"
	}
	if a.host != ollamaHost || a.namespace != ollamaNamespace {
		s += a.namespace + "/"
	}
	return s + a.name + ":" + a.tag
}

// ollamaPattern matches an address after ollama://. Its groups are host, namespace, name and tag (Ollama's types/model, version 0.17.4).
var ollamaPattern = regexp.MustCompile(`^(?:(?:([^/]+)/)?(\w[\w-]{0,79})/)?(\w[\w.-]{0,79})(?::(\w[\w.-]{0,79}))?$`)

// parseOllama parses rest, the part of an address after ollama://, which must be [[HOST/]NAMESPACE/]NAME[:TAG]. A missing host or namespace
// is Ollama's own. A missing tag is latest. As in Ollama, a namespace has no dots. parseOllama fails for other text.
func parseOllama(rest string) (a ollamaAddress, err error) {
	parts := ollamaPattern.FindStringSubmatch(rest)
	if parts == nil || parts[1] != "" && !hostName.MatchString(parts[1]) {
		return a, fmt.Errorf("ollama://%s: not [[HOST/]NAMESPACE/]NAME[:TAG]", withoutUser(rest))
	}
	return ollamaAddress{cmp.Or(parts[1], ollamaHost), cmp.Or(parts[2], ollamaNamespace), parts[3], cmp.Or(parts[4], "latest")}, nil
}

const ollamaType = "application/vnd.ollama.image."

// ollamaFolder returns the folder of the model at rest, an address after ollama://. Its files are the layers of the manifest. The manifest
// comes from Ollama's store on this machine. If the store lacks it, it comes from the registry. Pull always asks the registry, unless it is
// offline and the store has the manifest. After a pull, d.afterPull writes the manifest to the store. ollamaFolder fails for a malformed
// address, if the manifest cannot be read, or if it has no layers. It also fails if a layer cannot be added.
func ollamaFolder(ctx context.Context, rest string, o *Options) (*folder, error) {
	a, err := parseOllama(rest)
	if err != nil {
		return nil, err
	}
	fail := func(err error) (*folder, error) { return nil, fmt.Errorf("%v: %w", a, err) }
	store, err := ollamaStore()
	if err != nil {
		return nil, err
	}
	r := newRegistry(a.host, a.namespace+"/"+a.name, o)
	r.refusalHint = "no such model, or one that the key ~/.ollama/id_ed25519 does not open"
	if b, ok := r.http.Authorizer.(*bearer); ok {
		b.sign = signAsOllama
	}
	inStore := store.Join("manifests", a.host, a.namespace, a.name, a.tag)
	text, err := inStore.Read()
	var m *registryManifest
	if err == nil {
		if m, err = parseManifest(text); err != nil {
			err = fmt.Errorf("%v: %w", inStore, err)
		}
	}
	if errors.Is(err, fs.ErrNotExist) || err == nil && o.downloads != nil && !isOffline() {
		m, err = r.manifest(ctx, a.tag)
	}
	if err == nil && len(m.Layers) == 0 {
		err = fmt.Errorf("%w: a manifest without layers, such as an index of others", errors.ErrUnsupported)
	}
	if err != nil {
		return fail(err)
	}
	d := newFolder(o, a.String(), derivedID(a.host, m.digest))
	if err := r.addOllama(ctx, d, m, store); err != nil {
		return fail(err)
	}
	d.pullsAllFiles = true
	d.afterPull = func() error { return o.remember(inStore, m.ollamaJSON()) }
	return d, nil
}

// signAsOllama returns the header Authorization of a request for a token at the address realm with the parameters query. It adds the time
// and a random nonce to query. It then signs realm with query, by the key that Ollama has made for this user. It returns "" if there is no
// such key, or no home directory. It fails if the key cannot be read or used. Source: ollama v0.17.4, server/auth.go and auth/auth.go.
func signAsOllama(realm *url.URL, query url.Values) (string, error) {
	home, err := os.UserHomeDir()
	if err != nil {
		return "", nil
	}
	path := filepath.Join(home, ".ollama", "id_ed25519")
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	var key ssh.Signer
	if err == nil {
		key, err = ssh.ParsePrivateKey(text)
	}
	if err != nil {
		return "", fmt.Errorf("%s: %w", path, err)
	}
	query.Set("ts", strconv.FormatInt(time.Now().Unix(), 10))
	query.Set("nonce", rand.Text())
	u := *realm
	u.RawQuery = query.Encode()
	emptyBody := base64.StdEncoding.EncodeToString([]byte(digest.FromBytes(nil).Encoded())) // base64 of the digest in hex, as Ollama has it
	signature, err := key.Sign(rand.Reader, []byte("GET,"+u.String()+","+emptyBody))
	if err != nil {
		return "", fmt.Errorf("%s: %w", path, err)
	}
	return base64.StdEncoding.EncodeToString(key.PublicKey().Marshal()) + ":" + base64.StdEncoding.EncodeToString(signature.Blob), nil
}

// ollamaJSON returns the JSON of the manifest as Ollama writes it to its store: with fewer fields than a registry's.
func (m *registryManifest) ollamaJSON() []byte {
	withOllamaFields := func(d descriptor) descriptor { // without annotations and platform
		return descriptor{Descriptor: ocispec.Descriptor{MediaType: d.MediaType, Digest: d.Digest, Size: d.Size}, From: d.From, Name: d.Name}
	}
	layers := make([]descriptor, len(m.Layers))
	for i, l := range m.Layers {
		layers[i] = withOllamaFields(l)
	}
	text, _ := json.Marshal(struct { // never fails for strings and numbers
		SchemaVersion int          `json:"schemaVersion"`
		MediaType     string       `json:"mediaType"`
		Config        descriptor   `json:"config"`
		Layers        []descriptor `json:"layers"`
	}{2, m.MediaType, withOllamaFields(m.Config), layers})
	return text
}

// ollamaFileName returns the name of layer l as a file. Most names tell the layer's media type, such as model.gguf or license. A layer of
// tensors, or of another program's type, is named by its digest. A layer of JSON has the name that the manifest gives it. An index of
// shards is an exception. Its name is json, so that nobody takes it for an index: the shards in it have other names than the layers.
func ollamaFileName(l descriptor) string {
	byDigest := "sha256-" + l.Digest.Encoded()
	switch kind, isKnown := strings.CutPrefix(l.MediaType, ollamaType); {
	case !isKnown:
		return byDigest
	case kind == "model", kind == "projector", kind == "adapter":
		return kind + ".gguf"
	case kind == "tensor":
		return byDigest + ".safetensors"
	case kind == "json" && !strings.Contains(l.Name, ".safetensors.index."):
		return cmp.Or(l.Name, byDigest+".json")
	default:
		return kind
	}
}

// addOllama adds the layers of m and its configuration as files to d, which is empty. store is Ollama's store, where the files get their
// paths. If store is the zero Path, addFile gives them paths in this module's cache. ollamaFileName names the files. If two different
// layers have one name, the second gets its digest before the name. replaceUnnamedFiles then replaces SafeTensors files without names of
// tensors, renameSplitParts renames GGUF files, and addMergedIndex adds an index of shards. addOllama fails if a layer cannot be added or
// read.
func (r *registry) addOllama(ctx context.Context, d *folder, m *registryManifest, store rooted.Path) error {
	var tensors []descriptor
	var models []string
	add := func(name string, l descriptor) error {
		o := r.layerObject(l)
		o.paths.path = store.Join("blobs", "sha256-"+l.Digest.Encoded())
		if err := d.addFile(name, o); err != nil {
			return fmt.Errorf("layer %s: %w", l.Digest, err)
		}
		return nil
	}
	for _, l := range m.Layers {
		name := ollamaFileName(l)
		if old, isTaken := d.objects[name]; isTaken && old.id != l.Digest.Encoded() { // such as one of several licenses
			name = "sha256-" + l.Digest.Encoded() + "." + name
		}
		if old, isTaken := d.objects[name]; isTaken && old.id == l.Digest.Encoded() { // the same layer again
			continue
		}
		if err := add(name, l); err != nil {
			return err
		}
		switch l.MediaType {
		case ollamaType + "tensor":
			tensors = append(tensors, l)
			d.modelCandidates = append(d.modelCandidates, name)
		case ollamaType + "model":
			models = append(models, name)
		}
	}
	if m.Config.Digest != "" {
		if err := add("sha256-"+m.Config.Digest.Encoded()+".config", m.Config); err != nil {
			return err
		}
	}
	if err := d.replaceUnnamedFiles(ctx, tensors); err != nil {
		return err
	}
	if err := d.renameSplitParts(ctx, models); err != nil {
		return err
	}
	return d.addMergedIndex(ctx)
}

// renameSplitParts adds the GGUF files called names to d.modelCandidates. The files may be the parts of one model: Ollama does not store
// the names of parts. If each file's header says that it is a part, and no two are the same part, the files get new names, such as
// model-00001-of-00002.gguf. Otherwise, and if a header is malformed, their names stay. renameSplitParts fails if a header cannot be read,
// or if addFile does.
func (d *folder) renameSplitParts(ctx context.Context, names []string) error {
	candidates := d.modelCandidates
	d.modelCandidates = append(slices.Clone(candidates), names...)
	if len(names) < 2 {
		return nil
	}
	oldNames := make(map[string]string) // by the names of parts
	for _, name := range names {
		part := ""
		err := d.decode(ctx, name, func(_ layout.Input, decoded layout.File) error {
			if s, ok := decoded.(layout.Splitter); ok {
				if index, count, _, ok := s.Split(); ok { // index counts from 0
					part = fmt.Sprintf("model-%05d-of-%05d.gguf", index+1, count)
				}
			}
			return nil
		})
		switch {
		case errors.As(err, new(*layout.FormatError)), err == nil && part == "", oldNames[part] != "":
			return nil // they are no split: all may be the model
		case err != nil:
			return fmt.Errorf("%s: %w", name, err)
		}
		oldNames[part] = name
	}
	d.modelCandidates = candidates
	for part, oldName := range oldNames {
		o := d.objects[oldName]
		delete(d.objects, oldName)
		d.modelCandidates = append(d.modelCandidates, part)
		if err := d.addFile(part, o); err != nil {
			return err
		}
	}
	return nil
}

// replaceUnnamedFiles replaces the SafeTensors files of older models, in which each tensor is called data. In the new files the tensor has
// the name of its layer in the manifest. layers[i] is the layer of the file d.modelCandidates[i]. At the first file without a tensor called
// data, or with a layer called data, replaceUnnamedFiles stops without an error. It fails if a file cannot be read or added.
func (d *folder) replaceUnnamedFiles(ctx context.Context, layers []descriptor) error {
	for i, l := range layers {
		o, err := d.renameTensors(ctx, "sha256-"+l.Digest.Encoded()+".safetensors", l.Name)
		if errors.Is(err, errNamed) {
			return nil // a newer model, whose files name their tensors
		}
		named := "named-" + l.Digest.Encoded() + ".safetensors"
		if err == nil {
			err = d.addFile(named, o)
		}
		if err != nil {
			return fmt.Errorf("layer %s: %w", l.Digest, err)
		}
		d.modelCandidates[i] = named
	}
	return nil
}

// errNamed says that a file has no tensor called data, or that data is the name that its tensor must have.
var errNamed = errors.New("the tensors have their names")

// maxHead is the maximum size of the header of a file with one tensor and its scales, in bytes.
const maxHead = 1 << 20

// renameTensors returns an object like d.objects[file], a SafeTensors file, with another header, in which the tensor data is called tensor.
// renameData makes the header. Reads take the new header from memory, and all bytes behind it from the old file. The old file's id must be
// its SHA-256: checkOriginal compares the old bytes with that. renameTensors fails with errNamed if the file has no tensor data, or if
// tensor is "data". It fails with layout.ErrLimit for a header of more than maxHead bytes. It also fails if the old header cannot be read,
// or if renameData does.
func (d *folder) renameTensors(ctx context.Context, file, tensor string) (object, error) {
	o := d.objects[file]
	var oldHead []byte // the size of the header, and the header
	err := d.decode(ctx, file, func(in layout.Input, decoded layout.File) error {
		isData := func(t layout.Tensor) bool { return string(t.Name) == "data" }
		if tensor == "data" || !slices.ContainsFunc(decoded.Index().Tensors, isData) {
			return errNamed
		}
		size, err := in.Slice(0, 8)
		if err != nil {
			return err
		}
		n := binary.LittleEndian.Uint64(size)
		if n > maxHead {
			return fmt.Errorf("%w: a header of %d bytes for one tensor", layout.ErrLimit, n)
		}
		oldHead, err = in.Slice(0, 8+n)
		oldHead = bytes.Clone(oldHead)
		return err
	})
	if err != nil {
		return object{}, err
	}
	newHead, err := renameData(oldHead, tensor)
	if err != nil {
		return object{}, err
	}
	rest := o.size - int64(len(oldHead)) // bytes of tensors, which both files have behind their headers
	return object{
		size: int64(len(newHead)) + rest, id: derivedID("sha256:"+o.id, string(newHead)), origin: o.origin,
		checkOriginal: func(ctx context.Context, r io.Reader) error { // puts the old header back, and checks the old file's digest
			if _, err := io.CopyN(io.Discard, r, int64(len(newHead))); err != nil {
				return err
			}
			return o.checkDigest(ctx, io.MultiReader(bytes.NewReader(oldHead), r))
		},
		connect: func(ctx context.Context, _ string) (Source, error) {
			f, err := d.openObject(ctx, o)
			if err != nil {
				return nil, err
			}
			return headThenRange{newHead, cachedSource{f}, int64(len(oldHead)), rest}, nil
		},
	}, nil
}

// renameData returns a new header for a SafeTensors file of Ollama, whose tensors are called data and data.SUFFIX. With the new header the
// tensors are called tensor and tensor.SUFFIX, where tensor is the argument. head and the result are eight bytes with the size of the JSON,
// and the JSON. Offsets of tensors count from the header's end, so they stay. renameData fails for malformed JSON. It fails with
// layout.ErrLimit if the new names might need more than maxHead bytes, and with layout.ErrDuplicate if two tensors would have one name.
func renameData(head []byte, tensor string) ([]byte, error) {
	var entries map[string]json.RawMessage
	if err := json.Unmarshal(head[8:], &entries); err != nil {
		return nil, err
	}
	if uint64(len(tensor))*uint64(len(entries)) > maxHead {
		return nil, fmt.Errorf("%w: a name of %d bytes for %d tensors", layout.ErrLimit, len(tensor), len(entries))
	}
	named := make(map[string]json.RawMessage, len(entries))
	for key, entry := range entries {
		if key == "data" || strings.HasPrefix(key, "data.") {
			key = tensor + strings.TrimPrefix(key, "data")
		}
		if named[key] != nil {
			return nil, fmt.Errorf("%w: tensor %s, which the manifest names, is in its file beside another", layout.ErrDuplicate, layout.Quote([]byte(key)))
		}
		named[key] = entry
	}
	header, err := json.Marshal(named)
	if err != nil {
		return nil, err
	}
	for len(header)%8 > 0 { // tensors begin at multiples of eight bytes
		header = append(header, ' ')
	}
	return append(binary.LittleEndian.AppendUint64(nil, uint64(len(header))), header...), nil
}
