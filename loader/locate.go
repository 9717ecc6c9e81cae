package loader

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/layout/formats"
	"github.com/tensormap/tensormap/layout/manifest"
	"github.com/tensormap/tensormap/mmapio"
	"github.com/tensormap/tensormap/shard"
)

// modelSuffixes returns the endings of the names of model files.
func modelSuffixes() (all []string) {
	for _, f := range formats.Names() {
		all = append(all, formats.Suffix(f))
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// locate maps the file at path, or that of the model in the directory at path. The other files of
// the model lie in from.
func locate(path string, o Options) (first *stored, from source, err error) {
	mapping, err := o.file(path)
	if errors.Is(err, mmapio.ErrDirectory) {
		if path, err = modelIn(path, o); err == nil {
			mapping, err = o.file(path)
		}
	}
	if err != nil {
		return nil, nil, err
	}
	return opened(path, mapping), beside(path, o), nil
}

// file maps the file at path, or reads it on demand.
func (o *Options) file(path string) (*mmapio.Mapping, error) {
	if o.NoMap {
		return mmapio.OpenReader(path)
	}
	return mmapio.Map(path)
}

// modelIn returns the path of the model in the directory dir: see Open.
func modelIn(dir string, o Options) (string, error) {
	names, err := modelNames(dir)
	if err == nil && len(names) == 0 {
		if dir, err = snapshotOf(dir); err == nil {
			names, err = modelNames(dir)
		}
	}
	if err != nil {
		return "", err
	}
	if len(names) > 1 {
		names = withoutParts(names, func(name string) *manifest.File { return manifestAt(filepath.Join(dir, name), o) })
	}
	if plain := slices.DeleteFunc(slices.Clone(names), func(name string) bool { return !isPlain(name) }); len(plain) == 1 {
		names = plain
	}
	switch {
	case len(names) == 0:
		return "", directoryError(dir, "no model in it, that is, no file called *%s", strings.Join(modelSuffixes(), ", *"))
	case !slices.ContainsFunc(names, func(name string) bool { return !shard.IsPart(name) }):
		return "", directoryError(dir, "shards in it, but without the manifest or index that leads to all of them: %s", few(names))
	case len(names) > 1:
		return "", directoryError(dir, "%d models in it, to be opened by their own paths: %s", len(names), few(names))
	}
	return filepath.Join(dir, names[0]), nil
}

// directoryError returns why the directory dir does not lead to a model.
func directoryError(dir, format string, args ...any) error {
	return &fs.PathError{Op: "open", Path: dir, Err: fmt.Errorf("%w with "+format, append([]any{mmapio.ErrDirectory}, args...)...)}
}

// few lists the first of the names.
func few(names []string) string {
	const most = 4
	list := strings.Join(names[:min(most, len(names))], ", ")
	if len(names) > most {
		list += ", …"
	}
	return list
}

// snapshotOf returns the snapshot to open of the model in the Hugging Face cache whose root is dir:
// the one that refs/main names, or else the only one. A directory without snapshots is returned as
// it is.
func snapshotOf(dir string) (string, error) {
	root, err := os.OpenRoot(dir) // which no name in refs/main leads out of
	if err != nil {
		return "", err
	}
	defer root.Close()
	isDir := func(name string) bool {
		info, err := root.Stat(filepath.Join("snapshots", name))
		return err == nil && info.IsDir()
	}
	entries, err := os.ReadDir(filepath.Join(dir, "snapshots"))
	var names []string
	for _, e := range entries {
		if isDir(e.Name()) {
			names = append(names, e.Name())
		}
	}
	if err != nil || len(names) == 0 {
		return dir, nil
	}
	main, err := commitOf(root)
	switch {
	case err == nil && slices.Contains(names, main):
		return filepath.Join(dir, "snapshots", main), nil
	case err == nil:
		return "", directoryError(dir, "refs/main in it, which names the snapshot %s, but only these: %s", layout.Quote([]byte(main)), few(names))
	case !errors.Is(err, fs.ErrNotExist):
		return "", err
	case len(names) > 1:
		return "", directoryError(dir, "%d snapshots in it, and no refs/main that names one: %s", len(names), few(names))
	}
	return filepath.Join(dir, "snapshots", names[0]), nil
}

// commitOf returns the name of the snapshot that refs/main has.
func commitOf(root *os.Root) (string, error) {
	const ref, most = "refs/main", 256
	info, err := root.Stat(ref)
	if err != nil {
		return "", err
	}
	if !info.Mode().IsRegular() || info.Size() > most {
		return "", directoryError(root.Name(), "%s in it that is no file of one name", ref)
	}
	text, err := root.ReadFile(ref)
	return strings.TrimSpace(string(text)), err
}

// modelNames lists the files in dir that have names of models, in order. It leaves out hidden ones,
// such as macOS puts beside files on foreign disks.
func modelNames(dir string) (names []string, err error) {
	entries, err := os.ReadDir(dir)
	suffixes := modelSuffixes()
	for _, e := range entries {
		if name := e.Name(); !e.IsDir() && name[0] != '.' && (isIndex(name) || slices.Contains(suffixes, suffix(name))) {
			names = append(names, name)
		}
	}
	return names, err
}

func suffix(name string) string { return strings.ToLower(filepath.Ext(name)) }

// isIndex reports whether name is that of a SafeTensors index, also of a variant:
// model.safetensors.index.fp16.json.
func isIndex(name string) bool {
	return suffix(name) == ".json" && strings.Contains(name, ".safetensors.index.")
}

// isPlain reports whether name is the default name of a model, which Python's transformers look
// for.
func isPlain(name string) bool {
	return name == "model"+suffix(name) || name == "model.safetensors.index.json"
}

// withoutParts leaves out parts of something else in the list: shards that a manifest names, and
// all parts of a GGUF split but the first that is there. Files called as the shards of a model in
// the list are left out too: an older model of more shards may have left them.
func withoutParts(names []string, manifest func(name string) *manifest.File) []string {
	parts := make(map[string]bool)
	splits := make(map[string]bool)
	for _, name := range names {
		if set := shard.SetName(name); set != "" {
			parts[name] = splits[set]
			splits[set] = true
		} else if whole := shard.Whole(name); whole != "" && (slices.Contains(names, whole) || slices.Contains(names, whole+".index.json")) {
			parts[name] = true
		} else if isIndex(name) || suffix(name) == formats.Suffix(layout.APR2) {
			if m := manifest(name); m != nil {
				for _, s := range m.Shards {
					parts[s.Name] = true
				}
			}
		}
	}
	return slices.DeleteFunc(names, func(name string) bool { return parts[name] })
}

// manifestAt returns the manifest at path, or nil if none can be read there.
func manifestAt(path string, o Options) (m *manifest.File) {
	in, err := o.file(path)
	if err != nil {
		return nil
	}
	defer in.Close()
	mmapio.Guard(func() error {
		f, _ := formats.Decode(in, o.Limits)
		m, _ = f.(*manifest.File)
		return nil
	})
	return m
}
