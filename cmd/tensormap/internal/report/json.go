package report

import (
	"io"

	"github.com/tensormap/tensormap/cmd/tensormap/internal/terminal"
	"github.com/tensormap/tensormap/layout"
)

// JSON writes an object, a line for each field and each element of an array. Err is the first error; nothing is
// written after it.
type JSON struct {
	W        io.Writer
	hasBegun bool // the object
	inList   bool // an array of the object is not closed
	rows     int  // elements of the array so far
	Err      error
}

// Field writes a field.
func (j *JSON) Field(name string, v any) {
	j.begin(name)
	j.value(v)
}

// List begins a field that is an array with a line for each element. The next field, or Close, ends it.
func (j *JSON) List(name string) {
	j.begin(name)
	j.text("[")
	j.inList, j.rows = true, 0
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

// begin writes the name of a field, and ends the array before it.
func (j *JSON) begin(name string) {
	j.endList()
	before := ","
	if !j.hasBegun {
		j.hasBegun, before = true, "{"
	}
	j.text(before + "\n  \"" + name + "\": ")
}

// endList ends the array, if there is one.
func (j *JSON) endList() {
	if j.inList && j.rows > 0 {
		j.text("\n  ")
	}
	if j.inList {
		j.text("]")
	}
	j.inList = false
}

// text writes s.
func (j *JSON) text(s string) {
	if j.Err == nil {
		_, j.Err = io.WriteString(j.W, s)
	}
}

// value writes the JSON of v.
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
