package loader

import (
	"cmp"
	"slices"
)

// portion is a run of bytes of one file that is read at once.
type portion struct {
	file   *file
	off, n uint64

	resident uint64 // bytes of a mapped file that are in memory before anything is read
	parts    []part // what of it is for which tensor; none where the file is mapped
}

// portions are laid one behind the other, tensor by tensor: what follows its predecessor in
// the file, but for padding, goes with it.
type portions struct {
	most  uint64 // bytes of a portion
	list  []portion
	total uint64 // bytes of all

	covered map[*file]*spans // of mapped files
}

const (
	mostPortion  = 16 << 20
	leastPortion = 64 << 10
)

// newPortions are for reading at a rate; 0 is as fast as it goes.
func newPortions(bytesPerSecond uint64) portions {
	if bytesPerSecond == 0 {
		return portions{most: mostPortion}
	}
	// A steady trickle rather than gulps.
	return portions{most: min(max(bytesPerSecond/32, leastPortion), mostPortion)}
}

// add lays t behind what is there. Of a mapped file that is what no tensor before it has
// covered: formats may have one tensor inside another.
func (p *portions) add(t Tensor) {
	s := span{t.desc.Offset, t.desc.Offset + t.desc.Stored}
	if !t.file.mapping.Aliased() {
		p.lay(t.file, s, &load{tensor: t})
		return
	}
	covered := p.covered[t.file]
	if covered == nil {
		if p.covered == nil {
			p.covered = make(map[*file]*spans)
		}
		covered = new(spans)
		p.covered[t.file] = covered
	}
	for _, fresh := range covered.add(s) {
		p.lay(t.file, fresh, nil)
	}
}

func (p *portions) lay(f *file, s span, l *load) {
	for off := s.off; off < s.end; {
		last := p.behind(f, off)
		gap := off - (last.off + last.n)
		n := min(s.end, last.off+p.most) - off
		if l != nil {
			last.parts = append(last.parts, part{load: l, at: off - s.off, gap: gap, n: n})
		}
		last.n += gap + n
		p.total += gap + n
		off += n
	}
}

// padding is how far tensors of f that count as neighbours may be apart: what the files that
// promise no alignment are written with, or what this one promises, up to a page.
func padding(f *file) uint64 { return min(max(64, f.index.Align), 4096) }

// behind is the portion that off goes to: the last one, or a new one.
func (p *portions) behind(f *file, off uint64) *portion {
	if n := len(p.list); n > 0 {
		last := &p.list[n-1]
		end := last.off + last.n
		if last.file == f && off >= end && off-end < padding(f) && off-last.off < p.most {
			return last
		}
	}
	p.list = append(p.list, portion{file: f, off: off})
	return &p.list[len(p.list)-1]
}

// span is a run of bytes of a file, up to end.
type span struct{ off, end uint64 }

// spans is a set of bytes: ascending spans that neither overlap nor touch.
type spans []span

// add puts s into the set, and answers with what of it was not there.
func (l *spans) add(s span) (fresh []span) {
	if s.off >= s.end {
		return nil
	}
	// Those from i to j-1 become one with s.
	i, _ := slices.BinarySearchFunc(*l, s.off, func(x span, off uint64) int { return cmp.Compare(x.end, off) })
	j := i
	whole, at := s, s.off
	for ; j < len(*l) && (*l)[j].off <= s.end; j++ {
		x := (*l)[j]
		if at < x.off {
			fresh = append(fresh, span{at, x.off})
		}
		at = max(at, x.end)
		whole = span{min(whole.off, x.off), max(whole.end, x.end)}
	}
	if at < s.end {
		fresh = append(fresh, span{at, s.end})
	}
	*l = slices.Replace(*l, i, j, whole)
	return fresh
}
