package scheme

import (
	"cmp"
	"context"
	"slices"

	"github.com/tensormap/tensormap/dequant"
	"github.com/tensormap/tensormap/layout"
)

// packQuantized is compressed-tensors' integers in words. Sources: compressed-tensors 0.20.0 compressors/pack_quantized,
// 0.12.2 for the index and unused bits.
var packQuantized = scheme{PackQuantized, (*weight).setPackQuantized, []pattern{{
	codesEnd: "_packed", codesTypes: i32, scaleEnds: []string{"_scale"}, scaleTypes: floats, companions: packedCompanions, nameTellsScheme: true,
}}}

// setPackQuantized sets shape, packing, groups, zero points and group index of integers in words of 32 bits. The last word of
// a row may hold padding. A stored shape tells how many columns there are. Without a stored shape the words must hold a whole
// number of codes, and the codes must make whole groups: then there is no padding. setPackQuantized fails for other weights
// without a stored shape, and if parts do not fit each other.
func (w *weight) setPackQuantized() error {
	codes := w.dims(w.part(Codes))
	if len(codes) < 2 {
		return invalidf("codes of shape %v are no matrix", codes)
	}
	shape, shapeErr := w.storedShape(codes)
	sizes, sizesErr := w.bitsOfCodes()
	if err := cmp.Or(shapeErr, sizesErr); err != nil {
		return err
	}
	words := codes[len(codes)-1]
	switch {
	case shape != nil:
	case len(sizes) != 1:
		return invalidf("codes of unknown bits: there is neither a shape nor a configuration")
	case words*32%sizes[0] != 0:
		return invalidf("%d words a row are not whole codes of %d bits, and there is no shape", words, sizes[0])
	default:
		shape = withLastDim(codes, words*32/sizes[0])
	}
	if err := cmp.Or(w.setPacking(sizes, shape, words), w.setMatrix(shape)); err != nil {
		return err
	}
	w.RowBytes, w.Ordered, w.reader = 4*words, true, unsignedCodes{}
	if err := w.setGroups(nil); err != nil {
		return err
	}
	if w.part(Shape) == nil && (w.GroupCols == 0 || w.Cols%w.GroupCols != 0) {
		return invalidf("codes without their shape, and without groups that tell how many of the columns are none")
	}
	if slices.Contains(shape, 0) {
		return nil
	}
	return cmp.Or(w.setWordsOfZeroPoints(), w.setGroupIndex())
}

// setWordsOfZeroPoints sets w.HasOffsets if there are zero points. Zero points of type I32 are packed: a word has zero points
// of consecutive rows. packedOffsets reads all of them for any range of scales, so w is no longer Ordered. A weight without
// zero points, or with zero points of another type, is left to setIntegerZeroPoints. setWordsOfZeroPoints fails if
// setIntegerZeroPoints or checkZeroPoints does. Packed zero points must fit the scales, and a scale must be for a single row.
// It fails otherwise, or if the words of codes have unused bits.
func (w *weight) setWordsOfZeroPoints() error {
	zero := w.part(ZeroPoint)
	if zero == nil || zero.DType != layout.I32 {
		return w.setIntegerZeroPoints()
	}
	if err := w.checkZeroPoints(); err != nil {
		return err
	}
	if w.Pack != layout.PackRows { // codes in another packing leave bits of their words unused
		return unsupportedf("zero points in words with unused bits")
	}
	want := withLastDim(w.shape, max(ceilDiv(w.Cols, w.GroupCols), 1)) // one group if w.GroupCols is 0
	want[len(want)-2] = ceilDiv(w.Rows*uint64(w.Code.Bits()), 32)
	if w.GroupRows != 1 || !slices.Equal(w.dims(zero), want) {
		return invalidf("zero points %s of shape %v do not fit scale %s of shape %v", w.quotedName(ZeroPoint), w.dims(zero), w.quotedName(Scale), w.dims(w.part(Scale)))
	}
	w.HasOffsets, w.Ordered, w.reader = true, false, packedOffsets{}
	return nil
}

// storedShape returns the shape in the part weight_shape. It returns nil if there is no such part. codes is the shape of the
// tensor of codes. It fails if the part is not of integers, or if the last dimension exceeds maxDim. It also fails if another
// dimension differs from the dimension of codes.
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
		return nil, invalidf("shape %v, as %s has it, does not fit codes of shape %v", shape, w.quotedName(Shape), codes)
	}
	return shape, nil
}

// setPacking sets w.Code, the bits of a code, to one of sizes, and w.Pack, how codes lie in words. shape is the shape of the weight.
// words is the number of words in a row. It fails if no size and packing fits the words, or if several do.
func (w *weight) setPacking(sizes, shape []uint64, words uint64) error {
	cols, hasRelease := shape[len(shape)-1], w.config.isBefore018 != unset
	fittingIn := func(pack layout.Packing) []uint64 { // bits
		return slices.DeleteFunc(slices.Clone(sizes), func(bits uint64) bool { return words != wordsOf(cols, bits, pack) })
	}
	w.Pack = layout.PackRows
	fitting := fittingIn(w.Pack)
	// Releases before 0.18 left bits of words that a whole code does not fit, and later ones do not. Without a release both may be.
	if w.config.isBefore018 == yes || !hasRelease && len(fitting) == 0 {
		w.Pack = layout.PackWords
		fitting = fittingIn(w.Pack)
	}
	switch {
	case len(fitting) == 0:
		return invalidf("%d words a row do not hold shape %v in codes of %v bits", words, shape, sizes)
	case len(fitting) > 1 && cols > 0:
		return invalidf("%d words a row hold shape %v in codes of more than one size, %v", words, shape, sizes)
	}
	bits := fitting[0]
	w.Code = layout.Code(bits)
	if 32%bits == 0 { // no bits are left
		w.Pack = layout.PackRows
		return nil
	}
	// Codes of one word lie alike in both packings.
	if !hasRelease && cols > 32/bits && wordsOf(cols, bits, layout.PackRows) == wordsOf(cols, bits, layout.PackWords) {
		return invalidf("%d words a row of codes of %d bits may have unused bits, as old releases wrote: the configuration has no version", words, bits)
	}
	return nil
}

// wordsOf returns how many words of 32 bits a row of cols codes takes. With PackWords, each word holds whole codes only. With
// other packings, a code may begin in one word and end in the next.
func wordsOf(cols, bits uint64, pack layout.Packing) uint64 {
	if pack == layout.PackWords {
		return ceilDiv(cols, 32/bits)
	}
	return ceilDiv(cols*bits, 32)
}

// bitsOfCodes lists how many bits a code may have: the numbers in layerParams that are not for floats. If there are none, it lists
// all of 1 to 8. It fails if one of layerParams has an error. It returns ErrUnsupported for more than 8 bits.
func (w *weight) bitsOfCodes() (sizes []uint64, err error) {
	for _, p := range w.layerParams() {
		if p.err != nil {
			return nil, p.err
		}
		if p.bits != 0 && p.intOrFloat != "float" && !slices.Contains(sizes, p.bits) {
			sizes = append(sizes, p.bits)
		}
	}
	if len(sizes) == 0 {
		// setPacking takes the only size that fits. Without columns all fit, and it takes the first.
		sizes = []uint64{4, 8, 2, 3, 5, 6, 7, 1}
	}
	if largest := slices.Max(sizes); largest > 8 {
		return nil, unsupportedf("codes of %d bits", largest)
	}
	return sizes, nil
}

// unsignedCodes are stored as unsigned numbers: 2^(bits−1) was added to each.
type unsignedCodes struct{}

// readScales reads scales and zero points to dst. It adds 2^(bits−1) to zero points. Without zero points, 2^(bits−1) is
// the one offset. It fails if reading does.
func (unsignedCodes) readScales(ctx context.Context, p Parts, f *Form, dst *Scales, from uint64) error {
	if err := readStored(ctx, p, f, dst, from); err != nil {
		return err
	}
	middle := float32(uint64(1) << (f.Code.Bits() - 1))
	for i := range dst.Offsets {
		dst.Offsets[i] += middle
	}
	if !f.HasOffsets {
		dst.setOneOffset(middle)
	}
	return nil
}

// packedOffsets are zero points that are packed: a word has zero points of consecutive rows, unsigned as codes are.
type packedOffsets struct{}

// readScales reads scales and zero points to dst. It reads all zero points, wherever from is. It fails if reading does.
func (packedOffsets) readScales(ctx context.Context, p Parts, f *Form, dst *Scales, from uint64) error {
	if err := p.Floats(ctx, Scale, f.scaleType, dst.Scales, from); err != nil {
		return err
	}
	groups, stored := f.scaleCols(), make([]float32, len(dst.Offsets))
	perMatrix := f.Rows * groups
	if perMatrix == 0 {
		return nil
	}
	packed := dequant.Grouped{Code: f.Code, Pack: layout.PackGPTQ, Rows: groups, Cols: f.Rows}
	if err := readPackedZeroPoints(ctx, p, packed, uint64(len(stored))/perMatrix, stored); err != nil {
		return err
	}
	for at := uint64(0); at < uint64(len(stored)); at += perMatrix {
		transpose(dst.Offsets[at:][:perMatrix], stored[at:][:perMatrix], groups, f.Rows)
	}
	return nil
}
