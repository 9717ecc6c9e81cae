package scheme

import (
	"bytes"
	"cmp"
	"slices"

	"github.com/tensormap/tensormap/layout"
)

// A Table lists the quantized weights of a checkpoint.
type Table struct {
	Weights []Weight
	// Of has, for every stored tensor, one more than the position of the weight that it is a part of, or
	// 0. It is nil if there are no weights.
	Of []uint32
	// Wants lists the tensors whose content decides about shapes. The caller puts their bytes into Contents,
	// in the same order, and they must not change until Complete returns.
	Wants    []Want
	Contents [][]byte

	pending []pending
	limits  layout.Limits
	tensors []layout.Tensor
	names   *layout.Names
	own     *layout.Names // of the weights whose names no tensor has
}

// pending is a weight whose shape waits for contents.
type pending struct {
	shaping
	weight uint32
}

// Complete finishes the table, once all contents are there. It must be called once.
func (t *Table) Complete() {
	for i := range t.pending {
		p := &t.pending[i]
		w := &t.Weights[p.weight]
		if p.shaping.w = w; w.Err == nil {
			w.fail(p.run(p.c))
		}
	}
	t.pending, t.Wants, t.Contents = nil, nil, nil
	for i := range t.Weights {
		w := &t.Weights[i]
		if w.Err == nil {
			t.enter(w, i)
		}
		if w.Err != nil {
			t.refused(w)
		}
	}
}

// enter makes w known by its name, if no tensor has that.
func (t *Table) enter(w *Weight, i int) {
	if codes, _ := w.Part(Codes); bytes.Equal(w.Name, t.tensors[codes].Name) {
		return
	}
	if t.own == nil {
		t.own = layout.NewNames(len(t.Weights))
	}
	hash := layout.HashNameBytes(w.Name)
	for p := t.own.Probe(hash); ; {
		j, ok := p.Next()
		if !ok {
			p.Add(i)
			return
		}
		if bytes.Equal(t.Weights[j].Name, w.Name) {
			w.fail(misfit("tensor %s has codes of the same weight", layout.Quote(t.tensors[t.Weights[j].Parts[0].Tensor].Name)))
			return
		}
	}
}

// refused leaves w nothing but its codes.
func (t *Table) refused(w *Weight) {
	for _, p := range w.Parts[1:] {
		if t.Of[p.Tensor] == t.Of[w.Parts[0].Tensor] {
			t.Of[p.Tensor] = 0
		}
	}
	w.Parts = w.Parts[:1]
	w.Name, w.Shape, w.Form = t.tensors[w.Parts[0].Tensor].Name, nil, nil
}

// Find returns the position of the weight called name, if no tensor is called so.
func (t *Table) Find(name string) (i int, ok bool) {
	if t.own == nil {
		return 0, false
	}
	for p := t.own.Probe(layout.HashName(name)); ; {
		i, ok := p.Next()
		if !ok || string(t.Weights[i].Name) == name {
			return i, ok
		}
	}
}

// A Want asks for the bytes of a tensor.
type Want struct {
	Weight uint32 // position in Table.Weights
	Role   Role
	Tensor uint32 // position in the table of tensors
}

// mostContent bounds a tensor whose content is asked for. Descriptions in JSON take about 300 bytes.
const mostContent = 64 << 10

// Find finds the quantized weights among the tensors of a checkpoint, which names finds. It asks for
// the configuration at most once, and not if no tensor may be part of such a weight. The error is
// that of config.
//
// If the table wants contents, the caller supplies them and then calls Complete.
func Find(tensors []layout.Tensor, names *layout.Names, lim layout.Limits, config func() (*Config, error)) (*Table, error) {
	f := finder{Table: &Table{limits: lim, tensors: tensors, names: names}, config: config}
	for i := range tensors {
		k := kinds[tensors[i].DType]
		if k == 0 {
			continue
		}
		if err := f.tensor(uint32(i), k); err != nil {
			return nil, err
		}
	}
	if err := f.leftOver(); err != nil {
		return nil, err
	}
	if len(f.Wants) > 0 {
		f.Contents = make([][]byte, len(f.Wants))
	} else if len(f.Weights) > 0 {
		f.Complete()
	}
	return f.Table, nil
}

// kind is a set of types that codes have.
type kind uint8

const (
	float8 kind = 1 << iota
	bytes8      // U8
	ints8       // I8
	words       // I32
	uwords      // U32
	shorts      // I16
	longs       // I64
	blocks      // NVFP4
)

var kinds = [256]kind{
	layout.F8_E4M3: float8, layout.F8_E5M2: float8, layout.F8_E4M3FNUZ: float8, layout.F8_E5M2FNUZ: float8,
	layout.U8: bytes8, layout.I8: ints8, layout.I32: words, layout.U32: uwords, layout.I16: shorts, layout.I64: longs, layout.NVFP4: blocks,
}

// finder finds the weights of one checkpoint.
type finder struct {
	*Table
	config  func() (*Config, error)
	conf    *Config // once it was asked for
	refused error   // by conf
	buf     []byte
	parts   []Part
	asked   *convention // whose companions others are
	others  []companion // that some tensor's name ends like
	all     map[*convention][]companion
	recent  [8]*Weight // of different forms, found last
	turn    int        // the next of recent to go
	shaping shaping
	alone   []uint32 // tensors that may be codes, for which no companion was found
}

// configuration returns the configuration, which it asks for once.
func (f *finder) configuration() (_ *Config, err error) {
	if f.conf == nil {
		if f.conf, err = f.config(); err != nil {
			return nil, err
		}
		f.refused = f.conf.refusal()
	}
	return f.conf, nil
}

// find returns the tensor called stem and end.
func (f *finder) find(stem []byte, end string) (uint32, bool) {
	f.buf = append(append(f.buf[:0], stem...), end...)
	for p := f.names.Probe(layout.HashNameBytes(f.buf)); ; {
		i, ok := p.Next()
		if !ok {
			return 0, false
		}
		if bytes.Equal(f.tensors[i].Name, f.buf) {
			return uint32(i), true
		}
	}
}

// tensor looks for a weight whose codes are tensor i.
func (f *finder) tensor(i uint32, k kind) error {
	name := f.tensors[i].Name
	if f.Of != nil && f.Of[i] != 0 {
		return nil
	}
	for j := range conventions {
		c := &conventions[j]
		if c.kinds&k == 0 || !hasSuffix(name, c.codes) {
			continue
		}
		stem := name[:len(name)-len(c.codes)]
		s, end, ok, err := f.scaleOf(c, stem)
		if err != nil {
			return err
		}
		if ok {
			return f.add(c, i, s, stem, end)
		}
		if c.sure {
			f.refuse(i, misfit("codes of %s without their scale %s", c.scheme, layout.Quote(append(slices.Clone(stem), c.scales[0]...))))
			return nil
		}
	}
	if k == float8 || k != blocks && len(f.tensors[i].Shape) >= 2 && hasSuffix(name, ".weight") {
		f.alone = append(f.alone, i)
	}
	return nil
}

func hasSuffix(name []byte, end string) bool {
	return len(name) >= len(end) && string(name[len(name)-len(end):]) == end
}

// scaleOf returns the tensor by which the codes of a stem are known, and which of the convention's ends
// it has. The error is that of the configuration.
func (f *finder) scaleOf(c *convention, stem []byte) (tensor uint32, which uint8, ok bool, err error) {
	for i, end := range c.scales {
		s, ok := f.find(stem, end)
		if !ok {
			continue
		}
		fits := c.by == 0 || c.by&scaleKinds[f.tensors[s].DType] != 0
		if !fits && c.by&e8m0 != 0 && f.tensors[s].DType == layout.U8 {
			conf, err := f.configuration()
			if err != nil {
				return 0, 0, false, err
			}
			fits = conf.powers[string(f.tensors[s].Name)]
		}
		if fits {
			return s, uint8(i), true, nil
		}
	}
	return 0, 0, false, nil
}

// leftOver refuses what may be codes and is no part of a weight: floats of 8 bits without a scale, and
// integers of a checkpoint that is said to be quantized.
func (f *finder) leftOver() error {
	for _, i := range f.alone {
		t := &f.tensors[i]
		switch {
		case f.Of != nil && f.Of[i] != 0:
		case kinds[t.DType] != float8:
			conf, err := f.configuration()
			if err != nil {
				return err
			}
			if conf.Says() {
				f.refuse(i, cmp.Or(f.refused, misfit("%v without a scale, in a checkpoint whose configuration says that it is quantized", t.DType)))
			}
		case len(t.Shape) >= 2 || hasSuffix(t.Name, "weight"):
			f.refuse(i, unsupported("%v without a scale: it may be codes, whose values are orders of magnitude away", t.DType))
		}
	}
	return nil
}

// refuse enters codes that cannot be decoded.
func (f *finder) refuse(codes uint32, err error) {
	w := f.next()
	w.Parts, w.Err = append(f.room(1), Part{Codes, codes}), err
	f.claim(w)
}

// next returns the weight that comes next.
func (f *finder) next() *Weight {
	if f.Weights == nil {
		f.Weights = make([]Weight, 0, 1+len(f.tensors)/2)
		f.Of = make([]uint32, len(f.tensors))
	}
	if n := len(f.Weights); n < cap(f.Weights) {
		f.Weights = f.Weights[:n+1]
	} else {
		f.Weights = append(f.Weights, Weight{})
	}
	return &f.Weights[len(f.Weights)-1]
}

// room returns memory for up to n parts, many weights to an allocation.
func (f *finder) room(n int) []Part {
	if n > cap(f.parts)-len(f.parts) {
		f.parts = make([]Part, 0, max(n, 1<<10))
	}
	return f.parts[len(f.parts):]
}

// claim makes the parts of w, the last weight, its own. A weight that has a part of another is refused.
func (f *finder) claim(w *Weight) {
	f.parts = f.parts[:len(f.parts)+len(w.Parts)]
	w.Parts = slices.Clip(w.Parts)
	at := uint32(len(f.Weights))
	for _, p := range w.Parts {
		other := f.Of[p.Tensor]
		switch {
		case other == 0:
			f.Of[p.Tensor] = at
		case other != at:
			w.fail(misfit("tensor %s is a part of %s too", layout.Quote(f.tensors[p.Tensor].Name), layout.Quote(f.Weights[other-1].Name)))
		}
	}
}

// fail notes why w cannot be decoded.
func (w *Weight) fail(err error) {
	if w.Err == nil {
		w.Err = err
	}
}

// add enters the weight of a convention whose codes and scale were found.
func (f *finder) add(c *convention, codes, scale uint32, stem []byte, end uint8) error {
	conf, err := f.configuration()
	if err != nil {
		return err
	}
	if c.inward {
		codes, scale = scale, codes
	}
	if f.refused != nil {
		f.refuse(codes, f.refused)
		return nil
	}
	if c.form == nil {
		f.refuse(codes, unsupported("%s is not decoded", c.scheme))
		return nil
	}
	w := f.next()
	w.Scheme, w.Name, w.convention, w.end = c.scheme, f.tensors[codes].Name, c, end
	w.Parts = append(f.room(2+len(c.others)), Part{Codes, codes}, Part{c.role, scale})
	layer := bytes.TrimSuffix(stem, weightEnd)
	for _, o := range f.companions(c) {
		base := stem
		if o.layer {
			base = layer
		}
		if i, ok := f.find(base, o.end); ok && i != scale {
			w.Parts = append(w.Parts, Part{o.role, i})
		}
	}
	if c.name != c.codes && !c.inward {
		if i, ok := f.find(stem, c.name); ok {
			w.fail(misfit("the weight has the name of the tensor %s", layout.Quote(f.tensors[i].Name)))
		}
		w.Name = slices.Clone(f.buf)
	}
	f.claim(w)
	if w.Err == nil {
		f.shape(c, w, conf, layer)
	}
	return nil
}

// shape finds shape and form of w, or asks for contents that tell.
func (f *finder) shape(c *convention, w *Weight, conf *Config, layer []byte) {
	p := conf.of(layer)
	if p.err != nil {
		w.fail(p.err)
		return
	}
	from := len(f.Wants)
	for _, p := range w.Parts {
		if !slices.Contains(c.wants, p.Role) {
			continue
		}
		if size := f.tensors[p.Tensor].Raw; size > mostContent {
			f.Wants = f.Wants[:from]
			w.fail(misfit("tensor %s has %d bytes, more than %d", layout.Quote(f.tensors[p.Tensor].Name), size, mostContent))
			return
		}
		f.Wants = append(f.Wants, Want{uint32(len(f.Weights) - 1), p.Role, p.Tensor})
	}
	if len(f.Wants) == from && f.known(w, conf) {
		return
	}
	f.shaping = shaping{Table: f.Table, conf: conf, params: p, layer: layer, sizes: f.shaping.sizes[:0]}
	if len(f.Wants) > from {
		f.shaping.c, f.shaping.wants = c, [2]int{from, len(f.Wants)}
		f.pending = append(f.pending, pending{f.shaping, uint32(len(f.Weights) - 1)})
		f.shaping.sizes = nil // the pending weight has it
		return
	}
	f.shaping.w = w
	w.fail(f.shaping.run(c))
	if w.Err == nil {
		f.recent[f.turn%len(f.recent)] = w
		f.turn++
	}
}

// known gives w the form of a weight that is alike, and reports whether there is one.
func (f *finder) known(w *Weight, conf *Config) bool {
	if len(conf.paths) > 0 || len(conf.groups) > 1 { // which may name w's layer
		return false
	}
	for _, other := range f.recent {
		if other != nil && f.alike(w, other) {
			w.Scheme, w.Shape, w.Form = other.Scheme, other.Shape, other.Form
			return true
		}
	}
	return false
}

// alike reports whether two weights of one configuration have parts of the same types and shapes in
// the same convention. Most layers of a model are.
func (f *finder) alike(a, b *Weight) bool {
	if a.convention != b.convention || a.end != b.end || len(a.Parts) != len(b.Parts) {
		return false
	}
	for i, p := range a.Parts {
		q := b.Parts[i]
		s, t := &f.tensors[p.Tensor], &f.tensors[q.Tensor]
		if p.Role != q.Role || s.DType != t.DType || !slices.Equal(s.Shape, t.Shape) {
			return false
		}
	}
	return true
}

// companions returns the companions of a convention that some weight may have.
func (f *finder) companions(c *convention) []companion {
	if f.asked == c {
		return f.others
	}
	list, ok := f.all[c]
	if !ok {
		for _, o := range c.others {
			for i := range f.tensors {
				if hasSuffix(f.tensors[i].Name, o.end) {
					list = append(list, o)
					break
				}
			}
		}
		if f.all == nil {
			f.all = make(map[*convention][]companion)
		}
		f.all[c] = list
	}
	f.asked, f.others = c, list
	return list
}

var weightEnd = []byte(".weight")
