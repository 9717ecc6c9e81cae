package scheme

import (
	"bytes"
	"cmp"
	"slices"

	"github.com/tensormap/tensormap/layout"
)

// A Source knows what belongs to the tensors of a checkpoint.
type Source interface {
	// Config returns the configuration. Find asks at most once, and not if no tensor may be part of a
	// quantized weight.
	Config() (*Config, error)
	// Contents returns all bytes of small tensors. Find needs them until it asks for the next.
	Contents(tensors []uint32) ([][]byte, error)
	// Decodable returns why the source has no values for a form, or nil.
	Decodable(f *Form) error
	// Ignored reports whether a tensor, or a layer that a configuration names, is to be left out: the caller knows
	// that no weight needs it.
	Ignored(name []byte) bool
}

// Find finds the quantized weights among the tensors of a checkpoint, which names finds. The error is
// that of the source.
func Find(tensors []layout.Tensor, names *layout.Names, lim layout.Limits, source Source) (*Table, error) {
	f := &finder{Table: Table{tensors: tensors}, nameIndex: names, limits: lim, source: source}
	f.patterns = f.presentPatterns()
	for i := range tensors {
		if err := f.addByCodes(uint32(i)); err != nil {
			return nil, err
		}
	}
	for _, step := range []func() error{f.checkUnclaimed, f.findForms, f.checkDescribed} {
		if err := step(); err != nil {
			return nil, err
		}
	}
	f.checkNames()
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
	conf          *Config    // once the source was asked for it
	configRefusal error      // why the configuration refuses all weights
	matches       []match    // of the weights
	unclaimed     []uint32   // tensors that may be codes, and have no pattern
	codesEnds     []string   // of the names of codes, behind the name of their weight or layer
	patterns      []*pattern // those that the names of this checkpoint allow
	nameEnds
	forms       map[string]knownForm // by description
	description []byte               // of the parts of one weight
	nameMemory  []byte               // for the name of one tensor
	partsMemory []Part               // for the parts of one weight
}

const weightEnd = ".weight"

// configuration returns the configuration, which it asks the source for once. It sets f.configRefusal if the
// configuration refuses all weights. It fails if the source does.
func (f *finder) configuration() (_ *Config, err error) {
	if f.conf == nil {
		if f.conf, err = f.source.Config(); err != nil {
			return nil, err
		}
		f.configRefusal = f.conf.refusal()
		f.checkOverrides()
	}
	return f.conf, nil
}

// isPart reports whether tensor i is a part of a weight found so far.
func (f *finder) isPart(i uint32) bool { return f.WeightOf != nil && f.WeightOf[i] != 0 }

// addByCodes adds the weight whose codes are tensor i, if a pattern fits its name and type and those of a scale beside it. If
// none does, it refuses tensor i if its name is one that only codes have, and else appends it to f.unclaimed. A tensor that is
// a part already is skipped. It fails if the source does.
func (f *finder) addByCodes(i uint32) error {
	if f.isPart(i) {
		return nil
	}
	name, k := f.tensors[i].Name, codesTypeOf[f.tensors[i].DType]
	if k == 0 {
		f.keepIfLikeCodes(i)
		return nil
	}
	var sure []*pattern // their names decide, and the scale is missing
	for _, p := range f.patterns {
		if p.codesTypes&k == 0 || !hasSuffix(name, p.codesEnd) {
			continue
		}
		if len(sure) > 0 && p.codesEnd != sure[0].codesEnd { // patterns with shorter ends follow
			break
		}
		stem := name[:len(name)-len(p.codesEnd)]
		scale, ok, err := f.scaleOf(p, i, stem)
		if err != nil {
			return err
		}
		if ok {
			return f.addMatch(p, i, scale, stem)
		}
		if p.nameDecides {
			sure = append(sure, p)
		}
	}
	if len(sure) > 0 {
		return f.refuseWithoutScale(sure, i)
	}
	f.unclaimed = append(f.unclaimed, i)
	return nil
}

// scaleOf returns the tensor whose presence makes codes a weight of pattern p: in most patterns their scale. stem is the name of
// codes without p.codesEnd. ok is false if no tensor has a name and a type that p wants. It fails if the configuration is needed
// and cannot be read.
func (f *finder) scaleOf(p *pattern, codes uint32, stem []byte) (tensor uint32, ok bool, err error) {
	for _, end := range p.scaleEnds {
		s, ok := f.find(stem, end)
		if !ok {
			continue
		}
		scale := &f.tensors[s]
		fits := p.scaleTypes == 0 || p.scaleTypes&scaleTypeOf[scale.DType] != 0
		// Scales of U8 may have been F8_E8M0 before a conversion.
		mayBeE8M0 := !fits && p.scaleTypes&e8m0Scales != 0 && scale.DType == layout.U8
		if fits && p.fits != nil || mayBeE8M0 {
			conf, err := f.configuration()
			if err != nil {
				return 0, false, err
			}
			fits = mayBeE8M0 && conf.wereE8M0[string(scale.Name)] || fits && p.fits(conf, &f.tensors[codes], scale)
		}
		if fits {
			return s, true, nil
		}
	}
	return 0, false, nil
}

// addMatch adds the weight of pattern p, whose codes and scale were found, with all companions that exist. If the
// configuration or the pattern refuses it, it adds a weight with that error. It fails only if the source does.
func (f *finder) addMatch(p *pattern, codes, scale uint32, stem []byte) error {
	if _, err := f.configuration(); err != nil {
		return err
	}
	if p.companionFirst { // the search began at the companion
		codes, scale = scale, codes
	}
	if err := cmp.Or(f.configRefusal, p.refusal); err != nil {
		f.refuseCodes(codes, err)
		return nil
	}
	name, layer := f.tensors[codes].Name, bytes.TrimSuffix(stem, []byte(weightEnd))
	f.noteCodesEnd(name[len(stem):])
	f.noteCodesEnd(name[len(layer):])
	f.partsMemory = append(f.partsMemory[:0], Part{Codes, codes}, Part{p.scaleRole, scale})
	for i := range p.companions {
		o := &p.companions[i]
		start := stem
		if o.ofLayer {
			start = layer
		}
		if i, ok := f.find(start, o.end); ok && i != scale {
			f.partsMemory = append(f.partsMemory, Part{o.role, i})
		}
	}
	if p.nameEnd != p.codesEnd && !p.companionFirst {
		name = append(stem[:len(stem):len(stem)], p.nameEnd...)
	}
	f.addWeight(Weight{Name: name, Parts: slices.Clone(f.partsMemory)}, match{p, layer})
	return nil
}

// noteCodesEnd adds end to f.codesEnds, the list of what follows the name of a weight or layer in the name of its codes. It does
// nothing if end is listed.
func (f *finder) noteCodesEnd(end []byte) {
	if !slices.ContainsFunc(f.codesEnds, func(known string) bool { return known == string(end) }) {
		f.codesEnds = append(f.codesEnds, string(end))
	}
}

// addWeight appends a weight, and notes in f.WeightOf that its parts belong to it. The weight gets an error if another
// weight has one of the parts already.
func (f *finder) addWeight(w Weight, m match) {
	if f.WeightOf == nil {
		f.WeightOf = make([]uint32, len(f.tensors))
	}
	if f.weights == nil { // most weights of a checkpoint have as many parts
		n := 1 + len(f.tensors)/len(w.Parts)
		f.weights, f.matches = make([]Weight, 0, n), make([]match, 0, n)
	}
	f.weights, f.matches = append(f.weights, w), append(f.matches, m)
	number := uint32(len(f.weights)) // position plus one
	for _, p := range w.Parts {
		switch other := f.WeightOf[p.Tensor]; {
		case other == 0:
			f.WeightOf[p.Tensor] = number
		case other != number:
			f.refuseWeight(number, invalidf("tensor %s is a part of %s too", layout.Quote(f.tensors[p.Tensor].Name), layout.Quote(f.weights[other-1].Name)))
		}
	}
}

// refuseCodes adds a weight that consists of one tensor, codes, and cannot be decoded: err says why.
func (f *finder) refuseCodes(codes uint32, err error) {
	f.addWeight(Weight{Name: f.tensors[codes].Name, Parts: []Part{{Codes, codes}}, Err: err}, match{})
}

// refuseWeight sets the error of a weight, unless it has one. number is the weight's position plus one, as in f.WeightOf.
func (f *finder) refuseWeight(number uint32, err error) {
	if w := &f.weights[number-1]; w.Err == nil {
		w.Err = err
	}
}

// Bounds in bytes. A description in JSON takes about 300.
const (
	maxContent  = 64 << 10 // of a tensor whose content tells a shape
	maxContents = 16 << 20 // of all tensors that the source is asked for at once, but for the last weight's
)

// findForms finds shape and form of each weight, or its error. It first asks the source for the contents of small
// parts that tell shapes, for many weights at once. It fails if the source does.
func (f *finder) findForms() error {
	memory := new(weight)
	f.forms = make(map[string]knownForm)
	for from := 0; from < len(f.weights); {
		var wants []uint32
		until, size := from, uint64(0)
		for ; until < len(f.weights) && size < maxContents; until++ {
			before := len(wants)
			wants = f.appendContentParts(wants, until)
			for _, tensor := range wants[before:] {
				size += f.tensors[tensor].Raw
			}
		}
		contents := make(map[uint32][]byte, len(wants))
		if len(wants) > 0 {
			list, err := f.source.Contents(wants)
			if err != nil {
				return err
			}
			for i, b := range list {
				contents[wants[i]] = b
			}
		}
		for ; from < until; from++ {
			f.findForm(memory, from, contents)
		}
	}
	return nil
}

// appendContentParts appends to list the parts of the i-th weight whose contents tell its shape, by the roles in its pattern. It
// refuses the weight if such a part is larger than maxContent.
func (f *finder) appendContentParts(list []uint32, i int) []uint32 {
	w := &f.weights[i]
	if w.Err != nil {
		return list
	}
	for _, part := range w.Parts {
		if !slices.Contains(f.matches[i].pattern.contentRoles, part.Role) {
			continue
		}
		if t := &f.tensors[part.Tensor]; t.Raw > maxContent {
			w.Err = invalidf("tensor %s has %d bytes, more than %d", layout.Quote(t.Name), t.Raw, maxContent)
			break
		}
		list = append(list, part.Tensor)
	}
	return list
}
