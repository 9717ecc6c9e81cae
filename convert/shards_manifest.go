package convert

import (
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/shard"
)

var (
	errNotRegular = errors.New("not a regular file, so no part of a sharded model can have this name")
	errIsSource   = errors.New("is a file that is being read")
)

// apr2Manifest is that of APR-FORMAT-002, "Sharding"; see package shard.
type apr2Manifest struct {
	shards   []part
	metadata layout.Metadata
}

// checkManifest makes sure, before there are any shards, that the manifest will be readable. It
// will not grow.
func (out *output) checkManifest() error {
	b, err := out.manifest.encode()
	if err != nil {
		return err
	}
	read, err := shard.Decode(layout.Bytes(b), nil)
	if err != nil {
		return err
	}
	for i, s := range read.Shards {
		if want := filepath.Base(out.parts[i].path); s.Name != want { // which is not UTF-8
			return fmt.Errorf("%w: %q cannot be the name of a shard", layout.ErrInvalid, want)
		}
	}
	return nil
}

// manifest writes the manifest of shards that are written, but for its name.
func (w *writer) manifest(path string, m manifest) error {
	b, err := m.encode()
	if err != nil {
		return err
	}
	f, err := w.create(path)
	if err != nil {
		return err
	}
	w.result.Bytes += uint64(len(b))
	_, err = f.Write(b)
	return err
}

// manifestText has a line for every shard and every tensor, for people to look at and compare.
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

func (m *apr2Manifest) encode() ([]byte, error) {
	metadata, err := m.metadata.MarshalJSON()
	if err != nil {
		return nil, err
	}
	var shards, places []string
	for i, s := range m.shards {
		shards = append(shards, fmt.Sprintf(`{"file": %s, "size": %d, "crc32": "%08x", "sha256": "%x"}`, quoted(filepath.Base(s.path)), s.size, s.crc32, s.sha256))
		for _, t := range s.tensors {
			places = append(places, quoted(string(t.Name))+": "+strconv.Itoa(i))
		}
	}
	const next = ",\n    "
	return fmt.Appendf(nil, manifestText, len(m.shards), strings.Join(shards, next), strings.Join(places, next), metadata), nil
}

// quoted is s in JSON.
func quoted(s string) string {
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false) // which would only be harder to read
	e.Encode(s)            // a string always can be
	return strings.TrimSuffix(b.String(), "\n")
}

// shardMetadata makes the metadata of shards from that of the model. Manifests have all of
// it. A shard has the keys that the format requires, and the scales of its own tensors, so
// that these have their values wherever the shard goes.
type shardMetadata struct {
	common       layout.Metadata // to all shards
	quantization layout.Metadata // without scales
	scales       []scaleTable
	size         uint64 // of a shard's metadata without scales, as JSON
}

// scaleTable is quantization.scales or quantization.zero_points of the model.
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

// of is the metadata of a shard with these tensors.
func (s *shardMetadata) of(tensors []layout.Tensor) layout.Metadata {
	q := slices.Clone(s.quantization)
	for _, table := range s.scales {
		own := layout.Metadata{}
		for _, t := range tensors {
			if v, ok := table.entries[string(t.Name)]; ok {
				own = append(own, layout.Entry{Key: string(t.Name), Value: v})
			}
		}
		q.Set(table.key, own)
	}
	md := slices.Clone(s.common)
	setObject(&md, "quantization", q)
	return md
}

// sizeOf is how many bytes a tensor adds to the metadata of its shard.
func (s *shardMetadata) sizeOf(name []byte) (n uint64) {
	for _, table := range s.scales {
		if v, ok := table.entries[string(name)]; ok {
			b, _ := layout.Metadata{{Key: string(name), Value: v}}.MarshalJSON() // which it has been read from
			n += uint64(len(b))                                                  // a comma takes the place of its braces
		}
	}
	return n
}
