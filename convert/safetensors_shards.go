package convert

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/tensormap/tensormap/layout"
)

// The ends of the names that Hugging Face's libraries look for.
const (
	safeTensorsExt = ".safetensors"
	indexExt       = ".index.json"
)

// divideSafeTensors puts the tensors into files of at most so many bytes, in order, and as many
// into each as fit. text is the metadata of the model that files can have, rest that for the
// index.
func (out *output) divideSafeTensors(plan []encoding, text, rest layout.Metadata, most uint64) error {
	out.parts = nil
	md := text // of the first shard
	for len(plan) > 0 {
		n, err := fitting(plan, md, most)
		if err != nil {
			return err
		}
		p, err := part{plan: plan[:n]}.asSafeTensors(md)
		if err != nil {
			return err
		}
		if p.size > most {
			out.oversized = append(out.oversized, plan[0].tensor.Name())
		}
		out.parts = append(out.parts, p)
		plan, md = plan[n:], formatOf(text)
	}
	if err := out.name(safeTensorsExt, most); err != nil {
		return err
	}
	out.called, out.path, out.instead = out.path, out.whole+indexExt, out.whole
	out.manifest = &safeTensorsIndex{out.parts, rest}
	return out.checkManifest()
}

// fitting is how many tensors fit into a file of at most so many bytes: one in any case.
func fitting(plan []encoding, md layout.Metadata, most uint64) (n int, err error) {
	empty, err := part{}.asSafeTensors(md)
	if err != nil {
		return 0, err
	}
	size := empty.size
	for n = range plan {
		// No position in a file that fits has more digits than most.
		e := &plan[n]
		size += uint64(len(fmt.Sprintf(`,%s:{"dtype":"%v","shape":%v,"data_offsets":[%d,%d]}`,
			quoted(e.tensor.Name()), e.dtype, e.shape, most, most))) + e.rawBytes()
		if n > 0 && size > most-min(most, headAlign) {
			return n, nil
		}
	}
	return len(plan), nil
}

// headAlign is what the size of a header is a multiple of.
const headAlign = 8

// formatOf is the key that says which framework wrote the tensors.
func formatOf(md layout.Metadata) (format layout.Metadata) {
	if v, ok := md.Get("format"); ok {
		format.Set("format", v)
	}
	return format
}

// safeTensorsIndex is what Hugging Face's libraries write beside shards.
type safeTensorsIndex struct {
	shards   []part
	metadata layout.Metadata
}

const indexText = `{
  "metadata": %s,
  "weight_map": {
    %s
  }
}
`

func (x *safeTensorsIndex) encode() ([]byte, error) {
	total := uint64(0)
	var places []string
	for _, s := range x.shards {
		for i := range s.plan {
			e := &s.plan[i]
			total += e.rawBytes()
			places = append(places, quoted(e.tensor.Name())+": "+quoted(filepath.Base(s.path)))
		}
	}
	md := append(layout.Metadata{}, x.metadata...)
	md.Set("total_size", json.Number(strconv.FormatUint(total, 10)))
	metadata, err := md.MarshalJSON()
	if err != nil {
		return nil, err
	}
	return fmt.Appendf(nil, indexText, metadata, strings.Join(places, ",\n    ")), nil
}
