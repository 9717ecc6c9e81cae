package loader_test

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/tensormap/tensormap/internal/test/kerneltest"
	"github.com/tensormap/tensormap/internal/test/modeltest"
	"github.com/tensormap/tensormap/internal/test/testmode"
	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/loader"
	"github.com/tensormap/tensormap/scheme"
)

// A sample is a logical weight of a fixture: its parts, what lies beside them, and its values.
type sample struct {
	name   string
	form   *scheme.Form
	shape  []int
	parts  []samplePart
	want   modeltest.Tensor
	beside map[string][]byte
}

type samplePart struct {
	role scheme.Role
	modeltest.Tensor
}

// samples returns the weights of the fixtures in SafeTensors.
func samples(t *testing.T) (list []sample) {
	contentOf := func(x loader.Tensor) modeltest.Tensor {
		return modeltest.Tensor{Name: x.Name(), DType: x.DType(), Shape: x.Shape(), Data: slices.Clone(must(x.Bytes())(t))}
	}
	for _, dir := range checkpoints(t) {
		m, want := openPath(t, dir, nil), openPath(t, filepath.Join(dir, "expected.safetensors"), nil)
		if m.Format() == layout.GGUF || strings.HasPrefix(filepath.Base(dir), "comfy-metadata") || // samples take no metadata
			filepath.Base(dir) == "autoround-awq-sym" { // without rows its parts may be GPTQ's
			continue
		}
		beside := make(map[string][]byte)
		for _, name := range []string{"config.json", "hf_quant_config.json", "quantize_config.json"} {
			if b, err := os.ReadFile(filepath.Join(dir, name)); err == nil {
				beside[name] = b
			}
		}
		for x := range m.Tensors() {
			if x.Scheme() == nil {
				continue
			}
			values, err := want.Tensor(x.Name())
			if err != nil {
				values = tensor(t, want, strings.TrimSuffix(x.Name(), ".weight"))
			}
			s := sample{x.Name(), x.Scheme(), x.Shape(), nil, contentOf(values), beside}
			for _, p := range x.Parts() {
				s.parts = append(s.parts, samplePart{p.Role, contentOf(p.Tensor)})
			}
			s.name = filepath.Base(dir) + "/" + s.name
			list = append(list, s)
		}
	}
	return list
}

func (s *sample) rows() int { return s.shape[len(s.shape)-2] }
func (s *sample) cols() int { return s.shape[len(s.shape)-1] }

// groupCols returns how many columns share a scale, at most what an int of 32 bits holds.
func (s *sample) groupCols() int { return int(min(s.form.GroupCols, math.MaxInt32)) }

func (s *sample) has(r scheme.Role) bool {
	return slices.ContainsFunc(s.parts, func(p samplePart) bool { return p.role == r })
}

func ceil(n, by int) int { return (n + by - 1) / by }

// resized returns the first columns of the first rows, stored as a writer stores a weight of that size. ok is false
// if there is no such weight in this scheme.
func (s sample) resized(rows, cols int) (_ sample, ok bool) {
	var parts []samplePart
	for _, p := range s.parts {
		c, ok := s.part(p, rows, cols)
		if !ok {
			return s, false
		}
		parts = append(parts, samplePart{p.role, c})
	}
	s.parts, s.want = parts, cut(s.want, -2, rows, -1, cols)
	s.shape = s.want.Shape
	return s, true
}

// isFlat reports whether the weight is bitsandbytes' sequence of elements.
func (s *sample) isFlat() bool { return s.form.Code == layout.CodeNF4 || s.form.Code == layout.CodeFP4 }

func (s *sample) part(p samplePart, rows, cols int) (modeltest.Tensor, bool) {
	f, c, bits := s.form, p.Tensor, s.form.Code.Bits()
	if s.isFlat() {
		return s.flat(p, rows, cols)
	}
	groups := func(n, size uint64, now int) int { // size 0: one for all
		if size == 0 {
			return now
		}
		return ceil(int(n), int(min(size, math.MaxInt32)))
	}
	groupCols := func(now int) int {
		if f.Pack == layout.PackGPTQ && s.has(scheme.GroupIndex) && cols > 0 {
			return now // which columns may name
		}
		return groups(uint64(cols), f.GroupCols, now)
	}
	switch p.role {
	case scheme.Codes:
		return s.codes(c, rows, cols)
	case scheme.Shape:
		if f.Scheme == scheme.HQQ {
			return modeltest.Tensor{Name: c.Name, DType: c.DType, Shape: c.Shape, Data: binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint64(nil, uint64(rows)), uint64(cols))}, true
		}
		data := slices.Clone(c.Data)
		binary.LittleEndian.PutUint64(data[len(data)-16:], uint64(rows))
		binary.LittleEndian.PutUint64(data[len(data)-8:], uint64(cols))
		c.Data = data
		return c, true
	case scheme.GroupIndex:
		return cut(c, 0, cols), cols == s.cols() || f.Scheme == scheme.GPTQ
	case scheme.Scale, scheme.ZeroPoint, scheme.Bias:
	default:
		return c, true
	}
	last, isZero := len(c.Shape)-1, p.role == scheme.ZeroPoint
	switch {
	case f.Scheme == scheme.GPTQ && isZero:
		return cut(c, -2, groupCols(c.Shape[0]), -1, ceil(rows*bits, 32)), true
	case f.Pack == layout.PackAWQ && isZero:
		return cut(c, -2, groupCols(c.Shape[0]), -1, rows/8), true
	case f.Scheme == scheme.AWQ && isZero:
		return cut(c, -2, rows), cols == s.cols()
	case s.zerosAlongRows() && isZero:
		return cut(c, -2, ceil(rows*bits, 32), -1, groups(uint64(cols), f.GroupCols, c.Shape[last])), true
	case f.Scheme == scheme.GPTQ, f.Pack == layout.PackAWQ:
		return cut(c, -2, groupCols(c.Shape[0]), -1, rows), true
	}
	switch {
	case f.Scheme == scheme.HQQ && f.GroupRows == 1: // only for no rows
		return cut(c, 0, 0), true
	case f.Scheme == scheme.HQQ:
		return cut(c, 1, 0), true
	case c.Elements() == 1 && len(c.Shape) < 2 || len(c.Shape) < len(s.shape) && f.GroupRows != 1:
		return c, true
	case len(c.Shape) == 1:
		return cut(c, 0, rows), true
	case len(c.Shape) == 4:
		return cut(c, 0, groups(uint64(rows), f.GroupRows, c.Shape[0]), 2, groups(uint64(cols), f.GroupCols, c.Shape[2])), true
	case len(c.Shape) < len(s.shape):
		return cut(c, -1, rows), true
	case f.ScaleCols != 0 && cols != s.cols():
		return c, false
	case f.ScaleCols != 0:
		return cut(c, -2, rows), true
	}
	return cut(c, -2, groups(uint64(rows), f.GroupRows, c.Shape[last-1]), -1, groups(uint64(cols), f.GroupCols, c.Shape[last])), true
}

// zerosAlongRows reports whether words of zero points hold consecutive rows.
func (s *sample) zerosAlongRows() bool {
	return slices.ContainsFunc(s.parts, func(p samplePart) bool {
		return s.form.Scheme == scheme.PackQuantized && p.role == scheme.ZeroPoint && p.Tensor.DType == layout.I32
	})
}

func (s *sample) codes(c modeltest.Tensor, rows, cols int) (modeltest.Tensor, bool) {
	f, bits := s.form, s.form.Code.Bits()
	unit := 8 * c.DType.BlockBytes()
	switch {
	case c.DType == layout.NVFP4:
		bits = 4
	case f.Code == layout.CodeBlocks:
		bits = unit
	}
	switch f.Pack {
	case layout.PackGPTQ:
		return cut(c, -2, ceil(cols*bits, 32), -1, rows), cols*bits%32 == 0 || s.has(scheme.GroupIndex)
	case layout.PackPlanes:
		return cut(c, -2, ceil(cols*bits, 32), -1, rows), cols%32 == 0 && rows%32 == 0
	case layout.PackAWQ:
		return cut(c, -2, cols, -1, rows/8), rows%8 == 0
	case layout.PackLowSlabs:
		if rows == 0 {
			return cut(c, -2, 0), true
		}
		return cut(c, -1, cols), rows == s.rows()
	case layout.PackWords:
		return cut(c, -2, rows, -1, ceil(cols, 32/bits)), true
	}
	switch {
	case f.Scheme == scheme.HQQ && f.GroupRows == 1:
		return cut(c, 0, 0), rows == 0
	case f.Scheme == scheme.HQQ:
		return cut(c, 1, 0), rows == 0
	case len(c.Shape) > len(s.shape): // blocks of gpt-oss
		return cut(c, -3, rows, -2, cols/32), cols%32 == 0
	case c.DType == layout.U32 && cols%s.groupCols() != 0, // MLX has whole groups
		(f.Code > 8 || f.Code == layout.CodeBlocks) && cols*bits%unit != 0, f.RowBytes == 0 && cols*bits%8 != 0:
		return c, false
	}
	return cut(c, -2, rows, -1, ceil(cols*bits, unit)), true
}

func (s *sample) flat(p samplePart, rows, cols int) (modeltest.Tensor, bool) {
	n, c := rows*cols, p.Tensor
	scales := ceil(n, s.groupCols())
	switch p.role {
	case scheme.Codes:
		return cut(c, 0, ceil(n, 2)), cols == s.cols() || rows == 0 || cols == 0
	case scheme.Scale:
		return cut(c, 0, scales), true
	case scheme.NestedScale:
		return cut(c, 0, ceil(scales, 256)), true
	case scheme.QuantState:
		return s.state(c, rows, cols), true
	}
	return c, true
}

var shapeInJSON = regexp.MustCompile(`"shape": ?\[[^]]*\]`)

// state returns the description with another shape.
func (s *sample) state(c modeltest.Tensor, shape ...int) modeltest.Tensor {
	text, _ := json.Marshal(shape)
	c.Data = shapeInJSON.ReplaceAll(c.Data, append([]byte(`"shape":`), text...))
	c.Shape = []int{len(c.Data)}
	return c
}

// experts returns two matrices of the weight's rows, which the second one has in the other order if every row can be
// moved. ok is false for schemes of matrices alone.
func (s sample) experts() (_ sample, ok bool) {
	f := s.form
	if len(s.shape) != 2 || s.has(scheme.GroupIndex) || f.ScaleCols != 0 || slices.Contains([]string{scheme.BnbInt8, scheme.HQQ, scheme.BitNet, scheme.AWQ, scheme.GPTQ}, f.Scheme) {
		return s, false
	}
	if s.isFlat() {
		if s.rows()%2 != 0 {
			return s, false
		}
		s.parts = slices.Clone(s.parts)
		s.shape = []int{2, s.rows() / 2, s.cols()}
		for i, p := range s.parts {
			if p.role == scheme.QuantState {
				s.parts[i].Tensor = s.state(p.Tensor, s.shape...)
			}
		}
		s.want.Shape = s.shape
		return s, true
	}
	stacked := func(a, b modeltest.Tensor) modeltest.Tensor {
		a.Shape, a.Data = append([]int{2}, a.Shape...), slices.Concat(a.Data, b.Data)
		return a
	}
	reversed := func(c modeltest.Tensor) modeltest.Tensor { // in its first dimension
		var data []byte
		for n := c.Shape[0] - 1; n >= 0; n-- {
			each := len(c.Data) / c.Shape[0]
			data = append(data, c.Data[n*each:][:each]...)
		}
		c.Data = data
		return c
	}
	turned := !s.zerosAlongRows() && f.GroupRows <= 1
	var parts []samplePart
	for _, p := range s.parts {
		c := p.Tensor
		switch {
		case p.role == scheme.Shape:
			c.Shape, c.Data = []int{3}, slices.Concat(binary.LittleEndian.AppendUint64(nil, 2), c.Data)
		case len(c.Shape) == 4:
			return s, false
		case c.Elements() == 1 && (p.role != scheme.Codes) && f.GroupRows == 0, p.role == scheme.GlobalScale, p.role == scheme.InputScale, p.role == scheme.QuantState:
		case !turned || c.Shape[0] == 1:
			c = stacked(c, c)
		default:
			c = stacked(c, reversed(c))
		}
		parts = append(parts, samplePart{p.role, c})
	}
	second := s.want
	if turned {
		second = reversed(second)
	}
	s.parts, s.want = parts, stacked(s.want, second)
	s.shape = s.want.Shape
	return s, true
}

var groupInJSON = regexp.MustCompile(`"(q_)?group_size": ?\d+`)

// whole returns the weight's first group of columns, as one of a configuration with the group size −1.
func (s sample) whole() (_ sample, ok bool) {
	g := s.groupCols()
	config := s.beside["config.json"]
	if s.has(scheme.GroupIndex) { // which may be left out if it is in order
		if strings.Contains(s.name, "act-order") || strings.Contains(s.name, "autogptq") || s.form.Scheme != scheme.GPTQ {
			return s, false
		}
		s.parts = slices.DeleteFunc(slices.Clone(s.parts), func(p samplePart) bool { return p.role == scheme.GroupIndex })
	}
	if g <= 1 || g >= s.cols() || s.form.Scheme == scheme.GPTQ && g%32 != 0 || len(s.shape) != 2 || slices.Contains([]string{scheme.NVFP4, scheme.MXFP4, scheme.MLXAffine}, s.form.Scheme) || !groupInJSON.Match(config) {
		return s, false
	}
	if s, ok = s.resized(s.rows(), g); ok {
		s.beside = map[string][]byte{"config.json": groupInJSON.ReplaceAll(config, []byte(`"${1}group_size": -1`))}
	}
	return s, ok
}

const allMade = "awq bitnet bnb-fp4 bnb-int8 bnb-nf4 fp8 gptq hqq int-quantized mlx-affine mxfp4 nvfp4 pack-quantized"

var edges = []struct {
	name string
	of   string // the schemes that have it
	make func(s sample) (sample, bool)
}{
	{"as it is", allMade, func(s sample) (sample, bool) { return s, true }},
	{"no rows", allMade, func(s sample) (sample, bool) { return s.resized(0, s.cols()) }},
	{"no columns", strings.Replace(allMade, " hqq", "", 1), func(s sample) (sample, bool) { return s.resized(s.rows(), 0) }},
	{"a short group of columns", "awq bitnet bnb-int8 fp8 gptq int-quantized mxfp4 nvfp4 pack-quantized", func(s sample) (sample, bool) {
		for n := s.cols() - 1; n > 0; n-- { // the largest that can be
			if g := s.groupCols(); g > 0 && (n%g == 0 || s.form.Scheme == scheme.AWQ || strings.HasPrefix(s.name, "ct-")) { // whose groups are whole
				continue
			}
			if s.form.Scheme == scheme.GPTQ && !s.has(scheme.GroupIndex) && n%32 != 0 { // the index alone tells them
				continue
			}
			if short, ok := s.resized(s.rows(), n); ok {
				return short, true
			}
		}
		return s, false
	}},
	{"fewer rows", "awq bitnet bnb-fp4 bnb-int8 bnb-nf4 fp8 gptq int-quantized mlx-affine mxfp4 nvfp4 pack-quantized", func(s sample) (sample, bool) {
		for n := s.rows() - 1; n > 0; n-- {
			if fewer, ok := s.resized(n, s.cols()); ok {
				return fewer, true
			}
		}
		return s, false
	}},
	{"group −1", "awq fp8 gptq int-quantized pack-quantized", sample.whole},
	{"codes in another type", "bnb-fp4 bnb-nf4", func(s sample) (sample, bool) { // bnb_4bit_quant_storage
		s.parts = slices.Clone(s.parts)
		c := &s.parts[0].Tensor
		c.DType, c.Shape = layout.BF16, []int{len(c.Data) / 2, 1}
		return s, s.isFlat() && len(c.Data)%2 == 0
	}},
	{"experts", "bnb-fp4 bnb-nf4 fp8 int-quantized mlx-affine mxfp4 nvfp4 pack-quantized", sample.experts},
}

// TestQuantizedEdges: weights at the edges of every scheme, each part in a shard of its own, have the values that the
// reference has. They are made of the fixtures.
func TestQuantizedEdges(t *testing.T) {
	made := make(map[string][]string) // by edge
	all := samples(t)
	for _, e := range edges {
		t.Run(e.name, func(t *testing.T) {
			for _, s := range all {
				edge, ok := e.make(s)
				if !ok {
					continue
				}
				if !slices.Contains(made[e.name], s.form.Scheme) {
					made[e.name] = append(made[e.name], s.form.Scheme)
				} else if testmode.Brief() {
					continue
				}
				path := edge.write(t)
				for _, w := range kindsNamed("Open", "Open/NoMap", "OpenReaderAt") {
					m := w.at(t, path, nil)
					if err := edge.check(m); err != nil {
						t.Errorf("%s, %s: %v", s.name, w.name, err)
					}
					m.Close()
				}
			}
		})
	}
	for _, e := range edges {
		slices.Sort(made[e.name])
		if got := strings.Join(made[e.name], " "); got != e.of {
			t.Errorf("%s: made of %s", e.name, got)
		}
	}
}

// TestCompanionGone: a shard with a companion is opened when it is needed. If it is gone by then, the error names it,
// and other tensors have their bytes.
func TestCompanionGone(t *testing.T) {
	tried := make(map[string]bool)
	for _, s := range samples(t) {
		if tried[s.form.Scheme] {
			continue
		}
		tried[s.form.Scheme] = true
		path := s.write(t)
		for _, w := range kindsNamed("Open", "Open/NoMap") {
			name, m := w.name, w.at(t, path, nil)
			gone := fmt.Sprintf("model-%05d-of-%05d.safetensors", 3, len(s.parts)+1) // of the first companion
			shard := filepath.Join(filepath.Dir(path), gone)
			b, err := os.ReadFile(shard)
			if err == nil {
				err = os.Remove(shard)
			}
			if err != nil {
				t.Skip(err) // a system that keeps open files
			}
			for x := range m.Tensors() {
				_, err := x.Float32s()
				switch opened := s.parts[1].role == scheme.QuantState || s.parts[1].role == scheme.Shape; {
				case x.Name() == "norm" && err != nil, x.Name() != "norm" && err == nil && !opened:
					t.Errorf("%s, %s: %s: %v", s.name, name, x.Name(), err)
				case err != nil && (!errors.Is(err, fs.ErrNotExist) || strings.Count(err.Error(), gone) != 1 || !strings.Contains(err.Error(), s.parts[1].Name)):
					t.Errorf("%s, %s: %v", s.name, name, err)
				}
			}
			if err := os.WriteFile(shard, b, 0o600); err != nil {
				t.Fatal(err)
			}
			m.Close()
		}
	}
}

// write writes the weight as a checkpoint of shards, with a tensor that is none of its parts in the first, and
// returns the path of the index.
func (s *sample) write(t *testing.T) string {
	t.Helper()
	dir, index := t.TempDir(), make(map[string]string)
	put := func(name string, b []byte) {
		if err := os.WriteFile(filepath.Join(dir, name), b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	shards := [][]modeltest.Tensor{{modeltest.Random("norm", layout.F32, 5)}}
	for _, p := range s.parts {
		shards = append(shards, []modeltest.Tensor{p.Tensor})
	}
	for i, tensors := range shards {
		name := fmt.Sprintf("model-%05d-of-%05d.safetensors", i+1, len(shards))
		put(name, modeltest.SafeTensors(tensors...))
		index[tensors[0].Name] = name
	}
	text, err := json.Marshal(map[string]any{"weight_map": index})
	if err != nil {
		t.Fatal(err)
	}
	put("model.safetensors.index.json", text)
	for name, b := range s.beside {
		put(name, b)
	}
	return filepath.Join(dir, "model.safetensors.index.json")
}

// check holds the model's one logical weight against the sample.
func (s *sample) check(m *loader.Model) error {
	if m.Len() != 2 {
		return fmt.Errorf("%d tensors", m.Len())
	}
	for x := range m.Tensors() {
		if x.Name() == "norm" {
			continue
		}
		if err := x.Problem(); err != nil {
			return err
		}
		if x.Scheme() == nil || x.Scheme().Scheme != s.form.Scheme || !slices.Equal(x.Shape(), s.shape) || len(x.Parts()) != len(s.parts) {
			return fmt.Errorf("%+v of shape %v, want %v", x.Scheme(), x.Shape(), s.shape)
		}
		want, err := loader.OpenBytes(modeltest.SafeTensors(s.want), nil)
		if err != nil {
			return err
		}
		defer want.Close()
		y, err := want.Tensor(s.want.Name)
		if err == nil {
			err = sameAsExpected(y, x)
		}
		if err == nil && s.want.Elements() > 0 {
			row := make([]float32, s.cols())
			err = x.DequantizeRows(row, x.Elements()/uint64(s.cols())-1, 1)
		}
		if err != nil {
			return err
		}
	}
	r, err := m.Verify(context.Background(), nil)
	if err == nil {
		err = r.Err()
	}
	return err
}

// otherTypes have the size of a type, and another meaning.
var otherTypes = map[layout.DType]layout.DType{
	layout.F32: layout.I32, layout.F16: layout.I16, layout.BF16: layout.U16, layout.U8: layout.I8, layout.I8: layout.U8, layout.I32: layout.F32,
	layout.I64: layout.F64, layout.F8_E4M3: layout.I8, layout.F8_E8M0: layout.I8, layout.BOOL: layout.I8,
}

// build opens the sample as one file.
func (s *sample) build() (*loader.Model, error) {
	var all []modeltest.Tensor
	for _, p := range s.parts {
		all = append(all, p.Tensor)
	}
	files := fstest.MapFS{"model.safetensors": {Data: modeltest.SafeTensors(all...)}}
	for name, b := range s.beside {
		files[name] = &fstest.MapFile{Data: b}
	}
	return loader.OpenFS(files, "model.safetensors", nil)
}

// sameOrRefused opens what became of a sample. Its weight has the sample's values or none, and the error names the
// tensor. It reports whether there are none.
func (s *sample) sameOrRefused(t *testing.T, bad sample, how string) (refused bool) {
	t.Helper()
	m, err := bad.build()
	if err != nil {
		t.Errorf("%s: %s: %v", s.name, how, err)
		return false
	}
	defer m.Close()
	for x := range m.Tensors() {
		if x.Name() != s.parts[0].Name && x.Scheme() == nil {
			continue
		}
		values, err := x.Float32s()
		switch {
		case err != nil:
			refused = true
			named := func(p samplePart) bool { return strings.Contains(err.Error(), layout.Quote([]byte(p.Name))) }
			if !strings.Contains(err.Error(), layout.Quote([]byte(x.Name()))) && !slices.ContainsFunc(bad.parts, named) {
				t.Errorf("%s: %s: %v", s.name, how, err)
			}
		case !slices.Equal(x.Shape(), s.shape) || compareBits("", kerneltest.Floats(s.want.Data), values, 0, true) != nil:
			t.Errorf("%s: %s: has values of shape %v", s.name, how, x.Shape())
		}
	}
	return refused
}

// TestQuantizedDamage: a weight one of whose companions is missing, or of another shape or type, has the same values or
// none.
func TestQuantizedDamage(t *testing.T) {
	tried, refused := 0, 0
	for _, s := range samples(t) {
		for i, p := range s.parts {
			if p.role == scheme.GroupIndex || p.role == scheme.Codes { // may be missing; may be those of another weight
				continue
			}
			c, damaged := p.Tensor, map[string][]modeltest.Tensor{"missing": nil} // as no writer stores a part, or nothing at all
			add := func(name string, c modeltest.Tensor, data []byte, shape ...int) {
				c.Data, c.Shape = data, shape
				damaged[name] = []modeltest.Tensor{c}
			}
			if d, ok := otherTypes[c.DType]; ok {
				other := c
				other.DType = d
				damaged["of another type"] = []modeltest.Tensor{other}
			}
			add("in one more dimension", c, c.Data, append([]int{1}, c.Shape...)...)
			add("flat", c, c.Data, int(c.Elements()))
			for i, n := range c.Shape {
				if n > 0 {
					damaged[fmt.Sprintf("short in dimension %d", i)] = []modeltest.Tensor{cut(c, i, n-1)}
				}
				if each := len(c.Data) / max(n, 1); each > 0 {
					shape := slices.Clone(c.Shape)
					shape[i]++
					add(fmt.Sprintf("long in dimension %d", i), c, slices.Concat(c.Data, c.Data[:each]), shape...)
				}
			}
			for how, instead := range damaged {
				if how == "missing" && s.form.Code == layout.CodeBlocks {
					continue // floats, as of a layer that is not quantized
				}
				bad := s
				bad.parts = slices.Delete(slices.Clone(s.parts), i, i+1)
				for _, c := range instead {
					bad.parts = append(bad.parts, samplePart{p.role, c})
				}
				tried++
				if s.sameOrRefused(t, bad, p.Name+" "+how) {
					refused++
				}
			}
		}
	}
	if tried < 1000 || refused < tried/2 {
		t.Errorf("%d tried, %d refused", tried, refused)
	}
}

// lies are what a configuration may say instead: all numbers that a pattern finds become another.
var lies = []struct{ pattern, instead string }{
	{`"(bits|num_bits|w_bit|nbits)": ?\d+`, `"$1": 0`}, {`"(bits|num_bits|w_bit|nbits)": ?\d+`, `"$1": 33`},
	{`"(bits|num_bits|w_bit|nbits)": ?\d+`, `"$1": -1`}, {`"(bits|num_bits|w_bit|nbits)": ?\d+`, `"$1": 1e99`},
	{`"(group_size|q_group_size)": ?\d+`, `"$1": 0`}, {`"(group_size|q_group_size)": ?\d+`, `"$1": -2`},
	{`"(group_size|q_group_size)": ?\d+`, `"$1": 4611686018427387904`}, {`"(group_size|q_group_size)": ?\d+`, `"$1": 3`},
	{`"(quant_method|quant_algo)": ?"[^"]*"`, `"$1": "magic"`}, {`"(weight_block_size|block_structure)": ?\[[^]]*\]`, `"$1": [0, 0]`},
	{`"(weight_block_size|block_structure)": ?\[[^]]*\]`, `"$1": [9223372036854775807, 18446744073709551615]`},
	{`"(weight_block_size|block_structure)": ?\[[^]]*\]`, `"$1": [-1, 1]`}, {`"(format|mode)": ?"[^"]*"`, `"$1": "magic"`},
	{`"linear_class": ?"[^"]*"`, `"linear_class": "magic"`},
}

// TestQuantizedLies: what the configuration, shapes, descriptions and group indexes say is held against the parts.
func TestQuantizedLies(t *testing.T) {
	refused := make(map[string]int)
	for _, s := range samples(t) {
		for _, lie := range lies {
			pattern := regexp.MustCompile(lie.pattern)
			bad := s
			bad.beside = make(map[string][]byte)
			told := false
			for name, b := range s.beside {
				told = told || pattern.Match(b)
				bad.beside[name] = pattern.ReplaceAll(b, []byte(lie.instead))
			}
			if told && s.sameOrRefused(t, bad, lie.instead) {
				refused[lie.pattern+lie.instead]++
			}
		}
		for i, p := range s.parts {
			lying := make(map[string][]byte) // contents that cannot be true
			at := func(name string, i int, v uint64) {
				b := slices.Clone(p.Data)
				if size := p.DType.BlockBytes(); size == 8 {
					binary.LittleEndian.PutUint64(b[8*i:], v)
				} else {
					binary.LittleEndian.PutUint32(b[4*i:], uint32(v))
				}
				lying[name] = b
			}
			last := int(p.Elements()) - 1
			switch p.role {
			case scheme.Shape:
				at("with no columns", last, 0)
				at("with −1 columns", last, math.MaxUint64)
				at("with 2⁴⁰ columns", last, 1<<40)
				at("with 2⁶³ rows", 0, 1<<63)
				at("with another row", 0, 1+uint64(p.Data[0]))
			case scheme.GroupIndex:
				at("of group −2", last, math.MaxUint64-1)
				at("of the largest group", 0, math.MaxInt32)
				at("of a group too many", last/2, uint64(last+1))
			case scheme.QuantState:
				if !strings.Contains(p.Name, "bitsandbytes") {
					break
				}
				for _, lie := range [][2]string{
					{`"shape": ?\[[^]]*\]`, `"shape": [0, 5]`}, {`"shape": ?\[[^]]*\]`, `"shape": [-1, -1]`}, {`"shape": ?\[[^]]*\]`, `"shape": [4294967296, 4294967296]`},
					{`"shape": ?\[[^]]*\]`, `"shape": {}`}, {`"blocksize": ?\d+`, `"blocksize": 0`}, {`"blocksize": ?\d+`, `"blocksize": 63`}, {`"blocksize": ?\d+`, `"blocksize": 1e9`},
					{`"quant_type": ?"[^"]*"`, `"quant_type": "nf8"`}, {`^\{`, `{{`}, {`\}$`, ``}, {`.*`, ``}, {`(?s).*`, "\xff\xfe"},
				} {
					if b := regexp.MustCompile(lie[0]).ReplaceAll(p.Data, []byte(lie[1])); string(b) != string(p.Data) {
						lying[lie[1]] = b
					}
				}
			}
			for how, data := range lying {
				bad := s
				bad.parts = slices.Clone(s.parts)
				c := &bad.parts[i].Tensor
				if c.Data = data; p.role == scheme.QuantState {
					c.Shape = []int{len(data)}
				}
				if !s.sameOrRefused(t, bad, p.Name+" "+how) {
					t.Errorf("%s: %s %s: is taken", s.name, p.Name, how)
				}
			}
		}
	}
	for _, lie := range lies {
		if refused[lie.pattern+lie.instead] == 0 {
			t.Errorf("%s %s: never refused", lie.pattern, lie.instead)
		}
	}
}

// cut returns the first entries of dimensions of c: to has pairs of a dimension, counted from the last one if it is below
// 0, and the number of its entries.
func cut(c modeltest.Tensor, to ...int) modeltest.Tensor {
	for pair := range slices.Chunk(to, 2) {
		dim, n := pair[0], pair[1]
		if dim < 0 {
			dim += len(c.Shape)
		}
		each := c.DType.BlockBytes()
		for _, size := range c.Shape[dim+1:] {
			each *= size
		}
		var data []byte
		for all := c.Data; len(all) > 0; all = all[c.Shape[dim]*each:] {
			data = append(data, all[:n*each]...)
		}
		c.Shape, c.Data = slices.Clone(c.Shape), data
		c.Shape[dim] = n
	}
	return c
}
