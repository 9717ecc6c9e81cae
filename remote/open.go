package remote

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"strings"
	"sync"

	"github.com/tensormap/tensormap/loader"
)

// Open opens the model at an address: see the package's documentation. ctx bounds what opening
// reads. The model's Close also ends what it still reads.
//
// If the cache has all files of the model complete, Open maps them, as loader.Open does. Otherwise Open reads the index, and methods of
// tensors read what they need; all that is read is cached. A path or a file address is opened by loader.Open.
func Open(ctx context.Context, address string, opts *Options) (*loader.Model, error) {
	o := opts.withDefaults()
	d, isLocal, err := resolveFolder(ctx, address, o)
	if err != nil {
		return nil, err
	}
	if !isLocal {
		return d.openModel(ctx)
	}
	if scheme, rest, ok := strings.Cut(address, "://"); ok && strings.EqualFold(scheme, "file") {
		address = pathOfFileURL(rest)
	}
	return loader.Open(address, o.Loader)
}

// pathOfFileURL returns the path in rest, a file address after file:// (RFC 8089), without the host localhost and without
// percent-encoding. Malformed percent-encoding stays as it is. On Windows the path has backslashes, and none before a drive: /C:/x
// becomes C:\x.
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
// loader.Open: isLocal is then true, and d is nil. resolveFolder fails for a malformed address, or if the server does.
func resolveFolder(ctx context.Context, address string, o *Options) (d *folder, isLocal bool, err error) {
	scheme, rest, _ := strings.Cut(address, "://")
	switch strings.ToLower(scheme) {
	case "hf":
		d, err = hubFolder(ctx, rest, o)
	case "http", "https":
		d, err = webOrHubFolder(ctx, address, o)
	case "oci":
		var at ociAddress
		if at, err = parseOCI(rest); err == nil {
			d, err = at.openFolder(ctx, o)
		}
	case "ollama":
		var at ollamaAddress
		if at, err = parseOllama(rest); err == nil {
			d, err = at.openFolder(ctx, o)
		}
	case "s3":
		d, err = bucketFolder(ctx, rest, o)
	default:
		isLocal = true
	}
	return d, isLocal, err
}

// hubFolder returns the files at rest, an address after hf://. It fails for a malformed address, or as newHub and snapshot do.
func hubFolder(ctx context.Context, rest string, o *Options) (*folder, error) {
	a, err := parseHub(rest)
	if err != nil {
		return nil, err
	}
	h, err := newHub(o)
	if err != nil {
		return nil, err
	}
	return h.snapshot(ctx, a, o)
}

// webOrHubFolder returns a folder for an http or https address. If address is a page of a model at the Hub, or of its files, the folder is
// the model's. Otherwise the folder has the file at the address, and those beside it. webOrHubFolder fails for a malformed address, or if
// the server does.
func webOrHubFolder(ctx context.Context, address string, o *Options) (*folder, error) {
	if u, err := url.Parse(address); err == nil { // or else webFolder says why
		if h, err := newHub(o); err == nil { // wrong variables of the Hub do not matter to another server
			if a, ok := parseBrowserAddress(u, h.endpoint); ok {
				return h.snapshot(ctx, a, o)
			}
		}
	}
	return webFolder(ctx, address, o)
}

// Pulled is a model that the cache has complete.
type Pulled struct {
	// Path leads to the file that the address names, if that is a model by itself, else to the
	// snapshot's folder.
	Path string
	// Files are the paths of all that belongs to the model, in order.
	Files []string
	// Names are the paths of Files from the model's folder, with slashes.
	Names []string
}

// Pull downloads the model at an address to the cache: its weights, their index, and the files beside them for configuration, tokenizer and
// generation. An address of one file brings that file, and the shards and indexes that the model in it needs. Bytes that the cache has are
// not requested. With Options.Loader.Trust bytes are verified before they are cached. Files that the cache had are not: see
// [loader.VerifyFile].
func Pull(ctx context.Context, address string, opts *Options) (*Pulled, error) {
	d, isLocal, err := resolveFolder(ctx, address, opts.forPull())
	if err != nil {
		return nil, err
	}
	if isLocal {
		return nil, fmt.Errorf("%s: %w: not an address whose files are cached", address, loader.ErrUnsupported)
	}
	return d.pull(ctx)
}

// forPull returns the options of Pull and PullStore for the caller's o, which may be nil. They are those of withDefaults, but isPull and
// downloads are set, NoCache is not, and Progress is called by one goroutine at a time.
func (o *Options) forPull() *Options {
	out := o.withDefaults()
	out.NoCache, out.isPull, out.downloads = false, true, &downloads{byAddress: make(map[string]*download)}
	out.Progress = oneAtATime(out.Progress)
	return out
}

// oneAtATime returns a function that calls progress for one goroutine at a time. It returns nil for nil.
func oneAtATime(progress func(have, total int64)) func(have, total int64) {
	if progress == nil {
		return nil
	}
	var mu sync.Mutex
	return func(have, total int64) {
		mu.Lock()
		defer mu.Unlock()
		progress(have, total)
	}
}

// pull downloads the files of the folder's model that the cache lacks, calls d.afterPull if set, and returns the files' paths. Pulled.Path
// is the file to open, or the folder of the files: see opensAsFile. Pulled.Names are relative to the model's folder. pull fails if there is
// no model, if a file cannot be fetched, verified or moved, or if d.afterPull fails.
func (d *folder) pull(ctx context.Context) (_ *Pulled, err error) {
	downloads := d.opts.downloads
	defer func() { err = errors.Join(err, downloads.dropUnused()) }()
	downloads.keep(true) // until fetchFiles, which reads again what modelFiles has read
	name, err := d.chooseModel(ctx)
	if err != nil {
		return nil, err
	}
	names, hasOneFile, err := d.modelFiles(ctx, name)
	if err != nil {
		return nil, err
	}
	downloads.keep(false)
	if err := d.fetchFiles(ctx, name, names, d.opts.Progress); err != nil {
		return nil, err
	}
	if d.afterPull != nil {
		if err := d.afterPull(); err != nil {
			return nil, err
		}
	}
	pulled := &Pulled{}
	for _, member := range names {
		pulled.Files = append(pulled.Files, d.completePath(member))
		pulled.Names = append(pulled.Names, pathFromModel(name, member))
	}
	if pulled.Path = d.completePath(name); !d.opensAsFile(name, names, hasOneFile) {
		pulled.Path = filepath.Dir(pulled.Path)
	}
	return pulled, nil
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
