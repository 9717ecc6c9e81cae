package scheme

import (
	"bytes"
	"math/bits"
	"slices"

	"github.com/tensormap/tensormap/layout"
)

// A Source knows what belongs to the tensors of a checkpoint.
type Source interface {
	// Config returns the configuration. Find asks at most once, and not if no tensor may be part of a
	// quantized weight.
	Config() (*Config, error)
	// Content reads the bytes of a tensor, Raw of them, into p. It reports false if they are not at hand.
	Content(tensor uint32, p []byte) (bool, error)
	// Decodable returns why the source has no values for a form, or nil.
	Decodable(f *Form) error
	// Ignored reports whether a tensor, or a layer that a configuration names, is to be left out: the caller knows
	// that no weight needs it.
	Ignored(name []byte) bool
}

// Find finds the quantized weights among the tensors of a checkpoint, which names finds. The error is
// that of the source.
//
// If the table wants contents, the caller supplies them and then calls Complete.
func Find(tensors []layout.Tensor, names *layout.Names, lim layout.Limits, source Source) (*Table, error) {
	f := finder{Table: &Table{limits: lim, tensors: tensors, names: names, source: source, results: make([]result, 1, 16)}}
	for i := range tensors {
		k := kinds[tensors[i].DType]
		if k == 0 {
			f.otherType(uint32(i))
			continue
		}
		if err := f.tensor(uint32(i), k); err != nil {
			return nil, err
		}
	}
	if err := f.leftOver(); err != nil {
		return nil, err
	}
	if err := f.checkDescribed(); err != nil {
		return nil, err
	}
	f.checkNames()
	f.checkCompanions()
	if len(f.Wants) > 0 {
		f.Contents = make([][]byte, len(f.Wants))
	} else if len(f.entries) > 0 {
		f.Complete()
	}
	return f.Table, nil
}

// finder finds the weights of one checkpoint.
type finder struct {
	*Table
	refused   uint32 // the result of all weights if the configuration refuses them, or 0
	name      []byte // memory for one
	byKind    [kindBits][]usedPattern
	near      [256]hint
	unclaimed []uint32 // tensors that may be codes, and have no pattern
	codesEnds []string // of the names of codes, behind the name of their weight or layer
	contents  [][]byte // of one weight
	bytes     []byte   // memory for contents
}

// A usedPattern is a pattern that some weight may have, for all that the ends of names tell.
type usedPattern struct {
	*pattern
	renaming renaming    // by the pattern's position
	ends     []uint8     // of scales that some name ends like
	others   []companion // that some name ends like
}

const weightEnd = ".weight"

// configuration returns the configuration, which it asks the source for once. Then it notes the error that refuses
// all weights, if there is one. The error is that of the source.
func (f *finder) configuration() (_ *Config, err error) {
	if f.conf == nil {
		if f.conf, err = f.source.Config(); err != nil {
			return nil, err
		}
		if err := f.conf.refusal(); err != nil {
			f.refused = f.note(result{err: err})
		}
		f.checkOverrides()
	}
	return f.conf, nil
}

// used returns the patterns that codes of kind k may have, without those whose parts have ends that no tensor's name
// has. It caches the list.
func (f *finder) used(k kind) []usedPattern {
	list := &f.byKind[bits.TrailingZeros16(uint16(k))]
	if *list != nil {
		return *list
	}
	*list = []usedPattern{}
	for i := range patterns {
		p := &patterns[i]
		if p.kinds&k == 0 || !f.mayEnd(p.codes) {
			continue
		}
		u := usedPattern{pattern: p, renaming: renaming(i + 1)}
		for i, end := range p.scales {
			if f.mayEnd(end) {
				u.ends = append(u.ends, uint8(i))
			}
		}
		for _, o := range p.others {
			if f.mayEnd(o.end) {
				u.others = append(u.others, o)
			}
		}
		if len(u.ends) > 0 || p.sure {
			*list = append(*list, u)
		}
	}
	return *list
}

// tensor adds the weight whose codes are the i-th tensor, of kind k, unless that is a part already. Without a scale
// it refuses codes whose name alone decides, and notes others in f.unclaimed.
func (f *finder) tensor(i uint32, k kind) error {
	name := f.tensors[i].Name
	if f.Of != nil && f.Of[i] != 0 {
		return nil
	}
	var sure []*usedPattern // whose scale is missing
	list := f.used(k)
	for at := range list {
		p := &list[at]
		if !hasSuffix(name, p.codes) {
			continue
		}
		if len(sure) > 0 && p.codes != sure[0].codes { // only shorter ends follow
			break
		}
		stem := name[:len(name)-len(p.codes)]
		s, end, ok, err := f.scaleOf(p, i, stem)
		if err != nil {
			return err
		}
		if ok {
			return f.add(p, i, s, stem, end)
		}
		if p.sure {
			sure = append(sure, p)
		}
	}
	if len(sure) > 0 {
		return f.withoutScale(sure, i)
	}
	f.unclaimed = append(f.unclaimed, i)
	return nil
}

// scaleOf returns the tensor beside codes, mostly their scale, that makes them a weight of pattern p. stem is the
// codes' name without the pattern's end. which is the position in p.scales of the end of the name found. ok is false
// if none fits.
func (f *finder) scaleOf(p *usedPattern, codes uint32, stem []byte) (tensor uint32, which uint8, ok bool, err error) {
	for _, i := range p.ends {
		s, ok := f.find(codes, stem, p.scales[i])
		if !ok {
			continue
		}
		scale := &f.tensors[s]
		fits := p.by == 0 || p.by&scaleKinds[scale.DType] != 0
		// Bytes may have been F8_E8M0 before a conversion.
		wasPowers := !fits && p.by&e8m0 != 0 && scale.DType == layout.U8
		if fits && p.fits != nil || wasPowers {
			conf, err := f.configuration()
			if err != nil {
				return 0, 0, false, err
			}
			fits = wasPowers && conf.powers[string(scale.Name)] || fits && p.fits(conf, &f.tensors[codes], scale)
		}
		if fits {
			return s, i, true, nil
		}
	}
	return 0, 0, false, nil
}

// add adds the weight of pattern p, whose codes and scale were found, with all companions that are there. It adds an
// error in its place if the configuration or the pattern refuses it. The error is that of the source.
func (f *finder) add(p *usedPattern, codes, scale uint32, stem []byte, end uint8) error {
	if _, err := f.configuration(); err != nil {
		return err
	}
	if p.inward { // the search began at the other tensor
		codes, scale = scale, codes
	}
	if f.refused != 0 {
		f.refuse(codes, f.refused)
		return nil
	}
	if p.refused != nil {
		f.reject(codes, p.refused)
		return nil
	}
	first := len(f.parts)
	f.parts = append(f.parts, Part{Codes, codes}, Part{p.role, scale})
	layer := bytes.TrimSuffix(stem, []byte(weightEnd))
	name := f.tensors[codes].Name
	f.noteEnd(name[len(stem):])
	f.noteEnd(name[len(layer):])
	for i := range p.others {
		o := &p.others[i]
		base := stem
		if o.layer {
			base = layer
		}
		if i, ok := f.find(codes, base, o.end); ok && i != scale {
			f.parts = append(f.parts, Part{o.role, i})
		}
	}
	parts := len(f.parts) - first
	f.begin(parts, 1+len(f.tensors)/parts)
	e := f.next(parts)
	if p.name != p.codes && !p.inward {
		f.rename(e, p.renaming, stem)
	}
	f.claim(e)
	if f.errOf(e) != nil {
		return nil
	}
	return f.want(e, &match{pattern: p.pattern, end: end, layer: layer})
}

// noteEnd adds an end to f.codesEnds, unless it is there. It is the rest of the name of codes behind the name of
// their weight or layer.
func (f *finder) noteEnd(end []byte) {
	if !slices.ContainsFunc(f.codesEnds, func(known string) bool { return known == string(end) }) {
		f.codesEnds = append(f.codesEnds, string(end))
	}
}

// maxContent bounds a tensor whose content is asked for. Descriptions in JSON take about 300 bytes.
const maxContent = 64 << 10

// want finds shape and form of e, the last weight, from the contents of its parts that tell. If these are not at
// hand, it adds them to f.Wants, for Complete. The error is that of the source.
func (f *finder) want(e *entry, m *match) error {
	f.contents, f.bytes = f.contents[:0], f.bytes[:0]
	atHand, parts := true, f.partsOf(e)
	for _, p := range parts {
		if !m.pattern.wants(p) {
			continue
		}
		size := f.tensors[p.Tensor].Raw
		if size > maxContent {
			f.fail(e, misfit("tensor %s has %d bytes, more than %d", layout.Quote(f.tensors[p.Tensor].Name), size, maxContent))
			return nil
		}
		if !atHand {
			continue
		}
		from := len(f.bytes)
		if int(size) > cap(f.bytes)-from {
			f.bytes = slices.Grow(f.bytes, int(size)) // what f.contents has of it stays where it was
		}
		f.bytes = f.bytes[:from+int(size)]
		b, err := f.bytes[from:], error(nil)
		if atHand, err = f.source.Content(p.Tensor, b); err != nil {
			return err
		}
		f.contents = append(f.contents, b)
	}
	if atHand {
		m.contents = f.contents
		f.shape(e, m)
		return nil
	}
	f.pending = append(f.pending, pending{*m, uint32(len(f.entries) - 1), uint32(len(f.Wants))})
	for _, p := range parts {
		if m.pattern.wants(p) {
			f.Wants = append(f.Wants, p.Tensor)
		}
	}
	return nil
}
