package convert

import (
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/layout/apr2"
	"github.com/tensormap/tensormap/layout/atomicfile"
	"github.com/tensormap/tensormap/loader"
)

// output is what is to be written: one file, or shards and what leads to them.
type output struct {
	path      string // of the file or the manifest
	called    string // what the caller says, where the manifest is called otherwise; else ""
	single    string // what must not be there beside the manifest; "" for nothing
	parts     []part
	manifest  manifest // nil for one file
	oversized []string
	write     func(*writer, *part) (*atomicfile.File, error) // a part, but for its name
}

// manifest leads to shards that are written.
type manifest interface{ encode() ([]byte, error) }

// part is one file to be written.
type part struct {
	path     string
	plan     []encoding
	tensors  []layout.Tensor // that plan makes
	opts     apr2.Options
	metadata layout.Metadata // of SafeTensors
	// size is that of the file. Until it is written, what may become smaller by compression
	// counts as raw.
	size  uint64
	crc32 uint32 // of the file, once it is written
}

// newOutput decides what goes into which file. Whatever can be wrong with names, types,
// metadata and sizes is found here, before anything is written.
func newOutput(path string, plan []encoding, md layout.Metadata, opts *Options) (*output, layout.Metadata, error) {
	whole := part{path: path, plan: plan, tensors: descriptors(plan, opts), opts: apr2.Options{Align: opts.Align, Metadata: md}}
	w, err := apr2.NewWriter(io.Discard, whole.sized(), &whole.opts)
	if err != nil {
		return nil, nil, err
	}
	whole.size = w.Size()
	if opts.ShardBytes == 0 || whole.size <= opts.ShardBytes {
		return &output{path: path, parts: []part{whole}, write: (*writer).apr2Part}, md, nil
	}
	out, err := whole.divided(opts.ShardBytes)
	return out, md, err
}

// sized are the tensors with those of unknown size counted as raw.
func (p *part) sized() []layout.Tensor {
	list := make([]layout.Tensor, len(p.tensors))
	for i, t := range p.tensors {
		if t.Stored == 0 {
			t.Encoding = layout.Raw
		}
		list[i] = t
	}
	return list
}

// maxShards is how many their names can count.
const maxShards = 99_999

// divided puts the tensors of p into files of at most so many bytes, in order, and as many
// into each as fit.
func (p *part) divided(most uint64) (*output, error) {
	out := &output{path: p.path, write: (*writer).apr2Part}
	md, err := newShardMetadata(p.opts.Metadata)
	if err != nil {
		return nil, err
	}
	empty := apr2.NewSizer(p.opts.Align, md.size)
	size, from := empty, 0
	end := func(to int) {
		out.parts = append(out.parts, part{plan: p.plan[from:to], tensors: p.tensors[from:to], size: size.Size()})
		size, from = empty, to
	}
	for i := range p.tensors {
		with := func(s apr2.Sizer) apr2.Sizer { return s.With(&p.tensors[i]).WithMetadata(md.sizeOf(p.tensors[i].Name)) }
		if i > from && with(size).Size() > most {
			end(i)
		}
		size = with(size)
		if i == from && size.Size() > most {
			out.oversized = append(out.oversized, string(p.tensors[i].Name))
		}
	}
	end(len(p.tensors))
	if err := out.name(p.path, ".apr", most); err != nil {
		return nil, err
	}
	for i := range out.parts {
		s := &out.parts[i]
		s.opts = apr2.Options{Align: p.opts.Align, Metadata: md.of(s.tensors), Flags: apr2.Sharded}
	}
	out.manifest = &apr2Manifest{shards: out.parts, metadata: p.opts.Metadata}
	return out, out.checkManifest()
}

// name gives the shards theirs: model-00001-of-00004.apr and so on for a path model.apr.
func (out *output) name(path, ext string, most uint64) error {
	n := len(out.parts)
	if n > maxShards {
		return fmt.Errorf("%w: %d shards of at most %d bytes, more than %d", layout.ErrLimit, n, most, maxShards)
	}
	dir, base := filepath.Split(path)
	for i := range out.parts {
		out.parts[i].path = fmt.Sprintf("%s%s-%05d-of-%05d%s", dir, withoutExt(base, ext), i+1, n, ext)
	}
	return nil
}

// withoutExt is path without the end ext, in whatever case that is written.
func withoutExt(path, ext string) string {
	if got := filepath.Ext(path); strings.EqualFold(got, ext) {
		return path[:len(path)-len(got)]
	}
	return path
}

// report enters what files there are.
func (out *output) report(r *Result) {
	r.Path, r.Oversized = out.path, out.oversized
	if out.manifest != nil {
		r.Shards = len(out.parts)
	}
}

// size is that of all parts at most.
func (out *output) size() (sum uint64) {
	for i := range out.parts {
		sum += out.parts[i].size
	}
	return sum
}

// checkTargets makes sure that shards and manifest can have their names: that these are not
// those of files that m reads, which it would not know again, and that what is there already
// can be replaced. A single file is left to whoever creates it.
func (out *output) checkTargets(m *loader.Model) error {
	if out.manifest == nil {
		return nil
	}
	var sources []fs.FileInfo
	for _, f := range m.Files() {
		if info, err := os.Stat(f.Path); err == nil {
			sources = append(sources, info)
		}
	}
	if _, err := os.Lstat(out.single); err == nil {
		return fmt.Errorf("%s: %w", out.single, errInstead)
	}
	// Where the manifest is a link, what it leads to is replaced; a reader would not follow
	// one from the manifest to a shard elsewhere.
	manifests := []string{out.path}
	if out.called != "" {
		manifests = append(manifests, out.called)
	}
	for _, path := range manifests {
		if err := checkTarget(path, os.Stat, sources); err != nil {
			return err
		}
	}
	for i := range out.parts {
		if err := checkTarget(out.parts[i].path, os.Lstat, sources); err != nil {
			return err
		}
	}
	return nil
}

func checkTarget(path string, stat func(string) (fs.FileInfo, error), sources []fs.FileInfo) error {
	info, err := stat(path)
	switch {
	case os.IsNotExist(err):
		return nil // nor may its directory exist, as whoever creates the file will say
	case err != nil:
		return err
	case !info.Mode().IsRegular():
		return fmt.Errorf("%s: %w", path, errNotRegular)
	}
	for _, s := range sources {
		if os.SameFile(s, info) {
			return fmt.Errorf("%s: %w", path, errIsSource)
		}
	}
	return nil
}
