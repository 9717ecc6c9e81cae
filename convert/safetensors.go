package convert

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"github.com/tensormap/tensormap/dequant"
	"github.com/tensormap/tensormap/internal/atomicfile"
	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/layout/safetensors"
	"github.com/tensormap/tensormap/loader"
)

// ToSafeTensors writes all of m's tensors and its metadata to a SafeTensors file at path, as
// ToAPR2 does to an APR2 file. Blocks of quantized numbers and integers with a scale, which the
// format does not have, are expanded to Options.DType, or F32 where that says nothing; other
// types that it does not have are kept bit for bit: see the package's documentation.
// Result.Changed names both.
//
// Tensors are in the order of the alignment of their types, widest first, so that all of them
// are aligned: the format allows no space between them. Options.DType is F32, F16 or BF16.
// Align has no meaning, and compressing is ErrUnsupported.
//
// A model that takes more than Options.ShardBytes becomes several files as Hugging Face names
// them: model-00001-of-00004.safetensors and so on for model.safetensors, and, last, the index
// model.safetensors.index.json, which is Result.Path. The metadata is in the first shard; the
// others have its key format, without which some readers refuse them.
//
// A directory must not hold both model.safetensors and an index of that name: readers would
// differ in which one they take. The new model replaces either, unless it is being read.
func ToSafeTensors(ctx context.Context, m *loader.Model, path string, opts *Options) (Result, error) {
	return write(ctx, m, path, layout.SafeTensors, opts)
}

func newSafeTensorsOutput(path string, plan []encoding, md layout.Metadata, opts *Options) (*output, layout.Metadata, error) {
	if opts.Compress.compresses() {
		return nil, nil, fmt.Errorf("%w: SafeTensors files that are compressed", layout.ErrUnsupported)
	}
	text, rest, err := safeTensorsMetadata(md)
	if err != nil {
		return nil, nil, err
	}
	all := slices.Clone(text)
	if len(rest) > 0 {
		e, err := carriedAs(layout.SafeTensors.String(), rest)
		if err != nil {
			return nil, nil, err
		}
		all = append(all, e)
	}
	whole, err := part{path: path, plan: plan}.asSafeTensors(all)
	if err != nil {
		return nil, nil, err
	}
	out := &output{path: path, whole: withoutExt(path, safeTensorsExt) + safeTensorsExt, parts: []part{whole}, write: (*writer).safeTensorsPart}
	if strings.EqualFold(filepath.Ext(path), safeTensorsExt) {
		out.instead = out.whole + indexExt
	}
	if opts.ShardBytes == 0 || whole.size <= opts.ShardBytes || len(plan) == 0 {
		return out, all, nil
	}
	return out, all, out.divideSafeTensors(plan, text, rest, opts.ShardBytes)
}

// asSafeTensors is p as a file with this metadata.
func (p part) asSafeTensors(md layout.Metadata) (part, error) {
	p.plan = slices.Clone(p.plan)
	slices.SortStableFunc(p.plan, func(a, b encoding) int { return cmp.Compare(b.dtype.Align(), a.dtype.Align()) })
	p.tensors, p.metadata = descriptors(p.plan, &Options{}), md
	w, err := safetensors.NewWriter(io.Discard, p.tensors, md)
	if err == nil {
		p.size = w.Size()
	}
	return p, err
}

// safeTensorsPart writes a SafeTensors file, but for its name.
func (w *writer) safeTensorsPart(p *part) (*atomicfile.File, error) {
	f, err := w.create(p.path)
	if err != nil {
		return nil, err
	}
	if err := w.safeTensors(f, p); err != nil {
		return nil, err
	}
	w.result.Bytes += p.size
	return f, nil
}

func (w *writer) safeTensors(f *atomicfile.File, p *part) error {
	file, err := safetensors.NewWriter(f, p.tensors, p.metadata)
	if err != nil {
		return about(p.path, err)
	}
	for i := range p.plan {
		if err := w.elements(file, &p.plan[i]); err != nil {
			return err
		}
	}
	if err := file.Close(); err != nil {
		return err
	}
	return f.Prepare()
}

// elements writes e, not compressed.
func (w *writer) elements(file *safetensors.Writer, e *encoding) error {
	begun := w.progress.done
	var lost dequant.Loss
	err := file.WriteTensorFunc(func(dst io.Writer) (err error) {
		lost, err = e.writeTo(&monitor{dst, &w.progress}, &w.buf)
		return err
	})
	w.lost(e, lost)
	w.progress.done = begun + e.rawBytes()
	return cmp.Or(err, w.release(e))
}
