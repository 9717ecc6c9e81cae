package convert

import (
	"cmp"
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

var safeTensorsTarget = target{
	name: "SafeTensors", holds: safetensors.Holds, dims: math.MaxInt, scalars: true, integers: unsigned,
	divide: (*Plan).asSafeTensors, writer: newSafeTensorsWriter, manifest: (*Plan).writeIndex,
}

// asSafeTensors plans one file, and shards if that is too large.
func (p *Plan) asSafeTensors() error {
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
	whole, err := p.asWhole(all)
	if strings.EqualFold(filepath.Ext(p.Path), formats.Suffix(p.Format)) {
		p.instead = p.whole + manifest.IndexSuffix
	}
	if whole || err != nil {
		return err
	}
	slices.SortFunc(p.Tensors, func(a, b Tensor) int { return cmp.Compare(a.at, b.at) })
	return p.divideSafeTensors(text, rest)
}

// newSafeTensorsWriter brings the tensors into their order.
func newSafeTensorsWriter(_ *Plan, dst io.Writer, s *part) (fileWriter, error) {
	slices.SortFunc(s.tensors, func(a, b Tensor) int {
		return cmp.Or(cmp.Compare(b.To.Align(), a.To.Align()), cmp.Compare(a.at, b.at))
	})
	return safetensors.NewWriter(dst, entries(s.tensors), s.metadata)
}
