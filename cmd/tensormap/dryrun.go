package main

import (
	"bufio"
	"io"
	"strings"

	"github.com/tensormap/tensormap/cmd/tensormap/internal/report"
	"github.com/tensormap/tensormap/cmd/tensormap/internal/terminal"
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
		writePreview(w, terminal.ScreenOf(stdout), p, o)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	reportDecisions(stderr, p)
	return nil
}

// writePreview shows a preview to a person.
func writePreview(w io.Writer, s terminal.Screen, p *convert.Plan, o *convert.Options) {
	var f report.Facts
	f.Add("would write", terminal.Printable(p.Path))
	f.Add("format", p.Format.String())
	written := report.Exactly(report.Size(p.Bytes), p.Bytes, 1024, " bytes")
	if o.Compress != convert.NoCompression {
		written += " before compression"
	}
	f.Add("size", written)
	if p.Shards > 0 {
		f.Add("shards", report.Grouped(uint64(p.Shards)))
	}
	f.Add("tensors", report.Grouped(uint64(len(p.Tensors))))
	var keys []string
	for key := range p.Metadata.All() {
		keys = append(keys, terminal.Printable(key))
	}
	f.Add("metadata", strings.Join(keys, ", "))
	f.Write(w, s)
	if len(p.Tensors) > 0 {
		io.WriteString(w, "\n")
		previewGrid(p.Tensors).Write(w, s)
	}
}

func previewGrid(list []convert.Tensor) *report.Grid {
	g := &report.Grid{
		Heading: []string{"name", "dtype", "shape", "size", "from", "size before"},
		Numbers: []bool{false, false, true, true, false, true},
		Spare:   []string{"size before", "shape"},
	}
	g.Rows = func(yield func([]string) bool) {
		for i := range list {
			t := &list[i]
			if !yield([]string{
				terminal.Name(t.Name), t.To.String(), report.ShapeText(t.Shape), report.Size(t.Bytes), t.From.String(), report.Size(t.FromBytes),
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
	j := report.JSON{W: w}
	j.Field("{\n", "path", p.Path)
	j.Field(",\n", "format", p.Format)
	j.Field(",\n", "bytes", p.Bytes)
	j.Field(",\n", "shards", p.Shards)
	j.Field(",\n", "metadata", p.Metadata)
	j.Begin("tensors")
	for i := range p.Tensors {
		t := &p.Tensors[i]
		j.Row(plannedJSON{t.Name, t.To, report.OrEmpty(t.Shape), t.Bytes, t.From, report.OrEmpty(t.FromShape), t.FromBytes, t.Reencoded})
	}
	j.End()
	j.Text("\n}\n")
	return j.Err
}
