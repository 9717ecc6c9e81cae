// Package kvcache tells what one sequence of tokens takes in addition to a model's weights: rows of keys and values for every token, and states
// of fixed size. It reads the model's configuration and no tensor.
//
// The names of keys are as in Hugging Face's config.json, and as in GGUF's metadata where * stands for the architecture.
package kvcache

import (
	"fmt"
	"iter"
	"math"
	"math/bits"
	"slices"
	"strings"

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
		_, size := d.ByteRange(0, uint64(values))
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

// New returns the Plan of the layers that the configuration c describes. It calls shapes for layers with attention: the shapes stand in
// for numbers of heads that the configuration lacks. If the number of layers is missing or above MaxLayers, the Plan has no layers,
// and Unknown says so.
func New(c Config, shapes func(layer int) Shapes) *Plan {
	p := &planner{config: c, plan: new(Plan)}
	p.arch, _ = ask[string](p, "model_type")
	if p.has("text_config/model_type") {
		p.arch, _ = ask[string](p, "text_config/model_type")
	}
	n, ok := p.int("num_hidden_layers")
	switch {
	case !ok:
		p.addUnknown("kv_bytes", "the configuration does not say how many layers there are (num_hidden_layers)")
	case n > MaxLayers:
		p.addUnknown("kv_bytes", "the configuration claims %d layers, more than %d", n, MaxLayers)
	default:
		p.plan.Layers = make([]Layer, n)
		p.setKinds()
		p.setWindows()
		p.setShared() // before setRows, which gives these layers no rows
		p.setRows(shapes)
		p.setStates()
	}
	return p.plan
}

// planner makes a Plan of what a configuration says, under the names of config.json and of GGUF.
type planner struct {
	config Config
	arch   string // model_type, of the language model where a model has several kinds of input
	plan   *Plan
	// assumesAttention says that the configuration does not tell kinds of layers, which is usual for models with attention only.
	assumesAttention bool
	invalidSizes     []string // names of numbers that are no sizes of a recurrent layer's state
}

// addUnknown notes that the figure called what is incomplete, and the reason why.
func (p *planner) addUnknown(what, why string, args ...any) {
	p.plan.Unknown = append(p.plan.Unknown, Unknown{what, fmt.Sprintf(why, args...)})
}

// withArchitecture returns name with the architecture in place of a * at the beginning. Other names come back as they are.
func (p *planner) withArchitecture(name string) string {
	if rest, ok := strings.CutPrefix(name, "*"); ok {
		return p.arch + rest
	}
	return name
}

// ask returns the first of the configuration's values under name that layout.As converts to a T. The name attn_config/kv_n_heads leads to
// the value kv_n_heads in the first object under attn_config. ok is false if there is none.
func ask[T any](p *planner, name string) (x T, ok bool) {
	name, inner, isNested := strings.Cut(name, "/")
	for v := range p.config(p.withArchitecture(name)) {
		if isNested {
			object, isObject := layout.As[layout.Metadata](v)
			if !isObject {
				continue
			}
			v, _ = object.Get(inner)
		}
		if x, ok = layout.As[T](v); isNested || ok {
			return x, ok && v != nil
		}
	}
	return x, false
}

// maxNumber bounds every number of a configuration: far more than any dimension of a model.
const maxNumber = math.MaxInt32

// first asks for one value of type T under each name in turn, and returns the first value for which isValid reports true. ok is false if no
// name has such a value.
func first[T any](p *planner, isValid func(x T) bool, names []string) (x T, ok bool) {
	for _, name := range names {
		if x, ok := ask[T](p, name); ok && isValid(x) {
			return x, true
		}
	}
	return x, false
}

// int returns the first number under one of the names that is an integer from 0 to maxNumber. ok is false if none has one.
func (p *planner) int(names ...string) (n int, ok bool) {
	return first(p, func(n int) bool { return n >= 0 && n <= maxNumber }, names)
}

// ints returns the first list of integers from 0 to maxNumber under one of the names, or nil.
func (p *planner) ints(names ...string) []int {
	list, _ := first(p, func(list []int) bool { return len(list) > 0 && slices.Min(list) >= 0 && slices.Max(list) <= maxNumber }, names)
	return list
}

// has reports whether the configuration has a value under one of the names.
func (p *planner) has(names ...string) bool {
	_, ok := first(p, func(any) bool { return true }, names)
	return ok
}

// says reports whether the configuration has the given truth value under name.
func (p *planner) says(value bool, name string) bool {
	b, ok := ask[bool](p, name)
	return ok && b == value
}

// Mul returns the product of all numbers, or math.MaxUint64 if it is greater. Negative numbers count as 0.
func Mul[T int | uint64](numbers ...T) uint64 {
	product := uint64(1)
	for _, n := range numbers {
		hi, lo := bits.Mul64(product, uint64(max(n, 0)))
		if hi != 0 {
			lo = math.MaxUint64 // no return yet: a later number may be 0
		}
		product = lo
	}
	return product
}

// Add returns the sum of all numbers, or math.MaxUint64 if it is greater.
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
