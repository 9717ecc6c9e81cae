//go:build unix || windows

package loader_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/tensormap/tensormap/internal/test/modeltest"
	"github.com/tensormap/tensormap/internal/test/testmode"
	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/loader"
	"github.com/tensormap/tensormap/mmapio"
)

// openTruncated opens the model of a file, and then cuts the file to its first left bytes, or loses their pages: see losePages.
func openTruncated(t *testing.T, b []byte, left int64, opts *loader.Options) *loader.Model {
	t.Helper()
	path := modeltest.Write(t, "model", b)
	m := openPath(t, path, opts)
	if opts == nil || !opts.NoMap {
		losePages(t, path, loader.MappingOf(m), left)
	} else if err := os.Truncate(path, left); err != nil {
		t.Fatal(err)
	}
	return m
}

// readers read on the caller's behalf.
var readers = map[string]func(x loader.Tensor) error{
	"Dequantize":      func(x loader.Tensor) error { return x.Dequantize(make([]float32, x.Elements())) },
	"DequantizeRows":  func(x loader.Tensor) error { return x.DequantizeRows(make([]float32, 1024), 5, 1) },
	"DequantizeRange": func(x loader.Tensor) error { return x.DequantizeRange(make([]float32, 5), 60_001) },
	"MatVec": func(x loader.Tensor) error {
		return x.MatVec(context.Background(), make([]float32, x.Elements()/1024), make([]float32, 1024))
	},
	"MatMul": func(x loader.Tensor) error {
		return x.MatMul(context.Background(), make([]float32, 2*x.Elements()/1024), make([]float32, 2*1024), 2)
	},
	"WriteTo": func(x loader.Tensor) error { _, err := x.WriteTo(new(bytes.Buffer)); return err },
	"Values": func(x loader.Tensor) (err error) {
		for _, err = range x.Values(make([]float32, 1000)) {
		}
		return err
	},
}

// shrunk is the error of a file that has become shorter, by Options.NoMap.
var shrunk = map[bool]error{false: mmapio.ErrFault, true: io.ErrUnexpectedEOF}

func TestTruncatedFile(t *testing.T) {
	b := modeltest.APR2Model(t, nil, tensorsOf("large")...)
	page := int64(os.Getpagesize())
	for noMap, want := range shrunk {
		m := openTruncated(t, b, page, &loader.Options{NoMap: noMap}) // header and index are left
		for x := range m.Tensors() {
			for name, read := range readers {
				if err := read(x); !errors.Is(err, want) {
					t.Errorf("NoMap %v: %s.%s: %v", noMap, x.Name(), name, err)
				}
			}
			if x.DType() == layout.F32 && !noMap {
				continue // a view
			}
			for range 2 {
				if _, err := x.Float32s(); !errors.Is(err, want) {
					t.Errorf("NoMap %v: %s.Float32s: %v", noMap, x.Name(), err)
				}
			}
		}
		if _, err := m.Verify(context.Background(), nil); !errors.Is(err, want) {
			t.Errorf("NoMap %v: Verify: %v", noMap, err)
		}
		if s := m.Stats(); s.HeapBytes != 0 || s.Expansions != 0 {
			t.Errorf("NoMap %v: failures are cached: %+v", noMap, s)
		}
	}
}

func TestTruncatedFileNamesTensor(t *testing.T) {
	m := openTruncated(t, modeltest.APR2Model(t, nil, tensorsOf("large")...), int64(os.Getpagesize()), nil)
	err := readers["Dequantize"](tensor(t, m, "f16"))
	var fault *mmapio.FaultError
	if !errors.As(err, &fault) || fault.Path != m.Files()[0].Path || fault.Offset < uint64(os.Getpagesize()) {
		t.Errorf("%+v", fault)
	}
	if want := m.Files()[0].Path + `: tensor "f16": `; err == nil || !bytes.HasPrefix([]byte(err.Error()), []byte(want)) {
		t.Errorf("%v, want %s…", err, want)
	}
}

// TestTruncatedBeforeDecoding cuts files between the moment that they are mapped and that in which
// their index is read.
func TestTruncatedBeforeDecoding(t *testing.T) {
	for _, fixture := range []string{"apr1/whisper_f32.apr", "apr2/tiny.apr", "shards/apr2/model.apr", "safetensors/minilm-slice.safetensors"} {
		content, err := os.ReadFile("../testdata/" + fixture)
		if err != nil {
			t.Fatal(err)
		}
		path := modeltest.Write(t, "model", content)
		mapping, err := mmapio.Map(path)
		if err != nil {
			t.Fatal(err)
		}
		losePages(t, path, mapping, 0)
		if m, err := loader.OpenMapped(path, mapping, nil); m != nil || !errors.Is(err, mmapio.ErrFault) || strings.Count(err.Error(), path) != 1 {
			t.Errorf("%s: %v", fixture, err)
		}
		if mapping.Bytes() != nil {
			t.Errorf("%s: the mapping is left open", fixture)
		}
	}
}

// TestTruncatedOpenFile reads from the caller's file, where nothing faults.
func TestTruncatedOpenFile(t *testing.T) {
	path := modeltest.Write(t, "model", modeltest.APR2Model(t, nil, tensorsOf("large")...))
	m := kindsNamed("OpenFile/NoMap")[0].at(t, path, nil)
	if err := os.Truncate(path, 4096); err != nil {
		t.Fatal(err)
	}
	for x := range m.Tensors() {
		for name, read := range readers {
			if err := read(x); !errors.Is(err, io.ErrUnexpectedEOF) {
				t.Errorf("%s.%s: %v", x.Name(), name, err)
			}
		}
	}
}

func TestTruncatedBytes(t *testing.T) {
	m := openTruncated(t, shifted(modeltest.APR2Model(t, nil, tensorsOf("large")...), 1), 4096, nil)
	for x := range m.Tensors() {
		if _, err := x.Bytes(); x.ZeroCopy() || !errors.Is(err, mmapio.ErrFault) {
			t.Errorf("%s.Bytes, copied: %v", x.Name(), err)
		}
		if _, err := x.Float32s(); !errors.Is(err, mmapio.ErrFault) {
			t.Errorf("%s.Float32s: %v", x.Name(), err)
		}
	}
}

func TestTruncatedMetadata(t *testing.T) {
	for noMap, want := range shrunk {
		for format, b := range map[string][]byte{
			"apr2":        modeltest.APR2Model(t, nil, tensorsOf("large")...),
			"safetensors": modeltest.SafeTensorsAt(0, `{"a":"b"}`, modeltest.Random("i8", layout.I8, 64, 1024)),
		} {
			m := openTruncated(t, b, 0, &loader.Options{NoMap: noMap})
			if _, err := m.Metadata(); !errors.Is(err, want) {
				t.Errorf("%s, NoMap %v: %v", format, noMap, err)
			}
			if format != "apr2" {
				continue
			}
			if _, _, err := tensor(t, m, "i8").Scale(); !errors.Is(err, want) {
				t.Errorf("%s, NoMap %v: Scale: %v", format, noMap, err)
			}
		}
	}
}

// TestMetadataBeforeTruncation: what was parsed once is there.
func TestMetadataBeforeTruncation(t *testing.T) {
	testmode.ChangesMapped(t)
	path := modeltest.Write(t, "model", modeltest.APR2Model(t, nil, tensorsOf("large")...))
	m := openPath(t, path, nil)
	first, err := m.Metadata()
	if err != nil {
		t.Fatal(err)
	}
	os.Truncate(path, 0)
	again, err := m.Metadata()
	if err != nil || len(again) != len(first) {
		t.Errorf("%v, %v", again, err)
	}
}

func TestViewOfTruncatedFile(t *testing.T) {
	m := openTruncated(t, modeltest.APR2Model(t, nil, tensorsOf("large")...), int64(os.Getpagesize()), nil)
	values, err := tensor(t, m, "f32").Float32s()
	if err != nil || !tensor(t, m, "f32").ZeroCopy() && littleEndian {
		t.Fatal(err)
	}
	sum := float32(0)
	err = mmapio.Guard(func() error {
		for _, v := range values {
			sum += v
		}
		return nil
	})
	if !errors.Is(err, mmapio.ErrFault) {
		t.Errorf("%v, sum %v", err, sum)
	}
}

func TestStatsOfTruncatedFile(t *testing.T) {
	m := openTruncated(t, modeltest.APR2Model(t, nil, tensorsOf("large")...), 0, nil)
	if s := m.Stats(); s.MappedBytes != m.Files()[0].Size {
		t.Errorf("%+v", s)
	}
}

// Where a file has no checksum, nothing but its last byte tells Verify that data is gone.
func TestVerifyTruncatedWithoutChecksum(t *testing.T) {
	b := modeltest.SafeTensors(modeltest.Random("f32", layout.F32, 64, 1024))
	for noMap, want := range shrunk {
		m := openTruncated(t, b, int64(os.Getpagesize()), &loader.Options{NoMap: noMap})
		if _, err := m.Verify(context.Background(), nil); !errors.Is(err, want) {
			t.Errorf("NoMap %v: %v", noMap, err)
		}
	}
}
