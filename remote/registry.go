package remote

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"path/filepath"
	"strings"

	"github.com/tensormap/tensormap/loader/httprange"
	"github.com/tensormap/tensormap/remote/internal/rooted"
)

// registry is one repository of a server that speaks the OCI distribution protocol, version 1.1.
type registry struct {
	host, repo string
	opts       *Options
	http       httprange.Options // with the Authorizer of the repository
	offline    bool
	refused    string // what explain adds to a refusal
}

// newRegistry returns the repository called repo of the server host, which may have a port. Requests get credentials from
// Docker's configuration, unless the options have an Authorization.
func newRegistry(host, repo string, o *Options) *registry {
	r := &registry{host: host, repo: repo, opts: o, offline: isOffline(),
		http: *o.HTTP, refused: "no such repository, or credentials are missing: docker login " + host + ", or --header"}
	plain := r.http
	plain.Header = nil
	if r.http.Authorizer == nil && r.http.Header.Get("Authorization") == "" {
		r.http.Authorizer = &bearer{host: host, repo: repo, http: plain, credential: dockerCredential}
	}
	return r
}

// address returns the address of a manifest or a blob. kind is "manifests" or "blobs". A registry on loopback is
// asked by http, as Docker and crane do.
func (r *registry) address(kind, reference string) string {
	u := url.URL{Scheme: "https", Host: r.host, Path: "/v2/" + r.repo + "/" + kind + "/" + reference}
	if isLoopback(r.host) {
		u.Scheme = "http"
	}
	return u.String()
}

// explain adds r.refused to an error that says that the registry refused a request for lack of rights. Other errors it
// returns as they are.
func (r *registry) explain(err error) error {
	if status := new(httprange.StatusError); errors.As(err, &status) && status.Elsewhere != "" {
		return err // the target of a redirect refused, which got no credentials
	}
	if errors.Is(err, fs.ErrPermission) {
		return fmt.Errorf("%w (%s)", err, r.refused)
	}
	return err
}

// descriptor names content (OCI image-spec 1.1, "Content Descriptors").
type descriptor struct {
	MediaType   string       `json:"mediaType"`
	Digest      string       `json:"digest"`
	Size        int64        `json:"size"`
	From, Name  string       // of Ollama's layers
	Annotations *annotations `json:"annotations"`
	Platform    *struct {
		OS           string `json:"os"`
		Architecture string `json:"architecture"`
	} `json:"platform"`
}

// annotations are the ones of a descriptor that are used.
type annotations struct {
	Path      string `json:"org.cncf.model.filepath"`
	Title     string `json:"org.opencontainers.image.title"`
	Unpack    string `json:"io.deis.oras.content.unpack"`
	Reference string `json:"vnd.docker.reference.type"`
}

// descriptors is a list in a manifest.
type descriptors []descriptor

// UnmarshalJSON decodes the list, and checks each descriptor.
func (l *descriptors) UnmarshalJSON(text []byte) error {
	return eachElement(text, func(d descriptor) error {
		err := d.check()
		*l = append(*l, d)
		return err
	})
}

// check returns an error unless the digest is a SHA-256, and so may become the name of a file, and the size is not
// negative.
func (d descriptor) check() error {
	if !sha256Digest.MatchString(d.Digest) || d.Size < 0 {
		return fmt.Errorf("its digest %.80q or its size %d cannot be", d.Digest, d.Size)
	}
	return nil
}

// notes returns the annotations, or empty ones.
func (d descriptor) notes() annotations {
	if d.Annotations == nil {
		return annotations{}
	}
	return *d.Annotations
}

// hex returns the digest of a checked descriptor in hex.
func (d descriptor) hex() string { return strings.TrimPrefix(d.Digest, "sha256:") }

// registryManifest is an image manifest or an index, of OCI or Docker.
type registryManifest struct {
	MediaType string      `json:"mediaType"`
	Config    descriptor  `json:"config"`
	Layers    descriptors `json:"layers"`
	Manifests descriptors `json:"manifests"`

	digest string // of its bytes, in hex
}

// manifestTypes are asked for. Servers send what they have.
var manifestTypes = strings.Join([]string{
	"application/vnd.oci.image.manifest.v1+json", "application/vnd.oci.image.index.v1+json",
	"application/vnd.docker.distribution.manifest.v2+json", "application/vnd.docker.distribution.manifest.list.v2+json",
}, ", ")

// manifest returns the manifest that a tag or a digest stands for. It sends no request for a digest that the cache has.
func (r *registry) manifest(ctx context.Context, reference string) (*registryManifest, error) {
	body, err := r.manifestBytes(ctx, reference)
	if err != nil {
		return nil, err
	}
	m, err := parseManifest(body)
	if err != nil {
		return nil, fmt.Errorf("%s: %w: %w", httprange.NameOf(r.address("manifests", reference)), httprange.ErrResponse, err)
	}
	return m, nil
}

// manifestBytes returns the text of a manifest, and caches it with the digest that its tag stands for. Offline it
// returns the text that the cache has. It fails if a digest that the reference or the server tells is not that of the
// text.
func (r *registry) manifestBytes(ctx context.Context, reference string) ([]byte, error) {
	cache, err := r.opts.cache()
	if err != nil {
		return nil, err
	}
	// No repository has an @ in its name: the file of one never has the path of another's folder.
	ref := cache.Join("refs", strings.ReplaceAll(r.host, ":", "_"), filepath.FromSlash(r.repo)+"@"+reference)
	digest := reference
	if !sha256Digest.MatchString(digest) && r.offline {
		text, err := ref.Read()
		if digest = string(text); err != nil || !sha256Digest.MatchString(digest) {
			return nil, errOffline
		}
	}
	cached := func(digest string) rooted.Path {
		return cache.Join("manifests", strings.TrimPrefix(digest, "sha256:"))
	}
	if sha256Digest.MatchString(digest) {
		if body, err := cached(digest).Read(); err == nil && digestOf(body) == digest {
			return body, nil
		}
	}
	if r.offline {
		return nil, errOffline
	}
	address := r.address("manifests", reference)
	body, head, err := httprange.Get(ctx, address, maxAnswer, withHeader(r.http, "Accept", manifestTypes))
	if err != nil {
		return nil, r.explain(err)
	}
	got := digestOf(body)
	for _, said := range []string{digest, head.Get("Docker-Content-Digest")} {
		if sha256Digest.MatchString(said) && said != got {
			return nil, fmt.Errorf("%s: %w: a manifest whose digest is %s, not %s", httprange.NameOf(address), httprange.ErrResponse, got, said)
		}
	}
	if r.opts.NoCache {
		return body, nil
	}
	if err := writeWhole(cached(got), body); err != nil || digest == got { // reference is the digest
		return body, err
	}
	return body, writeWhole(ref, []byte(got))
}

// parseManifest decodes a manifest, and checks the digests and sizes in it. It fails for a manifest that has neither
// layers, nor a configuration, nor other manifests.
func parseManifest(body []byte) (*registryManifest, error) {
	m := new(registryManifest)
	if err := json.Unmarshal(body, m); err != nil {
		return nil, err
	}
	m.digest = strings.TrimPrefix(digestOf(body), "sha256:")
	if m.Config.Digest != "" {
		return m, m.Config.check()
	}
	if len(m.Layers)+len(m.Manifests) == 0 {
		return nil, errors.New("a manifest without layers")
	}
	return m, nil
}

// object returns the content of the layer d, to be cached at the paths of at. Messages call it name. It sends no request.
func (r *registry) object(d descriptor, name string, at place) object {
	return object{
		name: name, size: d.Size, id: d.hex(), origin: r.host, check: sha256Check(d.hex()), place: at,
		connect: func(ctx context.Context, version string) (Source, error) {
			return openSource(ctx, r.address("blobs", d.Digest), r.http, d.Size, version, r.explain)
		},
	}
}
