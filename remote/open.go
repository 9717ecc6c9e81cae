package remote

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"strings"

	"github.com/tensormap/tensormap/loader"
)

// Open opens the model at an address: see the package's documentation. ctx bounds what opening reads. The model's Close also ends what it
// still reads. If the cache has all files of the model complete, Open maps them, as loader.Open does. Otherwise Open reads the index, and
// methods of tensors read what they need; all that is read is cached. A path or a file address is opened by loader.Open.
func Open(ctx context.Context, address string, opts *Options) (*loader.Model, error) {
	o := opts.withDefaults()
	d, err := resolveFolder(ctx, address, o)
	if err != nil {
		return nil, err
	}
	if d != nil {
		return d.openModel(ctx)
	}
	if scheme, rest, ok := strings.Cut(address, "://"); ok && strings.EqualFold(scheme, "file") {
		address = pathOfFileURL(rest)
	}
	return loader.Open(address, o.Loader)
}

// pathOfFileURL returns the path in rest, a file address after file:// (RFC 8089), without the host localhost and without percent-encoding.
// Malformed percent-encoding stays as it is. On Windows the path has backslashes, and none before a drive: /C:/x becomes C:\x.
func pathOfFileURL(rest string) string {
	if path, ok := strings.CutPrefix(rest, "localhost/"); ok {
		rest = "/" + path
	}
	if path, err := url.PathUnescape(rest); err == nil {
		rest = path
	}
	rest = filepath.FromSlash(rest)
	if fromDrive := strings.TrimPrefix(rest, `\`); filepath.VolumeName(fromDrive) != "" {
		return fromDrive
	}
	return rest
}

// resolveFolder returns the folder of the files at an address; it asks the server for them. A path, file:// or an unknown scheme is for
// loader.Open: the result is then nil. resolveFolder fails for a malformed address, or if the server does.
func resolveFolder(ctx context.Context, address string, o *Options) (*folder, error) {
	scheme, rest, _ := strings.Cut(address, "://")
	switch strings.ToLower(scheme) {
	case "hf":
		return hubFolder(ctx, rest, o)
	case "http", "https":
		return webFolder(ctx, address, o)
	case "oci":
		return ociFolder(ctx, rest, o)
	case "ollama":
		return ollamaFolder(ctx, rest, o)
	case "s3":
		return bucketFolder(ctx, rest, o)
	}
	return nil, nil
}

// Pull downloads the model at an address to the cache: its weights, their index, and the files beside them for configuration, tokenizer and
// generation. An address of one file fetches that file, and the shards and indexes that the model in it needs. Bytes that the cache has are
// not requested. With Options.Loader.Trust bytes are verified before they are cached. Files that the cache had are not: see
// [loader.VerifyFile].
func Pull(ctx context.Context, address string, opts *Options) (_ *Pulled, err error) {
	o := opts.forPull()
	defer func() { err = errors.Join(err, o.downloads.removeAll()) }() // resolveFolder may have downloaded too
	d, err := resolveFolder(ctx, address, o)
	if err != nil {
		return nil, err
	}
	if d == nil {
		return nil, fmt.Errorf("%s: %w: not an address whose files are cached", address, loader.ErrUnsupported)
	}
	return d.pull(ctx)
}

// OpenStore opens the model at a key of a store: an object, or several under a prefix. It does what Open does for an address, and fails
// if there is no model or if the store does.
func OpenStore(ctx context.Context, s Store, key string, opts *Options) (*loader.Model, error) {
	d, err := folderInStore(ctx, s, key, opts.withDefaults())
	if err != nil {
		return nil, err
	}
	return d.openModel(ctx)
}

// PullStore downloads the model at a key of a store to the cache, as Pull does for an address. It fails if there is no model, if the
// store does, or if the cache cannot be written to.
func PullStore(ctx context.Context, s Store, key string, opts *Options) (*Pulled, error) {
	d, err := folderInStore(ctx, s, key, opts.forPull())
	if err != nil {
		return nil, err
	}
	return d.pull(ctx)
}
