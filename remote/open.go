package remote

import (
	"context"
	"fmt"
	"net/url"
	"path/filepath"
	"strings"

	"github.com/tensormap/tensormap/loader"
)

// Open opens the model at an address: see the package's documentation. ctx bounds what opening
// reads. The model's Close also ends what it still reads.
//
// A model whose files the cache has complete is opened from there, as by loader.Open: mapped. Of other models Open
// reads the index, and methods of tensors read what they need; all that is read is cached.
func Open(ctx context.Context, address string, opts *Options) (*loader.Model, error) {
	o := opts.withDefaults()
	d, err := resolve(ctx, address, o)
	if err != nil {
		return nil, err
	}
	if d != nil {
		return d.openModel(ctx)
	}
	if scheme, rest, ok := strings.Cut(address, "://"); ok && strings.EqualFold(scheme, "file") {
		address = pathOf(rest)
	}
	return loader.Open(address, o.Loader)
}

// pathOf returns the path that rest, a file address after file:// (RFC 8089), names: unescaped, and without the host
// localhost. Malformed escapes stay as they are.
func pathOf(rest string) string {
	if path, ok := strings.CutPrefix(rest, "localhost/"); ok {
		rest = "/" + path
	}
	if path, err := url.PathUnescape(rest); err == nil {
		rest = path
	}
	if drive := strings.TrimPrefix(filepath.FromSlash(rest), `\`); filepath.VolumeName(drive) != "" { // file:///C:/…
		return drive
	}
	return filepath.FromSlash(rest)
}

// resolve returns the folder of the files at an address, after it has asked the server what they are. For a path and for
// file:// it returns nil without an error.
func resolve(ctx context.Context, address string, o *Options) (*folder, error) {
	scheme, rest, _ := strings.Cut(address, "://")
	switch strings.ToLower(scheme) {
	case "oci":
		at, err := parseOCI(rest)
		if err != nil {
			return nil, err
		}
		return at.artifact(ctx, o)
	case "s3":
		at, err := parseS3(rest)
		if err != nil {
			return nil, err
		}
		b, err := newBucket(at.bucket, o)
		if err != nil {
			return nil, err
		}
		return inStore(ctx, b, at.key, o)
	case "ollama":
		at, err := parseOllama(rest)
		if err != nil {
			return nil, err
		}
		return at.model(ctx, o)
	}
	at, ok, err := hubAddressOf(address, o)
	switch {
	case err != nil:
		return nil, err
	case !ok && (strings.EqualFold(scheme, "http") || strings.EqualFold(scheme, "https")):
		return webFolder(ctx, address, o)
	case !ok: // a path, or file://
		return nil, nil
	}
	return at.snapshot(ctx, at.hubAddress, o)
}

// located is an address in the Hub, with the Hub's settings.
type located struct {
	*hub
	hubAddress
}

// hubAddressOf parses an address of the Hub, as hf:// or as a browser shows it. ok is false for other addresses. It fails
// only for hf://, if the address is malformed or a variable of the Hub is wrong.
func hubAddressOf(address string, o *Options) (at located, ok bool, err error) {
	scheme, rest, _ := strings.Cut(address, "://")
	switch strings.ToLower(scheme) {
	case "hf":
		if at.hub, err = newHub(o.HTTP); err == nil {
			at.hubAddress, err = parseHub(rest)
		}
		return at, err == nil, err
	case "http", "https":
		u, err := url.Parse(address)
		if err != nil {
			return at, false, nil // httprange says why
		}
		if at.hub, err = newHub(o.HTTP); err != nil {
			return at, false, nil // wrong variables of the Hub do not matter to another server
		}
		at.hubAddress, ok = webAddress(u, at.hub.endpoint)
		return at, ok, nil
	}
	return at, false, nil
}

// Pulled is a model that the cache has complete.
type Pulled struct {
	// Path leads to the file that the address names, if that is a model by itself, else to the
	// snapshot's folder.
	Path string
	// Files are the paths of all that belongs to the model, in order.
	Files []string
	// Names are the names of Files in the model's folder, with slashes.
	Names []string
}

// Pull downloads the model at an address to the cache: its weights, their index, and the files beside them for
// configuration, tokenizer and generation. An address of one file brings that file, and those that its values depend
// on. Bytes that the cache has are not requested. With Options.Loader.Trust bytes are verified before they are
// cached. Files that the cache had are not: see [loader.VerifyFile].
func Pull(ctx context.Context, address string, opts *Options) (*Pulled, error) {
	o := opts.withDefaults()
	o.NoCache, o.fresh = false, true
	d, err := resolve(ctx, address, o)
	if err != nil {
		return nil, err
	}
	if d == nil {
		return nil, fmt.Errorf("%s: %w: not an address whose files are cached", address, loader.ErrUnsupported)
	}
	return d.pull(ctx)
}

// pull downloads the files of the folder's model that the cache lacks, and returns their paths there.
func (d *folder) pull(ctx context.Context) (*Pulled, error) {
	name, err := d.model(ctx)
	if err != nil {
		return nil, err
	}
	names, single, err := d.members(ctx, name)
	if err != nil {
		return nil, err
	}
	if err := d.fill(ctx, name, names, d.opts.Progress); err != nil {
		return nil, err
	}
	if d.pulled != nil {
		if err := d.pulled(); err != nil {
			return nil, err
		}
	}
	pulled := &Pulled{}
	for _, member := range names {
		pulled.Files = append(pulled.Files, d.path(member))
		pulled.Names = append(pulled.Names, besideModel(name, member))
	}
	if pulled.Path = d.path(name); !d.alone(name, names, single) {
		pulled.Path = filepath.Dir(pulled.Path)
	}
	return pulled, nil
}

// OpenStore opens the model at a key of a store: an object, or several under a prefix. See Open.
func OpenStore(ctx context.Context, s Store, key string, opts *Options) (*loader.Model, error) {
	d, err := inStore(ctx, s, key, opts.withDefaults())
	if err != nil {
		return nil, err
	}
	return d.openModel(ctx)
}

// PullStore downloads the model at a key of a store to the cache. See Pull.
func PullStore(ctx context.Context, s Store, key string, opts *Options) (*Pulled, error) {
	o := opts.withDefaults()
	o.NoCache, o.fresh = false, true
	d, err := inStore(ctx, s, key, o)
	if err != nil {
		return nil, err
	}
	return d.pull(ctx)
}
