package remote

import (
	"context"
	"fmt"
	"path/filepath"

	"github.com/tensormap/tensormap/loader"
)

// Pulled is a model that the cache has complete.
type Pulled struct {
	// Path is that of the file that the address names, if it is a model by itself, else that of the
	// snapshot's folder.
	Path string
	// Files are the paths of all that belongs to the model, in order.
	Files []string
	// Names are those of Files in the model's folder, with slashes.
	Names []string
}

// Pull brings the model at an address to the cache: its weights, their index, and the files beside them
// for configuration, tokenizer and generation. It asks for nothing that is there. With Options.Loader.Trust
// bytes are verified before they go into the cache. Files that were there are not: see [loader.VerifyFile].
func Pull(ctx context.Context, address string, opts *Options) (*Pulled, error) {
	o := opts.withDefaults()
	o.NoCache, o.fresh = false, true
	d, err := resolve(ctx, address, o)
	if err != nil {
		return nil, err
	}
	if d == nil {
		return nil, fmt.Errorf("%s: %w: not an address whose files are kept", address, loader.ErrUnsupported)
	}
	return d.pull(ctx)
}

// pull brings the folder's model.
func (d *folder) pull(ctx context.Context) (*Pulled, error) {
	name, err := d.model(ctx)
	if err != nil {
		return nil, err
	}
	names, err := d.members(ctx, name)
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
	if pulled.Path = d.path(name); !d.alone(name, names) {
		pulled.Path = filepath.Dir(pulled.Path)
	}
	return pulled, nil
}
