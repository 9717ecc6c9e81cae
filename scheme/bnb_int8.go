package scheme

import "github.com/tensormap/tensormap/layout"

// bnbInt8 is bitsandbytes' integers of 8 bits with a scale for each row. Source: bitsandbytes 0.50.2.
type bnbInt8 struct{}

// patterns lists how bitsandbytes names and types the parts of a weight.
func (bnbInt8) patterns() []pattern {
	return []pattern{{schemeName: BnbInt8, codesEnd: ".weight", nameEnd: ".weight", codesTypes: i8Codes, scaleEnds: []string{".SCB"}, scaleTypes: floatScales, companions: companionsWithRole(Layout, ".weight_format")}}
}

func (s bnbInt8) configure(*Config) (scheme, error) { return s, nil }

const maxFormatBytes = 8 // of the tensor weight_format, one integer, which check reads whole

// setForm sets the form of a matrix of int8s. Each row has one scale, over all columns. It fails if codes are no matrix, or if
// there are more or fewer scales than rows. It also fails if the tensor weight_format, the part with the role Layout, exceeds
// maxFormatBytes.
func (s bnbInt8) setForm(w *weight) (scheme, error) {
	codes, scale := w.part(Codes), w.part(Scale)
	if err := w.setMatrix(w.dims(codes)); err != nil {
		return nil, err
	}
	if len(w.dims(codes)) != 2 || w.elementsOf(Scale) != w.Rows {
		return nil, invalidf("SCB %s of shape %v does not fit codes of shape %v", w.quotedName(Scale), w.dims(scale), w.dims(codes))
	}
	if f := w.part(Layout); f != nil && f.Raw > maxFormatBytes {
		return nil, invalidf("format %s of %d bytes", w.quotedName(Layout), f.Raw)
	}
	w.Ordered, w.Code, w.scaleType, w.GroupRows = true, layout.CodeInt8By127, scale.DType, 1
	return s, nil
}

// readScales reads the scales as they are stored. It fails if reading does.
func (bnbInt8) readScales(p Parts, f *Form, dst *Scales, from uint64) error {
	return readStoredScales(p, f, dst, from)
}

// check returns an error if weight_format says that codes lie in tiles, or if reading it fails. Without this part codes lie in rows.
func (bnbInt8) check(p Parts, _ *Form) error {
	b, err := p.Bytes(Layout)
	for _, v := range b { // of one integer, which is 0 for rows
		if v != 0 {
			return p.Wrap(Layout, unsupportedf("codes in the tiles of format %d", v))
		}
	}
	return err
}
