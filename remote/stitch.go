package remote

import (
	"context"
	"fmt"
	"iter"
	"path"
	"slices"
	"strings"
	"sync"

	"github.com/tensormap/tensormap/internal/parallel"
	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/layout/formats"
	"github.com/tensormap/tensormap/layout/manifest"
	"github.com/tensormap/tensormap/scheme"
)

// mergedIndex returns the text of model.safetensors.index.json for the SafeTensors files called names. It reads their
// headers, eight at a time. It fails if two files have a tensor of the same name.
func (d *folder) mergedIndex(ctx context.Context, names []string) ([]byte, error) {
	shards := make([]manifest.Shard, len(names))
	tensors := make([][]string, len(names))
	types := make([]layout.Metadata, len(names))
	var mu sync.Mutex
	var total uint64
	err := parallel.Each(8, parallel.Range(uint64(len(names))), func(items iter.Seq[uint64]) error {
		for i := range items {
			var size uint64
			var err error
			if tensors[i], types[i], size, err = d.tensorsOf(ctx, names[i]); err != nil {
				return fmt.Errorf("%s: %w", names[i], err)
			}
			shards[i].Name = path.Base(names[i])
			mu.Lock()
			total += size
			mu.Unlock()
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	var places []manifest.Place
	first := make(map[string]string)
	for i, inFile := range tensors {
		for _, tensor := range inFile {
			if other, ok := first[tensor]; ok {
				return nil, fmt.Errorf("%s and %s: both have tensor %q", other, names[i], tensor)
			}
			first[tensor] = names[i]
			places = append(places, manifest.Place{Tensor: tensor, Shard: i})
		}
	}
	return manifest.EncodeIndex(shards, places, quantMetadata(tensors, types), total)
}

// quantMetadata returns the metadata of a merged index that say how quantized tensors are stored. File i has the tensors tensors[i] and
// the metadata files[i]. A type that a file has for all its tensors becomes one entry for each tensor.
func quantMetadata(tensors [][]string, files []layout.Metadata) (all layout.Metadata) {
	for i, md := range files {
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

// tensorsOf returns the names of a file's tensors and their size in bytes. It also returns the file's metadata if some
// tensors are U32, and may be quantized as Ollama does it. It fails if the file cannot be decoded.
func (d *folder) tensorsOf(ctx context.Context, name string) (names []string, md layout.Metadata, size uint64, err error) {
	err = d.decode(ctx, name, func(in layout.Input, decoded layout.File) (err error) {
		names, size = nil, 0 // of the first attempt, if this is the second
		isQuantized := false // there are U32 tensors
		for _, t := range decoded.Index().Tensors {
			names = append(names, string(t.Name))
			size += t.Stored
			isQuantized = isQuantized || t.DType == layout.U32
		}
		if isQuantized {
			md, err = decoded.Metadata(in)
		}
		return err
	})
	return names, md, size, err
}

// addMergedIndex adds an index of the weights, d.modelCandidates, and makes it the only file that may be the model. It does
// nothing unless the weights are several SafeTensors files of one folder without an index: registries tell shards by
// layers. It fails if a header cannot be read, or if two files have a tensor of the same name.
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
