package bw2l

import (
	"strconv"

	"github.com/tensormap/tensormap/layout"
)

// index gives the arrays that walk has found names, and builds the table of tensors.
func (d *decoder) index() error {
	b, err := layout.NewBuilder(layout.BW2L, d.in.Size(), uint64(d.arrays.n), "data", d.file.lim)
	if err != nil {
		return err
	}
	b.Index().Version = strconv.Itoa(int(d.file.version))
	b.Index().Sections = make([]layout.Section, 0, len(d.file.Sections))
	x := indexer{decoder: d, builder: b}
	for i := range d.file.Sections {
		if err := x.section(&d.file.Sections[i]); err != nil {
			return err
		}
	}
	d.file.index, err = b.Finish()
	return err
}

// indexer goes over sections again, and takes what the decoder has noted of each.
type indexer struct {
	*decoder // arrays and shapes get shorter from the front
	builder  *layout.Builder
}

// digits is the most that an int takes.
const digits = 20

func (x *indexer) section(s *Section) error {
	switch s.Type {
	case typeArray:
		return x.tensor([]byte(s.Name), nil)
	case typeLayers:
		return x.layersOf(s)
	}
	return x.builder.Section(s.Name, s.Offset, s.Offset, s.Size)
}

func (x *indexer) layersOf(s *Section) error {
	layers := x.file.layers[s.firstLayer:][:s.layers]
	prefix := make([]byte, 0, len(s.Name)+1+digits+1+digits)
	for i := range layers {
		prefix = append(append(prefix[:0], s.Name...), '.')
		prefix = append(strconv.AppendInt(prefix, int64(i), 10), '.')
		if err := x.layer(&layers[i], prefix); err != nil {
			return err
		}
	}
	return nil
}

func (x *indexer) layer(l *layer, prefix []byte) error {
	var quant *layout.Quant
	if x.file.version == 1 {
		quant = &l.quant
	}
	for j := range l.params {
		if err := x.tensor(strconv.AppendInt(prefix, int64(j), 10), quant); err != nil {
			return err
		}
	}
	return nil
}

// tensor enters the array that comes next. quant is for integers.
func (x *indexer) tensor(name []byte, quant *layout.Quant) error {
	a := x.arrays.take()
	t := x.builder.Next()
	t.Name, t.DType, t.Offset, t.Stored = name, a.dtype, a.data, a.size
	t.Shape = x.shapes[:a.rank:a.rank]
	x.shapes = x.shapes[a.rank:]
	if quant != nil && a.dtype.Kind() == layout.KindInt {
		t.Quant = quant
	}
	return x.builder.Add(a.at)
}
