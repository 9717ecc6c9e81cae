// Package kvcache tells what one sequence of tokens takes beside a model's weights: rows of keys and values for every token, and states
// of fixed size. It reads the model's configuration and no tensor.
//
// The names of keys are those of Hugging Face's config.json, and of GGUF's metadata where * stands for the architecture.
package kvcache

import (
	"fmt"
	"iter"
	"math"
	"math/bits"

	"github.com/tensormap/tensormap/layout"
)

// MaxLayers bounds how many layers a configuration may claim.
const MaxLayers = 1 << 16

// Kind says what a layer keeps of the tokens before.
type Kind string

// The kinds of layers.
const (
	Attention Kind = "attention"         // keys and values of all tokens
	Window    Kind = "sliding attention" // keys and values of the last tokens
	Recurrent Kind = "recurrent"         // a state of fixed size: Mamba, linear attention, short convolutions
	Both      Kind = "attention and recurrent"
	Cross     Kind = "cross-attention" // keys and values of another input, such as an image
	Shared    Kind = "shared"          // the keys and values of a layer before
	Draft     Kind = "draft"           // predicts further tokens, and does not run otherwise
	Nothing   Kind = "none"
	Unclear   Kind = "unknown"
)

// caches reports whether layers of this kind keep keys and values of the sequence's tokens.
func (k Kind) caches() bool { return k == Attention || k == Window || k == Both }

// recurs reports whether layers of this kind have a state of fixed size.
func (k Kind) recurs() bool { return k == Recurrent || k == Both }

// Layer says what one sequence keeps of one layer.
type Layer struct {
	Kind   Kind
	Rows   []int  // values in each row that is cached of a token: keys and values, or the one row of MLA
	Window int    // how many tokens have rows at most; 0 means all
	State  uint64 // values of the state
}

// BytesPerToken returns how many bytes the rows of one token take as elements of type d. Each row has whole blocks.
func (l *Layer) BytesPerToken(d layout.DType) (n uint64) {
	for _, values := range l.Rows {
		_, size := d.Span(0, uint64(values))
		n += size
	}
	return n
}

// Unknown is something that a configuration does not tell.
type Unknown struct {
	What string // the figure that lacks it
	Why  string
}

// Config yields the values that a model's configuration has under a name, in the order in which they count. None is nil.
type Config func(name string) iter.Seq[any]

// Shapes are the rows that the matrices of one layer's attention have. 0 means that there is no such matrix.
type Shapes struct {
	Keys, Values int
	Fused        int // queries, keys and values in one matrix
}

// Plan is what a sequence takes of each layer, and what could not be told.
type Plan struct {
	Layers  []Layer
	Unknown []Unknown
}

// New plans the layers that a configuration describes. shapes, which may be asked for each layer, stands in for numbers of heads that
// the configuration lacks. Without a number of layers there are none, and Unknown says so.
func New(c Config, shapes func(layer int) Shapes) *Plan {
	q := &questions{config: c, plan: new(Plan)}
	q.arch, _ = ask[string](q, "model_type")
	if text, ok := q.object("text_config"); ok && text.has("model_type") {
		q.arch, _ = ask[string](text, "model_type")
	}
	n, ok := q.int("num_hidden_layers")
	switch {
	case !ok:
		q.unknown("kv_bytes", "the configuration does not say how many layers there are (num_hidden_layers)")
		return q.plan
	case n > MaxLayers:
		q.unknown("kv_bytes", "the configuration claims %d layers, more than %d", n, MaxLayers)
		return q.plan
	}
	q.plan.Layers = make([]Layer, n)
	q.setKinds()
	q.setWindows()
	q.setShared()
	q.setRows(shapes)
	q.setStates()
	return q.plan
}

// questions asks a configuration, under the names of config.json and of GGUF.
type questions struct {
	config Config
	arch   string // model_type, of the language model where a model has several kinds of input
	plan   *Plan
	// assumesAttention says that the configuration does not tell kinds of layers, which is usual for models with attention only.
	assumesAttention bool
	oddSizes         []string // names of numbers that are no sizes of a recurrent layer's state
}

// unknown notes why a figure lacks something.
func (q *questions) unknown(what, why string, args ...any) {
	q.plan.Unknown = append(q.plan.Unknown, Unknown{what, fmt.Sprintf(why, args...)})
}

// in returns name with the architecture in place of a *.
func (q *questions) in(name string) string {
	if rest, ok := cutStar(name); ok {
		return q.arch + rest
	}
	return name
}

// cutStar returns what follows the * that name begins with. ok is false if it begins otherwise.
func cutStar(name string) (rest string, ok bool) {
	if name != "" && name[0] == '*' {
		return name[1:], true
	}
	return "", false
}

// ask returns the first value under name that becomes a T.
func ask[T any](q *questions, name string) (x T, ok bool) {
	for v := range q.config(q.in(name)) {
		if x, ok := layout.As[T](v); ok {
			return x, true
		}
	}
	return x, false
}

// most bounds every number of a configuration: far more than any dimension of a model.
const most = math.MaxInt32

// int returns the first number under one of the names that is an integer from 0 to most.
func (q *questions) int(names ...string) (n int, ok bool) {
	for _, name := range names {
		if n, ok := ask[int](q, name); ok && n >= 0 && n <= most {
			return n, true
		}
	}
	return 0, false
}

// ints returns the first list of such integers under one of the names.
func (q *questions) ints(names ...string) []int {
	for _, name := range names {
		if list, ok := ask[[]int](q, name); ok && len(list) > 0 && bounded(list) {
			return list
		}
	}
	return nil
}

// bounded reports whether all numbers of list are from 0 to most.
func bounded(list []int) bool {
	for _, n := range list {
		if n < 0 || n > most {
			return false
		}
	}
	return true
}

// has reports whether the configuration has a value under one of the names.
func (q *questions) has(names ...string) bool {
	for _, name := range names {
		if _, ok := ask[any](q, name); ok {
			return true
		}
	}
	return false
}

// yes reports whether the configuration has true under name.
func (q *questions) yes(name string) bool {
	b, ok := ask[bool](q, name)
	return ok && b
}

// no reports whether the configuration has false under name.
func (q *questions) no(name string) bool {
	b, ok := ask[bool](q, name)
	return ok && !b
}

// object returns the object called name as a configuration of its own. ok is false if there is none.
func (q *questions) object(name string) (*questions, bool) {
	md, ok := ask[layout.Metadata](q, name)
	values := func(name string) iter.Seq[any] {
		return func(yield func(any) bool) {
			if v, _ := md.Get(name); v != nil {
				yield(v)
			}
		}
	}
	return &questions{config: values, arch: q.arch, plan: q.plan}, ok
}

// Mul returns the product of all numbers, or the greatest number if that does not fit.
func Mul(numbers ...uint64) uint64 {
	product := uint64(1)
	for _, n := range numbers {
		hi, lo := bits.Mul64(product, n)
		if hi != 0 {
			return math.MaxUint64
		}
		product = lo
	}
	return product
}

// Add returns the sum of all numbers, or the greatest number if that does not fit.
func Add(numbers ...uint64) uint64 {
	sum := uint64(0)
	for _, n := range numbers {
		if n > math.MaxUint64-sum {
			return math.MaxUint64
		}
		sum += n
	}
	return sum
}
