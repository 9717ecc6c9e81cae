package remote

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path"
	"regexp"
	"runtime"
	"slices"
	"strings"

	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/layout/formats"
	"github.com/tensormap/tensormap/layout/manifest"
	"github.com/tensormap/tensormap/loader"
	"github.com/tensormap/tensormap/remote/internal/rooted"
)

// ociAddress is an artifact in a registry.
type ociAddress struct {
	host, repo string
	reference  string // a tag, or a digest
}

func (a ociAddress) String() string {
	if strings.Contains(a.reference, ":") {
		return "oci://" + a.host + "/" + a.repo + "@" + a.reference
	}
	return "oci://" + a.host + "/" + a.repo + ":" + a.reference
}

// The grammar of names (distribution-spec 1.1, "Pulling manifests").
var (
	repoName = regexp.MustCompile(`^[a-z0-9]+((\.|_|__|-+)[a-z0-9]+)*(/[a-z0-9]+((\.|_|__|-+)[a-z0-9]+)*)*$`)
	tagName  = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9._-]{0,127}$`)
	hostName = regexp.MustCompile(`^(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?)(:[0-9]{1,5})?$`)
)

// parseOCI reads what follows oci://.
func parseOCI(rest string) (a ociAddress, err error) {
	fail := func(why string) (ociAddress, error) {
		return a, fmt.Errorf("oci://%s: %s, not HOST/REPOSITORY[:TAG][@DIGEST]", withoutUser(rest), why)
	}
	host, repo, _ := strings.Cut(rest, "/")
	name, digest, pinned := strings.Cut(repo, "@")
	name, tag, tagged := strings.Cut(name, ":")
	switch {
	case !hostName.MatchString(host):
		return fail("no host")
	case len(name) > 255 || !repoName.MatchString(name):
		return fail("no name of a repository")
	case tagged && !tagName.MatchString(tag):
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

// artifact returns the files of an artifact: its layers that are files, and what archives of
// configuration hold. Weights in an archive that is not compressed are parts of it.
func (a ociAddress) artifact(ctx context.Context, o *Options) (*folder, error) {
	r := newRegistry(a.host, a.repo, o)
	m, err := r.manifest(ctx, a.reference)
	if err == nil && len(m.Manifests) > 0 {
		var d descriptor
		if d, err = choosePlatform(m.Manifests); err == nil {
			m, err = r.manifest(ctx, d.Digest)
		}
	}
	if err == nil && len(m.Manifests) > 0 {
		err = errors.New("an index of indexes")
	}
	if err != nil {
		return nil, fmt.Errorf("%v: %w", a, err)
	}
	d, err := newFolder(o, a.String(), identity(a.host, m.digest))
	if err != nil {
		return nil, err
	}
	if m.isOllama() {
		err = r.addOllama(ctx, d, m, rooted.Path{})
	} else {
		err = r.addLayers(ctx, d, m.Layers)
	}
	if err == nil {
		err = d.addIndex(ctx)
	}
	if err != nil {
		return nil, fmt.Errorf("%v: %w", a, err)
	}
	return d, nil
}

// newFolder returns a folder without files, whose revision names a snapshot in our own cache.
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

// add adds a file whose content has a place of our own, but for a path that it has already.
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

// placed returns content as the file called name, with the place that add gives it.
func (d *folder) placed(name string, o object) (object, error) {
	if err := checkName(name); err != nil {
		return o, err
	}
	o.name = d.name(name)
	if o.id == "" { // nothing of it is kept
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

// choosePlatform returns the manifest of a model in an index: the only one, or the one for this
// system. Attestations and what belongs to another manifest are none.
func choosePlatform(all []descriptor) (descriptor, error) {
	all = slices.DeleteFunc(slices.Clone(all), func(d descriptor) bool {
		return d.Platform != nil && d.Platform.OS == "unknown" || d.notes().Reference != ""
	})
	own := slices.DeleteFunc(slices.Clone(all), func(d descriptor) bool {
		return d.Platform == nil || d.Platform.OS != runtime.GOOS || d.Platform.Architecture != runtime.GOARCH
	})
	switch {
	case len(own) > 0:
		return own[0], nil
	case len(all) == 1:
		return all[0], nil
	}
	var digests []string
	for _, d := range all {
		digests = append(digests, "@"+d.Digest)
	}
	return descriptor{}, fmt.Errorf("an index of %d manifests, none for %s/%s: name one of them: %s",
		len(all), runtime.GOOS, runtime.GOARCH, strings.Join(digests[:min(4, len(digests))], ", "))
}

// role is what a layer is to a model.
type role int

const (
	otherFile role = iota // if it has a name, it may be the model all the same
	weights
	settings // configuration, tokenizer, templates
	ignored  // documents, code, data sets
)

// layerType is what a media type says: ModelPack's model-spec 1, Docker's model-spec, KitOps.
type layerType struct {
	role        role
	suffix      string // of the name that a file without one gets
	tar         bool
	compression string
}

// fileTypes are media types of single files, and of Docker's archives.
var fileTypes = map[string]layerType{
	"application/vnd.docker.ai.gguf.v3":             {role: weights, suffix: formats.Suffix(layout.GGUF)},
	"application/vnd.docker.ai.safetensors":         {role: weights, suffix: formats.Suffix(layout.SafeTensors)},
	"application/vnd.docker.ai.dduf":                {role: weights, suffix: ".dduf"},
	"application/vnd.docker.ai.mmproj":              {role: otherFile, suffix: ".mmproj"},
	"application/vnd.docker.ai.vllm.config.tar":     {role: settings, tar: true},
	"application/vnd.docker.ai.dir.tar":             {role: settings, tar: true},
	"application/vnd.docker.ai.chat.template.jinja": {role: settings, suffix: ".jinja"},
	"application/vnd.docker.ai.license":             {role: ignored},
}

// typeOf returns what a layer's media type says.
func typeOf(mediaType string) layerType {
	if t, ok := fileTypes[mediaType]; ok {
		return t
	}
	t := layerType{}
	base, compression, _ := strings.Cut(mediaType, "+")
	if strings.HasSuffix(base, ".tar") || strings.HasSuffix(base, ".tar.gzip") {
		t.tar, t.compression = true, compression
	}
	switch kind := strings.TrimPrefix(strings.TrimPrefix(base, "application/vnd.cncf.model."), "application/vnd.kitops.modelkit."); {
	case kind == base:
	case strings.HasPrefix(kind, "weight.config."):
		t.role = settings
	case strings.HasPrefix(kind, "weight."), strings.HasPrefix(kind, "model."), strings.HasPrefix(kind, "modelpart."):
		t.role = weights
	default:
		t.role = ignored
	}
	return t
}

// fileName returns the name that a layer's annotations give it, or "".
func (d descriptor) fileName() string {
	return strings.TrimPrefix(cmp.Or(d.notes().Path, d.notes().Title), "./")
}

// addLayers adds the files that the layers are or hold. Weights are shards in the order of their layers.
func (r *registry) addLayers(ctx context.Context, d *folder, layers []descriptor) error {
	nameless := make(map[string]int)
	for _, l := range layers {
		if t := typeOf(l.MediaType); t.role == weights && !t.tar && l.fileName() == "" {
			nameless[t.suffix]++
		}
	}
	numbers := make(map[string]int)
	for _, l := range layers {
		t, name := typeOf(l.MediaType), l.fileName()
		var err error
		switch {
		case t.role == ignored:
			continue
		case t.tar && t.compression != "" && t.role == weights:
			err = fmt.Errorf("%w: weights in a compressed archive (%.80q) cannot be read by ranges", loader.ErrUnsupported, l.MediaType)
		case t.tar:
			err = d.twice(ctx, func() error { return r.addArchive(ctx, d, l, t) })
		case name == "" && t.role == weights:
			name = "model" + t.suffix
			if n := nameless[t.suffix]; n > 1 {
				numbers[t.suffix]++
				name = fmt.Sprintf("model-%05d-of-%05d%s", numbers[t.suffix], n, t.suffix)
			}
			fallthrough
		case name != "" && l.notes().Unpack == "":
			if t.role == weights {
				d.choice = append(d.choice, name)
			}
			err = d.add(name, r.object(l, "", place{}))
		}
		if err != nil {
			return fmt.Errorf("layer %s: %w", l.Digest, err)
		}
	}
	return nil
}

// addIndex adds an index of the weights if they are several SafeTensors files without one: the
// format lets a model's shards go by their order only in registries.
func (d *folder) addIndex(ctx context.Context) error {
	var shards []string
	for _, name := range d.choice {
		if path.Ext(name) == formats.Suffix(layout.SafeTensors) {
			shards = append(shards, name)
		}
	}
	if len(shards) < 2 || len(shards) < len(d.choice) {
		return nil
	}
	dir := path.Dir(shards[0])
	index := path.Join(dir, "model"+formats.Suffix(layout.SafeTensors)+manifest.IndexSuffix)
	if slices.ContainsFunc(shards, func(name string) bool { return path.Dir(name) != dir }) {
		return nil
	}
	for name := range d.objects {
		if path.Dir(name) == dir && strings.Contains(name, ".safetensors.index.") {
			return nil
		}
	}
	text, err := d.indexOf(ctx, shards)
	if err != nil {
		return err
	}
	d.choice = []string{index}
	return d.add(index, textObject(text))
}

// chosen returns those of names that may be the model.
func (d *folder) chosen(names []string) []string {
	if d.choice == nil {
		return names
	}
	may := make(map[string]bool)
	for _, name := range d.choice {
		may[path.Base(name)] = true
	}
	return slices.DeleteFunc(names, func(name string) bool { return !may[name] && !strings.Contains(name, manifest.IndexSuffix) })
}
