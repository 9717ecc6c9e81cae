package convert

import (
	"bufio"
	"cmp"
	"math"
	"path/filepath"
	"slices"
	"strings"

	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/layout/formats"
	"github.com/tensormap/tensormap/layout/manifest"
	"github.com/tensormap/tensormap/layout/safetensors"
)

var safeTensorsTarget = target{
	name: "SafeTensors", hasType: safetensors.Holds, hasScalars: true, maxDims: math.MaxInt, integers: unsigned,
	divideFiles: (*Plan).divideSafeTensors, manifest: (*Plan).index,
}

// divideSafeTensors plans one file. If that is larger than Options.ShardBytes, it plans shards and an index instead, and Path
// becomes the path of the index. It sets replacedPath to what an earlier conversion may have left: an old index beside a single
// file, or an old single file beside shards. Metadata that are no texts go into the index, or as JSON into a single file, under
// safeTensorsKey. It fails for metadata and tensors that the format cannot hold.
func (p *Plan) divideSafeTensors() error {
	texts, others, err := safeTensorsMetadata(p.Metadata)
	if err != nil {
		return err
	}
	inSingleFile := slices.Clip(texts)
	if len(others) > 0 {
		carried, err := carriedEntries(layout.Metadata{{Key: safeTensorsKey, Value: others}})
		if err != nil {
			return err
		}
		inSingleFile = append(inSingleFile, carried...)
	}
	fits, err := p.planSingle(inSingleFile)
	index := p.singlePath + manifest.IndexSuffix
	if strings.EqualFold(filepath.Ext(p.Path), formats.Suffix(p.Format)) { // no index is read beside a file of another suffix
		p.replacedPath = index // readers might take an old index instead of the new file
	}
	if fits || err != nil {
		return err
	}
	// planSingle has sorted the tensors by alignment; shards take them in the source's order.
	slices.SortFunc(p.Tensors, func(a, b Tensor) int { return cmp.Compare(a.sourcePosition, b.sourcePosition) })
	p.indexMetadata = others
	const headAlign = 8 // bytes, of a header's size
	err = p.divideInOrder(texts, p.shardKeys(texts), headAlign, func(t *layout.Tensor) uint64 {
		size, _ := t.DType.Size(t.Shape) // planSingle has returned its error
		return safetensors.EntrySize(t, p.opts.ShardBytes) + size
	})
	if err != nil {
		return err
	}
	p.requestedPath, p.Path, p.replacedPath = p.Path, index, p.singlePath
	return p.nameShards()
}

// index returns the index of SafeTensors shards. It fails if its metadata cannot be written.
func (p *Plan) index() ([]byte, error) {
	total := uint64(0)
	for i := range p.Tensors {
		total += p.Tensors[i].Bytes
	}
	return inMemory(func(w *bufio.Writer) error {
		return manifest.WriteIndex(w, p.manifestShards(), p.manifestPlaces(), p.indexMetadata, total)
	})
}

// safeTensorsMetadata returns md, APR2 metadata, as the keys of __metadata__, whose values are strings. Keys of SafeTensors
// files stay as they were; all others become JSON under the key apr2.KEY. It leaves out apr_version. It leaves out other keys
// that every APR2 file must have, if they have the values for an unknown model. rest has the keys of SafeTensors files whose
// values are no strings, as an index may have them. It fails if a value has no JSON.
func safeTensorsMetadata(md layout.Metadata) (text, rest layout.Metadata, err error) {
	value, _ := md.Get(safeTensorsKey)
	if own, isObject := value.(layout.Metadata); isObject {
		isText := func(e layout.Entry) bool { _, ok := e.Value.(string); return ok }
		text = slices.DeleteFunc(slices.Clone(own), func(e layout.Entry) bool { return !isText(e) })
		rest = slices.DeleteFunc(slices.Clone(own), isText)
		md = without(md, safeTensorsKey)
	}
	carried, err := carriedEntries(without(md, "apr_version"), requiredMetadata())
	text.Merge(carried)
	return text, rest, err
}
