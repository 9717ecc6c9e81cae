package loader_test

import (
	"errors"
	"io"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

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
		for _, w := range localWays {
			if m, err := w.open(t, path, nil); err == nil {
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

// keepingReader keeps the memory that it is first asked to fill. It fails at the offset failsAt, if that is not 0.
type keepingReader struct {
	countingReader
	failsAt int64
	first   []byte
}

func (r *keepingReader) ReadAt(p []byte, off int64) (int, error) {
	if r.first == nil && len(p) >= testChunk {
		r.first = p
	}
	if r.failsAt != 0 && off == r.failsAt {
		return 0, io.ErrUnexpectedEOF
	}
	return r.countingReader.ReadAt(p, off)
}

// TestPrivateMemoryGoes: the memory of a private model, which no file backs, is unmapped with its last lease, or if opening fails.
func TestPrivateMemoryGoes(t *testing.T) {
	good := modeltest.SafeTensors(modeltest.Random("a", layout.F32, testChunk))
	noise := modeltest.Noise(uint64(len(good)), 1)
	head := modeltest.Digests(good[:2*testChunk], testChunk)
	isMapped := func(b []byte) bool { return unix.Madvise(b, unix.MADV_NORMAL) != unix.ENOMEM } // b begins a page
	for name, c := range map[string]struct {
		file    []byte
		failsAt int64
		digests *layout.Digests
		want    error // of opening
	}{
		"opened":                 {good, 0, modeltest.Digests(good, testChunk), nil},
		"the tail not read":      {good, 2 * testChunk, head, io.ErrUnexpectedEOF},
		"no model":               {noise, 0, modeltest.Digests(noise, testChunk), layout.ErrFormat},
		"not the trusted bytes":  {good, 0, modeltest.Digests(noise, testChunk), layout.ErrChecksum},
		"a chunk cannot be read": {good, testChunk, modeltest.Digests(good, testChunk), nil},
	} {
		t.Run(name, func(t *testing.T) {
			for try := 1; ; try++ {
				r := &keepingReader{countingReader: countingReader{b: c.file}, failsAt: c.failsAt}
				m, err := loader.OpenReaderAt(t.Context(), r, int64(len(c.file)), &loader.Options{Trust: given{c.digests}, Private: true})
				if !errors.Is(err, c.want) || r.first == nil {
					t.Fatalf("opening: %v, read into memory of %d bytes", err, len(r.first))
				}
				if err == nil {
					lease, err := m.Acquire()
					if err != nil {
						t.Fatal(err)
					}
					if _, err := tensor(t, lease, "a").Bytes(); (err != nil) != (c.failsAt != 0) {
						t.Errorf("reading: %v", err)
					}
					m.Close()
					if !isMapped(r.first) {
						t.Error("a lease is held, yet the memory is not mapped")
					}
					lease.Release()
				}
				if !isMapped(r.first) {
					break
				}
				if try == 5 { // once may be chance: somebody else's memory is mapped there by now
					t.Fatal("the memory is still mapped")
				}
			}
		})
	}
}

// given trusts one list of digests, whatever the file is.
type given struct{ digests *layout.Digests }

func (g given) Digests(string, layout.Input) (*layout.Digests, error) { return g.digests, nil }
