package layouttest

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/tensormap/tensormap/layout"
)

// newDescription says of newToy what is so.
func newDescription() *Description {
	scale, zero, yes, no := 0.5, int64(3), true, false
	return &Description{
		Version: "1", Size: 16, Metadata: []byte(`{"k":15e-1}`), Verify: "ok",
		Tensors: []Tensor{
			{Name: "a", DType: "U8", Encoding: "raw", Shape: []int{2, 2}, Offset: 4, Stored: 4, Raw: 4, ZeroCopy: &yes,
				StoredSHA256: sha256Hex(content[4:8]), RawSHA256: sha256Hex(content[4:8])},
			{Name: "b", DType: "I32", Encoding: layout.Protobuf.String(), Shape: []int{1}, Offset: 8, Stored: 1, Raw: 4, ZeroCopy: &no,
				Scale: &scale, ZeroPoint: &zero, StoredSHA256: sha256Hex(content[8:9]), RawSHA256: sha256Hex(make([]byte, 4))},
			{Name: "c", DType: "U8", Encoding: "raw", Shape: []int{1}, Offset: 5, Stored: 1, Raw: 1},
		},
	}
}

func TestCheckDescribedNotices(t *testing.T) {
	other := 0.25
	for name, change := range map[string]func(d *Description, a, b *Tensor){
		"nothing":    func(d *Description, a, b *Tensor) {},
		"version":    func(d *Description, a, b *Tensor) { d.Version = "2" },
		"size":       func(d *Description, a, b *Tensor) { d.Size = 15 },
		"metadata":   func(d *Description, a, b *Tensor) { d.Metadata = []byte(`{"k":1.50000000000000000000001}`) },
		"verify":     func(d *Description, a, b *Tensor) { d.Verify = "fail" },
		"findings":   func(d *Description, a, b *Tensor) { d.Findings = []string{"a"} },
		"one less":   func(d *Description, a, b *Tensor) { d.Tensors = d.Tensors[:2] },
		"name":       func(d *Description, a, b *Tensor) { a.Name = "x" },
		"dtype":      func(d *Description, a, b *Tensor) { a.DType = "I8" },
		"encoding":   func(d *Description, a, b *Tensor) { a.Encoding = "lz4" },
		"shape":      func(d *Description, a, b *Tensor) { a.Shape = []int{4} },
		"offset":     func(d *Description, a, b *Tensor) { a.Offset++ },
		"stored":     func(d *Description, a, b *Tensor) { b.Stored++ },
		"raw":        func(d *Description, a, b *Tensor) { b.Raw++ },
		"zero copy":  func(d *Description, a, b *Tensor) { a.ZeroCopy = b.ZeroCopy },
		"no scale":   func(d *Description, a, b *Tensor) { b.Scale = nil },
		"scale":      func(d *Description, a, b *Tensor) { b.Scale = &other },
		"zero point": func(d *Description, a, b *Tensor) { b.ZeroPoint = nil },
		"stored sum": func(d *Description, a, b *Tensor) { a.StoredSHA256 = b.StoredSHA256 },
		"raw sum":    func(d *Description, a, b *Tensor) { b.RawSHA256 = a.RawSHA256 },
	} {
		d := newDescription()
		change(d, &d.Tensors[0], &d.Tensors[1])
		f := newToy()
		fails(t, name != "nothing", name, func(tb testing.TB) { toys(f, nil).CheckDescribed(tb, f, content, d) })
	}
	f := newToy()
	f.mdErr, f.sumsErr = goodError, goodError
	fails(t, true, "no metadata", func(tb testing.TB) { toys(f, nil).CheckMetadata(tb, f, content, []byte("{}")) })
	fails(t, true, "no checksums", func(tb testing.TB) { CheckFindings(tb, f, content, "ok", nil) })
	f = newToy()
	f.md = layout.Metadata{{Value: func() {}}}
	fails(t, true, "no JSON", func(tb testing.TB) { toys(f, nil).CheckMetadata(tb, f, content, []byte("{}")) })
	fails(t, true, "no JSON to compare", func(tb testing.TB) { ExactJSON(tb, []byte("{")) })
	f = newToy()
	f.index.Names = layout.NewNames(3)
	fails(t, true, "not found", func(tb testing.TB) { CheckTensors(tb, f, content, newDescription().Tensors) })
}

func TestNormal(t *testing.T) {
	x := toys(newToy(), nil)
	x.Normal = func(md any) { md.(map[string]any)["k"] = nil }
	fails(t, false, "made the same", func(tb testing.TB) { x.CheckMetadata(tb, newToy(), content, []byte(`{"k":7}`)) })
}

func TestCheckFindings(t *testing.T) {
	f := newToy()
	f.findings = []layout.Finding{{FormatError: goodError.(*layout.FormatError), Warning: true}}
	f.sums = []layout.Checksum{{Field: "crc32", Size: 9, Want: 0xcbf43926}} // of 123456789, which CRCs are told by
	fails(t, false, "right", func(tb testing.TB) { CheckFindings(tb, f, content, "ok", []string{"field"}) })
	f.sums[0].Want++
	fails(t, false, "wrong", func(tb testing.TB) { CheckFindings(tb, f, content, "fail", []string{"field", "crc32"}) })
	f.sums = nil
	f.findings[0].Warning = false
	fails(t, false, "found", func(tb testing.TB) { CheckFindings(tb, f, content, "fail", []string{"field"}) })
	fails(t, true, "not warned", func(tb testing.TB) { CheckFindings(tb, f, content, "ok", []string{"field"}) })
}

// TestFixtures reads a folder with files of two formats.
func TestFixtures(t *testing.T) {
	x := toys(newToy(), nil)
	x.Dir, x.Ext = t.TempDir(), ".toy"
	for name, text := range map[string]string{
		"one.json": `{"file":"first.toy","format":"tsm","error":{"field":"field","offset":3}}`, "first.toy": "1",
		"two.json": `{"size":1}`, "two.toy": "2", "other.json": `{"format":"gguf"}`,
	} {
		if err := os.WriteFile(filepath.Join(x.Dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	all := x.Fixtures(t)
	if len(all) != 2 || all[0].Name != "first" || string(all[0].Data) != "1" || all[0].Want.Error == nil || all[1].Name != "two" || all[1].Want.Size != 1 {
		t.Errorf("%+v", all)
	}
	for err, want := range map[error]bool{goodError: false, layout.ErrInvalid: true, badErrors["past the file"]: true} {
		fails(t, want, "refused", func(tb testing.TB) { WantError(tb, err, x.ID, all[0].Want.Error.Offset, all[0].Want.Error.Field, err) })
	}
	fails(t, true, "a file, and refused", func(tb testing.TB) { wantNone(tb, newToy()) })
	fails(t, true, "no file", func(tb testing.TB) { x.Read(tb, "three") })
	fails(t, true, "no description", func(tb testing.TB) { x.Description(tb, "three", new(Description)) })
	x.Least = 3
	fails(t, true, "one is missing", func(tb testing.TB) { x.Fixtures(tb) })
}
