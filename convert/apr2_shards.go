package convert

import (
	"bufio"
	"bytes"
	"encoding/hex"
	"io"
	"maps"
	"slices"

	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/layout/apr2"
	"github.com/tensormap/tensormap/layout/encrypted"
	"github.com/tensormap/tensormap/layout/manifest"
	"github.com/tensormap/tensormap/mmapio"
)

// divideAPR2 puts the tensors into files of at most Options.ShardBytes, in order, as many into each
// as fit.
func (p *Plan) divideAPR2() error {
	md, err := newShardMetadata(p.Metadata, without(p.ofEach(object(p.Metadata, layout.SafeTensors.String())), "format"))
	if err != nil {
		return err
	}
	p.parts = nil
	if s := p.opts.Signer; s != nil {
		md.size += s.SignatureBytes(p.opts.ShardBytes)
	}
	if s := p.opts.Encrypter; s != nil {
		n, err := s.MetadataBytes()
		if err != nil {
			return err
		}
		md.size += n
	}
	empty := apr2.NewSizer(p.opts.Align, md.size).Encrypted(p.opts.Encrypter)
	size, from := empty, 0
	end := func(to int) {
		own := p.Tensors[from:to]
		p.parts = append(p.parts, part{tensors: own, metadata: md.of(own), size: size.Size()})
		size, from = empty, to
	}
	i := 0
	for e := range p.apr2Tensors(p.Tensors) {
		with := func(s apr2.Sizer) apr2.Sizer { return s.With(&e).WithMetadata(md.sizeOf(p.Tensors[i].Name)) }
		if i > from && with(size).Size() > p.opts.ShardBytes {
			end(i)
		}
		size = with(size)
		p.Tensors[i].Oversized = i == from && size.Size() > p.opts.ShardBytes
		i++
	}
	end(len(p.Tensors))
	return p.nameShards()
}

// writeAPR2Manifest writes the manifest, signed and encrypted as the options say.
func (p *Plan) writeAPR2Manifest(w *bufio.Writer) error {
	plain := func(w *bufio.Writer) error { return manifest.WriteAPR2(w, p.shardList(), p.places(), p.Metadata) }
	if p.opts.Signer == nil && p.opts.Encrypter == nil {
		return plain(w)
	}
	b, err := inMemory(plain)
	if err != nil {
		return err
	}
	var finish encrypted.Finisher
	var signature, encryption layout.Metadata
	if s := p.opts.Encrypter; s != nil {
		if encryption, finish.Cipher, err = s.Manifest(); err != nil {
			return err
		}
	}
	if s := p.opts.Signer; s != nil {
		signature, finish.Sign = encrypted.Placeholder(s.Public, 0, 0), s.Sign
	}
	if b, err = finish.Manifest(b, signature, encryption); err == nil {
		_, err = w.Write(b)
	}
	return err
}

func inMemory(write func(w *bufio.Writer) error) ([]byte, error) {
	var b bytes.Buffer
	w := bufio.NewWriter(&b)
	err := write(w)
	if err == nil {
		err = w.Flush()
	}
	return b.Bytes(), err
}

// headDigest returns the digest of the head of a file of size bytes that was written.
func headDigest(f io.ReaderAt, size uint64) (string, error) {
	sum, err := apr2.HeadDigest(mmapio.FromReaderAt(f, int64(size)))
	return hex.EncodeToString(sum[:]), err
}

// shardMetadata derives the metadata of shards from the model's. Manifests have all of it. A shard
// has the keys that the format requires, those of a SafeTensors source that every shard has, and its own tensors'
// scales: these keep their values wherever the shard goes.
type shardMetadata struct {
	common       layout.Metadata // to all shards
	quantization layout.Metadata // without scales
	scales       []scaleTable
	size         uint64 // bytes of a shard's metadata without scales, as JSON
}

// scaleTable holds quantization.scales or quantization.zero_points of the model.
type scaleTable struct {
	key     string
	entries map[string]any
}

func newShardMetadata(md, safeTensors layout.Metadata) (*shardMetadata, error) {
	s := &shardMetadata{quantization: slices.Clone(object(md, "quantization"))}
	for _, key := range []string{"apr_version", "model_type", "architecture"} {
		if v, ok := md.Get(key); ok {
			s.common.Set(key, v)
		}
	}
	setObject(&s.common, layout.SafeTensors.String(), safeTensors)
	for _, key := range []string{"scales", "zero_points"} {
		table := scaleTable{key, maps.Collect(object(s.quantization, key).All())}
		if len(table.entries) > 0 {
			s.quantization.Set(key, layout.Metadata{}) // to be measured
			s.scales = append(s.scales, table)
		}
	}
	b, err := s.of(nil).MarshalJSON()
	s.size = uint64(len(b))
	return s, err
}

// of returns the metadata of a shard with these tensors.
func (s *shardMetadata) of(tensors []Tensor) layout.Metadata {
	q := slices.Clone(s.quantization)
	for _, table := range s.scales {
		own := layout.Metadata{}
		for i := range tensors {
			if v, ok := table.entries[tensors[i].Name]; ok {
				own = append(own, layout.Entry{Key: tensors[i].Name, Value: v})
			}
		}
		q.Set(table.key, own)
	}
	md := slices.Clone(s.common)
	setObject(&md, "quantization", q)
	return md
}

// sizeOf returns the bytes that a tensor adds to the metadata of its shard.
func (s *shardMetadata) sizeOf(name string) (n uint64) {
	for _, table := range s.scales {
		if v, ok := table.entries[name]; ok {
			b, _ := layout.Metadata{{Key: name, Value: v}}.MarshalJSON() // it was read from JSON
			n += uint64(len(b))                                          // a comma takes the place of its braces
		}
	}
	return n
}
