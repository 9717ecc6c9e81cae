package scheme

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"math/bits"
	"slices"

	"github.com/tensormap/tensormap/layout"
)

// A Table lists the quantized weights of a checkpoint.
type Table struct {
	Weights []Weight
	// Of has, for every stored tensor, one more than the position of the weight that it is a part of, or
	// 0. It is nil if there are no weights.
	Of []uint32
	// Wants lists the tensors whose content decides about shapes and was not at hand. The caller puts their
	// bytes into Contents, in the same order, and they must not change until Complete returns.
	Wants    []Want
	Contents [][]byte

	pending []pending
	limits  layout.Limits
	conf    *Config // once it was asked for
	tensors []layout.Tensor
	names   *layout.Names
	own     *layout.Names // of the weights whose names no tensor has
	recent  [8]example    // of different forms, found last
	turn    int           // the next of recent to go
	shaping shaping
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

// An example is a weight with its form, and all that decided about it.
type example struct {
	w *Weight
	evidence
	params
}

// keep makes w the example, whose evidence may change afterwards.
func (x *example) keep(w *Weight, e *evidence, p params) {
	contents := x.contents[:0]
	for i, b := range e.contents {
		var room []byte
		if i < len(x.contents) {
			room = x.contents[i][:0]
		}
		contents = append(contents, append(room, b...))
	}
	*x = example{w, *e, p}
	x.contents = contents
}

// Complete finishes the table, once all contents are there. It must be called once.
func (t *Table) Complete() {
	for i := range t.pending {
		p := &t.pending[i]
		if w := &t.Weights[p.weight]; w.Err == nil {
			p.contents = t.Contents[p.wants:][:p.c.wanted(w)]
			t.shape(w, &p.evidence)
		}
	}
	t.pending, t.Wants, t.Contents, t.recent, t.shaping = nil, nil, nil, [8]example{}, shaping{}
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
	if bytes.Equal(w.Name, t.tensors[w.Parts[0].Tensor].Name) {
		return
	}
	if t.own == nil {
		t.own = layout.NewNames(len(t.Weights))
	}
	hash := layout.HashNameBytes(w.Name)
	if i, ok := t.named(w.Name, hash); ok {
		w.fail(misfit("the weight has the name of the tensor %s", layout.Quote(t.tensors[i].Name)))
		return
	}
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

// A Source knows what belongs to the tensors of a checkpoint.
type Source interface {
	// Config returns the configuration. Find asks at most once, and not if no tensor may be part of a
	// quantized weight.
	Config() (*Config, error)
	// Content reads the bytes of a tensor, Raw of them, into p. It reports false if they are not at hand.
	Content(tensor uint32, p []byte) (bool, error)
}

// Find finds the quantized weights among the tensors of a checkpoint, which names finds. The error is
// that of the source.
//
// If the table wants contents, the caller supplies them and then calls Complete.
func Find(tensors []layout.Tensor, names *layout.Names, lim layout.Limits, source Source) (*Table, error) {
	f := finder{Table: &Table{limits: lim, tensors: tensors, names: names}, source: source}
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

	kindBits = iota
)

var kinds = [256]kind{
	layout.F8_E4M3: float8, layout.F8_E5M2: float8, layout.F8_E4M3FNUZ: float8, layout.F8_E5M2FNUZ: float8,
	layout.U8: bytes8, layout.I8: ints8, layout.I32: words, layout.U32: uwords, layout.I16: shorts, layout.I64: longs, layout.NVFP4: blocks,
}

// finder finds the weights of one checkpoint.
type finder struct {
	*Table
	source  Source
	refused error // by conf
	buf     []byte
	parts   []Part
	spelled []byte              // names that no tensor has
	tails   *tails              // of all names, once they were asked for
	may     [kindBits][]suspect // by kind, once they were asked for
	near    [256]hint
	alone   []uint32 // tensors that may be codes, for which no companion was found
	// The contents of one weight, and the memory that they lie in.
	contents [][]byte
	bytes    []byte
}

// A suspect is a convention that some weight may follow, for all that the ends of names tell.
type suspect struct {
	*convention
	ends   []uint8     // of scales
	others []companion // that some tensor's name ends like
}

// configuration returns the configuration, which it asks for once.
func (f *finder) configuration() (_ *Config, err error) {
	if f.conf == nil {
		if f.conf, err = f.source.Config(); err != nil {
			return nil, err
		}
		f.refused = f.conf.refusal()
	}
	return f.conf, nil
}

// A hint says where the tensor was that a name's end led to, from another one, and how far from the one before.
type hint struct{ from, to, step uint32 }

// find returns the tensor called stem and end, which belongs to tensor from. Weights lie in one order, each
// with its parts or all parts of a kind together: the place of the last one tells the next. Else the name is
// looked up.
func (f *finder) find(from uint32, stem []byte, end string) (uint32, bool) {
	h := &f.near[0]
	if n := len(end); n > 1 { // another end in its place costs a lookup
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
	for _, c := range f.suspects(k) {
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

// scaleOf returns the tensor by which codes with a stem are known, and which of the convention's ends
// it has. The error is that of the configuration.
func (f *finder) scaleOf(c suspect, codes uint32, stem []byte) (tensor uint32, which uint8, ok bool, err error) {
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

// leftOver refuses what may be codes and is no part of a weight: floats of 8 bits without a scale, and
// integers of a checkpoint that is said to be quantized.
func (f *finder) leftOver() error {
	var why [256]error // by type: a file may have a great many
	left := f.alone[:0]
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
				left = append(left, i)
			}
			if conf.Says() && why[t.DType] == nil {
				why[t.DType] = cmp.Or(f.refused, misfit("%v without a scale, in a checkpoint whose configuration says that it is quantized", t.DType))
			}
		case len(t.Shape) >= 2 || hasSuffix(t.Name, "weight"):
			left = append(left, i)
			if why[t.DType] == nil {
				why[t.DType] = unsupported("%v without a scale: it may be codes, whose values are orders of magnitude away", t.DType)
			}
		}
	}
	if len(left) > 0 && f.Weights == nil {
		f.Weights, f.Of = make([]Weight, 0, len(left)), make([]uint32, len(f.tensors))
	}
	for _, i := range left {
		f.refuse(i, why[f.tensors[i].DType])
	}
	f.alone = nil
	return nil
}

// refuse enters codes that cannot be decoded.
func (f *finder) refuse(codes uint32, err error) {
	w := f.next(2)
	w.Parts, w.Err = append(f.room(1), Part{Codes, codes}), err
	f.claim(w)
}

// next returns the weight that comes next. The first one's number of parts tells how many there may be.
func (f *finder) next(parts int) *Weight {
	if f.Weights == nil {
		f.Weights = make([]Weight, 0, 1+len(f.tensors)/parts)
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
		w.Stored += f.tensors[p.Tensor].Stored
		w.Raw += f.tensors[p.Tensor].Raw
	}
}

// fail notes why w cannot be decoded.
func (w *Weight) fail(err error) {
	if w.Err == nil {
		w.Err = err
	}
}

// add enters the weight of a convention whose codes and scale were found.
func (f *finder) add(c suspect, codes, scale uint32, stem []byte, end uint8) error {
	if _, err := f.configuration(); err != nil {
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
	parts := append(f.room(2+len(c.others)), Part{Codes, codes}, Part{c.role, scale})
	layer := bytes.TrimSuffix(stem, weightEnd)
	for _, o := range c.others {
		base := stem
		if o.layer {
			base = layer
		}
		if i, ok := f.find(codes, base, o.end); ok && i != scale {
			parts = append(parts, Part{o.role, i})
		}
	}
	w, at := f.next(len(parts)), &f.tensors[codes]
	w.Name, w.Offset, w.File, w.Encoding, w.Parts = at.Name, at.Offset, at.File, at.Encoding, parts
	switch {
	case c.name == c.codes || c.inward:
	case c.name == "":
		w.Name = slices.Clip(stem)
	default:
		n := len(stem) + len(c.name)
		f.spelled = append(append(grown(f.spelled, n), stem...), c.name...)
		w.Name = slices.Clip(f.spelled[len(f.spelled)-n:])
	}
	f.claim(w)
	if w.Err != nil {
		return nil
	}
	return f.want(w, evidence{c: c.convention, end: end, layer: layer})
}

// grown returns names with room for n more bytes. Many names share an allocation.
func grown(names []byte, n int) []byte {
	if n > cap(names)-len(names) {
		return make([]byte, 0, max(n, min(2*cap(names), 1<<16), 1<<10))
	}
	return names
}

// wants reports whether the content of a part decides about shapes.
func (c *convention) wants(p Part) bool {
	return len(c.contents) > 0 && slices.Contains(c.contents, p.Role)
}

// wanted returns how many parts of w there are whose contents decide about shapes.
func (c *convention) wanted(w *Weight) (n int) {
	for _, p := range w.Parts {
		if c.wants(p) {
			n++
		}
	}
	return n
}

// want finds shape and form of w, or asks for contents that tell.
func (f *finder) want(w *Weight, e evidence) error {
	f.contents, f.bytes = f.contents[:0], f.bytes[:0]
	atHand := true
	for _, p := range w.Parts {
		if !e.c.wants(p) {
			continue
		}
		size := f.tensors[p.Tensor].Raw
		if size > mostContent {
			w.fail(misfit("tensor %s has %d bytes, more than %d", layout.Quote(f.tensors[p.Tensor].Name), size, mostContent))
			return nil
		}
		if !atHand {
			continue
		}
		from := len(f.bytes)
		f.bytes = slices.Grow(f.bytes, int(size))[:from+int(size)] // what f.contents has of it stays where it was
		b, err := f.bytes[from:], error(nil)
		if atHand, err = f.source.Content(p.Tensor, b); err != nil {
			return err
		}
		f.contents = append(f.contents, b)
	}
	if atHand {
		e.contents = f.contents
		f.shape(w, &e)
		return nil
	}
	at := uint32(len(f.Weights) - 1)
	f.pending = append(f.pending, pending{e, at, uint32(len(f.Wants))})
	for _, p := range w.Parts {
		if e.c.wants(p) {
			f.Wants = append(f.Wants, Want{at, p.Role, p.Tensor})
		}
	}
	return nil
}

// shape finds shape and form of w. Many weights have those of another.
func (t *Table) shape(w *Weight, e *evidence) {
	single := len(t.conf.groups) <= 1 && len(t.conf.layers) == 0 // else one may name w's layer
	for i := range t.recent {
		r := &t.recent[i]
		if single && r.c == e.c && r.end == e.end && (len(t.conf.paths) == 0 || r.params == t.conf.of(e.layer)) && t.alike(w, r.w, e.c) && slices.EqualFunc(e.contents, r.contents, bytes.Equal) {
			w.Shape, w.Form = r.w.Shape, r.w.Form
			return
		}
	}
	p := t.conf.of(e.layer)
	if w.fail(p.err); w.Err != nil {
		return
	}
	t.shaping = shaping{Table: t, w: w, evidence: *e, params: p, sizes: t.shaping.sizes[:0]}
	if w.fail(t.shaping.run()); w.Err == nil && single {
		t.recent[t.turn%len(t.recent)].keep(w, e, p)
		t.turn++
	}
}

// alike reports whether two weights of a convention have parts of the same types and shapes. Those
// whose contents decide must have names that end alike. Most layers of a model are alike.
func (t *Table) alike(a, b *Weight, c *convention) bool {
	if len(a.Parts) != len(b.Parts) {
		return false
	}
	for i, p := range a.Parts {
		q := b.Parts[i]
		x, y := &t.tensors[p.Tensor], &t.tensors[q.Tensor]
		if p.Role != q.Role || x.DType != y.DType || !slices.Equal(x.Shape, y.Shape) || c.wants(p) && last(x.Name) != last(y.Name) {
			return false
		}
	}
	return true
}

// suspects returns the conventions that codes of kind k may follow.
func (f *finder) suspects(k kind) []suspect {
	list := &f.may[bits.TrailingZeros8(uint8(k))]
	if *list == nil {
		*list = []suspect{}
		for i := range conventions {
			if c := &conventions[i]; c.kinds&k != 0 {
				if s := f.suspect(c); len(s.ends) > 0 || c.sure {
					*list = append(*list, s)
				}
			}
		}
	}
	return *list
}

// suspect returns what may be there of the companions of c.
func (f *finder) suspect(c *convention) suspect {
	s := suspect{convention: c}
	for i, end := range c.scales {
		if f.ends(end) {
			s.ends = append(s.ends, uint8(i))
		}
	}
	for _, o := range c.others {
		if f.ends(o.end) {
			s.others = append(s.others, o)
		}
	}
	return s
}

// tails is a set of tails of names.
type tails [1 << tailBits / 64]uint64

const tailBits = 12

// tail returns a number of tailBits bits that the last eight bytes of a name decide, or the last five if it is
// shorter.
func tail(name string) uint32 {
	end := last([]byte(name))
	if len(name) < 8 {
		end >>= 24
	}
	return hashed(end)
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

// ends reports whether some tensor's name may end like a companion's.
func (f *finder) ends(end string) bool {
	if f.tails == nil {
		f.tails = new(tails)
		for i := range f.tensors {
			end := last(f.tensors[i].Name)
			long, short := hashed(end), hashed(end>>24)
			f.tails[long/64] |= 1 << (long % 64)
			f.tails[short/64] |= 1 << (short % 64)
		}
	}
	v := tail(end)
	return len(end) < 5 || f.tails[v/64]&(1<<(v%64)) != 0
}

var weightEnd = []byte(".weight")
