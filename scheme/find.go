package scheme

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"iter"
	"math/bits"
	"slices"
	"strings"

	"github.com/tensormap/tensormap/layout"
)

// A Table lists the quantized weights of a checkpoint.
type Table struct {
	// Of has, for every stored tensor, one more than the position of the weight that it is a part of, or
	// 0. It is nil if there are no weights.
	Of []uint32
	// Hidden counts the parts other than codes, once the table is complete.
	Hidden int
	// Wants has the positions of the tensors whose content decides about shapes and was not at hand. The caller
	// puts their bytes into Contents, in the same order, and they must not change until Complete returns.
	Wants    []uint32
	Contents [][]byte
	// Unmatched counts the layers that the configuration has parameters for and the checkpoint does not have.
	// UnmatchedPath is the first of them.
	Unmatched     int
	UnmatchedPath string

	weights []weight
	parts   []Part    // of all weights
	found   []finding // the first says nothing
	spelled []byte    // names that no tensor has
	pending []pending
	limits  layout.Limits
	source  Source
	conf    *Config // once it was asked for
	tensors []layout.Tensor
	names   *layout.Names
	renamed []naming   // those of weights, one for the same ends
	tails   *tails     // of all names, once they were asked for
	recent  [8]example // of different forms, found last
	turn    int        // the next of recent to go
	shaping shaping
}

// weight is a Weight in few bytes and without pointers: opening a checkpoint makes tens of thousands.
type weight struct {
	first   uint32 // position of the first part in Table.parts
	found   uint32 // position in Table.found
	spelled uint32 // position of the name in Table.spelled, if convention spells
	parts   uint8
	named   naming
}

// naming is one more than the position of the convention that gives a weight a name other than its codes', or 0.
type naming uint8

// ends returns the ends of the codes' name and of the weight's.
func (n naming) ends() (codes, name string) {
	if n == 0 {
		return "", ""
	}
	c := &conventions[n-1]
	return c.codes, c.name
}

// A finding is what was found out about weights that are alike: shape and form, or an error.
type finding struct {
	shape []int
	form  *Form
	err   error
}

// pending is a weight whose shape waits for contents, which begin at a place in Table.Wants.
type pending struct {
	evidence
	weight uint32
	wants  uint32
}

// evidence is what tells the form of a weight, beside its parts.
type evidence struct {
	c        *convention
	end      uint8    // of the scale's name, in c.scales
	layer    []byte   // the path of the layer
	contents [][]byte // of the parts whose roles c wants, in their order
}

// An example is a finding, and all that decided about it.
type example struct {
	found uint32
	parts []Part
	evidence
	params
}

// keep makes x the example of a finding, whose evidence may change afterwards.
func (x *example) keep(found uint32, parts []Part, e *evidence, p params) {
	contents := x.contents[:0]
	for i, b := range e.contents {
		var room []byte
		if i < len(x.contents) {
			room = x.contents[i][:0]
		}
		contents = append(contents, append(room, b...))
	}
	*x = example{found, parts, *e, p}
	x.contents = contents
}

// Len returns the number of weights. No table has none.
func (t *Table) Len() int {
	if t == nil {
		return 0
	}
	return len(t.weights)
}

// Weight returns the i-th weight, without allocating. It must not be modified.
func (t *Table) Weight(i int) Weight {
	w := &t.weights[i]
	f := &t.found[w.found]
	return Weight{Name: t.nameOf(w), Shape: f.shape, Parts: t.partsOf(w), Err: f.err, Form: f.form}
}

// Codes returns the position of the tensor that holds the codes of the i-th weight.
func (t *Table) Codes(i int) uint32 { return t.parts[t.weights[i].first].Tensor }

// Renames reports whether the name of the i-th weight is not that of its codes.
func (t *Table) Renames(i int) bool { return t.weights[i].named != 0 }

// Err returns why the i-th weight cannot be decoded, or nil.
func (t *Table) Err(i int) error { return t.found[t.weights[i].found].err }

func (t *Table) partsOf(w *weight) []Part { return t.parts[w.first:][:w.parts:w.parts] }

// codesOf returns the tensor that holds the codes of w.
func (t *Table) codesOf(w *weight) *layout.Tensor { return &t.tensors[t.parts[w.first].Tensor] }

func (t *Table) nameOf(w *weight) []byte {
	name := t.codesOf(w).Name
	codes, end := w.named.ends()
	n := len(name) - len(codes) + len(end)
	if end != "" {
		name = t.spelled[w.spelled:]
	}
	return name[:n:n]
}

// Complete finishes the table, once all contents are there. It must be called once.
func (t *Table) Complete() {
	for i := range t.pending {
		p := &t.pending[i]
		if w := &t.weights[p.weight]; t.found[w.found].err == nil {
			n := 0
			for _, part := range t.partsOf(w) {
				if p.c.wants(part) {
					n++
				}
			}
			p.contents = t.Contents[p.wants:][:n]
			t.shape(w, &p.evidence)
		}
	}
	t.pending, t.Wants, t.Contents = nil, nil, nil
	for i := range t.weights {
		w := &t.weights[i]
		if t.Renames(i) {
			t.enter(w, i)
		}
		if t.found[w.found].err != nil {
			t.refused(w)
		}
		t.Hidden += int(w.parts) - 1
	}
	t.recent, t.shaping, t.tails, t.source = [8]example{}, shaping{}, nil, nil
}

// enter checks that no weight before w, the i-th, has its name.
func (t *Table) enter(w *weight, i int) {
	if t.found[w.found].err != nil {
		return
	}
	name := t.nameOf(w)
	if len(t.renamed) > 1 {
		for j := range t.called(string(name)) {
			if j < i {
				t.fail(w, misfit("tensor %s has codes of the same weight", layout.Quote(t.codesOf(&t.weights[j]).Name)))
				return
			}
		}
	}
}

// refused takes all parts but the codes from w.
func (t *Table) refused(w *weight) {
	parts := t.partsOf(w)
	for _, p := range parts[1:] {
		if t.Of[p.Tensor] == t.Of[parts[0].Tensor] {
			t.Of[p.Tensor] = 0
		}
	}
	w.parts, w.named = 1, 0
}

// note adds a finding, and returns its position.
func (t *Table) note(f finding) uint32 {
	t.found = append(t.found, f)
	return uint32(len(t.found) - 1)
}

// fail notes why w cannot be decoded, unless something else is noted.
func (t *Table) fail(w *weight, err error) {
	if t.found[w.found].err == nil {
		w.found = t.note(finding{err: err})
	}
}

// Find returns the position of the weight called name, if no tensor is called so. It allocates nothing.
func (t *Table) Find(name string) (i int, ok bool) {
	for i := range t.called(name) {
		return i, true
	}
	return 0, false
}

// called yields the weights called name whose codes have another name.
func (t *Table) called(name string) iter.Seq[int] {
	return func(yield func(int) bool) {
		for _, n := range t.renamed {
			codesEnd, end := n.ends()
			stem, ok := strings.CutSuffix(name, end)
			if !ok {
				continue
			}
			for p := t.names.Probe(layout.HashNameParts(stem, codesEnd)); ; {
				codes, ok := p.Next()
				if !ok {
					break
				}
				if t.Of[codes] == 0 {
					continue
				}
				i := int(t.Of[codes] - 1)
				if w := &t.weights[i]; t.Codes(i) == uint32(codes) && t.found[w.found].err == nil && string(t.nameOf(w)) == name {
					if !yield(i) {
						return
					}
				}
			}
		}
	}
}

// mostContent bounds a tensor whose content is asked for. Descriptions in JSON take about 300 bytes.
const mostContent = 64 << 10

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
	f := finder{Table: &Table{limits: lim, tensors: tensors, names: names, source: source, found: make([]finding, 1, 16)}}
	for i := range tensors {
		k := kinds[tensors[i].DType]
		if k == 0 {
			f.unusual(uint32(i))
			continue
		}
		if err := f.tensor(uint32(i), k); err != nil {
			return nil, err
		}
	}
	if err := f.leftOver(); err != nil {
		return nil, err
	}
	if err := f.described(); err != nil {
		return nil, err
	}
	f.namesakes()
	f.strangers()
	if len(f.Wants) > 0 {
		f.Contents = make([][]byte, len(f.Wants))
	} else if len(f.weights) > 0 {
		f.Complete()
	}
	return f.Table, nil
}

// kind is a set of types that codes have.
type kind uint16

const (
	float8 kind = 1 << iota
	bytes8      // U8
	ints8       // I8
	words       // I32
	uwords      // U32
	shorts      // I16
	longs       // I64
	blocks      // NVFP4
	float4      // F4, whose shape counts codes
	float6      // F6_E2M3, F6_E3M2

	kindBits = iota

	// lonely are types whose values mean nothing without a scale.
	lonely = float4 | float6 | float8
)

var kinds = [256]kind{
	layout.F8_E4M3: float8, layout.F8_E5M2: float8, layout.F8_E4M3FNUZ: float8, layout.F8_E5M2FNUZ: float8,
	layout.U8: bytes8, layout.I8: ints8, layout.I32: words, layout.U32: uwords, layout.I16: shorts, layout.I64: longs, layout.NVFP4: blocks,
	layout.F4: float4, layout.F6_E2M3: float6, layout.F6_E3M2: float6,
}

// finder finds the weights of one checkpoint.
type finder struct {
	*Table
	refused uint32 // the finding of conf, or 0
	buf     []byte
	may     [kindBits][]suspect // by kind, once they were asked for
	near    [256]hint
	alone   []uint32 // tensors that may be codes, and follow no convention
	ends    []string // of the names of codes, behind the name of their weight or layer
	// All that tells about one weight, its contents too, and the memory that they lie in.
	evidence evidence
	contents [][]byte
	bytes    []byte
}

// A suspect is a convention that some weight may follow, for all that the ends of names tell.
type suspect struct {
	*convention
	named  naming      // by its position
	ends   []uint8     // of scales
	others []companion // that some tensor's name ends like
}

// configuration returns the configuration, which it asks for once.
func (f *finder) configuration() (_ *Config, err error) {
	if f.conf == nil {
		if f.conf, err = f.source.Config(); err != nil {
			return nil, err
		}
		if err := f.conf.refusal(); err != nil {
			f.refused = f.note(finding{err: err})
		}
		f.overridden()
	}
	return f.conf, nil
}

// overridden notes the paths for which the configuration has parameters and the checkpoint no layer.
func (f *finder) overridden() {
	for i := range f.conf.over {
		o := &f.conf.over[i]
		path := []byte(o.path)
		here := slices.ContainsFunc([]string{".weight", "", ".qweight", ".weight_packed"}, func(end string) bool {
			_, ok := f.lookup(path, end)
			return ok
		})
		if here || f.source.Ignored(path) {
			continue
		}
		if f.Unmatched++; f.Unmatched == 1 {
			f.UnmatchedPath = o.path
		}
		if p := f.conf.parameters(o); !p.plain && len(f.conf.astray) < mostGroups && !slices.ContainsFunc(f.conf.astray, func(q astray) bool { return q.params == p }) {
			f.conf.astray = append(f.conf.astray, astray{o.path, p})
		}
	}
}

// A hint remembers where the last lookup of a name's end began and ended, and how far that lay behind the lookup before.
type hint struct{ from, to, step uint32 }

// find returns the tensor called stem and end, which belongs to tensor from, unless it is to be left out.
func (f *finder) find(from uint32, stem []byte, end string) (uint32, bool) {
	i, ok := f.guess(from, stem, end)
	return i, ok && !f.source.Ignored(f.tensors[i].Name)
}

// guess finds a tensor by its name. Most files have each weight with its parts, or all parts of a kind together, so a
// hint tells where the next one is. Otherwise the name is looked up.
func (f *finder) guess(from uint32, stem []byte, end string) (uint32, bool) {
	h := &f.near[0]
	if n := len(end); n > 1 { // two ends that share a hint cost lookups
		h = &f.near[(16*uint(end[n-2])+uint(n))%uint(len(f.near))]
	}
	for _, i := range [...]uint32{from + h.to - h.from, h.to + h.step} {
		if i < uint32(len(f.tensors)) && isCalled(f.tensors[i].Name, stem, end) {
			*h = hint{from, i, i - h.to}
			return i, true
		}
	}
	i, ok := f.lookup(stem, end)
	if ok {
		*h = hint{from, i, i - h.to}
	}
	return i, ok
}

// isCalled reports whether name is stem and end.
func isCalled(name, stem []byte, end string) bool {
	return len(name) == len(stem)+len(end) && string(name[len(stem):]) == end && bytes.Equal(name[:len(stem)], stem)
}

// lookup returns the tensor called stem and end.
func (f *finder) lookup(stem []byte, end string) (uint32, bool) {
	f.buf = append(append(f.buf[:0], stem...), end...)
	return f.named(f.buf, layout.HashNameBytes(f.buf))
}

// named returns the tensor that has a name with this hash.
func (t *Table) named(name []byte, hash uint64) (uint32, bool) {
	for p := t.names.Probe(hash); ; {
		i, ok := p.Next()
		if !ok {
			return 0, false
		}
		if bytes.Equal(t.tensors[i].Name, name) {
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
	list := f.suspects(k)
	for at := range list {
		c := &list[at]
		if !hasSuffix(name, c.codes) {
			continue
		}
		stem := name[:len(name)-len(c.codes)]
		s, end, ok, err := f.scaleOf(c, i, stem)
		if err != nil {
			return err
		}
		if ok {
			return f.add(c, i, s, stem, end)
		}
		if c.sure {
			return f.withoutScale(c, i, stem)
		}
	}
	f.alone = append(f.alone, i)
	return nil
}

// withoutScale rejects codes whose name is that of a convention, and which have no scale.
func (f *finder) withoutScale(c *suspect, codes uint32, stem []byte) error {
	conf, err := f.configuration()
	if err != nil {
		return err
	}
	scheme := c.scheme
	if scheme == GPTQ { // whose parts have the names of AWQ's
		if scheme = "awq or gptq"; conf.method == AWQ || conf.method == GPTQ {
			scheme = conf.method
		}
	}
	f.reject(codes, misfit("codes of %s without their scale %s", scheme, layout.Quote(append(slices.Clone(stem), c.scales[0]...))))
	return nil
}

func hasSuffix(name []byte, end string) bool {
	return len(name) >= len(end) && string(name[len(name)-len(end):]) == end
}

// scaleOf returns the tensor by which codes with a stem are known, and which of the convention's ends
// it has. The error is about the configuration.
func (f *finder) scaleOf(c *suspect, codes uint32, stem []byte) (tensor uint32, which uint8, ok bool, err error) {
	for _, i := range c.ends {
		s, ok := f.find(codes, stem, c.scales[i])
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
			return s, i, true, nil
		}
	}
	return 0, 0, false, nil
}

// unusual notes a tensor that may be codes by its name, although its type is none that codes have.
func (f *finder) unusual(i uint32) {
	t := &f.tensors[i]
	if scaleKinds[t.DType]&floats == 0 || hasSuffix(t.Name, "weight") || endsLikeCodes(t.Name) { // most tensors are floats
		f.alone = append(f.alone, i)
	}
}

// leftOver refuses what may be codes and is no part of a weight: whatever has a companion of codes beside it, and without one
// floats of 8 bits, and integers if the checkpoint is said to be quantized.
func (f *finder) leftOver() error {
	var why [256]uint32 // findings by type: a file may have a great many tensors
	left := f.alone[:0]
	for _, i := range f.alone {
		t := &f.tensors[i]
		if f.Of != nil && f.Of[i] != 0 {
			continue
		}
		k := kinds[t.DType]
		matrix := len(t.Shape) >= 2 && (hasSuffix(t.Name, "weight") || endsLikeCodes(t.Name)) // .qweight too
		beside, err := f.companionOf(i)
		if err != nil {
			return err
		}
		unscaled, err := f.unscaled(i)
		if err != nil {
			return err
		}
		switch {
		case beside != nil:
			if err := f.withCompanion(i, beside); err != nil {
				return err
			}
		case unscaled:
			f.reject(i, misfit("floats without their scale (%s), in a checkpoint of bitnet that has scales", unpackedScale))
		case k&lonely != 0 && (len(t.Shape) >= 2 || hasSuffix(t.Name, "weight")):
			left = append(left, i)
			if why[t.DType] == 0 {
				why[t.DType] = f.note(finding{err: unsupported("%v without a scale: it may be codes, whose values are orders of magnitude away", t.DType)})
			}
		case k != 0 && k&(lonely|blocks) == 0 && matrix:
			conf, err := f.configuration()
			if err != nil {
				return err
			}
			if !conf.Says() {
				continue
			}
			left = append(left, i)
			if why[t.DType] = cmp.Or(why[t.DType], f.refused); why[t.DType] == 0 {
				why[t.DType] = f.note(finding{err: misfit("%v without a scale, in a checkpoint whose configuration says that it is quantized", t.DType)})
			}
		}
	}
	if len(left) > 0 {
		f.begin(1, len(left))
	}
	for _, i := range left {
		f.refuse(i, why[f.tensors[i].DType])
	}
	return nil
}

// withCompanion refuses a tensor that has a companion of codes beside it and follows no convention. BitNet's weights may be
// floats.
func (f *finder) withCompanion(i uint32, beside []byte) error {
	t := &f.tensors[i]
	conf, err := f.configuration()
	if err != nil {
		return err
	}
	isFloat := scaleKinds[t.DType]&floats != 0
	switch stem, ok := bytes.CutSuffix(t.Name, weightEnd); {
	case isFloat && ok && conf.rounded: // the scale tells how they were
	case f.refused != 0:
		f.refuse(i, f.refused)
	case isFloat && ok && conf.method == "bitnet" && hasSuffix(beside, unpackedScale):
		scale, _ := f.lookup(stem, unpackedScale)
		return f.add(&suspect{convention: &unpackedBitNet}, i, scale, stem, 0)
	case isFloat && !conf.Says():
		f.reject(i, unsupported("floats beside %s without a configuration (config.json) that says what it does", layout.Quote(beside)))
	default:
		f.reject(i, unsupported("%v beside %s: no scheme that is known has them (--ignore-part %[2]s or Options.IgnorePart takes it for what it is)", t.DType, layout.Quote(beside)))
	}
	return nil
}

// MayBeCodes reports whether a tensor that is no part of a weight looks like codes: integers of 8 bits that are
// called weight.
func MayBeCodes(t *layout.Tensor) bool {
	return (t.DType == layout.I8 || t.DType == layout.U8) && len(t.Shape) >= 2 && hasSuffix(t.Name, "weight")
}

// besides lists how the names of tensors end that tell of codes beside them, by the end of the codes' names.
var besides = [...]struct {
	codes  string
	ends   []string
	floats answered // of codes that are floats too; unsaid: if the checkpoint is said to be quantized
}{
	{"", []string{"_scale", "_scales", "_scale_inv", "_scale_2", "_zero_point", ".absmax", ".quant_map"}, no},
	{".weight", []string{".weight_scale", ".weight_scale_inv", ".weight_scale_2", ".weight.absmax", ".scale_weight", ".qscale_weight", ".weights_scaling_factor", ".SCB", ".comfy_quant"}, yes},
	{".weight", []string{".scale"}, no},
	{".weight", []string{".scales"}, unsaid},
	{"_blocks", []string{"_scales"}, yes},
	{"_packed", []string{"_scale", "_global_scale"}, yes},
	{".W_q", []string{".scale", ".zero"}, yes},
	{".qweight", []string{".scales", ".qzeros"}, yes},
}

// endsLikeCodes reports whether a name is one of codes and of nothing else.
func endsLikeCodes(name []byte) bool {
	return hasSuffix(name, ".qweight") || hasSuffix(name, "_packed") || hasSuffix(name, "_blocks") || hasSuffix(name, ".W_q")
}

// companionOf returns the name of a tensor that codes have beside them, whatever its type, or nil.
func (f *finder) companionOf(codes uint32) ([]byte, error) {
	t := &f.tensors[codes]
	isFloat := scaleKinds[t.DType]&floats != 0
	for i := range besides {
		b := &besides[i]
		stem := t.Name[:max(len(t.Name)-len(b.codes), 0)]
		if !hasSuffix(t.Name, b.codes) || isFloat && b.floats == no {
			continue
		}
		for _, end := range b.ends {
			if !f.mayEnd([]byte(end)) {
				continue
			}
			i, ok := f.find(codes, stem, end)
			if ok && isFloat && b.floats == unsaid {
				conf, err := f.configuration()
				if err != nil {
					return nil, err
				}
				ok = conf.Says()
			}
			if ok {
				return f.tensors[i].Name, nil
			}
		}
	}
	return nil, nil
}

// reject enters codes that cannot be decoded.
func (f *finder) reject(codes uint32, err error) { f.refuse(codes, f.note(finding{err: err})) }

// refuse enters codes that cannot be decoded, for a reason that is noted.
func (f *finder) refuse(codes, why uint32) {
	f.begin(1, 1+len(f.tensors)/2)
	f.parts = append(f.parts, Part{Codes, codes})
	w := f.next(1)
	w.found = why
	f.claim(w)
}

// begin takes memory for a number of weights with a number of parts each, if none has been taken yet.
func (f *finder) begin(parts, weights int) {
	if f.Of == nil {
		f.weights, f.parts = make([]weight, 0, weights), slices.Grow(f.parts, parts*weights)
		f.Of = make([]uint32, len(f.tensors))
	}
}

// next adds a weight that owns the last entries of f.parts, as many as parts says. It has the name of its codes.
func (f *finder) next(parts int) *weight {
	first := len(f.parts) - parts
	f.weights = append(f.weights, weight{first: uint32(first), parts: uint8(parts)})
	return &f.weights[len(f.weights)-1]
}

// claim makes the parts of w, the last weight, its own. A weight that has a part of another is refused.
func (f *finder) claim(w *weight) {
	at := uint32(len(f.weights))
	for _, p := range f.partsOf(w) {
		other := f.Of[p.Tensor]
		switch {
		case other == 0:
			f.Of[p.Tensor] = at
		case other != at:
			f.fail(w, misfit("tensor %s is a part of %s too", layout.Quote(f.tensors[p.Tensor].Name), layout.Quote(f.nameOf(&f.weights[other-1]))))
		}
	}
}

// add enters the weight of a convention whose codes and scale were found.
func (f *finder) add(c *suspect, codes, scale uint32, stem []byte, end uint8) error {
	if _, err := f.configuration(); err != nil {
		return err
	}
	if c.inward {
		codes, scale = scale, codes
	}
	if f.refused != 0 {
		f.refuse(codes, f.refused)
		return nil
	}
	if c.form == nil {
		f.reject(codes, unsupported("%s is not decoded", c.scheme))
		return nil
	}
	first := len(f.parts)
	f.parts = append(f.parts, Part{Codes, codes}, Part{c.role, scale})
	layer := bytes.TrimSuffix(stem, weightEnd)
	name := f.tensors[codes].Name
	f.noteEnd(name[len(stem):])
	f.noteEnd(name[len(layer):])
	for i := range c.others {
		o := &c.others[i]
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
	w := f.next(parts)
	if c.name != c.codes && !c.inward {
		f.rename(w, c.named, stem)
	}
	f.claim(w)
	if f.found[w.found].err != nil {
		return nil
	}
	f.evidence = evidence{c: c.convention, end: end, layer: layer}
	return f.want(w, &f.evidence)
}

// rename gives w, the last weight, a name other than that of its codes: the same stem with another end.
func (f *finder) rename(w *weight, n naming, stem []byte) {
	w.named = n
	codes, end := n.ends()
	if !slices.ContainsFunc(f.renamed, func(n naming) bool { a, b := n.ends(); return a == codes && b == end }) {
		f.renamed = append(f.renamed, n)
	}
	if end == "" { // the codes' name begins so
		return
	}
	if f.spelled == nil {
		f.spelled = make([]byte, 0, cap(f.weights)*(len(stem)+len(end)+4)) // numbers grow
	}
	w.spelled = uint32(len(f.spelled))
	f.spelled = append(append(f.spelled, stem...), end...)
}

// wants reports whether the content of a part decides about shapes.
func (c *convention) wants(p Part) bool {
	return c.contents>>p.Role&1 != 0
}

// want finds shape and form of w, the last weight, or asks for contents that tell.
func (f *finder) want(w *weight, e *evidence) error {
	f.contents, f.bytes = f.contents[:0], f.bytes[:0]
	atHand, parts := true, f.partsOf(w)
	for _, p := range parts {
		if !e.c.wants(p) {
			continue
		}
		size := f.tensors[p.Tensor].Raw
		if size > mostContent {
			f.fail(w, misfit("tensor %s has %d bytes, more than %d", layout.Quote(f.tensors[p.Tensor].Name), size, mostContent))
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
		e.contents = f.contents
		f.shape(w, e)
		return nil
	}
	at := uint32(len(f.weights) - 1)
	f.pending = append(f.pending, pending{*e, at, uint32(len(f.Wants))})
	for _, p := range parts {
		if e.c.wants(p) {
			f.Wants = append(f.Wants, p.Tensor)
		}
	}
	return nil
}

// shape finds shape and form of w. Many weights have those of another.
func (t *Table) shape(w *weight, e *evidence) {
	parts := t.partsOf(w)
	single := len(t.conf.groups) <= 1 && len(t.conf.layers) == 0 && len(t.conf.dynamic) == 0 // else one may name w's layer
	for i := range t.recent {
		r := &t.recent[i]
		if single && r.c == e.c && r.end == e.end && (len(t.conf.over) == 0 || r.params == t.conf.ask(e.layer).own) && t.alike(parts, r.parts, e.c) && slices.EqualFunc(e.contents, r.contents, bytes.Equal) {
			w.found = r.found
			return
		}
	}
	p := t.conf.ask(e.layer).own
	if p.err != nil {
		t.fail(w, p.err)
		return
	}
	full := Weight{Name: t.nameOf(w), Parts: parts}
	t.shaping = shaping{Table: t, w: &full, evidence: *e, params: p, sizes: t.shaping.sizes[:0]}
	if err := t.shaping.run(); err != nil {
		t.fail(w, err)
		return
	}
	w.found = t.note(finding{shape: full.Shape, form: full.Form})
	if single {
		t.recent[t.turn%len(t.recent)].keep(w.found, parts, e, p)
		t.turn++
	}
}

// alike reports whether parts of two weights of a convention have the same types and shapes. Those
// whose contents decide must have names that end alike. Most layers of a model are alike.
func (t *Table) alike(a, b []Part, c *convention) bool {
	if len(a) != len(b) {
		return false
	}
	for i, p := range a {
		q := b[i]
		x, y := &t.tensors[p.Tensor], &t.tensors[q.Tensor]
		if p.Role != q.Role || x.DType != y.DType || !slices.Equal(x.Shape, y.Shape) || c.wants(p) && last(x.Name) != last(y.Name) {
			return false
		}
	}
	return true
}

// suspects returns the conventions that codes of kind k may follow.
func (f *finder) suspects(k kind) []suspect {
	list := &f.may[bits.TrailingZeros16(uint16(k))]
	if *list == nil {
		*list = []suspect{}
		for i := range conventions {
			if c := &conventions[i]; c.kinds&k != 0 {
				if s := f.suspect(i); len(s.ends) > 0 || c.sure {
					*list = append(*list, s)
				}
			}
		}
	}
	return *list
}

// suspect returns what may be there of the companions of the i-th convention.
func (f *finder) suspect(i int) suspect {
	c := &conventions[i]
	s := suspect{convention: c, named: naming(i + 1)}
	for i, end := range c.scales {
		if f.mayEnd([]byte(end)) {
			s.ends = append(s.ends, uint8(i))
		}
	}
	for _, o := range c.others {
		if f.mayEnd([]byte(o.end)) {
			s.others = append(s.others, o)
		}
	}
	return s
}

// tails is a set of the last five, eight and sixteen bytes of names, by their hash. It spares lookups of names that
// no tensor has.
type tails struct {
	set  [1 << tailBits / 64]uint64
	seen [1 << seenBits]uint64 // ends added last: most names end like others
}

const tailBits, seenBits = 15, 4

// add adds the ends of a name.
func (t *tails) add(name []byte) {
	end := last(name)
	long := end ^ mixed(before(name))
	v := hashed(long)
	if seen := &t.seen[v>>(tailBits-seenBits)]; *seen != long || long == 0 {
		*seen = long
		for _, tail := range [...]uint32{hashed(end >> 24), hashed(end), v} {
			t.set[tail/64] |= 1 << (tail % 64)
		}
	}
}

// has reports whether some name may end so.
func (t *tails) has(end []byte) bool {
	tail := last(end)
	switch n := len(end); {
	case n >= 16:
		tail ^= mixed(before(end))
	case n >= 8:
	case n >= 5:
		tail >>= 24
	default:
		return true
	}
	v := hashed(tail)
	return t.set[v/64]&(1<<(v%64)) != 0
}

// last returns the last eight bytes of a name, with zeros before a shorter one.
func last(name []byte) uint64 {
	if len(name) >= 8 {
		return binary.LittleEndian.Uint64(name[len(name)-8:])
	}
	var b [8]byte
	copy(b[8-len(name):], name)
	return binary.LittleEndian.Uint64(b[:])
}

func hashed(end uint64) uint32 { return uint32(end * 0x9e3779b97f4a7c15 >> (64 - tailBits)) }

// before returns the eight bytes before the last eight of a name, with zeros before a shorter one.
func before(name []byte) uint64 {
	if len(name) >= 16 {
		return binary.LittleEndian.Uint64(name[len(name)-16:])
	}
	return last(name[:max(len(name)-8, 0)])
}

// mixed spreads the bits of v, for hashed to tell apart what it is combined with.
func mixed(v uint64) uint64 { return bits.RotateLeft64(v, 32) * 0xff51afd7ed558ccd }

// mayEnd reports whether some tensor's name may end so.
func (t *Table) mayEnd(end []byte) bool {
	if t.tails == nil {
		t.tails = new(tails)
		for i := range t.tensors {
			t.tails.add(t.tensors[i].Name)
		}
	}
	return t.tails.has(end)
}

var weightEnd = []byte(".weight")
