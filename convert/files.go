package convert

import (
	"bufio"
	"cmp"
	"crypto/sha256"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/layout/formats"
	"github.com/tensormap/tensormap/layout/manifest"
	"github.com/tensormap/tensormap/shard"
)

// part is one file to be written.
type part struct {
	path     string
	tensors  []Tensor // a part of Plan.Tensors
	metadata layout.Metadata
	// size is the size of the file. Until the file is written, every tensor that may be compressed
	// counts as raw.
	size uint64
	// crc32 covers all but the footer, which has the same number; sha256 covers the whole file.
	crc32  uint32
	sha256 [sha256.Size]byte
	head   string // SHA-256 of the head of a signed file, in hexadecimal
}

// measure finds out the size of a file. The target may change the order of its tensors.
func (p *Plan) measure(s *part) error {
	w, err := p.target.writer(p, io.Discard, s)
	if err == nil {
		s.size = w.Size()
	}
	return err
}

// asWhole plans a single file of all tensors without compression, and reports whether there is no need of shards.
func (p *Plan) asWhole(md layout.Metadata) (whole bool, err error) {
	if p.opts.Compress.compresses() {
		return false, fmt.Errorf("%w: %s files that are compressed", layout.ErrUnsupported, p.target.name)
	}
	p.Metadata = md // the other may be large, and goes
	one := part{path: p.Path, tensors: p.Tensors, metadata: md}
	err = p.measure(&one)
	p.parts = []part{one}
	return p.opts.ShardBytes == 0 || one.size <= p.opts.ShardBytes || len(p.Tensors) == 0, err
}

// fill puts the tensors into files of at most Options.ShardBytes, in order, as many into each as fit: at least one. The
// first file has the metadata first, the others have those of others. bytes returns what a tensor takes. A file may
// grow by an alignment.
func (p *Plan) fill(first, others layout.Metadata, align uint64, bytes func(*layout.Tensor) uint64) error {
	p.parts = nil
	most := p.opts.ShardBytes
	for left, md := p.Tensors, first; len(left) > 0; md = others {
		s := part{metadata: md}
		if err := p.measure(&s); err != nil { // without tensors
			return err
		}
		n, size := 0, s.size
		for t := range entries(left) {
			size += bytes(&t)
			if n > 0 && size > most-min(most, align) {
				break
			}
			n++
		}
		s.tensors, left = left[:n], left[n:]
		if err := p.measure(&s); err != nil {
			return err
		}
		s.tensors[0].Oversized = n == 1 && s.size > most
		p.parts = append(p.parts, s)
	}
	return nil
}

// maxShards is the highest number that the names of shards can count.
const maxShards = 99_999

// nameShards gives the shards their names, and checks, before there are any, that the manifest will
// be readable. It will not grow.
func (p *Plan) nameShards() error {
	p.Shards = len(p.parts)
	if p.Shards > maxShards {
		return fmt.Errorf("%w: %d shards of at most %d bytes, more than %d", layout.ErrLimit, p.Shards, p.opts.ShardBytes, maxShards)
	}
	suffix := formats.Suffix(p.Format)
	for i := range p.parts {
		p.parts[i].path = fmt.Sprintf("%s-%05d-of-%05d%s", withoutExt(p.whole, suffix), i+1, p.Shards, suffix)
	}
	if p.target.manifest == nil {
		return nil
	}
	read, err := p.readManifest()
	if err != nil {
		return err
	}
	for i, s := range read.Shards {
		if want := filepath.Base(p.parts[i].path); s.Name != want { // it is not UTF-8
			return fmt.Errorf("%w: %q cannot be the name of a shard", layout.ErrInvalid, want)
		}
	}
	return nil
}

// readManifest reads the manifest as it will be.
func (p *Plan) readManifest() (*manifest.File, error) {
	b, err := inMemory(func(w *bufio.Writer) error { return p.target.manifest(p, w) })
	if err != nil {
		return nil, err
	}
	return manifest.Decode(layout.Bytes(b), nil)
}

// counter counts what is written to it.
type counter uint64

func (c *counter) Write(b []byte) (int, error) {
	*c += counter(len(b))
	return len(b), nil
}

// shardList returns what a manifest says of the parts.
func (p *Plan) shardList() (shards []manifest.Shard) {
	for _, s := range p.parts {
		shards = append(shards, manifest.Shard{
			Name: filepath.Base(s.path), Size: s.size, Sized: true,
			CRC32: fmt.Sprintf("%08x", s.crc32), SHA256: fmt.Sprintf("%x", s.sha256), HeadSHA256: s.head,
		})
	}
	return shards
}

// places says which part has which tensor.
func (p *Plan) places() iter.Seq[manifest.Place] {
	return func(yield func(manifest.Place) bool) {
		for shard, s := range p.parts {
			for i := range s.tensors {
				if !yield(manifest.Place{Tensor: s.tensors[i].Name, Shard: shard}) {
					return
				}
			}
		}
	}
}

// withoutExt removes the end ext, in whatever case, from path.
func withoutExt(path, ext string) string {
	if got := filepath.Ext(path); strings.EqualFold(got, ext) {
		return path[:len(path)-len(got)]
	}
	return path
}

// checkTargets checks that the files can have their names: they replace regular files only, and
// none that the model reads. A single file is left to whoever creates it. It also notes what goes
// and which old shards stay.
func (p *Plan) checkTargets() error {
	sources := p.sourceFiles()
	if p.instead != "" {
		if err := checkTarget(p.instead, os.Stat, sources); err != nil {
			return fmt.Errorf("%w, and cannot stand beside %s", err, filepath.Base(p.Path))
		}
		if _, err := os.Lstat(p.instead); err == nil {
			p.Removed = p.instead
		}
	}
	if p.Shards > 0 {
		if err := p.checkShards(sources); err != nil {
			return err
		}
	}
	p.Left = p.leftShards(sources)
	return nil
}

// sourceFiles describes the files that the model reads.
func (p *Plan) sourceFiles() (sources []fs.FileInfo) {
	for _, f := range p.model.Files() {
		if info, err := os.Stat(f.Path); err == nil {
			sources = append(sources, info)
		}
	}
	return sources
}

func (p *Plan) checkShards(sources []fs.FileInfo) error {
	// If the manifest is a link, its target is replaced. A reader would not follow a link from the
	// manifest to a shard elsewhere.
	for _, path := range []string{p.Path, cmp.Or(p.requested, p.Path)} {
		if err := checkTarget(path, os.Stat, sources); err != nil {
			return err
		}
	}
	for i := range p.parts {
		if err := checkTarget(p.parts[i].path, os.Lstat, sources); err != nil {
			return err
		}
	}
	return nil
}

// leftShards lists the files with names of the model's shards that are none. Another manifest may
// lead to them, so only the user can say whether they may go.
func (p *Plan) leftShards(sources []fs.FileInfo) (left []string) {
	dir, whole := filepath.Split(p.whole)
	entries, _ := os.ReadDir(cmp.Or(dir, "."))
	for _, e := range entries {
		path := dir + e.Name()
		if shard.Whole(e.Name()) != whole || slices.ContainsFunc(p.parts, func(s part) bool { return s.path == path }) {
			continue
		}
		if info, err := e.Info(); err == nil && !isSource(info, sources) {
			left = append(left, path)
		}
	}
	return left
}

func checkTarget(path string, stat func(string) (fs.FileInfo, error), sources []fs.FileInfo) error {
	info, err := stat(path)
	switch {
	case os.IsNotExist(err):
		return nil // a missing directory is reported when the file is created
	case err != nil:
		return err
	case !info.Mode().IsRegular():
		return fmt.Errorf("%s: not a regular file, so no part of a sharded model can have this name", path)
	case isSource(info, sources):
		return fmt.Errorf("%s: is a file that is being read", path)
	}
	return nil
}

func isSource(info fs.FileInfo, sources []fs.FileInfo) bool {
	return slices.ContainsFunc(sources, func(s fs.FileInfo) bool { return os.SameFile(s, info) })
}
