package main

import (
	"bytes"
	"encoding/json"
	"io"
)

// writeJSON writes the object with a line for each field and for each tensor: easy to
// read by eye, by grep and by diff, and never whole in memory.
func writeJSON(w io.Writer, in *inspection) error {
	j := jsonLines{w: w}
	j.field("{\n", "format", in.Format)
	j.field(",\n", "version", in.Version)
	j.field(",\n", "files", in.Files)
	if in.Sharded {
		j.field(",\n", "sharded", true)
	}
	j.field(",\n", "flags", in.Flags)
	j.field(",\n", "metadata", in.Metadata)
	j.begin("tensors")
	for t := range in.tensors() {
		j.row(t)
	}
	j.end()
	if in.Graph != nil {
		j.field(",\n", "graph", newGraphJSON(in.Graph))
	}
	j.text("\n}\n")
	return j.err
}

// jsonLines writes JSON piece by piece and remembers the first error.
type jsonLines struct {
	w    io.Writer
	rows int // of the array that has begun
	err  error
}

func (j *jsonLines) field(before, name string, v any) {
	j.text(before + `  "` + name + `": `)
	j.value(v)
}

// begin begins a field that is an array with a line for each element.
func (j *jsonLines) begin(name string) {
	j.text(",\n  \"" + name + "\": [")
	j.rows = 0
}

// row writes the next element of the array.
func (j *jsonLines) row(v any) {
	if j.rows++; j.rows > 1 {
		j.text(",")
	}
	j.text("\n    ")
	j.value(v)
}

// end ends the array.
func (j *jsonLines) end() {
	if j.rows > 0 {
		j.text("\n  ")
	}
	j.text("]")
}

func (j *jsonLines) text(s string) {
	if j.err == nil {
		_, j.err = io.WriteString(j.w, s)
	}
}

func (j *jsonLines) value(v any) {
	if j.err != nil {
		return
	}
	var text []byte
	if text, j.err = encodeJSON(v); j.err == nil {
		_, j.err = j.w.Write(text)
	}
}

// encodeJSON is v on one line, without characters that a terminal may obey.
func encodeJSON(v any) ([]byte, error) {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	return printableJSON(bytes.TrimSuffix(buf.Bytes(), []byte("\n"))), nil
}
