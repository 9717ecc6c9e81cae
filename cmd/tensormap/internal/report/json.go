package report

import (
	"io"

	"github.com/tensormap/tensormap/cmd/tensormap/internal/terminal"
	"github.com/tensormap/tensormap/layout"
)

// JSON writes JSON piece by piece and remembers the first error.
type JSON struct {
	W    io.Writer
	rows int // of the array that has begun
	Err  error
}

func (j *JSON) Field(before, name string, v any) {
	j.Text(before + `  "` + name + `": `)
	j.value(v)
}

// Begin begins a field that is an array with a line for each element.
func (j *JSON) Begin(name string) {
	j.Text(",\n  \"" + name + "\": [")
	j.rows = 0
}

// Row writes the next element of the array.
func (j *JSON) Row(v any) {
	if j.rows++; j.rows > 1 {
		j.Text(",")
	}
	j.Text("\n    ")
	j.value(v)
}

// End ends the array.
func (j *JSON) End() {
	if j.rows > 0 {
		j.Text("\n  ")
	}
	j.Text("]")
}

func (j *JSON) Text(s string) {
	if j.Err == nil {
		_, j.Err = io.WriteString(j.W, s)
	}
}

func (j *JSON) value(v any) {
	if j.Err != nil {
		return
	}
	var text []byte
	if text, j.Err = EncodeJSON(v); j.Err == nil {
		_, j.Err = j.W.Write(text)
	}
}

// EncodeJSON encodes v on one line, without characters that a terminal may obey.
func EncodeJSON(v any) ([]byte, error) {
	text, err := layout.EncodeJSON(v)
	return terminal.PrintableJSON(text), err
}

// OrEmpty copies v. In JSON the copy is [], not null.
func OrEmpty[T any](v []T) []T { return append([]T{}, v...) }
