package main

import (
	"bufio"
	"io"
	"strings"

	"github.com/tensormap/tensormap/convert"
	"github.com/tensormap/tensormap/layout"
)

// dryRun says what a conversion would write.
func dryRun(stdout, stderr io.Writer, p *convert.Plan, asJSON bool, o *convert.Options) error {
	w := bufio.NewWriter(stdout)
	if asJSON {
		if err := writePreviewJSON(w, p); err != nil {
			return err
		}
	} else {
		writePreview(w, screenOf(stdout), p, o)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	reportDecisions(stderr, p)
	return nil
}

// writePreview shows a preview to a person.
func writePreview(w io.Writer, s screen, p *convert.Plan, o *convert.Options) {
	var f facts
	f.add("would write", printable(p.Path))
	f.add("format", p.Format.String())
	written := exactly(size(p.Bytes), p.Bytes, 1024, " bytes")
	if o.Compress != convert.NoCompression {
		written += " before compression"
	}
	f.add("size", written)
	if p.Shards > 0 {
		f.add("shards", grouped(uint64(p.Shards)))
	}
	f.add("tensors", grouped(uint64(len(p.Tensors))))
	var keys []string
	for key := range p.Metadata.All() {
		keys = append(keys, printable(key))
	}
	f.add("metadata", strings.Join(keys, ", "))
	f.write(w, s)
	if len(p.Tensors) > 0 {
		io.WriteString(w, "\n")
		previewGrid(p.Tensors).write(w, s)
	}
}

func previewGrid(list []convert.Tensor) *grid {
	g := &grid{
		heading: []string{"name", "dtype", "shape", "size", "from", "size before"},
		numbers: []bool{false, false, true, true, false, true},
		spare:   []string{"size before", "shape"},
	}
	g.rows = func(yield func([]string) bool) {
		for i := range list {
			t := &list[i]
			if !yield([]string{
				shownName(t.Name), t.To.String(), (&tensorInfo{Shape: t.Shape}).shape(), size(t.Bytes), t.From.String(), size(t.FromBytes),
			}) {
				return
			}
		}
	}
	return g
}

// plannedJSON is a tensor in the JSON of --dry-run.
type plannedJSON struct {
	Name        string       `json:"name"`
	DType       layout.DType `json:"dtype"`
	Shape       []uint64     `json:"shape"`
	Bytes       uint64       `json:"bytes"`
	FromDType   layout.DType `json:"from_dtype"`
	FromShape   []uint64     `json:"from_shape"`
	StoredBytes uint64       `json:"stored_bytes"`
	Reencoded   bool         `json:"reencoded"`
}

// writePreviewJSON writes a line for each tensor, as inspect does.
func writePreviewJSON(w io.Writer, p *convert.Plan) error {
	j := jsonLines{w: w}
	j.field("{\n", "path", p.Path)
	j.field(",\n", "format", p.Format)
	j.field(",\n", "bytes", p.Bytes)
	j.field(",\n", "shards", p.Shards)
	j.field(",\n", "metadata", p.Metadata)
	j.begin("tensors")
	for i := range p.Tensors {
		t := &p.Tensors[i]
		j.row(plannedJSON{t.Name, t.To, listed(t.Shape), t.Bytes, t.From, listed(t.FromShape), t.FromBytes, t.Reencoded})
	}
	j.end()
	j.text("\n}\n")
	return j.err
}

// listed is a shape that JSON shows as an array in any case.
func listed(shape []uint64) []uint64 {
	if shape == nil {
		return []uint64{}
	}
	return shape
}
