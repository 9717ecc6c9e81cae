package convert

import (
	"bufio"

	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/layout/manifest"
	"github.com/tensormap/tensormap/layout/safetensors"
)

// divideSafeTensors divides the tensors among shards. text is the metadata that files can have; rest goes into the index.
func (p *Plan) divideSafeTensors(text, rest layout.Metadata) error {
	p.index = rest
	err := p.fill(text, frameworkOf(text), headAlign, func(t *layout.Tensor) uint64 {
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

// frameworkOf returns the key that says which framework wrote the tensors.
func frameworkOf(md layout.Metadata) (format layout.Metadata) {
	if v, ok := md.Get("format"); ok {
		format.Set("format", v)
	}
	return format
}

func (p *Plan) writeIndex(w *bufio.Writer) error {
	total := uint64(0)
	for i := range p.Tensors {
		total += p.Tensors[i].Bytes
	}
	return manifest.WriteIndex(w, p.shardList(), p.places(), p.index, total)
}
