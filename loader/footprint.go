package loader

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"sort"
	"strings"

	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/loader/internal/kvcache"
)

// FootprintOptions say for what use of a model memory is estimated. A nil *FootprintOptions and every zero field mean the defaults.
type FootprintOptions struct {
	// Context is the number of tokens of each sequence. 0 means as many as the model is made for (max_position_embeddings). If
	// the configuration does not say how many they are, KVBytes is 0, and Unknown says so.
	Context int
	// Sequences is the number of sequences that run at once. 0 means 1.
	Sequences int
	// KV is the type of the cached keys and values: a type of floats, or of blocks such as Q8_0, where each row has whole blocks.
	// Invalid, the zero value, means F16.
	KV layout.DType
}

// Footprint estimates the memory that a model takes while it runs. All sizes are in bytes. In JSON it is the object fit of
// "tensormap inspect --fit --json".
//
// Unknown lists the figures that the model's files do not tell: none is guessed. Memory that depends on the program is not
// counted, such as activations and buffers. llama.cpp, for one, caches as many tokens beyond a window as it computes at
// once.
type Footprint struct {
	Context    int          `json:"context"`               // tokens of each sequence
	MaxContext int          `json:"max_context,omitempty"` // tokens that the model is made for; 0 if unknown
	Sequences  int          `json:"sequences"`             // that run at once
	KV         layout.DType `json:"kv_dtype"`              // type of the cached keys and values

	WeightsBytes    uint64 `json:"weights_bytes"`      // of all tensors, decompressed. Bytes of a file that tensors share count once
	SharedBytes     uint64 `json:"shared_bytes"`       // of WeightsBytes, the bytes of no layer
	KVBytesPerToken uint64 `json:"kv_bytes_per_token"` // of one sequence that is shorter than every window
	KVBytes         uint64 `json:"kv_bytes"`           // of Sequences sequences of Context tokens
	StateBytes      uint64 `json:"state_bytes"`        // of the recurrent layers of Sequences sequences, whatever Context is
	TotalBytes      uint64 `json:"total_bytes"`        // WeightsBytes + KVBytes + StateBytes

	DTypes []NamedBytes `json:"dtypes"` // of WeightsBytes by dtype or scheme, the largest first
	Shared []NamedBytes `json:"shared"` // of SharedBytes by names of tensors, cut before their number or last part, the largest first

	Layers  []LayerFootprint `json:"layers"`
	Unknown []Unknown        `json:"unknown"` // what could not be told
}

// NamedBytes is a number of bytes and what takes them.
type NamedBytes struct {
	Name  string `json:"name"`
	Bytes uint64 `json:"bytes"`
}

// LayerFootprint is one layer's part of a [Footprint].
type LayerFootprint struct {
	Layer int `json:"layer"` // its number in the names of tensors
	// Kind says what the layer keeps of the tokens before:
	//
	//	"attention" "sliding attention" "recurrent" "attention and recurrent" "none" "unknown"
	//	"cross-attention"  keys and values of another input, such as an image: they are not counted
	//	"shared"           it uses the cache of an earlier layer
	//	"draft"            it predicts further tokens, and its cache is not counted
	Kind            string `json:"kind"`
	WeightsBytes    uint64 `json:"weights_bytes"`
	KVBytesPerToken uint64 `json:"kv_bytes_per_token"` // of one sequence
	Window          int    `json:"window,omitempty"`   // how many tokens are cached at most; 0 means all
	KVBytes         uint64 `json:"kv_bytes"`           // of all sequences, as are StateBytes
	StateBytes      uint64 `json:"state_bytes,omitempty"`
}

// Unknown is a figure of a [Footprint] that is unknown, or known in part only.
type Unknown struct {
	What string `json:"what"` // the figure, by its name in JSON
	Why  string `json:"why"`
}

// stateBytes is the size of a value of a recurrent state, which programs hold as float32.
const stateBytes = 4

// Footprint estimates the memory that the model takes while it runs, from its index and its [Config]. It reads no tensor.
//
//	total = weights + sequences × Σ layers (min(context, window) × row bytes + 4 × state values)
//
// A layer with attention has the row bytes of its keys and of its values, each heads × head_dim elements of type KV. MLA
// has one row instead: kv_lora_rank + qk_rope_head_dim. A layer without a window keeps all of the context. Only layers with
// attention have rows, and only recurrent ones a state. Its values are, for example:
//
//	Mamba and Mamba-2      (conv−1) × (inner + 2 × groups × state) + inner × state
//	gated delta networks   (conv−1) × (2 × key heads × key dim + value heads × value dim) + value heads × key dim × value dim
//
// Heads that the configuration lacks are taken from the shapes of the layer's matrices. Footprint fails if metadata or config.json
// cannot be read. It fails with layout.ErrInvalid if a number of opts is negative, or if KV is neither a float nor quantized.
func (m *Model) Footprint(opts *FootprintOptions) (*Footprint, error) {
	return readWhileOpen(context.Background(), m, nil, func(ctx context.Context) (*Footprint, error) { return m.footprint(ctx, opts) })
}

// Footprint does what Model.Footprint does, through the lease.
func (l *Lease) Footprint(opts *FootprintOptions) (*Footprint, error) {
	return readWhileOpen(context.Background(), l.model, l, func(ctx context.Context) (*Footprint, error) { return l.model.footprint(ctx, opts) })
}

// withDefaults returns a copy of o with 1 in place of a Sequences of 0, and F16 in place of an unset KV. o may be nil. It fails
// with layout.ErrInvalid for negative numbers, and for a KV that is neither a type of floats nor quantized.
func (o *FootprintOptions) withDefaults() (out FootprintOptions, err error) {
	if o != nil {
		out = *o
	}
	out.Sequences = cmp.Or(out.Sequences, 1)
	if out.KV == layout.Invalid {
		out.KV = layout.F16
	}
	kind := out.KV.Kind()
	switch {
	case out.Context < 0:
		err = fmt.Errorf("footprint: %w: a context of %d tokens", layout.ErrInvalid, out.Context)
	case out.Sequences < 0:
		err = fmt.Errorf("footprint: %w: %d sequences", layout.ErrInvalid, out.Sequences)
	case kind != layout.KindFloat && kind != layout.KindQuantized:
		err = fmt.Errorf("footprint: %w: a cache of type %v", layout.ErrInvalid, out.KV)
	}
	return out, err
}

// footprint estimates the memory that the model takes while it runs. It reads metadata and config.json, but no tensor. The caller
// holds the model open. It fails if opts are invalid, or if metadata or config.json cannot be read.
func (m *Model) footprint(ctx context.Context, opts *FootprintOptions) (*Footprint, error) {
	o, err := opts.withDefaults()
	if err != nil {
		return nil, err
	}
	config, err := m.configuration(ctx)
	if err != nil {
		return nil, err
	}
	f := &Footprint{Context: o.Context, Sequences: o.Sequences, KV: o.KV, Layers: []LayerFootprint{}, Unknown: []Unknown{}}
	if n, err := config.Int("max_position_embeddings"); err == nil && n > 0 {
		f.MaxContext = n
	}
	f.Context = cmp.Or(f.Context, f.MaxContext)
	layers, _ := config.Int("num_hidden_layers") // 0 if the configuration does not say it
	w := sumByLayer(m.eachListed(nil, nil), layers)
	plan := kvcache.New(config.values, func(layer int) kvcache.Shapes { return w.mainStack.layers[layer].shapes })
	for _, u := range plan.Unknown {
		if len(plan.Layers) == 0 && m.Format() == layout.SafeTensors && m.ConfigFile() == nil { // then plan knows nothing else either
			u.Why = "no config.json beside the file, which would say num_hidden_layers"
		}
		f.Unknown = append(f.Unknown, Unknown(u))
	}
	f.DTypes, f.WeightsBytes = largestFirst(w.bytesByDType)
	f.Shared, f.SharedBytes = largestFirst(w.bytesOutside)
	f.addLayers(plan, w.mainStack)
	if f.Context == 0 && f.KVBytesPerToken > 0 {
		f.Unknown = append(f.Unknown, Unknown{"context", "the configuration does not say how many tokens the model is made for, and no context is asked for"})
	}
	f.TotalBytes = kvcache.Add(f.WeightsBytes, f.KVBytes, f.StateBytes)
	return f, nil
}

// addLayers adds to f the layers of plan, and then the layers of stack that plan lacks. If plan has layers at all, the latter are draft
// layers. It adds up the keys, values and states of all layers. If some layers have tensors, and others have keys, values or states but no
// tensors, addLayers notes as unknown how many lack tensors. The likely cause is that one shard of several was opened.
func (f *Footprint) addLayers(plan *kvcache.Plan, stack *layerStack) {
	for i := range plan.Layers {
		l := &plan.Layers[i]
		f.Layers = append(f.Layers, LayerFootprint{
			Layer: i, Kind: string(l.Kind), Window: l.Window,
			KVBytesPerToken: l.BytesPerToken(f.KV),
			StateBytes:      kvcache.Mul(l.State, stateBytes, uint64(f.Sequences)),
		})
	}
	for _, i := range slices.Sorted(maps.Keys(stack.layers)) {
		if i >= len(plan.Layers) {
			kind := kvcache.Unclear
			if len(plan.Layers) > 0 {
				kind = kvcache.Draft
			}
			f.Layers = append(f.Layers, LayerFootprint{Layer: i, Kind: string(kind)})
		}
	}
	missing, found := 0, false
	for i := range f.Layers {
		l := &f.Layers[i]
		l.WeightsBytes = stack.layers[l.Layer].bytes
		l.KVBytes = l.kvBytes(f.Context, f.Sequences)
		f.KVBytesPerToken = kvcache.Add(f.KVBytesPerToken, l.KVBytesPerToken)
		f.KVBytes = kvcache.Add(f.KVBytes, l.KVBytes)
		f.StateBytes = kvcache.Add(f.StateBytes, l.StateBytes)
		found = found || l.WeightsBytes > 0
		if l.WeightsBytes == 0 && l.KVBytesPerToken+l.StateBytes > 0 {
			missing++
		}
	}
	if found && missing > 0 {
		f.Unknown = append(f.Unknown, Unknown{"weights_bytes", fmt.Sprintf("layers without tensors in these files: %d of %d", missing, len(f.Layers))})
	}
}

// kvBytes returns the bytes of the layer's keys and values for a number of sequences with that many tokens each. If l.Window is not
// 0, at most l.Window tokens of each sequence count. It returns math.MaxUint64 if the size is greater. No argument is negative.
func (l *LayerFootprint) kvBytes(tokens, sequences int) uint64 {
	if l.Window > 0 {
		tokens = min(tokens, l.Window)
	}
	return kvcache.Mul(l.KVBytesPerToken, uint64(tokens), uint64(sequences))
}

// At returns the total memory in bytes if each of f.Sequences sequences has the given number of tokens. It returns math.MaxUint64 if
// the total is greater. tokens must not be negative.
func (f *Footprint) At(tokens int) uint64 {
	total := kvcache.Add(f.WeightsBytes, f.StateBytes)
	for i := range f.Layers {
		total = kvcache.Add(total, f.Layers[i].kvBytes(tokens, f.Sequences))
	}
	return total
}

// CacheKnown reports whether the cache of keys and values is known in full: f.Unknown has neither kv_bytes nor kv_bytes_per_token.
func (f *Footprint) CacheKnown() bool {
	return !slices.ContainsFunc(f.Unknown, func(u Unknown) bool { return u.What == "kv_bytes" || u.What == "kv_bytes_per_token" })
}

// LargestContext returns the largest number of tokens of each sequence with which the total fits memory, a number of bytes. It
// returns math.MaxInt32 if any number fits. It returns -1 if the weights and states alone are too large. It returns 0 if they fit
// and nothing is known of the cache. If the cache is known in part (see CacheKnown), the result may be too large.
func (f *Footprint) LargestContext(memory uint64) int {
	if f.KVBytesPerToken == 0 && !f.CacheKnown() && f.At(0) <= memory {
		return 0
	}
	tooMany := sort.Search(math.MaxInt32, func(n int) bool { return f.At(n) > memory }) // the least number that does not fit
	if tooMany == math.MaxInt32 {
		return math.MaxInt32
	}
	return tooMany - 1
}

// largestFirst returns the entries of sums, entries with the most bytes first, and entries with equal bytes by name. total is the sum of all.
func largestFirst(sums map[string]uint64) (list []NamedBytes, total uint64) {
	list = make([]NamedBytes, 0, len(sums))
	for name, n := range sums {
		list = append(list, NamedBytes{name, n})
		total += n
	}
	slices.SortFunc(list, func(a, b NamedBytes) int {
		return cmp.Or(cmp.Compare(b.Bytes, a.Bytes), strings.Compare(a.Name, b.Name))
	})
	return list, total
}
