package convert

import (
	"bufio"
	"slices"

	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/layout/apr2"
	"github.com/tensormap/tensormap/layout/manifest"
	"github.com/tensormap/tensormap/layout/safetensors"
	"github.com/tensormap/tensormap/scheme"
)

// divideSafeTensors divides the tensors among shards. text is the metadata that files can have; rest goes into the index.
func (p *Plan) divideSafeTensors(text, rest layout.Metadata) error {
	p.index = rest
	err := p.fill(text, p.ofEach(text), headAlign, func(t *layout.Tensor) uint64 {
		size, _ := t.DType.Size(t.Shape) // which has been computed before
		return safetensors.EntrySize(t, p.opts.ShardBytes) + size
	})
	if err != nil {
		return err
	}
	p.requested, p.Path, p.instead = p.Path, p.whole+manifest.IndexSuffix, p.whole
	return p.nameShards()
}

// headAlign divides the size of a header.
const headAlign = 8

// ofEach returns the keys that every shard has: the one that says which framework wrote the tensors, and those that say how
// quantized weights are stored.
func (p *Plan) ofEach(md layout.Metadata) (each layout.Metadata) {
	for _, e := range md {
		method := slices.Contains([]string{apr2.CarriedPrefix + "architecture", apr2.CarriedPrefix + "quantization", scheme.Layers}, e.Key) || scheme.IsOllamas(e.Key)
		if e.Key == "format" || method && len(p.Quantized)+len(p.undecoded) > 0 {
			each = append(each, e)
		}
	}
	return each
}

func (p *Plan) writeIndex(w *bufio.Writer) error {
	total := uint64(0)
	for i := range p.Tensors {
		total += p.Tensors[i].Bytes
	}
	return manifest.WriteIndex(w, p.shardList(), p.places(), p.index, total)
}
