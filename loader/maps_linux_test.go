package loader_test

import (
	"os"
	"strings"
	"testing"

	"github.com/tensormap/tensormap/internal/test/modeltest"
	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/loader"
)

// mapped is how many mappings of the file at path the process has.
func mapped(t *testing.T, path string) (n int) {
	t.Helper()
	b, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(b)) {
		if strings.Contains(line, path) {
			n++
		}
	}
	return n
}

func TestOpenMapsOnce(t *testing.T) {
	path := modeltest.Write(t, "model", modeltest.SafeTensors(modeltest.Random("a", layout.F32, 9)))
	m := openPath(t, path, nil)
	if n := mapped(t, path); n != 1 {
		t.Errorf("%d mappings of an open model", n)
	}
	m.Close()
	if n := mapped(t, path); n != 0 {
		t.Errorf("%d mappings of a closed model", n)
	}
}

func TestFailedOpenLeavesNoMapping(t *testing.T) {
	good := modeltest.SafeTensors(modeltest.Random("a", layout.F32, 9))
	for _, b := range [][]byte{modeltest.Noise(5000, 1), good[:len(good)-1], good[:9], []byte("GGUF and so on")} {
		path := modeltest.Write(t, "model", b)
		for _, w := range ways {
			if m, err := w.open(path); err == nil {
				m.Close()
				t.Errorf("%s: opened %q", w.name, b[:4])
			}
			if n := mapped(t, path); n != 0 {
				t.Errorf("%s: %d mappings left", w.name, n)
			}
		}
	}
}

// TestDescriptionsOutliveMapping touches everything that was handed out after the memory
// of the file is gone: what aliased it would end the process.
func TestDescriptionsOutliveMapping(t *testing.T) {
	tensors := []modeltest.Tensor{modeltest.Random("first", layout.F32, 3, 4), modeltest.Random("second", layout.I8, 5)}
	md := layout.Metadata{{Key: "text", Value: "some text"}, {Key: "list", Value: []any{"one", "two"}}}
	for format, b := range map[string][]byte{
		"safetensors": modeltest.SafeTensorsAt(0, `{"text":"some text"}`, tensors...),
		"apr2":        modeltest.APR2Model(t, md, tensors...),
	} {
		path := modeltest.Write(t, "model", b)
		m := openPath(t, path, nil)
		md, err := m.Metadata()
		if err != nil {
			t.Fatal(err)
		}
		var handles []loader.Tensor
		for x := range m.Tensors() {
			handles = append(handles, x)
		}
		files := m.Files()
		m.Close()
		if n := mapped(t, path); n != 0 {
			t.Fatalf("%s: %d mappings left", format, n)
		}
		for i, x := range handles {
			c := tensors[i]
			if got := (modeltest.Tensor{Name: x.Name(), DType: x.DType(), Shape: x.Shape(), Data: c.Data}); !got.Equal(c) || x.Elements() != c.Elements() {
				t.Errorf("%s: %v, want %v", format, got, c)
			}
		}
		if text, _ := md.Get("text"); text != "some text" {
			t.Errorf("%s: metadata %v", format, md)
		}
		if j, err := md.MarshalJSON(); err != nil || !strings.Contains(string(j), "some text") {
			t.Errorf("%s: %s, %v", format, j, err)
		}
		if files[0].Path != path || files[0].Size != uint64(len(b)) || len(files[0].Layout.Index().Tensors) != 2 {
			t.Errorf("%s: %+v", format, files[0])
		}
	}
}
