package convert

import (
	"bufio"
	"bytes"
	"cmp"
	"fmt"
	"io"
	"iter"
	"path/filepath"
	"slices"
	"strings"

	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/layout/apr2"
	"github.com/tensormap/tensormap/layout/formats"
	"github.com/tensormap/tensormap/layout/gguf"
	"github.com/tensormap/tensormap/layout/manifest"
	"github.com/tensormap/tensormap/layout/safetensors"
)

// entries yields name, type and shape of each tensor in a new file. Each Name is valid until the next entry is yielded.
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

// apr2Entries yields the entries of tensors for apr2.NewWriter. Tensors to compress have the encoding LZ4, but no Stored:
// their sizes are known only once they are written. Tensors whose LZ4 blocks are copied have both. Others have no encoding.
func (p *Plan) apr2Entries(tensors []Tensor) iter.Seq[layout.Tensor] {
	return func(yield func(layout.Tensor) bool) {
		i := 0
		for e := range entries(tensors) {
			switch t := &tensors[i]; {
			case p.opts.Compress.compresses():
				e.Encoding = layout.LZ4
			case p.opts.Compress == AsStored && t.copiesBlocks():
				e.Encoding, e.Stored = layout.LZ4, t.decryptedBytes()
			}
			if i++; !yield(e) {
				return
			}
		}
	}
}

// newFileWriter returns a writer of f to dst. It orders the tensors of a SafeTensors file by alignment, the widest first. It fails if
// the format cannot hold f's tensors or metadata. It reads nothing of p but the format, the
// options and whether there are shards.
func (p *Plan) newFileWriter(dst io.Writer, f *file) (fileWriter, error) {
	switch p.Format {
	case layout.APR2:
		opts := &apr2.Options{Align: p.opts.Align, Metadata: f.metadata, Signer: p.opts.Signer, Encrypter: p.opts.Encrypter}
		if p.Shards > 0 {
			opts.Flags = apr2.Sharded
		}
		return apr2.NewWriter(dst, p.apr2Entries(f.tensors), opts)
	case layout.GGUF:
		return gguf.NewWriter(dst, entries(f.tensors), f.metadata, &gguf.Options{BigEndian: p.opts.BigEndian})
	}
	slices.SortFunc(f.tensors, func(a, b Tensor) int {
		return cmp.Or(cmp.Compare(b.To.Align(), a.To.Align()), cmp.Compare(a.sourcePosition, b.sourcePosition))
	})
	return safetensors.NewWriter(dst, entries(f.tensors), f.metadata)
}

// setSize sets f.size to the size in bytes that the file will have. It may reorder f.tensors, as the format wants them. It
// fails if the format cannot hold the tensors or metadata.
func (p *Plan) setSize(f *file) error {
	w, err := p.newFileWriter(io.Discard, f)
	if err == nil {
		f.size = w.Size() // a writer without compression knows the size before it writes tensors
	}
	return err
}

// planSingle plans a single file of all tensors with metadata md, for a format without compression. It sets p.Metadata to
// md, and p.files to that file. fits tells whether the file fits Options.ShardBytes. A limit of 0 is no limit, and a model without
// tensors always fits. It fails with layout.ErrUnsupported if the options ask for compression. It also fails if the format
// cannot hold something.
func (p *Plan) planSingle(md layout.Metadata) (fits bool, err error) {
	if p.opts.Compress.compresses() {
		return false, fmt.Errorf("%w: %s files that are compressed", layout.ErrUnsupported, p.target.name)
	}
	p.Metadata = md // in place of APR2 metadata, which may be large
	p.files = []file{{path: p.Path, tensors: p.Tensors, metadata: md}}
	err = p.setSize(&p.files[0])
	isUnlimited := p.opts.ShardBytes == 0 || len(p.Tensors) == 0
	return isUnlimited || p.files[0].size <= p.opts.ShardBytes, err
}

// divideInOrder plans shards of at most Options.ShardBytes. Each has as many tensors as fit, but at least one. first is the
// metadata of the first shard, others the metadata of every other. bytesOf returns how many bytes a tensor adds to a file. A file may
// also have up to align bytes of padding. It fails if a shard cannot hold its tensors or metadata.
func (p *Plan) divideInOrder(first, others layout.Metadata, align uint64, bytesOf func(*layout.Tensor) uint64) error {
	p.files = nil
	limit := p.opts.ShardBytes
	for left, md := p.Tensors, first; len(left) > 0; md = others {
		f := file{metadata: md}
		if err := p.setSize(&f); err != nil { // its size without tensors
			return err
		}
		n, size := 0, f.size
		for t := range entries(left) {
			size += bytesOf(&t)
			if n > 0 && size > limit-min(limit, align) { // leaves space for the padding
				break
			}
			n++ // at least 1, whatever the size
		}
		f.tensors, left = left[:n], left[n:]
		if err := p.setSize(&f); err != nil {
			return err
		}
		f.tensors[0].Oversized = n == 1 && f.size > limit
		p.files = append(p.files, f)
	}
	return nil
}

// maxShards is the highest number that fits the names of shards.
const maxShards = 99_999

// nameShards sets Shards and the paths of the files. It fails if there are more than maxShards files. If the format has a
// manifest, nameShards writes the manifest to memory as a check, and reads it back. It fails if the manifest cannot be
// written or read back, or if a name in it has changed.
func (p *Plan) nameShards() error {
	p.Shards = len(p.files)
	if p.Shards > maxShards {
		return fmt.Errorf("%w: %d shards of at most %d bytes, more than %d", layout.ErrLimit, p.Shards, p.opts.ShardBytes, maxShards)
	}
	suffix := formats.Suffix(p.Format)
	for i := range p.files {
		p.files[i].path = fmt.Sprintf("%s-%05d-of-%05d%s", withoutExt(p.singlePath, suffix), i+1, p.Shards, suffix)
	}
	if p.target.manifest == nil {
		return nil
	}
	text, err := p.target.manifest(p)
	if err != nil {
		return err
	}
	read, err := manifest.Decode(layout.Bytes(text), nil)
	if err != nil {
		return err
	}
	for i, s := range read.Shards {
		if want := filepath.Base(p.files[i].path); s.Name != want { // a name that is not UTF-8 reads as another
			return fmt.Errorf("%w: %q cannot be the name of a shard", layout.ErrInvalid, want)
		}
	}
	return nil
}

// inMemory returns the bytes that write writes, or its error.
func inMemory(write func(w *bufio.Writer) error) ([]byte, error) {
	var b bytes.Buffer
	w := bufio.NewWriter(&b)
	err := write(w)
	if err == nil {
		err = w.Flush()
	}
	return b.Bytes(), err
}

// manifestShards returns the manifest's entry for each file: name, size and digests. A digest is zero until the file is
// written.
func (p *Plan) manifestShards() (shards []manifest.Shard) {
	for _, f := range p.files {
		shards = append(shards, manifest.Shard{
			Name: filepath.Base(f.path), Size: f.size, Sized: true,
			CRC32: fmt.Sprintf("%08x", f.crc32), SHA256: fmt.Sprintf("%x", f.sha256), HeadSHA256: f.headDigest,
		})
	}
	return shards
}

// manifestPlaces yields each tensor's name and the position in p.files of the file that has it.
func (p *Plan) manifestPlaces() iter.Seq[manifest.Place] {
	return func(yield func(manifest.Place) bool) {
		for shard, f := range p.files {
			for i := range f.tensors {
				if !yield(manifest.Place{Tensor: f.tensors[i].Name, Shard: shard}) {
					return
				}
			}
		}
	}
}

// withoutExt returns path without the suffix ext, in upper or lower case. If path has another suffix, it returns path itself.
func withoutExt(path, ext string) string {
	if got := filepath.Ext(path); strings.EqualFold(got, ext) {
		return path[:len(path)-len(got)]
	}
	return path
}
