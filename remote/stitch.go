package remote

import (
	"context"
	"fmt"
	"maps"
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
// tells which file has each tensor, and how many bytes all tensors have. It also has the entries of shardContent.quant. mergedIndex reads
// the headers of up to eight files at a time. It fails if a header cannot be read, or if two files have a tensor of the same name. It fails
// with layout.ErrLimit for a text larger than an index may be. The text repeats a file's name, and a value for all its tensors, for each
// tensor.
func (d *folder) mergedIndex(ctx context.Context, names []string) ([]byte, error) {
	shards := make([]manifest.Shard, len(names))
	contents := make([]shardContent, len(names))
	err := parallel.ForEach(8, parallel.Range(uint64(len(names))), func(i uint64) (err error) {
		shards[i].Name = path.Base(names[i])
		if contents[i], err = d.contentOf(ctx, names[i]); err != nil {
			return fmt.Errorf("%s: %w", names[i], err)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	var places []manifest.Place
	var metadata layout.Metadata
	fileOf := make(map[string]string) // the file of each tensor
	var total, size uint64            // size is the size of the text, without what encloses names and values
	for i, shard := range contents {
		total += shard.bytes
		metadata = append(metadata, shard.quant...)
		for _, e := range shard.quant {
			size += uint64(len(e.Key) + len(e.Value.(string)))
		}
		for _, tensor := range shard.tensors {
			size += uint64(len(tensor) + len(shards[i].Name))
			if other, ok := fileOf[tensor]; ok {
				return nil, fmt.Errorf("%s and %s: both have tensor %q", other, names[i], tensor)
			}
			fileOf[tensor] = names[i]
			places = append(places, manifest.Place{Tensor: tensor, Shard: i})
		}
	}
	if limit := d.opts.Loader.Limits.WithDefaults().HeaderBytes; size > limit {
		return nil, fmt.Errorf("%w: a merged index of %d bytes, more than %d", layout.ErrLimit, size, limit)
	}
	if len(metadata) > 0 {
		metadata.Set(scheme.QuantType, "") // the merged index has no type for all tensors
	}
	return manifest.EncodeIndex(shards, places, metadata, total)
}

// shardContent is what a merged index needs of one file.
type shardContent struct {
	tensors []string // their names
	bytes   uint64   // of all tensors, as they are stored
	// quant has the quantization type and the group size of each tensor, as entries of a merged index, as far as the file says them: strings.
	// It is nil unless a tensor is of U32, the dtype by which Ollama stores quantized ones.
	quant layout.Metadata
}

// contentOf returns what a merged index needs of the SafeTensors file called name. It reads the metadata only if a tensor is of U32, the
// dtype in which Ollama stores the codes of quantized tensors. Other files need no quantization types and group sizes in the index.
// contentOf fails if the file cannot be decoded, or if its metadata cannot be read.
func (d *folder) contentOf(ctx context.Context, name string) (s shardContent, err error) {
	err = d.decode(ctx, name, func(in layout.Input, decoded layout.File) error {
		s = shardContent{} // decode calls this again if the file has changed
		hasU32 := false
		for _, t := range decoded.Index().Tensors {
			s.tensors = append(s.tensors, string(t.Name))
			s.bytes += t.Stored
			hasU32 = hasU32 || t.DType == layout.U32
		}
		if !hasU32 {
			return nil
		}
		metadata, err := decoded.Metadata(in)
		if err != nil {
			return err
		}
		values := maps.Collect(metadata.All())
		for _, tensor := range s.tensors {
			for _, key := range []string{scheme.QuantType, scheme.GroupSize} {
				v, ok := values[tensor+"."+key]
				if !ok {
					v = values[key] // for all tensors of the file
				}
				if text, ok := v.(string); ok { // always in SafeTensors: a file of another format may have the same suffix
					s.quant = append(s.quant, layout.Entry{Key: tensor + "." + key, Value: text})
				}
			}
		}
		return nil
	})
	return s, err
}

// addMergedIndex adds an index of shards to a model that has none, such as one in a registry. The shards are d.modelCandidates. The index
// becomes the only candidate. addMergedIndex does nothing unless the candidates are several SafeTensors files in one folder without an
// index. It fails if mergedIndex or addFile does.
func (d *folder) addMergedIndex(ctx context.Context) error {
	shards, suffix := d.modelCandidates, formats.Suffix(layout.SafeTensors)
	if len(shards) < 2 {
		return nil
	}
	dir := path.Dir(shards[0])
	if slices.ContainsFunc(shards, func(name string) bool { return path.Ext(name) != suffix || path.Dir(name) != dir }) {
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
	index := path.Join(dir, "model"+suffix+manifest.IndexSuffix)
	d.modelCandidates = []string{index}
	return d.addFile(index, textObject(text))
}
