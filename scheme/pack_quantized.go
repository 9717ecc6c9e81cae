package scheme

import (
	"encoding/binary"
	"slices"

	"github.com/tensormap/tensormap/dequant"
	"github.com/tensormap/tensormap/layout"
)

// packQuantized is compressed-tensors' integers in words. Sources: compressed-tensors 0.20.0 compressors/pack_quantized,
// 0.12.2 for the index and unused bits.
type packQuantized struct {
	arePacked  bool // zero points, along the rows
	groupIndex columnGroups
}

func (packQuantized) names() []pattern {
	return []pattern{{scheme: PackQuantized, codes: "_packed", kinds: words, scales: []string{"_scale"}, by: floats, others: ofPacked, contents: []Role{Shape}, sure: true}}
}

func (s packQuantized) params(*Config) (scheme, error) { return s, nil }

// form finds shape and form of integers that are packed in words of 32 bits. It fails without the shape if the
// groups do not tell how many columns there are.
func (s packQuantized) form(w *weight) (scheme, error) {
	codes, scale := w.part(Codes), w.part(Scale)
	if len(w.dims(codes)) < 2 {
		return nil, misfit("codes of shape %v are no matrix", w.dims(codes))
	}
	shape, err := w.storedShape(w.dims(codes))
	if err != nil {
		return nil, err
	}
	words := w.dims(codes)[len(w.dims(codes))-1]
	if err := w.packing(shape, words); err != nil {
		return nil, err
	}
	if shape == nil {
		shape = widened(w.dims(codes), words*32/uint64(w.Code.Bits()))
	}
	if err := w.matrix(shape); err != nil {
		return nil, err
	}
	w.RowBytes, w.scaleType, w.Ordered = 4*words, scale.DType, true
	if err := w.grid(scale, nil); err != nil {
		return nil, err
	}
	if w.part(Shape) == nil && (w.GroupCols == 0 || w.Cols%w.GroupCols != 0) {
		return nil, misfit("codes without their shape, and without groups that tell how many of the columns are none")
	}
	if n, _ := elements(w.full); n == 0 {
		return s, nil
	}
	if s.arePacked, err = w.packedZeros(); err == nil && !s.arePacked {
		err = w.zeros()
	}
	if err != nil {
		return nil, err
	}
	s.groupIndex, err = w.index(true) // it may be unset
	w.Ordered = !s.arePacked && s.groupIndex.size == 0
	return s, err
}

// packedZeros checks zero points in words of consecutive rows. It reports whether there are some, and then sets
// w.HasOffsets. It fails if they do not fit, or the configuration has others.
func (w *weight) packedZeros() (bool, error) {
	if err := w.asymmetry(); err != nil {
		return false, err
	}
	zero := w.part(ZeroPoint)
	switch {
	case zero == nil || zero.DType != layout.I32:
		return false, nil
	case w.Pack != layout.PackRows:
		return false, unsupported("zero points in words with unused bits")
	}
	want := widened(w.full, max(ceilDiv(w.Cols, w.GroupCols), 1))
	want[len(want)-2] = ceilDiv(w.Rows*uint64(w.Code.Bits()), 32)
	if w.GroupRows != 1 || !slices.Equal(w.dims(zero), want) {
		return false, misfit("zero points %s of shape %v do not fit scale %s of shape %v", w.name(ZeroPoint), w.dims(zero), w.name(Scale), w.dims(w.part(Scale)))
	}
	w.HasOffsets = true
	return true, nil
}

// storedShape returns the weight's shape, which a part of its own holds, or nil without this part. It fails if the
// dimensions before the last are not those of the codes.
func (w *weight) storedShape(codes []uint64) ([]uint64, error) {
	t := w.part(Shape)
	if t == nil {
		return nil, nil
	}
	shape, err := integers(t.DType, w.content(Shape))
	if err != nil {
		return nil, err
	}
	if len(shape) != len(codes) || !slices.Equal(shape[:len(shape)-1], codes[:len(codes)-1]) || shape[len(shape)-1] > maxDim {
		return nil, misfit("shape %v, as %s has it, does not fit codes of shape %v", shape, w.name(Shape), codes)
	}
	return shape, nil
}

// packing sets w.Code and w.Pack, the bits and the packing of codes in words: those of the configuration, or the
// only ones that fit. shape is nil if it is not stored. Only releases of compressed-tensors before 0.18 leave bits
// of words unused.
func (w *weight) packing(shape []uint64, words uint64) error {
	sizes, err := w.codeSizes()
	if err != nil {
		return err
	}
	if shape == nil && len(sizes) != 1 {
		return misfit("codes of unknown bits: there is neither a shape nor a configuration")
	}
	packings := []layout.Packing{layout.PackRows, layout.PackWords}
	switch {
	case w.conf.isOld:
		packings = packings[1:]
	case w.conf.release != "":
		packings = packings[:1]
	}
	found := 0
	for _, pack := range packings {
		for _, bits := range sizes {
			if bits < 1 || bits > 8 {
				return unsupported("codes of %d bits", bits)
			}
			pack := pack
			if 32%bits == 0 { // which leave no bit unused
				pack = layout.PackRows
			}
			fits := shape == nil && pack == layout.PackRows && words*32%bits == 0
			if shape != nil {
				cols := shape[len(shape)-1]
				fits = pack == layout.PackRows && words == ceilDiv(cols*bits, 32) || pack == layout.PackWords && words == ceilDiv(cols, 32/bits)
			}
			if fits {
				if found++; found == 1 { // several are an error below, unless there are no columns
					w.Code, w.Pack = layout.Code(bits), pack
				}
			}
		}
		if found > 0 {
			break
		}
	}
	switch {
	case found == 1 && shape != nil && w.conf.release == "" && eitherPacking(shape[len(shape)-1], uint64(w.Code.Bits())):
		return misfit("%d words a row of codes of %d bits may have unused bits, as old releases wrote: the configuration has no version", words, w.Code.Bits())
	case found == 0:
		return misfit("%d words a row do not hold shape %v in codes of %v bits", words, shape, sizes)
	case found > 1 && shape[len(shape)-1] > 0:
		return misfit("%d words a row hold shape %v in codes of more than one size, %v", words, shape, sizes)
	}
	return nil
}

// codeSizes returns how many bits codes may have: what the configuration says of the layer, or all numbers of bits
// if it says nothing.
func (w *weight) codeSizes() (sizes []uint64, err error) {
	for _, p := range w.candidates() {
		if p.err != nil {
			return nil, p.err
		}
		if p.bits != 0 && p.kind != "float" && !slices.Contains(sizes, p.bits) {
			sizes = append(sizes, p.bits)
		}
	}
	if len(sizes) == 0 {
		// packing takes the one size that fits. The first one wins only if there are no columns.
		sizes = []uint64{4, 8, 2, 3, 5, 6, 7, 1}
	}
	return sizes, nil
}

// eitherPacking reports whether a row takes as many words with and without unused bits, and yet its codes lie
// differently.
func eitherPacking(cols, bits uint64) bool {
	return 32%bits != 0 && cols > 32/bits && ceilDiv(cols*bits, 32) == ceilDiv(cols, 32/bits)
}

// scales reads scales, zero points and the group index. Codes are stored with 2^(bits−1) added, and so are zero
// points in words. To other zero points it adds this, and without any it is the offset.
func (s packQuantized) scales(p Parts, f *Form, dst *Scales, from uint64) error {
	middle, memory, zeros := float32(uint64(1)<<(f.Code.Bits()-1)), dst.Offsets, Codes
	if f.HasOffsets && !s.arePacked {
		zeros = ZeroPoint
	}
	if err := direct(p, f, dst, from, zeros); err != nil {
		return err
	}
	switch {
	case s.arePacked:
		dst.Offsets = memory[:len(dst.Scales)]
		if err := alongRows(p, f, dst.Offsets); err != nil {
			return err
		}
	case f.HasOffsets:
		for i := range dst.Offsets {
			dst.Offsets[i] += middle
		}
	case len(memory) > 0:
		dst.Offsets = append(memory[:0], middle)
	}
	return s.groupIndex.read(p, f, dst)
}

// alongRows reads zero points that are packed in words of consecutive rows, with one for every group of columns, for
// all matrices. It writes them to dst in the order of the scales.
func alongRows(p Parts, f *Form, dst []float32) error {
	groups, stored := f.scaleCols(), make([]float32, len(dst))
	each := f.Rows * groups
	if each == 0 {
		return nil
	}
	packed := dequant.Grouped{Code: f.Code, Pack: layout.PackGPTQ, Rows: groups, Cols: f.Rows}
	if err := packedFloats(p, ZeroPoint, packed, uint64(len(dst))/each, stored); err != nil {
		return err
	}
	for at := uint64(0); at < uint64(len(dst)); at += each {
		transpose(dst[at:][:each], stored[at:][:each], groups, f.Rows)
	}
	return nil
}

// integers returns the elements of a small tensor of integers or booleans, little-endian. It fails if d is another
// type, b does not fill elements, or one is negative.
func integers(d layout.DType, b []byte) ([]uint64, error) {
	size := d.BlockBytes()
	if k := d.Kind(); k != layout.KindInt && k != layout.KindUint && k != layout.KindBool || size == 0 || len(b)%size != 0 {
		return nil, misfit("%d bytes of %v are no integers", len(b), d)
	}
	list := make([]uint64, 0, len(b)/size)
	for ; len(b) > 0; b = b[size:] {
		var word [8]byte
		copy(word[:], b[:size])
		v := binary.LittleEndian.Uint64(word[:])
		if d.Kind() == layout.KindInt && size < 8 && v>>(8*size-1) != 0 || d.Kind() == layout.KindInt && int64(v) < 0 {
			return nil, misfit("a negative size")
		}
		list = append(list, v)
	}
	return list, nil
}
