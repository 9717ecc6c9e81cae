package remote

import (
	"context"
	"fmt"
	"iter"
	"path"
	"slices"
	"strings"

	"github.com/tensormap/tensormap/internal/parallel"
	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/layout/formats"
	"github.com/tensormap/tensormap/layout/manifest"
	"github.com/tensormap/tensormap/scheme"
)

// mergedIndex returns the text of a model.safetensors.index.json for the SafeTensors files called names, which lie in one folder. The text
// tells which file has each tensor, and how many bytes all tensors have. It also has the entries of quantMetadata. mergedIndex reads the
// headers of up to eight files at a time. It fails if a header cannot be read, or if two files have a tensor of the same name.
func (d *folder) mergedIndex(ctx context.Context, names []string) ([]byte, error) {
	shards := make([]manifest.Shard, len(names))
	tensors := make([][]string, len(names))
	metadata := make([]layout.Metadata, len(names))
	sizes := make([]uint64, len(names))
	err := parallel.Each(8, parallel.Range(uint64(len(names))), func(items iter.Seq[uint64]) error {
		for i := range items {
			var err error
			if tensors[i], metadata[i], sizes[i], err = d.tensorsOf(ctx, names[i]); err != nil {
				return fmt.Errorf("%s: %w", names[i], err)
			}
			shards[i].Name = path.Base(names[i])
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	var places []manifest.Place
	fileOf := make(map[string]string) // the file of each tensor
	var total uint64
	for i, inFile := range tensors {
		total += sizes[i]
		for _, tensor := range inFile {
			if other, ok := fileOf[tensor]; ok {
				return nil, fmt.Errorf("%s and %s: both have tensor %q", other, names[i], tensor)
			}
			fileOf[tensor] = names[i]
			places = append(places, manifest.Place{Tensor: tensor, Shard: i})
		}
	}
	return manifest.EncodeIndex(shards, places, quantMetadata(tensors, metadata), total)
}

// quantMetadata returns the metadata of a merged index. File i has the tensors tensors[i] and the metadata metadata[i]. Entries of a file
// may be for one tensor, or for all its tensors. For each tensor, quantMetadata adds an entry for the quantization type and one for the
// group size, if its file has them. It returns nil if no file has such entries.
func quantMetadata(tensors [][]string, metadata []layout.Metadata) (all layout.Metadata) {
	for i, md := range metadata {
		for _, tensor := range tensors[i] {
			for _, key := range []string{scheme.QuantType, scheme.GroupSize} {
				v, ok := md.Get(tensor + "." + key)
				if !ok {
					v, ok = md.Get(key)
				}
				if ok {
					all = append(all, layout.Entry{Key: tensor + "." + key, Value: v})
				}
			}
		}
	}
	if len(all) > 0 {
		all.Set(scheme.QuantType, "") // the merged index has no type for all tensors
	}
	return all
}

// tensorsOf returns the names of the tensors in the file called name, and size, their stored bytes together. md is the file's metadata if a
// tensor is of U32, the dtype by which Ollama stores quantized ones. Otherwise md is nil. It fails if the file cannot be decoded.
func (d *folder) tensorsOf(ctx context.Context, name string) (names []string, md layout.Metadata, size uint64, err error) {
	err = d.decode(ctx, name, func(in layout.Input, decoded layout.File) (err error) {
		names, md, size = nil, nil, 0 // decode calls this again if the file has changed
		hasU32 := false
		for _, t := range decoded.Index().Tensors {
			names = append(names, string(t.Name))
			size += t.Stored
			hasU32 = hasU32 || t.DType == layout.U32
		}
		if hasU32 {
			md, err = decoded.Metadata(in)
		}
		return err
	})
	return names, md, size, err
}

// addMergedIndex makes an index of shards for a model that has none, as a registry's may. The shards are d.modelCandidates. It adds the
// index as a file, which becomes the only candidate. It does nothing unless the candidates are several SafeTensors files in one folder that
// has no index. It fails if a header cannot be read, or if two files have a tensor of the same name.
func (d *folder) addMergedIndex(ctx context.Context) error {
	var shards []string
	for _, name := range d.modelCandidates {
		if path.Ext(name) == formats.Suffix(layout.SafeTensors) {
			shards = append(shards, name)
		}
	}
	if len(shards) < 2 || len(shards) < len(d.modelCandidates) {
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
	text, err := d.mergedIndex(ctx, shards)
	if err != nil {
		return err
	}
	d.modelCandidates = []string{index}
	return d.addFile(index, textObject(text))
}
