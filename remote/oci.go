package remote

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/layout/formats"
	"github.com/tensormap/tensormap/loader"
	"github.com/tensormap/tensormap/remote/internal/rooted"
	oras "oras.land/oras-go/v2/registry"
)

// ociAddress is an artifact in a registry.
type ociAddress struct {
	host, repo string
	reference  string // a tag, or a digest
}

// String returns the address as oci://HOST/REPOSITORY@DIGEST or oci://HOST/REPOSITORY:TAG.
func (a ociAddress) String() string {
	if strings.Contains(a.reference, ":") {
		return "oci://" + a.host + "/" + a.repo + "@" + a.reference
	}
	return "oci://" + a.host + "/" + a.repo + ":" + a.reference
}

// parseOCI parses rest, the part of an address after oci://, which must be HOST/REPOSITORY[:TAG][@DIGEST]. The host names of Docker Hub
// become the name of its registry. If there is neither tag nor digest, the reference is the tag latest. If there are both, it is the digest.
// parseOCI fails for other text.
func parseOCI(rest string) (a ociAddress, err error) {
	fail := func(why string) (ociAddress, error) {
		return a, fmt.Errorf("oci://%s: %s, not HOST/REPOSITORY[:TAG][@DIGEST]", withoutUser(rest), why)
	}
	host, repo, _ := strings.Cut(rest, "/")
	name, digest, pinned := strings.Cut(repo, "@")
	name, tag, tagged := strings.Cut(name, ":")
	ref := oras.Reference{Repository: name, Reference: tag}
	switch {
	case !hostName.MatchString(host):
		return fail("no host")
	case len(name) > 255 || ref.ValidateRepository() != nil:
		return fail("no name of a repository")
	case tagged && ref.ValidateReferenceAsTag() != nil:
		return fail("no tag")
	case pinned && !sha256Digest.MatchString(digest):
		return fail("no SHA-256 digest")
	}
	if host == "docker.io" || host == "index.docker.io" { // names of Docker Hub, whose registry is elsewhere
		host = "registry-1.docker.io"
		if !strings.Contains(name, "/") {
			name = "library/" + name
		}
	}
	return ociAddress{host, name, cmp.Or(digest, tag, "latest")}, nil
}

// ociFolder returns the folder of the artifact at rest, an address after oci://. Its files are the layers that are files, and the files in
// layers that are archives. ociFolder requests the manifest. If the manifest is an index of manifests, it requests the manifest that
// choosePlatform returns. It also downloads layers that are archives. ociFolder fails for a malformed address, if a request does, for an
// index in an index, or if a layer cannot be added.
func ociFolder(ctx context.Context, rest string, o *Options) (*folder, error) {
	a, err := parseOCI(rest)
	if err != nil {
		return nil, err
	}
	r := newRegistry(a.host, a.repo, o)
	m, err := r.manifest(ctx, a.reference)
	if err == nil && len(m.Manifests) > 0 {
		var d descriptor
		if d, err = choosePlatform(m.Manifests); err == nil {
			m, err = r.manifest(ctx, string(d.Digest))
		}
	}
	if err == nil && len(m.Manifests) > 0 {
		err = errors.New("an index of indexes")
	}
	if err != nil {
		return nil, fmt.Errorf("%v: %w", a, err)
	}
	d := newFolder(o, a.String(), derivedID(a.host, m.digest))
	if slices.ContainsFunc(m.Layers, func(l descriptor) bool { return strings.HasPrefix(l.MediaType, ollamaType) }) {
		err = r.addOllama(ctx, d, m, rooted.Path{})
	} else {
		err = r.addLayers(ctx, d, m.Layers)
	}
	if err != nil {
		return nil, fmt.Errorf("%v: %w", a, err)
	}
	return d, nil
}

// choosePlatform returns the manifest to read among all, the manifests of an index. It ignores attestations, which are manifests about
// other manifests. It returns the first manifest for this system. If there is none, it returns the only manifest that is left, and fails if
// none or several are left.
func choosePlatform(all []descriptor) (descriptor, error) {
	var others []descriptor
	var digests []string // of others
	for _, d := range all {
		switch {
		case d.Platform.OS == "unknown" || d.Annotations["vnd.docker.reference.type"] != "": // either marks an attestation
		case d.Platform.OS == runtime.GOOS && d.Platform.Architecture == runtime.GOARCH:
			return d, nil
		default:
			others, digests = append(others, d), append(digests, "@"+string(d.Digest))
		}
	}
	if len(others) == 1 {
		return others[0], nil
	}
	return descriptor{}, fmt.Errorf("an index of %d manifests, none for %s/%s: name one of them: %s",
		len(others), runtime.GOOS, runtime.GOARCH, strings.Join(digests[:min(4, len(digests))], ", "))
}

// fileName returns the name that the layer's annotations give it as a file, or "" if they give none.
func (d descriptor) fileName() string {
	return strings.TrimPrefix(cmp.Or(d.Annotations["org.cncf.model.filepath"], d.Annotations[ocispec.AnnotationTitle]), "./")
}

// fileNames returns the names of layers as files: names[i] is for layers[i]. A layer has the name that its annotations give it. Weights
// without a name are called model.SUFFIX, by their type. Several of one suffix are numbered as shards, in their order:
// model-00001-of-00002.SUFFIX. Archives and other layers without a name get "".
func fileNames(layers []descriptor) []string {
	names := make([]string, len(layers))
	nameless := make(map[string][]int) // the layers of weights without names, by suffix
	for i, l := range layers {
		names[i] = l.fileName()
		if t := typeOf(l.MediaType); t.role == weights && !t.isTar && names[i] == "" {
			nameless[t.suffix] = append(nameless[t.suffix], i)
		}
	}
	for suffix, shards := range nameless {
		for n, i := range shards {
			names[i] = "model" + suffix
			if len(shards) > 1 {
				names[i] = fmt.Sprintf("model-%05d-of-%05d%s", n+1, len(shards), suffix)
			}
		}
	}
	return names
}

// addLayers adds each layer of a model to d. A layer that is an archive becomes the files in it. Another layer becomes one file, called as
// fileNames says. addLayers leaves out three kinds of layers: layers without a name, layers of ignored types, and folders that a client
// unpacks. For shards without an index it adds one: see addMergedIndex. It fails for weights in a compressed archive, or if a layer cannot
// be added.
func (r *registry) addLayers(ctx context.Context, d *folder, layers []descriptor) error {
	names := fileNames(layers)
	for i, l := range layers {
		var err error
		switch t := typeOf(l.MediaType); {
		case t.role == ignored:
		case t.isTar && t.compression != "" && t.role == weights:
			err = fmt.Errorf("%w: weights in a compressed archive (%.80q) cannot be read by ranges", loader.ErrUnsupported, l.MediaType)
		case t.isTar:
			err = d.retryChanged(ctx, func() error { return r.addArchive(ctx, d, l, t) })
		case l.fileName() != "" && l.Annotations["io.deis.oras.content.unpack"] != "": // a folder that a client unpacks
		case names[i] != "":
			if t.role == weights {
				d.modelCandidates = append(d.modelCandidates, names[i])
			}
			err = d.addFile(names[i], r.layerObject(l))
		}
		if err != nil {
			return fmt.Errorf("layer %s: %w", l.Digest, err)
		}
	}
	return d.addMergedIndex(ctx)
}

// role is the use that a model has for a layer.
type role int

const (
	otherFile role = iota // may be the model if it has a name
	weights
	settings // configuration, tokenizer, templates
	ignored  // documents, code, data sets
)

// layerType is the meaning of a media type of ModelPack's model-spec 1, Docker's model-spec, or KitOps.
type layerType struct {
	role        role
	suffix      string // of the name that a layer of weights without one gets
	isTar       bool
	compression string
}

// fileTypes are media types of single files, and of Docker's archives.
var fileTypes = map[string]layerType{
	"application/vnd.docker.ai.gguf.v3":             {role: weights, suffix: formats.Suffix(layout.GGUF)},
	"application/vnd.docker.ai.safetensors":         {role: weights, suffix: formats.Suffix(layout.SafeTensors)},
	"application/vnd.docker.ai.dduf":                {role: weights, suffix: ".dduf"},
	"application/vnd.docker.ai.mmproj":              {role: otherFile, suffix: ".mmproj"},
	"application/vnd.docker.ai.vllm.config.tar":     {role: settings, isTar: true},
	"application/vnd.docker.ai.dir.tar":             {role: settings, isTar: true},
	"application/vnd.docker.ai.chat.template.jinja": {role: settings, suffix: ".jinja"},
	"application/vnd.docker.ai.license":             {role: ignored},
}

// typeOf returns what a layer's media type tells. A type is an archive if its text before any "+" ends in .tar or .tar.gzip. Its
// compression is the text after "+", or "". Types of ModelPack and KitOps have their roles in their names. If such a name tells no known
// role, the role is ignored. All other unknown types have the role otherFile.
func typeOf(mediaType string) layerType {
	if t, ok := fileTypes[mediaType]; ok {
		return t
	}
	t := layerType{role: otherFile}
	base, compression, _ := strings.Cut(mediaType, "+")
	if strings.HasSuffix(base, ".tar") || strings.HasSuffix(base, ".tar.gzip") {
		t.isTar, t.compression = true, compression
	}
	switch kind := strings.TrimPrefix(strings.TrimPrefix(base, "application/vnd.cncf.model."), "application/vnd.kitops.modelkit."); {
	case kind == base: // it has neither prefix
	case strings.HasPrefix(kind, "weight.config."):
		t.role = settings
	case strings.HasPrefix(kind, "weight."), strings.HasPrefix(kind, "model."), strings.HasPrefix(kind, "modelpart."):
		t.role = weights
	default:
		t.role = ignored
	}
	return t
}
