package scheme

import (
	"bytes"
	"cmp"
	"context"
	"slices"

	"github.com/tensormap/tensormap/layout"
)

// A Source knows what belongs to the tensors of a checkpoint.
type Source interface {
	// Config returns the configuration. Find asks at most once, and not if no tensor may be part of a quantized weight.
	Config(ctx context.Context) (*Config, error)
	// Contents returns all bytes of small tensors. Find needs the result until it calls Contents again.
	Contents(ctx context.Context, tensors []uint32) ([][]byte, error)
	// Decodable returns why the source has no values for a form, or nil.
	Decodable(f *Form) error
	// Ignored reports whether a tensor, or a layer that a configuration names, is to be left out: the caller knows that no weight needs it.
	Ignored(name []byte) bool
}

// Find returns a table of the quantized weights among the tensors of a checkpoint. names finds tensors by their names. A weight that
// cannot be decoded has an error in the table. Find itself fails only if the source does.
func Find(ctx context.Context, tensors []layout.Tensor, names *layout.Names, lim layout.Limits, source Source) (*Table, error) {
	f := &finder{Table: Table{tensors: tensors}, nameIndex: names, limits: lim, source: source, forms: make(map[formKey]int)}
	f.collectEnds()
	f.patterns = f.presentPatterns()
	for i := range tensors {
		f.addByCodes(ctx, uint32(i))
	}
	f.checkUnclaimed(ctx)
	f.findForms(ctx)
	f.checkComfyDescriptions(ctx)
	if f.sourceErr != nil {
		return nil, f.sourceErr
	}
	f.checkNameCollisions()
	f.checkCompanions()
	f.finish()
	table := f.Table // without what only the search needs
	return &table, nil
}

// finder is one search for the weights of a checkpoint.
type finder struct {
	Table
	nameIndex     *layout.Names // of the tensors
	limits        layout.Limits
	source        Source
	sourceErr     error             // what the source has failed with: the table is then of no use
	config        *Config           // once the source was asked for it
	configRefusal error             // why the configuration refuses all weights
	matches       []match           // of the weights
	unclaimed     []uint32          // tensors that may be codes, and have no pattern
	codesEnds     []string          // the ends of the names of codes, behind the stem or the layer's path
	patterns      []*pattern        // the patterns that the names of this checkpoint allow
	lastSegments  map[string]bool   // of the names of tensors: see collectEnds
	mayEnd        map[string]bool   // what mayEndWith has returned
	forms         map[formKey]int   // the position of a weight that has the form of this key
	description   []byte            // memory for a description of the parts of one weight
	contents      map[uint32][]byte // of some weights: the bytes of parts whose contents tell a shape, by tensor
	nameMemory    []byte            // for the name of one tensor
}

const weightEnd = ".weight"

// loadConfig returns the configuration. The first call asks the source for it, and later calls return the same configuration. The first call
// also sets f.configRefusal if the configuration refuses all weights. It then calls checkOverrides, which counts the layers that the
// configuration names and the checkpoint lacks. If the source fails, the first call sets f.sourceErr, and the configuration is empty: no
// later call asks again.
func (f *finder) loadConfig(ctx context.Context) *Config {
	if f.config == nil {
		config, err := f.source.Config(ctx)
		if err != nil {
			config, f.sourceErr = new(Config), err
		}
		f.config = config
		f.configRefusal = f.config.refusal()
		f.checkOverrides()
	}
	return f.config
}

// isPart reports whether a tensor is a part of a weight found so far.
func (f *finder) isPart(tensor uint32) bool {
	_, ok := f.WeightOf(tensor)
	return ok
}

// addByCodes adds the weight whose codes are tensor i. A pattern must fit the tensor's name and type, and the pattern's scale must lie beside
// it. If only the scale is missing, and only codes have such a name, addByCodes refuses tensor i. If no pattern fits, it appends tensor i to
// f.unclaimed, except for floats that are not named like a weight. It skips a tensor that is a part of a weight already.
func (f *finder) addByCodes(ctx context.Context, i uint32) {
	if f.isPart(i) {
		return
	}
	name, codesType := f.tensors[i].Name, typeOf[f.tensors[i].DType]
	var withoutScale []*pattern // the codes' name decides for them, and the scale is missing
	for _, p := range f.patterns {
		if p.codesTypes&codesType == 0 || !hasSuffix(name, p.codesEnd) {
			continue
		}
		// f.patterns has longer ends first. From here on the ends are shorter than the end of the codes that were found, and the stems wrong.
		if len(withoutScale) > 0 && p.codesEnd != withoutScale[0].codesEnd {
			break
		}
		stem := name[:len(name)-len(p.codesEnd)]
		if scale, ok := f.scaleOf(ctx, p, i, stem); ok {
			f.addMatch(ctx, p, i, scale, stem)
			return
		}
		if p.nameTellsScheme {
			withoutScale = append(withoutScale, p)
		}
	}
	if len(withoutScale) > 0 {
		f.refuseWithoutScale(ctx, withoutScale, i)
	} else if codesType != floats || isNamedLikeWeight(name) {
		f.unclaimed = append(f.unclaimed, i)
	}
}

// scaleOf returns the tensor whose presence makes codes a weight of pattern p. In most patterns that is the scale. stem is the
// name of codes without p.codesEnd. ok is false unless a tensor has a name and a type that p wants. p.acceptsShapes, if set, must also accept
// the shapes of codes and of that tensor. A scale of U8 passes as F8_E8M0 if it had this type before a conversion.
func (f *finder) scaleOf(ctx context.Context, p *pattern, codes uint32, stem []byte) (tensor uint32, ok bool) {
	for _, end := range p.scaleEnds {
		tensor, ok = f.find(stem, end)
		if !ok {
			continue
		}
		scale := &f.tensors[tensor]
		typeFits := p.scaleTypes == 0 || p.scaleTypes&typeOf[scale.DType] != 0 ||
			p.scaleTypes&e8m0 != 0 && scale.DType == layout.U8 && f.loadConfig(ctx).originallyE8M0[string(scale.Name)]
		if typeFits && (p.acceptsShapes == nil || p.acceptsShapes(f.loadConfig(ctx), &f.tensors[codes], scale)) {
			return tensor, true
		}
	}
	return 0, false
}

// addMatch adds the weight of pattern p, with all companions that exist. codes is the tensor that fits p.codesEnd, and scale the tensor that
// fits p.scaleEnds. If p.swapsCodesAndScale is set, the tensor that fits p.scaleEnds has the codes, and addMatch exchanges the two. The names
// of both begin with stem. addMatch adds the ends of the codes' name to f.codesEnds, for weightBeside. If the configuration or the pattern
// refuses the weight, addMatch only adds the codes, with that error.
func (f *finder) addMatch(ctx context.Context, p *pattern, codes, scale uint32, stem []byte) {
	f.loadConfig(ctx)
	if p.swapsCodesAndScale {
		codes, scale = scale, codes
	}
	if err := cmp.Or(f.configRefusal, p.refusal); err != nil {
		f.addRefused(codes, err)
		return
	}
	// The stem may end with .weight, the layer's path never does. Other tensors' names may begin with either, so both ends are added.
	name, layer := f.tensors[codes].Name, bytes.TrimSuffix(stem, []byte(weightEnd))
	for _, end := range [][]byte{name[len(stem):], name[len(layer):]} {
		if !slices.ContainsFunc(f.codesEnds, func(known string) bool { return known == string(end) }) {
			f.codesEnds = append(f.codesEnds, string(end))
		}
	}
	parts := append(make([]Part, 0, 2+len(p.companions)), Part{Codes, codes}, Part{p.scaleRole, scale})
	for i := range p.companions {
		c := &p.companions[i]
		start := stem
		if c.isFromLayerPath {
			start = layer
		}
		if tensor, ok := f.find(start, c.end); ok && tensor != scale {
			parts = append(parts, Part{c.role, tensor})
		}
	}
	if p.givesOtherName() {
		name = append(slices.Clip(stem), p.nameEnd...) // a copy
	}
	f.addWeight(Weight{Name: name, Parts: parts}, match{p, layer})
}

// addWeight appends a weight, which has one part or more, and notes in f.weightOf that its parts belong to it. The weight gets an
// error if another weight has one of the parts already.
func (f *finder) addWeight(w Weight, m match) {
	if f.weightOf == nil {
		f.weightOf = make([]uint32, len(f.tensors))
	}
	if f.weights == nil { // most weights of a checkpoint have as many parts as the first
		n := 1 + len(f.tensors)/len(w.Parts)
		f.weights, f.matches = make([]Weight, 0, n), make([]match, 0, n)
	}
	f.weights, f.matches = append(f.weights, w), append(f.matches, m)
	i := len(f.weights) - 1
	for _, p := range w.Parts {
		switch owner, isPart := f.WeightOf(p.Tensor); {
		case !isPart:
			f.weightOf[p.Tensor] = uint32(i + 1)
		case owner != i:
			f.refuseWeight(i, invalidf("tensor %s is a part of %s too", layout.Quote(f.tensors[p.Tensor].Name), layout.Quote(f.weights[owner].Name)))
		}
	}
}

// refuseWeight sets the error of the i-th weight to err, unless the weight has an error already.
func (f *finder) refuseWeight(i int, err error) {
	if w := &f.weights[i]; w.Err == nil {
		w.Err = err
	}
}

// contentRoles are the roles of parts whose contents tell a shape.
var contentRoles = []Role{Shape, QuantState, Setting}

// Bounds in bytes. A description in JSON takes about 300.
const (
	maxContent = 64 << 10 // of a tensor whose content tells a shape
	maxBatch   = 16 << 20 // of the tensors that the source is asked for at once; the tensors of the last weight may exceed it
)

// findForms sets the shape and form of each weight, or the weight's error. It asks the source for the contents of parts with contentRoles,
// for many weights at once. It refuses a weight if such a part is larger than maxContent. If the source fails, findForms sets f.sourceErr and
// stops.
func (f *finder) findForms(ctx context.Context) {
	for from, until := 0, 0; from < len(f.weights) && f.sourceErr == nil; from = until {
		var wants []uint32
		for size := uint64(0); until < len(f.weights) && size < maxBatch; until++ {
			for _, part := range f.weights[until].Parts {
				t := &f.tensors[part.Tensor]
				if f.Err(until) != nil || !slices.Contains(contentRoles, part.Role) {
					continue
				}
				if t.Raw > maxContent {
					f.refuseWeight(until, invalidf("tensor %s has %d bytes, more than %d", layout.Quote(t.Name), t.Raw, maxContent))
					continue
				}
				wants, size = append(wants, part.Tensor), size+t.Raw
			}
		}
		f.contents = make(map[uint32][]byte, len(wants))
		if len(wants) > 0 {
			var list [][]byte
			list, f.sourceErr = f.source.Contents(ctx, wants)
			for i, b := range list { // in the order of wants
				f.contents[wants[i]] = b
			}
		}
		for i := from; i < until; i++ {
			f.findForm(i)
		}
	}
}
