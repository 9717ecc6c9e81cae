package report

import (
	"io"

	"github.com/tensormap/tensormap/cmd/tensormap/internal/terminal"
	"github.com/tensormap/tensormap/layout"
)

// JSON writes an object piece by piece, a line for each field, and remembers the first error.
type JSON struct {
	W              io.Writer
	begun, listing bool // the object, an array in it
	rows           int  // of the array
	Err            error
}

func (j *JSON) Field(name string, v any) {
	j.begin(name)
	j.value(v)
}

// List begins a field that is an array with a line for each element. The next field, or Close, ends it.
func (j *JSON) List(name string) {
	j.begin(name)
	j.text("[")
	j.listing, j.rows = true, 0
}

// Row writes the next element of the array.
func (j *JSON) Row(v any) {
	if j.rows++; j.rows > 1 {
		j.text(",")
	}
	j.text("\n    ")
	j.value(v)
}

// Close ends the object.
func (j *JSON) Close() {
	j.endList()
	j.text("\n}\n")
}

func (j *JSON) begin(name string) {
	j.endList()
	before := ","
	if !j.begun {
		j.begun, before = true, "{"
	}
	j.text(before + "\n  \"" + name + "\": ")
}

func (j *JSON) endList() {
	if j.listing && j.rows > 0 {
		j.text("\n  ")
	}
	if j.listing {
		j.text("]")
	}
	j.listing = false
}

func (j *JSON) text(s string) {
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
