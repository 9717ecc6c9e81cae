package report

import (
	"cmp"
	"io"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/tensormap/tensormap/layout"
)

// JSON writes an object, a line for each field and each element of an array. It writes nothing after Err, the first error.
type JSON struct {
	W       io.Writer
	Err     error
	before  string // stands before the next field; "" before the first
	listEnd string // ends the array that is being written; "" outside of one
}

// Field writes a field.
func (j *JSON) Field(name string, v any) {
	j.begin(name)
	j.value(v)
}

// Optional writes a field unless v is the zero value of its type.
func (j *JSON) Optional(name string, v any) {
	if !reflect.ValueOf(v).IsZero() {
		j.Field(name, v)
	}
}

// List begins a field that is an array with a line for each element. The next field, or Close, ends it.
func (j *JSON) List(name string) {
	j.begin(name)
	j.text("[")
	j.listEnd = emptyListEnd
}

// emptyListEnd ends an array without elements.
const emptyListEnd = "]"

// Row writes the next element of the array.
func (j *JSON) Row(v any) {
	if j.listEnd != emptyListEnd {
		j.text(",")
	}
	j.listEnd = "\n  ]"
	j.text("\n    ")
	j.value(v)
}

// Close ends the object.
func (j *JSON) Close() {
	j.text(j.listEnd + "\n}\n")
}

// begin ends the array before a field, if there is one, and writes the field's name.
func (j *JSON) begin(name string) {
	j.text(j.listEnd + cmp.Or(j.before, "{") + "\n  \"" + name + "\": ")
	j.before, j.listEnd = ",", ""
}

// text writes s, unless writing has failed before.
func (j *JSON) text(s string) {
	if j.Err == nil {
		_, j.Err = io.WriteString(j.W, s)
	}
}

// value writes the JSON of v, unless writing has failed before.
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
	return PrintableJSON(text), err
}

// Object returns a JSON object. pairs has its keys, each before its value; a named number, such as a dtype, is given as text. Object panics
// if a key is no string, or has no value.
func Object(pairs ...any) layout.Metadata {
	o := make(layout.Metadata, 0, len(pairs)/2)
	for pair := range slices.Chunk(pairs, 2) {
		o = append(o, layout.Entry{Key: pair[0].(string), Value: pair[1]})
	}
	return o
}

// OrEmpty copies v. In JSON the copy is [], not null.
func OrEmpty[T any](v []T) []T { return append([]T{}, v...) }

// Real is a float64 whose JSON is null if it is NaN, which stands for no value, and a string if it is infinite.
type Real float64

// MarshalJSON encodes r: as a number, as null if it is NaN, as a string if it is infinite. It never fails.
func (r Real) MarshalJSON() ([]byte, error) {
	switch f := float64(r); {
	case math.IsNaN(f):
		return []byte("null"), nil
	case math.IsInf(f, 1):
		return []byte(`"Infinity"`), nil
	case math.IsInf(f, -1):
		return []byte(`"-Infinity"`), nil
	default:
		return strconv.AppendFloat(nil, f, 'g', -1, 64), nil
	}
}

// UnmarshalJSON decodes what MarshalJSON encodes. It fails if b is nothing of that.
func (r *Real) UnmarshalJSON(b []byte) error {
	if string(b) == "null" {
		*r = Real(math.NaN())
		return nil
	}
	f, err := strconv.ParseFloat(strings.Trim(string(b), `"`), 64)
	*r = Real(f)
	return err
}

// NewGraph returns a computation graph as it is in JSON, or nil for nil. Inputs and outputs are positions in nodes. The names are a contract.
func NewGraph(g *layout.Graph) layout.Metadata {
	if g == nil {
		return nil
	}
	nodes := []layout.Metadata{}
	for _, n := range g.Nodes {
		node := Object("name", n.Name, "op", n.Op, "inputs", OrEmpty(n.Inputs), "tensors", OrEmpty(n.Tensors))
		if len(n.Attributes) > 0 {
			node.Set("attributes", n.Attributes)
		}
		nodes = append(nodes, node)
	}
	return Object("inputs", OrEmpty(g.Inputs), "outputs", OrEmpty(g.Outputs), "nodes", nodes)
}
