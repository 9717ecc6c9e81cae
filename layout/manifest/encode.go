package manifest

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/tensormap/tensormap/layout"
)

// The templates have a line for every shard and every tensor, for people to read and compare.
const (
	manifestText = `{
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
	indexText = `{
  "metadata": %s,
  "weight_map": {
    %s
  }
}
`
	nextLine = ",\n    "
)

// Place is a tensor's name and the position of its shard.
type Place struct {
	Tensor string
	Shard  int
}

// EncodeAPR2 returns the text of an APR2 manifest (APR-FORMAT-002, "Sharding"). metadata is the model's.
func EncodeAPR2(shards []Shard, places []Place, metadata layout.Metadata) ([]byte, error) {
	md, err := metadata.MarshalJSON()
	if err != nil {
		return nil, err
	}
	files := make([]string, len(shards))
	for i, s := range shards {
		head := ""
		if s.HeadSHA256 != "" {
			head = fmt.Sprintf(`, "head_sha256": "%s"`, s.HeadSHA256)
		}
		files[i] = fmt.Sprintf(`{"file": %s, "size": %d, "crc32": "%s", "sha256": "%s"%s}`, quoted(s.Name), s.Size, s.CRC32, s.SHA256, head)
	}
	tensors := make([]string, len(places))
	for i, p := range places {
		tensors[i] = quoted(p.Tensor) + ": " + strconv.Itoa(p.Shard)
	}
	return fmt.Appendf(nil, manifestText, len(shards), strings.Join(files, nextLine), strings.Join(tensors, nextLine), md), nil
}

// IndexSuffix follows the name that a model would have in one file, in the name of its SafeTensors index.
const IndexSuffix = ".index.json"

// EncodeIndex returns the text of a SafeTensors index, as Hugging Face's libraries write it. total is
// the number of bytes of all tensors; metadata is what else the index says.
func EncodeIndex(shards []Shard, places []Place, metadata layout.Metadata, total uint64) ([]byte, error) {
	metadata = append(layout.Metadata{}, metadata...)
	metadata.Set("total_size", json.Number(strconv.FormatUint(total, 10)))
	md, err := metadata.MarshalJSON()
	if err != nil {
		return nil, err
	}
	tensors := make([]string, len(places))
	for i, p := range places {
		tensors[i] = quoted(p.Tensor) + ": " + quoted(shards[p.Shard].Name)
	}
	return fmt.Appendf(nil, indexText, md, strings.Join(tensors, nextLine)), nil
}

// quoted returns s as JSON.
func quoted(s string) string {
	text, _ := layout.EncodeJSON(s) // a string always can be
	return string(text)
}
