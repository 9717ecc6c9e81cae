package scheme

import (
	"context"

	"github.com/tensormap/tensormap/layout"
)

// bnbInt8 is bitsandbytes' integers of 8 bits with a scale for each row. Source: bitsandbytes 0.50.2.
var bnbInt8 = scheme{BnbInt8, (*weight).setBnbInt8, []pattern{
	{codesEnd: ".weight", codesTypes: i8, scaleEnds: []string{".SCB"}, scaleTypes: floats, companions: companionsWithRole(Layout, ".weight_format")},
}}

const maxFormatBytes = 8 // of the tensor weight_format, one integer, which tilesChecker reads whole

// setBnbInt8 sets the form of a matrix of int8s. Each row has one scale, over all columns. It fails if codes are no matrix, or if
// there are more or fewer scales than rows. It also fails if the tensor weight_format, the part with the role Layout, exceeds
// maxFormatBytes.
func (w *weight) setBnbInt8() error {
	codes, scale := w.part(Codes), w.part(Scale)
	if err := w.setMatrix(w.dims(codes)); err != nil {
		return err
	}
	if len(w.dims(codes)) != 2 || w.elementsOf(Scale) != w.Rows {
		return invalidf("SCB %s of shape %v does not fit codes of shape %v", w.quotedName(Scale), w.dims(scale), w.dims(codes))
	}
	if f := w.part(Layout); f != nil && f.Raw > maxFormatBytes {
		return invalidf("format %s of %d bytes", w.quotedName(Layout), f.Raw)
	}
	w.Ordered, w.Code, w.GroupRows, w.checker = true, layout.CodeInt8By127, 1, tilesChecker{}
	return nil
}

// A tilesChecker checks how codes are arranged.
type tilesChecker struct{}

// check returns an error if weight_format says that codes lie in tiles, or if reading it fails. Without this part codes lie in rows.
func (tilesChecker) check(ctx context.Context, p Parts, _ *Form) error {
	b, err := p.Bytes(ctx, Layout)
	for _, v := range b { // of one integer, which is 0 for rows
		if v != 0 {
			return p.Wrap(Layout, unsupportedf("codes in the tiles of format %d", v))
		}
	}
	return err
}
