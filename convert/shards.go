package convert

import (
	"cmp"
	"crypto/sha256"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/tensormap/tensormap/internal/atomicfile"
	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/layout/apr2"
	"github.com/tensormap/tensormap/loader"
	"github.com/tensormap/tensormap/shard"
)

// output is what is to be written: one file, or shards and what leads to them.
type output struct {
	path      string   // of the file or the manifest
	called    string   // what the caller says, where the manifest is called otherwise; else ""
	whole     string   // that the model has, or would have, in one file
	instead   string   // file that readers might take instead of path, and that goes; "" for none
	digests   bool     // that manifest has those of parts
	removed   string   // instead, if it is there
	left      []string // shards of another model
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
	size uint64
	// Of the file, once it is written: crc32 of all but the footer, which has the same number,
	// sha256 of all.
	crc32  uint32
	sha256 [sha256.Size]byte
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
	out := &output{path: path, whole: withoutExt(path, apr2Ext) + apr2Ext, parts: []part{whole}, write: (*writer).apr2Part}
	if opts.ShardBytes == 0 || whole.size <= opts.ShardBytes {
		return out, md, nil
	}
	return out, md, out.divide(&whole, opts.ShardBytes)
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

// divide puts the tensors of p into files of at most so many bytes, in order, and as many
// into each as fit.
func (out *output) divide(p *part, most uint64) error {
	out.parts, out.digests = nil, true
	md, err := newShardMetadata(p.opts.Metadata)
	if err != nil {
		return err
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
	if err := out.name(apr2Ext, most); err != nil {
		return err
	}
	for i := range out.parts {
		s := &out.parts[i]
		s.opts = apr2.Options{Align: p.opts.Align, Metadata: md.of(s.tensors), Flags: apr2.Sharded}
	}
	out.manifest = &apr2Manifest{shards: out.parts, metadata: p.opts.Metadata}
	return out.checkManifest()
}

// apr2Ext is the end of the names of APR2 files.
const apr2Ext = ".apr"

// name gives the shards theirs: model-00001-of-00004.apr and so on for a whole model.apr.
func (out *output) name(ext string, most uint64) error {
	n := len(out.parts)
	if n > maxShards {
		return fmt.Errorf("%w: %d shards of at most %d bytes, more than %d", layout.ErrLimit, n, most, maxShards)
	}
	for i := range out.parts {
		out.parts[i].path = fmt.Sprintf("%s-%05d-of-%05d%s", withoutExt(out.whole, ext), i+1, n, ext)
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
	r.Path, r.Oversized, r.Removed, r.Left = out.path, out.oversized, out.removed, out.left
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

// checkTargets makes sure that the files can have their names: no file that m reads is replaced,
// which m would not know again, and nothing but regular files. A single file is left to whoever
// creates it. Old shards that stay are noted.
func (out *output) checkTargets(m *loader.Model) error {
	var sources []fs.FileInfo
	for _, f := range m.Files() {
		if info, err := os.Stat(f.Path); err == nil {
			sources = append(sources, info)
		}
	}
	if out.instead != "" {
		if err := checkTarget(out.instead, os.Stat, sources); err != nil {
			return fmt.Errorf("%w, and cannot stand beside %s", err, filepath.Base(out.path))
		}
		if _, err := os.Lstat(out.instead); err == nil {
			out.removed = out.instead
		}
	}
	if out.manifest != nil {
		if err := out.checkShards(sources); err != nil {
			return err
		}
	}
	out.left = out.leftShards(sources)
	return nil
}

func (out *output) checkShards(sources []fs.FileInfo) error {
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

// leftShards lists the files that are called as shards of the model are, but are none. Another
// manifest may lead to them, so that nobody but the user can say whether they may go.
func (out *output) leftShards(sources []fs.FileInfo) (left []string) {
	dir, whole := filepath.Split(out.whole)
	entries, _ := os.ReadDir(cmp.Or(dir, "."))
	for _, e := range entries {
		path := dir + e.Name()
		if shard.Whole(e.Name()) != whole || slices.ContainsFunc(out.parts, func(p part) bool { return p.path == path }) {
			continue
		}
		if info, err := e.Info(); err == nil && !slices.ContainsFunc(sources, func(s fs.FileInfo) bool { return os.SameFile(s, info) }) {
			left = append(left, path)
		}
	}
	return left
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
