package convert

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"path/filepath"
	"slices"
	"strings"

	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/layout/formats"
	"github.com/tensormap/tensormap/layout/manifest"
	"github.com/tensormap/tensormap/layout/safetensors"
)

type safeTensorsTarget struct{}

var safeTensorsLimits = limits{name: "SafeTensors", holds: safetensors.Holds, dims: math.MaxInt, scalars: true}

func (safeTensorsTarget) limits() *limits { return &safeTensorsLimits }

func (safeTensorsTarget) divide(p *Plan) error {
	if p.opts.Compress.compresses() {
		return fmt.Errorf("%w: SafeTensors files that are compressed", layout.ErrUnsupported)
	}
	text, rest, err := safeTensorsMetadata(p.Metadata)
	if err != nil {
		return err
	}
	all := text[:len(text):len(text)]
	if len(rest) > 0 {
		e, err := carriedAs(layout.SafeTensors.String(), rest)
		if err != nil {
			return err
		}
		all = append(all, e)
	}
	p.Metadata = all // the other may be large, and goes
	whole, err := newSafeTensorsPart(p.Path, p.Tensors, all)
	if err != nil {
		return err
	}
	suffix := formats.Suffix(p.Format)
	p.whole = withoutExt(p.Path, suffix) + suffix
	if strings.EqualFold(filepath.Ext(p.Path), suffix) {
		p.instead = p.whole + manifest.IndexSuffix
	}
	if p.opts.ShardBytes == 0 || whole.size <= p.opts.ShardBytes || len(p.Tensors) == 0 {
		p.parts = []part{whole}
		return nil
	}
	slices.SortFunc(p.Tensors, func(a, b Tensor) int { return cmp.Compare(a.at, b.at) })
	return p.divideSafeTensors(text, rest)
}

// newSafeTensorsPart returns a file of these tensors, which it brings into their order.
func newSafeTensorsPart(path string, tensors []Tensor, md layout.Metadata) (part, error) {
	slices.SortFunc(tensors, func(a, b Tensor) int {
		return cmp.Or(cmp.Compare(b.To.Align(), a.To.Align()), cmp.Compare(a.at, b.at))
	})
	s := part{path: path, tensors: tensors, metadata: md}
	w, err := safeTensorsTarget{}.writer(nil, io.Discard, &s)
	if err == nil {
		s.size = w.Size()
	}
	return s, err
}

func (safeTensorsTarget) writer(_ *Plan, dst io.Writer, s *part) (fileWriter, error) {
	return safetensors.NewWriter(dst, entries(s.tensors), s.metadata)
}
