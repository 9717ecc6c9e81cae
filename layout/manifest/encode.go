package manifest

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"iter"
	"slices"
	"strconv"

	"github.com/tensormap/tensormap/layout"
)

// nextLine divides what has a line of its own, for people to read and compare: every shard and every tensor.
const nextLine = ",\n    "

// Place is a tensor's name and the position of its shard.
type Place struct {
	Tensor string
	Shard  int
}

// WriteAPR2 writes an APR2 manifest (APR-FORMAT-002, "Sharding"). metadata is the model's.
func WriteAPR2(w *bufio.Writer, shards []Shard, places iter.Seq[Place], metadata layout.Metadata) error {
	fmt.Fprintf(w, "{\n  \"apr_version\": \"2.0.0\",\n  \"sharded\": true,\n  \"shard_count\": %d,\n  \"shards\": [\n    ", len(shards)) // w keeps its errors
	for i, s := range shards {
		head := ""
		if s.HeadSHA256 != "" {
			head = fmt.Sprintf(`, "head_sha256": "%s"`, s.HeadSHA256)
		}
		if i > 0 {
			w.WriteString(nextLine)
		}
		fmt.Fprintf(w, `{"file": %s, "size": %d, "crc32": "%s", "sha256": "%s"%s}`, jsonString(s.Name), s.Size, s.CRC32, s.SHA256, head)
	}
	w.WriteString("\n  ],\n  \"tensor_shard_map\": {\n    ")
	writePlaces(w, places, strconv.Itoa)
	w.WriteString("\n  },\n  \"metadata\": ")
	if err := writeJSON(w, metadata); err != nil {
		return err
	}
	_, err := w.WriteString("\n}\n")
	return err
}

// writePlaces writes the members of an object that maps tensors to shards. shardText returns the JSON for shard i.
func writePlaces(w *bufio.Writer, places iter.Seq[Place], shardText func(i int) string) {
	next, last, value := "", -1, ""
	for p := range places {
		w.WriteString(next)
		next = nextLine
		w.WriteString(jsonString(p.Tensor))
		if p.Shard != last {
			last, value = p.Shard, ": "+shardText(p.Shard)
		}
		w.WriteString(value)
	}
}

// IndexSuffix follows the name that a model would have in one file, in the name of its SafeTensors index.
const IndexSuffix = ".index.json"

// EncodeIndex returns what WriteIndex writes.
func EncodeIndex(shards []Shard, places []Place, metadata layout.Metadata, total uint64) ([]byte, error) {
	var b bytes.Buffer
	w := bufio.NewWriter(&b)
	if err := WriteIndex(w, shards, slices.Values(places), metadata, total); err != nil {
		return nil, err
	}
	err := w.Flush()
	return b.Bytes(), err
}

// WriteIndex writes a SafeTensors index, as Hugging Face's libraries write it. total is
// the number of bytes of all tensors; metadata is what else the index says.
func WriteIndex(w *bufio.Writer, shards []Shard, places iter.Seq[Place], metadata layout.Metadata, total uint64) error {
	metadata = append(layout.Metadata{}, metadata...)
	metadata.Set("total_size", json.Number(strconv.FormatUint(total, 10)))
	w.WriteString("{\n  \"metadata\": ") // w keeps its errors
	if err := writeJSON(w, metadata); err != nil {
		return err
	}
	w.WriteString(",\n  \"weight_map\": {\n    ")
	writePlaces(w, places, func(i int) string { return jsonString(shards[i].Name) })
	_, err := w.WriteString("\n  }\n}\n")
	return err
}

// writeJSON writes md as JSON. Errors of w show when it is flushed.
func writeJSON(w *bufio.Writer, md layout.Metadata) error {
	text, err := layout.EncodeJSON(md)
	w.Write(text)
	return err
}

// jsonString returns s as a string of JSON, in quotes.
func jsonString(s string) string {
	text, _ := layout.EncodeJSON(s) // a string always can be
	return string(text)
}
