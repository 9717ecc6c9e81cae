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

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"github.com/tensormap/tensormap/loader/httprange"
	"github.com/tensormap/tensormap/remote/internal/rooted"
)

// registry is one repository, called repo, of a server that speaks the OCI distribution protocol, version 1.1.
type registry struct {
	host, repo  string
	opts        *Options
	http        httprange.Options // with the Authorizer of the repository
	refusalHint string            // what explain adds to a refusal
}

// newRegistry returns the repository called repo of the server host, which may have a port. Requests get credentials from
// Docker's configuration, unless the options have an Authorizer or a header Authorization.
func newRegistry(host, repo string, o *Options) *registry {
	r := &registry{host: host, repo: repo, opts: o,
		http: *o.HTTP, refusalHint: "no such repository, or credentials are missing: docker login " + host + ", or --header"}
	if r.http.Authorizer == nil && r.http.Header.Get("Authorization") == "" {
		r.http.Authorizer = &bearer{host: host, repo: repo, http: r.http, credential: dockerCredential}
	}
	return r
}

// address returns the address of a manifest or a blob. kind is "manifests" or "blobs"; reference is a tag or a digest. The scheme
// is https, but http for a registry on loopback, as Docker and crane have it.
func (r *registry) address(kind, reference string) string {
	u := url.URL{Scheme: "https", Host: r.host, Path: "/v2/" + r.repo + "/" + kind + "/" + reference}
	if isLoopback(r.host) {
		u.Scheme = "http"
	}
	return u.String()
}

// explain adds r.refusalHint to err if the registry has refused a request for lack of rights. It leaves a refusal by the target of a
// redirect as it is: that server got no credentials. It also leaves other errors as they are, and returns nil for nil.
func (r *registry) explain(err error) error {
	status, ok := errors.AsType[*httprange.StatusError](err)
	if ok && status.Elsewhere == "" && errors.Is(err, fs.ErrPermission) {
		return fmt.Errorf("%w (%s)", err, r.refusalHint)
	}
	return err
}

// descriptor names content. Lists of strings in it are not decoded: they might take 30 times their text.
type descriptor struct {
	ocispec.Descriptor
	URLs     json.RawMessage                   `json:"urls,omitempty"`
	Platform struct{ OS, Architecture string } `json:"platform,omitzero"`
	From     string                            `json:"from,omitempty"` // of Ollama's layers, as is Name
	Name     string                            `json:"name,omitempty"`
}

// descriptors is a list in a manifest.
type descriptors []descriptor

// UnmarshalJSON decodes text and appends its descriptors to the list. It fails for malformed JSON, or if descriptor.check does.
func (l *descriptors) UnmarshalJSON(text []byte) error {
	add := func(d descriptor) error {
		*l = append(*l, d)
		return d.check()
	}
	return forEachElement[descriptor](add).UnmarshalJSON(text)
}

// check returns an error if the size is negative, or if the digest is not "sha256:" and 64 hexadecimal digits. The digest becomes the name
// of a file.
func (d descriptor) check() error {
	if !sha256Digest.MatchString(string(d.Digest)) || d.Size < 0 {
		return fmt.Errorf("its digest %.80q or its size %d cannot be", d.Digest, d.Size)
	}
	return nil
}

// registryManifest is an image manifest or an index, of OCI or Docker.
type registryManifest struct {
	MediaType string      `json:"mediaType"`
	Config    descriptor  `json:"config"`
	Layers    descriptors `json:"layers"`
	Manifests descriptors `json:"manifests"`

	digest string // of its bytes, in hex
}

// manifestTypes is the header Accept of a request for a manifest.
var manifestTypes = strings.Join([]string{
	ocispec.MediaTypeImageManifest, ocispec.MediaTypeImageIndex,
	"application/vnd.docker.distribution.manifest.v2+json", "application/vnd.docker.distribution.manifest.list.v2+json",
}, ", ")

// manifest returns the manifest that reference, a tag or a digest, stands for. It sends no request for a digest that the cache has.
// It fails if getting the manifest does, or if the manifest is malformed.
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

// manifestBytes returns the text of the manifest that reference, a tag or a digest, names. If the digest is known and the cache has that
// manifest, it reads the cache. Offline the cache also tells the digests of tags, and manifestBytes returns errOffline for what the cache
// lacks. Otherwise it requests the text. Unless Options.NoCache is set, it writes the text to the cache, and for a tag the digest too. It
// fails if a request or remember does. It fails with httprange.ErrResponse if the text has another digest than reference, or than the
// server tells.
func (r *registry) manifestBytes(ctx context.Context, reference string) ([]byte, error) {
	// The file is called REPOSITORY@REFERENCE: no repository's folder has that path, since names have no @.
	ref := r.opts.cache.Join("refs", strings.ReplaceAll(r.host, ":", "_"), filepath.FromSlash(r.repo)+"@"+reference)
	cached := func(d digest.Digest) rooted.Path { return r.opts.cache.Join("manifests", d.Encoded()) }
	var known digest.Digest // of the manifest, unless only the registry knows it
	if sha256Digest.MatchString(reference) {
		known = digest.Digest(reference)
	} else if text, err := ref.Read(); isOffline() && err == nil && sha256Digest.Match(text) {
		known = digest.Digest(text)
	}
	if known != "" {
		if body, err := cached(known).Read(); err == nil && digest.FromBytes(body) == known {
			return body, nil
		}
	}
	if isOffline() {
		return nil, errOffline
	}
	address := r.address("manifests", reference)
	body, head, err := httprange.Get(ctx, address, maxResponseBytes, withHeader(r.http, "Accept", manifestTypes))
	if err != nil {
		return nil, r.explain(err)
	}
	got := digest.FromBytes(body)
	for _, said := range []digest.Digest{known, digest.Digest(head.Get("Docker-Content-Digest"))} {
		if sha256Digest.MatchString(string(said)) && said != got {
			return nil, fmt.Errorf("%s: %w: a manifest whose digest is %s, not %s", httprange.NameOf(address), httprange.ErrResponse, got, said)
		}
	}
	if err := r.opts.remember(cached(got), body); err != nil || reference == string(got) {
		return body, err
	}
	return body, r.opts.remember(ref, []byte(got)) // reference is a tag
}

// parseManifest decodes a manifest, and checks the digests and sizes in it. It fails for malformed JSON, or if descriptor.check does. It
// also fails for an empty manifest: no layers, no configuration and no other manifests.
func parseManifest(body []byte) (*registryManifest, error) {
	m := new(registryManifest)
	if err := json.Unmarshal(body, m); err != nil {
		return nil, err
	}
	m.digest = digest.FromBytes(body).Encoded()
	if m.Config.Digest != "" {
		return m, m.Config.check() // decoding has checked the layers
	}
	if len(m.Layers)+len(m.Manifests) == 0 {
		return nil, errors.New("a manifest without layers")
	}
	return m, nil
}

// layerObject returns the content of layer d, without a name and paths. It sends no request. Reads of the source that connect opens send
// requests. connect itself sends one only for an empty layer, since no read follows. Offline, connect fails with errOffline.
func (r *registry) layerObject(d descriptor) object {
	return object{
		size: d.Size, id: d.Digest.Encoded(), origin: r.host,
		connect: func(ctx context.Context, version string) (Source, error) {
			return r.opts.openSource(ctx, r.address("blobs", string(d.Digest)), &r.http, d.Size, version, r.explain)
		},
	}
}
