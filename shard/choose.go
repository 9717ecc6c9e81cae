package shard

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/layout/formats"
	"github.com/tensormap/tensormap/layout/manifest"
)

// ErrNoModel is wrapped by the errors of Choose if no file is a model by its name.
var ErrNoModel = errors.New("no model in it")

// Choose returns the name of the one model among files that lie side by side. It ignores files that no format has a
// suffix for, hidden ones, and shards of another model in the list. Among several it takes the one called model, and
// model.safetensors before its index, as Python's transformers do. The order of files does not matter.
//
// manifestOf returns the manifest in the file called name, or nil. It is asked if several names
// remain.
func Choose(files []string, manifestOf func(name string) *manifest.File) (string, error) {
	suffixes := formats.Suffixes()
	names := slices.DeleteFunc(slices.Clone(files), func(name string) bool {
		return name == "" || name[0] == '.' || !isIndex(name) && !slices.Contains(suffixes, suffix(name))
	})
	slices.Sort(names)
	if len(names) > 1 {
		names = withoutShards(names, manifestOf)
	}
	if whole := "model" + formats.Suffix(layout.SafeTensors); slices.Contains(names, whole) {
		names = slices.DeleteFunc(names, func(name string) bool { return name == whole+manifest.IndexSuffix })
	}
	if plain := slices.DeleteFunc(slices.Clone(names), func(name string) bool { return !isPlain(name) }); len(plain) == 1 {
		names = plain
	}
	switch {
	case len(names) == 0:
		return "", fmt.Errorf("%w, that is, no file called *%s%s", ErrNoModel, strings.Join(suffixes, ", *"), pickled(files))
	case !slices.ContainsFunc(names, func(name string) bool { return !IsShard(name) }):
		return "", fmt.Errorf("shards in it, but without the manifest or index that leads to all of them: %s", Few(names))
	case len(names) > 1:
		return "", fmt.Errorf("%d models in it, to be opened by their own paths: %s", len(names), Few(names))
	}
	return names[0], nil
}

// pickled returns the text of an error that names pickles among files and says what to use instead. It is "" if there
// are none.
func pickled(files []string) string {
	names := slices.DeleteFunc(slices.Clone(files), func(name string) bool {
		pickle := suffix(name) == ".bin" && strings.Contains(name, "model") || slices.Contains([]string{".pt", ".pth", ".ckpt"}, suffix(name))
		return !pickle || name[0] == '.'
	})
	if len(names) == 0 {
		return ""
	}
	return ", but pickles, which may run programs when they are read and are not opened here: " + Few(names) +
		"; use the model's SafeTensors or GGUF, or write it as SafeTensors with the Python that reads it"
}

// Few returns the first four names as a list for a message. An ellipsis stands for the others.
func Few(names []string) string {
	const shown = 4
	list := strings.Join(names[:min(shown, len(names))], ", ")
	if len(names) > shown {
		list += ", …"
	}
	return list
}

// suffix returns the extension of a name, with its dot and in lower case.
func suffix(name string) string { return strings.ToLower(filepath.Ext(name)) }

// isIndex reports whether a file is a SafeTensors index by its name, also of a variant:
// model.safetensors.index.fp16.json.
func isIndex(name string) bool {
	return suffix(name) == ".json" && strings.Contains(name, ".safetensors.index.")
}

// isPlain reports whether name is a default name of a model, which Python's transformers look for: model.* or the index
// of model.safetensors.
func isPlain(name string) bool {
	return name == "model"+suffix(name) || name == "model"+formats.Suffix(layout.SafeTensors)+manifest.IndexSuffix
}

// withoutShards returns names without the shards of other models in the list. They are the shards that a manifest names,
// and all shards of a GGUF split but the first one listed. Files called as the shards of a model in the list are left
// out too: an older model of more shards may have left them.
func withoutShards(names []string, manifestOf func(name string) *manifest.File) []string {
	shards := make(map[string]bool)
	splits := make(map[string]bool)
	listed := make(map[string]bool, len(names))
	for _, name := range names {
		listed[name] = true
	}
	for _, name := range names {
		if set := setName(name); set != "" {
			shards[name] = splits[set]
			splits[set] = true
		} else if whole := Whole(name); whole != "" && (listed[whole] || listed[whole+manifest.IndexSuffix]) {
			shards[name] = true
		} else if isIndex(name) || suffix(name) == formats.Suffix(layout.APR2) {
			if m := manifestOf(name); m != nil {
				for _, s := range m.Shards {
					shards[s.Name] = true
				}
			}
		}
	}
	return slices.DeleteFunc(names, func(name string) bool { return shards[name] })
}
