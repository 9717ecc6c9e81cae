package remote

import (
	"context"
	"fmt"
	"path"
	"path/filepath"
	"slices"

	"github.com/tensormap/tensormap/loader"
)

// Pulled is a model that the cache has complete.
type Pulled struct {
	// Path is that of the file that the address names, if it is a model by itself, else that of the
	// snapshot's folder.
	Path string
	// Files are the paths of all that belongs to the model, in order.
	Files []string
}

// Pull brings a model of the Hub to the cache: its weights, their index, and the files beside them
// for configuration, tokenizer and generation. It asks for nothing that is there.
func Pull(ctx context.Context, address string, opts *Options) (*Pulled, error) {
	o := opts.withDefaults()
	o.NoCache = false
	at, ok, err := hubAddressOf(address, o)
	if err != nil {
		return nil, err
	}
	if !ok {
		return nil, fmt.Errorf("%s: %w: only models of the Hub are kept (hf://ORG/NAME)", address, loader.ErrUnsupported)
	}
	s, err := at.snapshot(ctx, at.hubAddress, o)
	if err != nil {
		return nil, err
	}
	name, err := s.model(ctx)
	if err != nil {
		return nil, err
	}
	names, err := s.members(ctx, name)
	if err != nil {
		return nil, err
	}
	if err := s.fill(ctx, names, o.Progress); err != nil {
		return nil, err
	}
	pulled := &Pulled{Path: filepath.Join(s.dir(), filepath.FromSlash(path.Dir(name)))}
	if at.file == name && len(names) == 1 {
		pulled.Path = s.path(name)
	}
	for _, name := range names {
		pulled.Files = append(pulled.Files, s.path(name))
	}
	return pulled, nil
}

// members lists the files of the model that the file called name leads to. A file that the address
// names, and that is a model by itself, comes alone.
func (s *snapshot) members(ctx context.Context, name string) ([]string, error) {
	f, err := s.open(name)
	if err != nil {
		return nil, err
	}
	m, err := loader.OpenReaderAt(ctx, f, f.Size(), s.opts.Loader)
	if err != nil {
		return nil, err
	}
	defer m.Close()
	names := []string{name}
	for _, file := range m.Files() {
		names = append(names, path.Join(path.Dir(name), path.Base(file.Path)))
	}
	if s.at.file != name || len(m.Files()) > 1 {
		names = append(names, s.siblings(name)...)
	}
	slices.Sort(names)
	return slices.Compact(names), nil
}

// fill brings the files called names, one after the other.
func (s *snapshot) fill(ctx context.Context, names []string, progress func(have, total int64)) error {
	var before, total int64
	for _, name := range names {
		total += s.files[name].Size
	}
	for _, name := range names {
		f, err := s.open(name)
		if err != nil {
			return err
		}
		err = f.fill(ctx, func(have, _ int64) {
			if progress != nil {
				progress(before+have, total)
			}
		})
		f.Close()
		if err != nil {
			return fmt.Errorf("%s: %w", s.name(name), err)
		}
		if before += f.Size(); progress != nil {
			progress(before, total)
		}
	}
	return nil
}
