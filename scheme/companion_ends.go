package scheme

import "slices"

// companionEnds lists, by how the name of a tensor ends, how the names of companions end that only codes have. register adds rows
// for names that only codes have.
var companionEnds = []companionRow{
	{"", []string{"_scale", "_scales", "_scale_inv", "_scale_2", "_zero_point", ".absmax", ".quant_map"}, no},
	{".weight", []string{".weight_scale", ".weight_scale_inv", ".weight_scale_2", ".weight.absmax", ".scale_weight", ".qscale_weight", ".weights_scaling_factor", ".SCB", ".comfy_quant"}, yes},
	{".weight", []string{".scale"}, no},
	{".weight", []string{".scales"}, unset},
}

// companionRow has the ends of the names of companions that codes have whose name ends with codesEnd.
type companionRow struct {
	codesEnd      string
	companionEnds []string
	allowsFloats  answer // whether codes may be floats; unset: only if the configuration mentions quantization
}

// addCompanionEnds adds the name ends of p's scales, zero points and biases to companionEnds, in the row of its codes.
// It adds nothing if codes are named as plain weights are, or if p is not decoded.
func (p *pattern) addCompanionEnds() {
	if p.codesEnd == "" || p.codesEnd == weightEnd || p.swapsCodesAndScale || p.refusal != nil {
		return
	}
	row := slices.IndexFunc(companionEnds, func(r companionRow) bool { return r.codesEnd == p.codesEnd })
	if row < 0 { // only codes have this name, so that floats of this name are codes too
		row, companionEnds = len(companionEnds), append(companionEnds, companionRow{codesEnd: p.codesEnd, allowsFloats: yes})
	}
	ends := slices.Clone(p.scaleEnds)
	for _, c := range p.companions {
		if c.role == Scale || c.role == ZeroPoint || c.role == Bias || c.role == GlobalScale {
			ends = append(ends, c.end)
		}
	}
	for _, end := range ends {
		if !slices.Contains(companionEnds[row].companionEnds, end) {
			companionEnds[row].companionEnds = append(companionEnds[row].companionEnds, end)
		}
	}
}

// endsLikeCodes reports whether a tensor's name ends as only names of codes end.
func endsLikeCodes(name []byte) bool {
	return slices.ContainsFunc(companionEnds, func(r companionRow) bool {
		return r.codesEnd != "" && r.codesEnd != weightEnd && hasSuffix(name, r.codesEnd)
	})
}

// presentCompanionEnds returns the rows of companionEnds, with only the ends that the checkpoint's names have. It leaves out rows
// without any.
func (f *finder) presentCompanionEnds() (rows []companionRow) {
	for _, row := range companionEnds {
		if row.companionEnds = f.presentEnds(row.companionEnds); len(row.companionEnds) > 0 {
			rows = append(rows, row)
		}
	}
	return rows
}

// companionOf returns the name of a tensor beside the tensor codes that one of rows lists, or nil without one. If codes are floats,
// only rows that allow them count. It fails if the source does.
func (f *finder) companionOf(rows []companionRow, codes uint32) ([]byte, error) {
	t := &f.tensors[codes]
	areFloats := isFloat(t.DType)
	for i := range rows {
		row := &rows[i]
		if !hasSuffix(t.Name, row.codesEnd) || areFloats && row.allowsFloats == no {
			continue
		}
		stem := t.Name[:len(t.Name)-len(row.codesEnd)]
		for _, end := range row.companionEnds {
			companion, ok := f.find(stem, end)
			if !ok {
				continue
			}
			if areFloats && row.allowsFloats == unset {
				config, err := f.loadConfig()
				if err != nil {
					return nil, err
				}
				if !config.MentionsQuantization() {
					continue
				}
			}
			return f.tensors[companion].Name, nil
		}
	}
	return nil, nil
}
