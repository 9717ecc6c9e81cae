package convert

import (
	"io"

	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/layout/apr2"
	"github.com/tensormap/tensormap/layout/formats"
)

type apr2Target struct{}

var apr2Limits = limits{name: "APR2", holds: apr2.Holds, scales: true, dims: apr2.MaxDims}

func (apr2Target) limits() *limits { return &apr2Limits }

func (apr2Target) divide(p *Plan) error {
	suffix := formats.Suffix(p.Format)
	p.whole = withoutExt(p.Path, suffix) + suffix
	whole := part{path: p.Path, tensors: p.Tensors, metadata: p.Metadata}
	list := p.apr2Tensors(p.Tensors)
	for i := range list {
		if list[i].Stored == 0 {
			list[i].Encoding = layout.Raw
		}
	}
	w, err := apr2.NewWriter(io.Discard, list, p.apr2Options(&whole))
	if err != nil {
		return err
	}
	whole.size = w.Size()
	p.parts = []part{whole}
	if p.opts.ShardBytes == 0 || whole.size <= p.opts.ShardBytes {
		return nil
	}
	return p.divideAPR2()
}

func (p *Plan) apr2Options(s *part) *apr2.Options {
	opts := &apr2.Options{Align: p.opts.Align, Metadata: s.metadata, Signer: p.opts.Signer, Sealer: p.opts.Sealer}
	if p.Shards > 0 {
		opts.Flags = apr2.Sharded
	}
	return opts
}

// apr2Tensors returns the tensors' entries. An LZ4 tensor without Stored may become compressed, to a
// size that only shows once it is written.
func (p *Plan) apr2Tensors(tensors []Tensor) []layout.Tensor {
	list := make([]layout.Tensor, len(tensors))
	for i := range tensors {
		t := &tensors[i]
		list[i] = t.entry()
		switch {
		case p.opts.Compress.compresses():
			list[i].Encoding = layout.LZ4
		case p.opts.Compress.keepsBlocks(t):
			list[i].Encoding, list[i].Stored = layout.LZ4, t.content()
		}
	}
	return list
}

func (t *Tensor) entry() layout.Tensor {
	return layout.Tensor{Name: []byte(t.Name), DType: t.To, Shape: t.Shape}
}

func (apr2Target) writer(p *Plan, dst io.Writer, s *part) (fileWriter, error) {
	return apr2.NewWriter(dst, p.apr2Tensors(s.tensors), p.apr2Options(s))
}
