package convert

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/layout/apr2"
)

// divideAPR2 puts the tensors into files of at most Options.ShardBytes, in order, as many into each
// as fit.
func (p *Plan) divideAPR2() error {
	md, err := newShardMetadata(p.Metadata)
	if err != nil {
		return err
	}
	p.parts = nil
	list := p.apr2Tensors(p.Tensors)
	empty := apr2.NewSizer(p.opts.Align, md.size)
	size, from := empty, 0
	end := func(to int) {
		own := p.Tensors[from:to]
		p.parts = append(p.parts, part{tensors: own, metadata: md.of(own), size: size.Size()})
		size, from = empty, to
	}
	for i := range list {
		with := func(s apr2.Sizer) apr2.Sizer { return s.With(&list[i]).WithMetadata(md.sizeOf(p.Tensors[i].Name)) }
		if i > from && with(size).Size() > p.opts.ShardBytes {
			end(i)
		}
		size = with(size)
		p.Tensors[i].Oversized = i == from && size.Size() > p.opts.ShardBytes
	}
	end(len(p.Tensors))
	return p.nameShards()
}

// manifestText has a line for every shard and every tensor, for people to read and compare
// (APR-FORMAT-002, "Sharding"; see package shard).
const manifestText = `{
  "apr_version": "2.0.0",
  "sharded": true,
  "shard_count": %d,
  "shards": [
    %s
  ],
  "tensor_shard_map": {
    %s
  },
  "metadata": %s
}
`

func (apr2Target) manifest(p *Plan) ([]byte, error) {
	metadata, err := p.Metadata.MarshalJSON()
	if err != nil {
		return nil, err
	}
	var shards, places []string
	for shard, s := range p.parts {
		shards = append(shards, fmt.Sprintf(`{"file": %s, "size": %d, "crc32": "%08x", "sha256": "%x"}`, quoted(filepath.Base(s.path)), s.size, s.crc32, s.sha256))
		for i := range s.tensors {
			places = append(places, quoted(s.tensors[i].Name)+": "+strconv.Itoa(shard))
		}
	}
	const next = ",\n    "
	return fmt.Appendf(nil, manifestText, len(p.parts), strings.Join(shards, next), strings.Join(places, next), metadata), nil
}

// quoted returns s as JSON.
func quoted(s string) string {
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false) // which would only be harder to read
	e.Encode(s)            // a string always can be
	return strings.TrimSuffix(b.String(), "\n")
}

// shardMetadata derives the metadata of shards from the model's. Manifests have all of it. A shard
// has the keys that the format requires, and its own tensors' scales: these keep their values
// wherever the shard goes.
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

func newShardMetadata(md layout.Metadata) (*shardMetadata, error) {
	s := &shardMetadata{quantization: slices.Clone(object(md, "quantization"))}
	for _, key := range []string{"apr_version", "model_type", "architecture"} {
		if v, ok := md.Get(key); ok {
			s.common.Set(key, v)
		}
	}
	for _, key := range []string{"scales", "zero_points"} {
		table := scaleTable{key, make(map[string]any)}
		for name, v := range object(s.quantization, key).All() {
			table.entries[name] = v
		}
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

func (apr2Target) digests() bool { return true }
