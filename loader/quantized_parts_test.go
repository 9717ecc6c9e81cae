package loader_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/tensormap/tensormap/internal/test/modeltest"
	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/loader"
	"github.com/tensormap/tensormap/scheme"
)

// TestRowOfFP8FromAfar: a row costs its codes and its row of scales. All scales are read once the rows
// have asked for as many.
func TestRowOfFP8FromAfar(t *testing.T) {
	d := newDistant("model.safetensors", modeltest.SafeTensors(tensorsOf("FP8 blocks")...))
	m := d.open(t, nil)
	x := tensor(t, m, "a.weight")
	row := make([]float32, 384)
	for i, want := range []int64{384 + 3*4, 384 + 3*4, 384 + 6*4, 384, 384} {
		d.traffic.reset()
		if err := x.DequantizeRows(row, 200, 1); err != nil || row[0] != 1.5*8 || row[128] != 1.5*16 || row[383] != 1.5*32 {
			t.Fatalf("%v, %v", row[:4], err)
		}
		if n := d.traffic.bytes.Load(); n != want {
			t.Errorf("row %d reads %d bytes, want %d", i, n, want)
		}
	}
	if s := m.Stats(); s.HeapBytes != 6*4 {
		t.Errorf("the cache has %d bytes", s.HeapBytes)
	}
	whole := tensor(t, newDistant("model.safetensors", modeltest.SafeTensors(tensorsOf("FP8 blocks")...)).open(t, nil), "a.weight")
	if v, err := whole.Float32s(); err != nil || v[0] != 1.5 || v[256*384-1] != 1.5*32 {
		t.Errorf("%v", err)
	}
}

// TestRowOfSlabsFromAfar: rows of one slab cost their own codes, though others share their bytes. Rows of two
// slabs cost those of the matrix, once.
func TestRowOfSlabsFromAfar(t *testing.T) {
	for name, tt := range map[string]struct {
		scales []int64 // bytes of them that reads cost
		matrix int64   // bytes of all codes
	}{
		"bitnet":   {[]int64{2, 2, 0, 0, 0}, 8 * 128}, // the second reads all, which is one
		"hqq-4bit": {[]int64{8, 8, 8, 16, 16}, 16 * 128},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(quantizedData, name, "model.safetensors")
			b, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			d := newDistant(path, b)
			m := d.open(t, nil)
			const weight = "model.layers.0.self_attn.q_proj.weight"
			x, want := tensor(t, m, weight), openPath(t, filepath.Join(quantizedData, name, "expected.safetensors"), nil)
			all, err := tensor(t, want, weight).Float32s()
			if err != nil {
				t.Fatal(err)
			}
			for i, read := range []struct {
				row, n uint64
				codes  int64
			}{{0, 1, 128}, {9, 1, 128}, {31, 1, 128}, {15, 2, tt.matrix}, {15, 2, 0}} {
				d.traffic.reset()
				got := make([]float32, 128*read.n)
				if err := x.DequantizeRows(got, read.row, read.n); err != nil {
					t.Fatal(err)
				}
				if err := compareBits(weight, all[128*read.row:][:len(got)], got, 128*read.row, false); err != nil {
					t.Error(err)
				}
				if n := d.traffic.bytes.Load(); n != read.codes+tt.scales[i] {
					t.Errorf("%d rows from %d on read %d bytes, want %d and %d", read.n, read.row, n, read.codes, tt.scales[i])
				}
			}
		})
	}
}

// TestRowsFromAfar: a row of every scheme that stores rows one after the other costs its own codes and scales, and what
// all rows share.
func TestRowsFromAfar(t *testing.T) {
	var counted []string
	for _, dir := range checkpoints(t) {
		path := filepath.Join(dir, "model.safetensors")
		b, err := os.ReadFile(path)
		if err != nil {
			continue // shards, which are opened by the first read, or GGUF
		}
		d := newDistant(path, b)
		m := d.open(t, nil)
		for x := range m.Tensors() {
			f := x.Scheme()
			if f == nil || x.Elements() == 0 || f.Pack != layout.PackRows && f.Pack != layout.PackWords || f.Scheme == scheme.HQQ || f.HasOffsets && !f.Ordered {
				continue
			}
			cols := uint64(x.Shape()[len(x.Shape())-1])
			rows, indexed := x.Elements()/cols, false
			var want uint64
			for _, p := range x.Parts() {
				bytes, elems := p.Tensor.StoredBytes(), p.Tensor.Elements()
				switch flat := f.Code == layout.CodeNF4 || f.Code == layout.CodeFP4; {
				case p.Role == scheme.GroupIndex:
					indexed = true
				case p.Role == scheme.Codes && flat: // a row may begin and end within a byte
					want += cols/2 + 1
				case p.Role == scheme.Codes:
					want += bytes / rows
				case p.Role == scheme.Scale && flat:
					want += min((cols+f.GroupCols-1)/f.GroupCols+1, elems) * (bytes / elems)
				case p.Role == scheme.NestedScale:
					want += min(2, elems) * (bytes / elems)
				case elems == 1, p.Role == scheme.QuantMap, p.Role == scheme.NestedMap, p.Role == scheme.GlobalScale:
					want += bytes
				case p.Role == scheme.Scale, p.Role == scheme.ZeroPoint, p.Role == scheme.Bias:
					groups := (f.Rows + max(f.GroupRows, 1) - 1) / max(f.GroupRows, 1) * (rows / f.Rows)
					if f.GroupRows == 0 {
						groups = rows / f.Rows
					}
					want += bytes / groups
				}
			}
			if indexed {
				continue
			}
			d.traffic.reset()
			if err := x.DequantizeRows(make([]float32, cols), rows/2, 1); err != nil {
				t.Fatal(err)
			}
			if n := uint64(d.traffic.bytes.Load()); n == 0 || n > want {
				t.Errorf("%s: %s: a row reads %d bytes, want %d", filepath.Base(dir), x.Name(), n, want)
			}
			if !slices.Contains(counted, f.Scheme) {
				counted = append(counted, f.Scheme)
			}
		}
	}
	slices.Sort(counted)
	if got := strings.Join(counted, " "); got != "bitnet bnb-fp4 bnb-int8 bnb-nf4 fp8 int-quantized mlx-affine mxfp4 nvfp4 pack-quantized" {
		t.Errorf("counted for %s", got)
	}
}

// TestWarmParts: warming a logical tensor loads its parts, and its values then make no request.
func TestWarmParts(t *testing.T) {
	d := newDistant("model.safetensors", modeltest.SafeTensors(tensorsOf("FP8 blocks")...))
	m := d.open(t, nil)
	l, err := m.Acquire()
	if err != nil {
		t.Fatal(err)
	}
	defer l.Release()
	r, err := l.Warm(context.Background(), []string{"a.weight"}, nil)
	if err != nil || r.Bytes < 256*384+6*4 {
		t.Fatalf("%+v, %v", r, err)
	}
	d.traffic.reset()
	x, err := l.Tensor("a.weight")
	if err != nil {
		t.Fatal(err)
	}
	if v, err := x.Float32s(); err != nil || v[384*255] != 1.5*8 || d.traffic.requests.Load() != 0 {
		t.Errorf("%v, %d requests", err, d.traffic.requests.Load())
	}
	if err := m.Evict(names(m.Tensors())...); err != nil {
		t.Error(err)
	}
}

// TestLeasePinsParts: what a lease has read of a logical tensor's parts, or warmed, stays until the lease is released.
func TestLeasePinsParts(t *testing.T) {
	awq := []modeltest.Tensor{modeltest.Random("a.qweight", layout.I32, 64, 2), modeltest.Random("a.qzeros", layout.I32, 2, 2), modeltest.Random("a.scales", layout.F16, 2, 16)}
	for name, tensors := range map[string][]modeltest.Tensor{"fp8": tensorsOf("FP8 blocks"), "awq": awq} {
		for _, warm := range []bool{false, true} {
			d := newDistant("model.safetensors", modeltest.SafeTensors(tensors...))
			m := d.open(t, nil)
			l, err := m.Acquire()
			if err != nil {
				t.Fatal(err)
			}
			x, err := l.Tensor("a.weight")
			if err != nil {
				t.Fatal(err)
			}
			if warm {
				_, err = l.Warm(context.Background(), []string{"a.weight"}, nil)
			} else {
				_, err = x.Float32s()
			}
			if err != nil {
				t.Fatal(err)
			}
			for range 2 { // the second time the cache has let go of all that it may
				d.traffic.reset()
				if err := x.Dequantize(make([]float32, x.Elements())); err != nil || d.traffic.requests.Load() != 0 {
					t.Errorf("%s, warm %v: %v, %d requests", name, warm, err, d.traffic.requests.Load())
				}
				if err := m.Evict(names(m.Tensors())...); err != nil {
					t.Error(err)
				}
			}
			l.Release()
			if err := m.Evict(names(m.Tensors())...); err != nil || m.Stats().HeapBytes != 0 {
				t.Errorf("%s, warm %v: %v, %d bytes are left", name, warm, err, m.Stats().HeapBytes)
			}
		}
	}
}

// TestLogicalTensor has what can be asked of a logical tensor and of its parts.
func TestLogicalTensor(t *testing.T) {
	file := modeltest.SafeTensors(append(tensorsOf("FP8 blocks"), modeltest.Random("norm", layout.F32, 4))...)
	m := openBytes(t, file, nil)
	x := tensor(t, m, "a.weight")
	if s := x.Scheme(); s == nil || s.Scheme != "fp8" || s.GroupRows != 128 || s.GroupCols != 128 {
		t.Errorf("%+v", s)
	}
	if x.DType() != layout.Invalid || x.Elements() != 256*384 || x.StoredBytes() != 256*384+24 || x.ZeroCopy() || x.Problem() != nil ||
		x.Stored().DType() != layout.F8_E4M3 || x.Stored() != x.Parts()[0].Tensor {
		t.Errorf("%v, %d bytes", x.DType(), x.StoredBytes())
	}
	if got := names(m.Tensors()); !slices.Equal(got, []string{"a.weight", "norm"}) || m.Len() != 2 || m.Stats().Tensors != 2 {
		t.Errorf("%v", got)
	}
	for what, call := range map[string]func() error{
		"Bytes":          func() error { _, err := x.Bytes(); return err },
		"View":           func() error { _, err := loader.View[byte](x); return err },
		"ReadAt":         func() error { _, err := x.ReadAt(make([]byte, 1), 0); return err },
		"WriteTo":        func() error { _, err := x.WriteTo(io.Discard); return err },
		"WriteDecrypted": func() error { _, err := x.WriteDecrypted(io.Discard); return err },
	} {
		if err := call(); !errors.Is(err, loader.ErrUnsupported) || !strings.Contains(err.Error(), `"a.weight", "a.weight_scale_inv"`) {
			t.Errorf("%s: %v", what, err)
		}
	}
	parts := x.Parts()
	if len(parts) != 2 || parts[0].Role.String() != "codes" || parts[1].Tensor.Name() != "a.weight_scale_inv" {
		t.Fatalf("%v", parts)
	}
	if b, err := parts[0].Tensor.Bytes(); err != nil || b[5] != 0x3c || !parts[0].Tensor.ZeroCopy() {
		t.Error(err)
	}
	if v, err := tensor(t, m, "a.weight_scale_inv").Float32s(); err != nil || v[5] != 32 {
		t.Error(err)
	}
	stored := openBytes(t, file, &loader.Options{Stored: true})
	if y := tensor(t, stored, "a.weight"); y.DType() != layout.F8_E4M3 || y.Scheme() != nil || stored.Len() != 3 {
		t.Errorf("%v, %d tensors", y.DType(), stored.Len())
	}
	row := make([]float32, 384)
	if allocs := testing.AllocsPerRun(100, func() { m.Tensor("a.weight") }); allocs != 0 {
		t.Errorf("%v allocations for a lookup", allocs)
	}
	if err := x.DequantizeRows(row, 0, 1); err != nil || row[383] != 1.5*4 {
		t.Error(err)
	}
}

// TestValuesOfCodes: a logical tensor and its codes have values of their own in the cache, whichever are asked for first.
func TestValuesOfCodes(t *testing.T) {
	for _, first := range []string{"logical", "codes"} {
		m := openBytes(t, modeltest.SafeTensors(tensorsOf("FP8 blocks")...), nil)
		x := tensor(t, m, "a.weight")
		of := map[string]loader.Tensor{"logical": x, "codes": x.Parts()[0].Tensor}
		if _, err := of[first].Float32s(); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			logical, err := of["logical"].Float32s()
			if err != nil || logical[384*255] != 1.5*8 {
				t.Errorf("%s first: the logical tensor has %v, %v", first, logical[384*255], err)
			}
			if codes, err := of["codes"].Float32s(); err != nil || codes[384*255] != 1.5 {
				t.Errorf("%s first: the codes have %v, %v", first, codes[384*255], err)
			}
		}
	}
}

// TestConfigOfHeader: what only the file's header says of its weights counts, with and without files beside it.
func TestConfigOfHeader(t *testing.T) {
	file := modeltest.SafeTensorsAt(0, `{"_quantization_metadata":"{\"layers\":{\"a\":{\"format\":\"nvfp4\"}}}"}`,
		modeltest.Tensor{Name: "a.weight", DType: layout.U8, Shape: []int{128, 32}, Data: make([]byte, 128*32)},
		modeltest.Tensor{Name: "a.weight_scale", DType: layout.F8_E4M3, Shape: []int{128, 4}, Data: make([]byte, 128*4)},
		modeltest.Tensor{Name: "a.weight_scale_2", DType: layout.F32, Data: make([]byte, 4)})
	for _, name := range []string{"", "hf_quant_config.json"} {
		path := modeltest.Write(t, "model.safetensors", file)
		if name != "" {
			modeltest.WriteTo(t, filepath.Join(filepath.Dir(path), name), []byte(`{"quantization":{"quant_algo":"NVFP4"}}`))
		}
		m := openPath(t, path, nil)
		if err := tensor(t, m, "a.weight").Problem(); err == nil || !strings.Contains(err.Error(), `ComfyUI's format "nvfp4"`) {
			t.Errorf("beside %q: %v", name, err)
		}
	}
}

// TestRefusedWeights: codes whose companions do not fit have bytes and no values, and verify says so.
func TestRefusedWeights(t *testing.T) {
	bad := tensorsOf("FP8 blocks")
	bad[1].Shape = []int{3, 2}
	index := modeltest.Tensor{Name: "q.g_idx", DType: layout.I32, Shape: []int{32}, Data: make([]byte, 128)}
	binary.LittleEndian.PutUint32(index.Data[4*31:], 7)
	gptq := []modeltest.Tensor{modeltest.Random("q.qweight", layout.I32, 4, 8), modeltest.Random("q.qzeros", layout.I32, 2, 1), modeltest.Random("q.scales", layout.F16, 2, 8), index}
	for name, tt := range map[string]struct {
		tensors []modeltest.Tensor
		tensor  string
		says    string
		opens   bool // as a logical tensor, whose parts are wrong
	}{
		"misfit":                 {bad, "a.weight", "does not fit shape [256 384]", false},
		"alone":                  {bad[:1], "a.weight", "without a scale", false},
		"a group that is none":   {gptq, "q.weight", "column 31 is in group 7 of 2", true},
		"a format of int8 tiles": {[]modeltest.Tensor{modeltest.Random("i.weight", layout.I8, 4, 4), modeltest.Random("i.SCB", layout.F32, 4), {Name: "i.weight_format", DType: layout.U8, Shape: nil, Data: []byte{2}}}, "i.weight", "tiles of format 2", true},
	} {
		t.Run(name, func(t *testing.T) {
			path := modeltest.Write(t, "memory", modeltest.SafeTensors(tt.tensors...))
			if tt.tensor == "q.weight" {
				modeltest.WriteTo(t, filepath.Join(filepath.Dir(path), "config.json"), []byte(`{"quantization_config":{"quant_method":"gptq","checkpoint_format":"gptq_v2","sym":false}}`))
			}
			m := openPath(t, path, nil)
			x := tensor(t, m, tt.tensor)
			if (x.Problem() == nil) != tt.opens {
				t.Errorf("%v", x.Problem())
			}
			_, err := x.Float32s()
			for _, err := range []error{err, x.Dequantize(make([]float32, x.Elements())), x.DequantizeRows(make([]float32, x.Shape()[1]), 1, 1)} {
				if err == nil || !strings.Contains(err.Error(), tt.says) || !strings.Contains(err.Error(), `tensor "`) || strings.Count(err.Error(), "memory:") != 1 {
					t.Errorf("%v", err)
				}
			}
			if b, err := x.Stored().Bytes(); !tt.opens && (err != nil || len(b) == 0) {
				t.Error(err)
			}
			r, err := m.Verify(context.Background(), nil)
			if err != nil || len(r.Findings) != 1 || !strings.Contains(r.Findings[0].Error(), tt.says) || strings.Count(r.Findings[0].Error(), "memory:") != 1 {
				t.Errorf("%+v, %v", r, err)
			}
		})
	}
}

// TestBytesWithoutScale: verify warns of bytes that are called weight, whose configuration says nothing. Others are
// what they are.
func TestBytesWithoutScale(t *testing.T) {
	for _, tt := range []struct {
		tensor modeltest.Tensor
		warns  bool
	}{
		{modeltest.Random("a.weight", layout.I8, 4, 4), true}, {modeltest.Random("a.qweight", layout.U8, 4, 4), true},
		{modeltest.Random("mask", layout.U8, 4, 4), false}, {modeltest.Random("a.weight", layout.U8, 4), false}, {modeltest.Random("a.weight", layout.I32, 4, 4), false},
	} {
		for _, more := range [][]modeltest.Tensor{{tt.tensor}, append(tensorsOf("FP8 blocks"), modeltest.Tensor{Name: "x." + tt.tensor.Name, DType: tt.tensor.DType, Shape: tt.tensor.Shape, Data: tt.tensor.Data})} {
			r, err := openBytes(t, modeltest.SafeTensors(more...), nil).Verify(context.Background(), nil)
			if err != nil || r.Err() != nil || (len(r.Findings) == 1) != tt.warns || tt.warns && !strings.Contains(r.Findings[0].Error(), "without a scale: it may be codes") {
				t.Errorf("%s %v: %+v, %v", tt.tensor.Name, tt.tensor.DType, r, err)
			}
		}
	}
}

// TestFBGEMMExperts: experts are stored as [experts, in, out], and each column has a scale, wherever that dimension is.
func TestFBGEMMExperts(t *testing.T) {
	codes := modeltest.Tensor{Name: "x.down_proj", DType: layout.F8_E4M3, Shape: []int{2, 3, 4}, Data: bytes.Repeat([]byte{0x38, 0x40}, 12)} // 1, 2
	for _, shape := range [][]int{{2, 1, 4}, {2, 4, 1}} {
		dir := t.TempDir()
		scale := modeltest.Tensor{Name: "x.down_proj_scale", DType: layout.F32, Shape: shape, Data: modeltest.Float32s(1, 2, 3, 4, 5, 6, 7, 8)}
		path := filepath.Join(dir, "model.safetensors")
		if err := errors.Join(os.WriteFile(path, modeltest.SafeTensors(codes, scale), 0o600),
			os.WriteFile(filepath.Join(dir, "config.json"), []byte(`{"quantization_config":{"quant_method":"fbgemm_fp8"}}`), 0o600)); err != nil {
			t.Fatal(err)
		}
		got, err := tensor(t, openPath(t, path, &loader.Options{NoMap: !mapsFiles}), "x.down_proj").Float32s()
		want := []float32{1, 4, 3, 8, 1, 4, 3, 8, 1, 4, 3, 8, 5, 12, 7, 16, 5, 12, 7, 16, 5, 12, 7, 16}
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("%v: %v, %v", shape, got, err)
		}
	}
}

// TestScalesThatAreNaN: verify tells them from the scales alone, whatever the codes are.
func TestScalesThatAreNaN(t *testing.T) {
	for bad, want := range map[byte]bool{0x7f: true, 0xff: true, 0x38: false} {
		scales := modeltest.Tensor{Name: "a.weight_scale", DType: layout.F8_E4M3, Shape: []int{4, 2}, Data: bytes.Repeat([]byte{0x38}, 8)}
		scales.Data[5] = bad
		m := openBytes(t, modeltest.SafeTensors([]modeltest.Tensor{{Name: "a.weight", DType: layout.U8, Shape: []int{4, 16}, Data: make([]byte, 64)}, scales, modeltest.Random("a.weight_scale_2", layout.F32)}...), nil)
		r, err := m.Verify(context.Background(), nil)
		if err != nil || (r.Err() != nil) != want || want && !strings.Contains(r.Err().Error(), "scale 5 is NaN") {
			t.Errorf("%#x: %v, %v", bad, r.Err(), err)
		}
	}
}

// TestZeroGroupIndex: verify says how an index of zeros alone was understood.
func TestZeroGroupIndex(t *testing.T) {
	index := modeltest.Tensor{Name: "q.g_idx", DType: layout.I32, Shape: []int{32}, Data: make([]byte, 128)}
	two := []modeltest.Tensor{modeltest.Random("q.qweight", layout.I32, 4, 8), modeltest.Random("q.qzeros", layout.I32, 2, 1), modeltest.Random("q.scales", layout.F16, 2, 8), index}
	one := []modeltest.Tensor{modeltest.Random("q.qweight", layout.I32, 4, 8), modeltest.Random("q.qzeros", layout.I32, 1, 1), modeltest.Random("q.scales", layout.F16, 1, 8), index}
	for _, tt := range []struct {
		config  string
		tensors []modeltest.Tensor
		says    string
	}{
		{`{"quantization_config":{"quant_method":"gptq","checkpoint_format":"gptq_v2","sym":false}}`, two, "taken for consecutive groups, without desc_act"},
		{`{"quantization_config":{"quant_method":"gptq","checkpoint_format":"gptq_v2","bits":4,"desc_act":true,"sym":false}}`, two, "taken as it is"},
		{`{"quantization_config":{"quant_method":"gptq","checkpoint_format":"gptq_v2","sym":false}}`, one, ""},
	} {
		dir := t.TempDir()
		path := filepath.Join(dir, "model.safetensors")
		if err := errors.Join(os.WriteFile(path, modeltest.SafeTensors(tt.tensors...), 0o600), os.WriteFile(filepath.Join(dir, "config.json"), []byte(tt.config), 0o600)); err != nil {
			t.Fatal(err)
		}
		m := openPath(t, path, &loader.Options{NoMap: !mapsFiles})
		r, err := m.Verify(context.Background(), nil)
		if err != nil || r.Err() != nil || len(r.Findings) != min(len(tt.says), 1) {
			t.Fatalf("%+v, %v", r, err)
		}
		if len(r.Findings) > 0 && (!r.Findings[0].Warning || !strings.Contains(r.Findings[0].Error(), tt.says)) {
			t.Errorf("%v", r.Findings[0])
		}
		first, last := make([]float32, 1), make([]float32, 1)
		x := tensor(t, m, "q.weight")
		if err := errors.Join(x.DequantizeRange(first, 0), x.DequantizeRange(last, 31)); err != nil {
			t.Error(err)
		}
	}
}

// TestGroupsByIndexAlone: 48 groups of 128 columns have no common size. The group index alone tells the columns of each.
func TestGroupsByIndexAlone(t *testing.T) {
	const rows, cols, groups = 32, 128, 48
	codes, zeros := modeltest.Random("q.qweight", layout.I32, cols/8, rows), modeltest.Random("q.qzeros", layout.I32, groups, rows/8)
	scales := modeltest.Random("q.scales", layout.BF16, groups, rows)
	index := modeltest.Tensor{Name: "q.g_idx", DType: layout.I32, Shape: []int{cols}, Data: make([]byte, 4*cols)}
	scale := func(group, row int) float32 { return float32(1 + (7*group+row)%200) }
	for i := range groups * rows {
		binary.LittleEndian.PutUint16(scales.Data[2*i:], uint16(math.Float32bits(scale(i/rows, i%rows))>>16))
	}
	nibble := func(b []byte, word, n int) float32 {
		return float32(binary.LittleEndian.Uint32(b[4*word:]) >> (4 * n) & 15)
	}
	want := make([]float32, rows*cols)
	for c := range cols {
		group := (groups - 1 + 5*c) % groups
		binary.LittleEndian.PutUint32(index.Data[4*c:], uint32(group))
		for r := range rows {
			want[r*cols+c] = (nibble(codes.Data, c/8*rows+r, c%8) - nibble(zeros.Data, group*rows/8+r/8, r%8)) * scale(group, r)
		}
	}
	path := modeltest.Write(t, "memory", modeltest.SafeTensors(codes, zeros, scales, index))
	modeltest.WriteTo(t, filepath.Join(filepath.Dir(path), "config.json"), []byte(`{"quantization_config":{"quant_method":"gptq","checkpoint_format":"gptq_v2","bits":4,"desc_act":true,"sym":false}}`))
	x := tensor(t, openPath(t, path, nil), "q.weight")
	if got, err := x.Float32s(); err != nil || !slices.Equal(got, want) {
		t.Errorf("%v, %v", err, got)
	}
	last := make([]float32, cols)
	if err := x.DequantizeRows(last, rows-1, 1); err != nil || !slices.Equal(last, want[(rows-1)*cols:]) {
		t.Errorf("%v, %v", err, last)
	}
}

// TestQuantizedTruncated: a file cut under its mapping is an error of every method, whatever part is gone.
func TestQuantizedTruncated(t *testing.T) {
	for _, dir := range []string{"awq-gemm", "gptq-4bit", "bnb-nf4-nested", "ct-pack-4", "mlx-4bit", "hqq-4bit", "ct-nvfp4"} {
		b, err := os.ReadFile(filepath.Join(quantizedData, dir, "model.safetensors"))
		if err != nil {
			t.Fatal(err)
		}
		config, err := os.ReadFile(filepath.Join(quantizedData, dir, "config.json"))
		if err != nil {
			t.Fatal(err)
		}
		for _, left := range []int64{0, int64(len(b)) / 4096 * 4096 / 2} {
			folder := t.TempDir()
			path := filepath.Join(folder, "model.safetensors")
			if err := errors.Join(os.WriteFile(path, b, 0o600), os.WriteFile(filepath.Join(folder, "config.json"), config, 0o600)); err != nil {
				t.Fatal(err)
			}
			m := openPath(t, path, &loader.Options{NoMap: !mapsFiles})
			if err := os.Truncate(path, left); err != nil {
				t.Skip(err) // a system that does not cut mapped files
			}
			failed := 0
			for x := range m.Tensors() {
				if x.Scheme() == nil {
					continue
				}
				for _, call := range []func() error{
					func() error { _, err := x.Float32s(); return err },
					func() error { return x.DequantizeRows(make([]float32, x.Shape()[len(x.Shape())-1]), 0, 1) },
				} {
					done := make(chan error)
					go func() { done <- call() }() // on a small stack
					if <-done != nil {
						failed++
					}
				}
			}
			if failed == 0 && left == 0 {
				t.Errorf("%s, %d bytes left: nothing fails", dir, left)
			}
			m.Close()
		}
	}
}

// TestQuantizedFloatsWithProblem: a tensor of F32 that is refused has no values, as others have none.
func TestQuantizedFloatsWithProblem(t *testing.T) {
	b := modeltest.SafeTensors(
		modeltest.Tensor{Name: "a.weight", DType: layout.F32, Shape: []int{2}, Data: modeltest.Float32s(1, 2)},
		modeltest.Tensor{Name: "a.SCB", DType: layout.F32, Shape: []int{1}, Data: modeltest.Float32s(3)})
	m, err := loader.OpenBytes(b, nil)
	x := tensor(t, modeltest.Opened(t, m, err), "a.weight")
	if v, err := x.Float32s(); err == nil || x.Problem() == nil || err.Error() != x.Problem().Error() {
		t.Errorf("%v, %v, %v", v, err, x.Problem())
	}
}

// TestSchemeOfRefused: a weight whose name another one has is listed as it is stored, without a scheme.
func TestSchemeOfRefused(t *testing.T) {
	m := openBytes(t, modeltest.SafeTensors(
		modeltest.Random("a.qweight", layout.I32, 64, 16), modeltest.Random("a.qzeros", layout.I32, 2, 16), modeltest.Random("a.scales", layout.F16, 2, 128),
		modeltest.Random("a.weight_packed", layout.I32, 128, 8), modeltest.Random("a.weight_scale", layout.BF16, 128, 2),
		modeltest.Tensor{Name: "a.weight_shape", DType: layout.I64, Shape: []int{2}, Data: []byte{0: 128, 8: 64, 15: 0}}), nil)
	x := tensor(t, m, "a.weight_packed")
	if err := x.Problem(); err == nil || !strings.Contains(err.Error(), "codes of the same weight") || x.Scheme() != nil {
		t.Errorf("%v, %v", err, x.Scheme())
	}
}

// TestVerifyCodesOfTwo: verify reports both of two weights with the same codes, which differ in their descriptions.
func TestVerifyCodesOfTwo(t *testing.T) {
	tensors := []modeltest.Tensor{modeltest.Random("a.weight", layout.BF16, 16, 1), modeltest.Random("a.weight.absmax", layout.F32, 1)}
	for _, kind := range []string{"nf4", "fp4"} {
		text := []byte(`{"quant_type":"` + kind + `","blocksize":64,"shape":[64],"dtype":"bfloat16"}`)
		tensors = append(tensors, modeltest.Tensor{Name: "a.weight.quant_state.bitsandbytes__" + kind, DType: layout.U8, Shape: []int{len(text)}, Data: text})
	}
	r, err := openBytes(t, modeltest.SafeTensors(tensors...), nil).Verify(context.Background(), nil)
	if err != nil || len(r.Findings) != 2 || r.Err() == nil || !strings.Contains(r.Err().Error(), `"a.weight" is a part of "a.weight" too`) {
		t.Errorf("%+v, %v", r, err)
	}
}
