package loader

import (
	"iter"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/tensormap/tensormap/loader/internal/kvcache"
)

// layerSums are the bytes of tensors, by layer where their names have a number.
type layerSums struct {
	bytesByDType  map[string]uint64      // or by quantization scheme, if a tensor has one
	bytesOutside  map[string]uint64      // of tensors without a number, and of layers outside of mainStack, such as the layers of a vision encoder
	stackByPrefix map[string]*layerStack // by what stands before the number: model.layers, blk
	mainStack     *layerStack            // of the language model, or an empty one
}

// layerStack is numbered layers under one prefix of names, such as model.layers.
type layerStack struct {
	bytes  uint64               // of all layers
	layers map[int]layerWeights // by number
}

// layerWeights are the tensors of one layer.
type layerWeights struct {
	bytes  uint64
	shapes kvcache.Shapes
}

// sumByLayer returns the sums of the bytes of tensors. Bytes that several tensors share count once. All layers under one prefix of names
// make a stack. The main stack has the most bytes of all stacks with at least the given number of layers. If no stack has that number of
// layers, the main stack has the most bytes of all stacks.
func sumByLayer(tensors iter.Seq[Tensor], layers int) *layerSums {
	w := &layerSums{bytesByDType: map[string]uint64{}, bytesOutside: map[string]uint64{}, stackByPrefix: map[string]*layerStack{}, mainStack: &layerStack{}}
	type place struct {
		file, offset, size uint64
	}
	seen := make(map[place]bool)
	for t := range tensors {
		n := t.RawBytes()
		if at := (place{uint64(t.File()), t.Offset(), n}); n > 0 && (seen[at] || t.desc().Alias) {
			n = 0 // its bytes, or some of them, belong to another tensor and count there
		} else {
			seen[at] = true
		}
		storage := t.DType().String()
		if s := t.Scheme(); s != nil {
			storage = s.Scheme
		}
		w.bytesByDType[storage] += n
		w.addTensor(t, n)
	}
	for _, name := range slices.Sorted(maps.Keys(w.stackByPrefix)) {
		s := w.stackByPrefix[name]
		isEnough, mainIsEnough := len(s.layers) >= layers, len(w.mainStack.layers) >= layers
		if isEnough && !mainIsEnough || isEnough == mainIsEnough && s.bytes > w.mainStack.bytes {
			w.mainStack = s
		}
	}
	for name, s := range w.stackByPrefix {
		if s != w.mainStack {
			w.bytesOutside[name] += s.bytes
		}
	}
	return w
}

// addTensor adds n, the bytes of t, to w.bytesOutside, or to a layer and its stack if the name of t has the layer's number. It notes the
// shape of keys and values in the layer, unless t has a Problem.
func (w *layerSums) addTensor(t Tensor, n uint64) {
	before, number, after, ok := splitLayer(t.Name())
	if !ok {
		w.bytesOutside[before] += n
		return
	}
	s := w.stackByPrefix[before]
	if s == nil {
		s = &layerStack{layers: make(map[int]layerWeights)}
		w.stackByPrefix[before] = s
	}
	s.bytes += n
	l := s.layers[number]
	l.bytes += n
	if t.Problem() == nil {
		l.addShape(after, t.Shape())
	}
	s.layers[number] = l
}

// layerNumber finds the number of a layer in the name of a tensor.
var layerNumber = regexp.MustCompile(`[./]([0-9]+)[./]`)

// splitLayer splits the name of a tensor at the first number below kvcache.MaxLayers between two dots or slashes:
// model.layers.3.mlp.up.weight into model.layers, 3 and mlp.up.weight. If there is none, ok is false, and before is the name without its
// last part.
func splitLayer(name string) (before string, number int, after string, ok bool) {
	for from := 0; ; {
		at := layerNumber.FindStringSubmatchIndex(name[from:])
		if at == nil {
			break
		}
		if n, err := strconv.Atoi(name[from:][at[2]:at[3]]); err == nil && n < kvcache.MaxLayers {
			return name[:from+at[0]], n, name[from+at[1]:], true
		}
		from += at[3] // to the dot behind the number, which the next one may follow
	}
	if i := strings.LastIndexAny(name, "./"); i > 0 {
		name = name[:i]
	}
	return name, 0, "", false
}

// Names of matrices that make keys, of matrices that make values, and of matrices that make queries, keys and values at once.
var (
	keyNames   = regexp.MustCompile(`(^|\.)(k_proj|attn_k|attention\.self\.key|attention\.wk)\.weight$`)
	valueNames = regexp.MustCompile(`(^|\.)(v_proj|attn_v|attention\.self\.value|attention\.wv)\.weight$`)
	fusedNames = regexp.MustCompile(`(^|\.)(qkv_proj|attn_qkv|query_key_value|Wqkv|W_pack)\.weight$`)
)

// addShape notes in l.shapes the rows of a matrix that makes keys, or values, or queries, keys and values at once. name is the part
// of its name behind the number of the layer. It does nothing for other names, or if shape has other than two dimensions.
func (l *layerWeights) addShape(name string, shape []int) {
	if len(shape) != 2 {
		return
	}
	switch {
	case keyNames.MatchString(name):
		l.shapes.Keys = shape[0]
	case valueNames.MatchString(name):
		l.shapes.Values = shape[0]
	case strings.HasSuffix(name, "c_attn.weight"): // of GPT-2, which stores it transposed
		l.shapes.Fused = max(shape[0], shape[1])
	case fusedNames.MatchString(name):
		l.shapes.Fused = shape[0]
	}
}
