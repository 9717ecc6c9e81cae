package convert

import (
	"io"
	"iter"

	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/layout/apr2"
)

var apr2Target = target{
	name: "APR2", holds: apr2.Holds, scales: true, dims: apr2.MaxDims, digests: true, integers: unsigned,
	divide: (*Plan).asAPR2, writer: newAPR2Writer, manifest: (*Plan).writeAPR2Manifest,
}

// asAPR2 plans one file, and shards if that is too large.
func (p *Plan) asAPR2() error {
	whole := part{path: p.Path, tensors: p.Tensors, metadata: p.Metadata}
	list := p.apr2Tensors(p.Tensors)
	if p.opts.Compress.compresses() {
		list = entries(p.Tensors) // their sizes show once they are written
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
	opts := &apr2.Options{Align: p.opts.Align, Metadata: s.metadata, Signer: p.opts.Signer, Encrypter: p.opts.Encrypter}
	if p.Shards > 0 {
		opts.Flags = apr2.Sharded
	}
	return opts
}

// apr2Tensors yields the tensors' entries. An LZ4 tensor without Stored may become compressed, to a
// size that only shows once it is written.
func (p *Plan) apr2Tensors(tensors []Tensor) iter.Seq[layout.Tensor] {
	return func(yield func(layout.Tensor) bool) {
		i := 0
		for e := range entries(tensors) {
			switch t := &tensors[i]; {
			case p.opts.Compress.compresses():
				e.Encoding = layout.LZ4
			case p.opts.Compress.keepsBlocks(t):
				e.Encoding, e.Stored = layout.LZ4, t.content()
			}
			if i++; !yield(e) {
				return
			}
		}
	}
}

// entries yields how the tensors are described in a new file. Each name is valid until the next.
func entries(tensors []Tensor) iter.Seq[layout.Tensor] {
	return func(yield func(layout.Tensor) bool) {
		var name []byte
		for i := range tensors {
			t := &tensors[i]
			name = append(name[:0], t.Name...)
			if !yield(layout.Tensor{Name: name, DType: t.To, Shape: t.Shape}) {
				return
			}
		}
	}
}

func newAPR2Writer(p *Plan, dst io.Writer, s *part) (fileWriter, error) {
	return apr2.NewWriter(dst, p.apr2Tensors(s.tensors), p.apr2Options(s))
}
