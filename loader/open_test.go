package loader_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/tensormap/tensormap/internal/test/modeltest"
	"github.com/tensormap/tensormap/internal/test/testmode"
	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/loader"
)

func TestOpenEveryWay(t *testing.T) {
	tensors := []modeltest.Tensor{
		modeltest.Random("a", layout.F32, 3, 5),
		modeltest.Random("b", layout.I64, 2),
		modeltest.Random("c", layout.U8, 7),
		modeltest.Random("odd", layout.F16, 3), // at an odd offset
		modeltest.Random("scalar", layout.F64),
		modeltest.Random("none", layout.F32, 2, 0),
	}
	inBlocks := append(tensors[:4:4], modeltest.Random("q", layout.Q5_1, 2, 64))
	for format, file := range map[string]struct {
		b    []byte
		want []modeltest.Tensor
	}{
		"safetensors":       {modeltest.SafeTensors(tensors...), tensors},
		"safetensors/moved": {modeltest.SafeTensorsAt(5, "", tensors...), tensors},
		"apr2":              {modeltest.APR2Model(t, nil, inBlocks...), inBlocks},
		"apr2/moved":        {shifted(modeltest.APR2Model(t, nil, tensors[:4]...), 3), tensors[:4]},
	} {
		t.Run(format, func(t *testing.T) {
			eachWay(t, file.b, func(t *testing.T, m *loader.Model) {
				var got []modeltest.Tensor
				for x := range m.Tensors() {
					b := must(x.Bytes())(t)
					if uint64(len(b)) != x.RawBytes() || cap(b) != len(b) {
						t.Errorf("%s: length %d, capacity %d of %d bytes", x.Name(), len(b), cap(b), x.RawBytes())
					}
					got = append(got, modeltest.Tensor{Name: x.Name(), DType: x.DType(), Shape: x.Shape(), Data: b})
				}
				if !slices.EqualFunc(got, file.want, modeltest.Tensor.Equal) {
					t.Errorf("%v, want %v", got, file.want)
				}
			})
		})
	}
}

// TestOpenInMemory: what is told of the file, and where a tensor lies in it.
func TestOpenInMemory(t *testing.T) {
	tensors := []modeltest.Tensor{modeltest.Random("a", layout.F32, 3, 5), modeltest.Random("b", layout.I64, 2), modeltest.Random("c", layout.U8, 7)}
	for _, b := range [][]byte{modeltest.SafeTensors(tensors...), modeltest.APR2Model(t, nil, tensors...)} {
		m := openBytes(t, b, nil)
		files := m.Files()
		if len(files) != 1 || files[0].Path != "memory" || files[0].Size != uint64(len(b)) || files[0].Layout == nil {
			t.Errorf("Files: %+v", files)
		}
		if x := tensor(t, m, "b"); x.File() != 0 || x.StoredBytes() != 16 || x.Encoding() != layout.Raw ||
			!bytes.Equal(b[x.Offset():][:16], tensors[1].Data) {
			t.Errorf("%v: %+v", m.Format(), x)
		}
	}
}

func TestOpenFileAtAnyPosition(t *testing.T) {
	c := modeltest.Random("a", layout.U16, 100)
	f, err := os.Open(modeltest.Write(t, "x", modeltest.SafeTensors(c)))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.Seek(77, 0); err != nil {
		t.Fatal(err)
	}
	m, err := loader.OpenFile(f, nil)
	m = modeltest.Opened(t, m, err)
	if b, err := tensor(t, m, "a").Bytes(); err != nil || !bytes.Equal(b, c.Data) {
		t.Error(err)
	}
	if at, _ := f.Seek(0, 1); at != 77 {
		t.Errorf("position moved to %d", at)
	}
	if got := m.Files()[0].Path; got != f.Name() {
		t.Errorf("path %s", got)
	}
}

func TestOpenErrors(t *testing.T) {
	good := modeltest.SafeTensors(modeltest.Random("a", layout.F32, 2))
	apr := modeltest.APR2Model(t, nil, modeltest.Random("a", layout.F32, 2))
	tests := []struct {
		name string
		file []byte
		want error
	}{
		{"empty", nil, layout.ErrFormat},
		{"garbage", modeltest.Noise(100, 1), layout.ErrFormat},
		{"text", []byte("hello world, this is no model"), layout.ErrFormat},
		{"magic of an unsupported format", []byte("APRN\x03\x00\x00\x00 and more"), layout.ErrUnsupported},
		{"a manifest of nothing", []byte(`{"shards": []}`), layout.ErrInvalid},
		{"other JSON", []byte(`{"model_type": "bert"}`), layout.ErrUnsupported},
		{"truncated safetensors", good[:len(good)-1], layout.ErrTruncated},
		{"truncated apr2 header", apr[:20], layout.ErrTruncated},
		{"duplicate", modeltest.SafeTensors(modeltest.Random("a", layout.U8, 1), modeltest.Random("a", layout.U8, 1)), layout.ErrDuplicate},
		{"trailing", append(good[:len(good):len(good)], 0), layout.ErrInvalid},
	}
	for _, tt := range tests {
		path := modeltest.Write(t, "the file", tt.file)
		for _, w := range localWays {
			t.Run(tt.name+"/"+w.name, func(t *testing.T) {
				m, err := w.open(t, path, nil)
				if m != nil || !errors.Is(err, tt.want) {
					t.Fatalf("%v, %v; want %v", m, err, tt.want)
				}
				var fe *layout.FormatError
				if !errors.As(err, &fe) {
					t.Errorf("%v is no FormatError", err)
				}
				wantPath := path
				if w.name == "OpenBytes" {
					wantPath = "memory"
				}
				if msg := err.Error(); !strings.HasPrefix(msg, wantPath+": ") || strings.Contains(msg, "\n") {
					t.Errorf("message %q", msg)
				}
			})
		}
	}
}

func TestOpenNoFile(t *testing.T) {
	dir := t.TempDir()
	for _, opts := range []*loader.Options{nil, {NoMap: true}} {
		missing := filepath.Join(dir, "missing")
		if _, err := loader.Open(missing, opts); !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), missing) {
			t.Errorf("missing: %v", err)
		}
		_, err := loader.Open(dir, opts)
		if err == nil || !strings.Contains(err.Error(), dir) || !strings.Contains(err.Error(), "directory") || strings.Contains(err.Error(), "\n") {
			t.Errorf("directory: %v", err)
		}
		f, err := os.Open(dir)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if _, err := loader.OpenFile(f, opts); err == nil || !strings.Contains(err.Error(), dir) {
			t.Errorf("open directory: %v", err)
		}
	}
}

func TestOpenLimits(t *testing.T) {
	b := modeltest.SafeTensors(modeltest.Random("abc", layout.U8, 1, 1, 1), modeltest.Random("b", layout.U8, 1))
	tests := []struct {
		name string
		lim  layout.Limits
		want error
	}{
		{"none", layout.Limits{}, nil},
		{"tensors", layout.Limits{Tensors: 1}, layout.ErrLimit},
		{"rank", layout.Limits{Rank: 2}, layout.ErrLimit},
		{"name", layout.Limits{NameBytes: 2}, layout.ErrLimit},
		{"header", layout.Limits{HeaderBytes: 20}, layout.ErrLimit},
	}
	for _, tt := range tests {
		m, err := loader.OpenBytes(b, &loader.Options{Limits: &tt.lim})
		if !errors.Is(err, tt.want) {
			t.Errorf("%s: %v", tt.name, err)
		}
		if m != nil {
			m.Close()
		}
	}
}

// TestOpenBoundsMemory opens files that promise more than they hold. What is allocated is
// a small multiple of what is there.
func TestOpenBoundsMemory(t *testing.T) {
	const multiple, constant = 8, 16 << 10
	many := make([]modeltest.Tensor, 5000)
	for i := range many {
		many[i] = modeltest.Tensor{Name: strconv.Itoa(i), DType: layout.U8, Shape: []int{0}}
	}
	le := binary.LittleEndian
	header := func(size uint64, text string) []byte { return append(le.AppendUint64(nil, size), text...) }
	apr := func(edit func(b []byte)) []byte {
		b := modeltest.APR2Model(t, nil, modeltest.Random("a", layout.U8, 4096))
		edit(b)
		return b
	}
	tests := []struct {
		name string
		file []byte
	}{
		{"honest safetensors", modeltest.SafeTensors(many...)},
		{"honest apr2", modeltest.APR2Model(t, nil, many...)},
		{"header of 100 MB", header(100_000_000, "{")},
		{"header of 2^63 bytes", header(1<<63, "{")},
		{"braces", header(1<<20, strings.Repeat("{", 1<<20))},
		{"tensor of 2^62 bytes", header(66, `{"a":{"dtype":"U8","shape":[4611686018427387904],"data_offsets":[0,4611686018427387904]}}`)},
		{"long string", header(1<<20, `{"`+strings.Repeat(`\u0041`, 1<<17))},
		{"apr2 of 2^32 tensors", apr(func(b []byte) { le.PutUint32(b[le.Uint32(b[20:]):], 1<<32-1) })},
		{"apr2 with a large index", apr(func(b []byte) { le.PutUint32(b[24:], 1<<32-1) })},
		{"apr2 with large metadata", apr(func(b []byte) { le.PutUint32(b[16:], 1<<32-1) })},
		{"apr2 with a long name", apr(func(b []byte) { le.PutUint16(b[le.Uint32(b[20:])+8:], 1<<16-1) })},
	}
	for _, tt := range tests {
		for _, w := range localWays {
			if w.name == "OpenBytes" {
				continue // reads the file itself
			}
			path := modeltest.Write(t, "hostile", tt.file)
			t.Run(tt.name+"/"+w.name, func(t *testing.T) {
				got := testmode.Allocated(func() {
					if m, err := w.open(t, path, nil); err == nil {
						m.Close()
					} else if strings.HasPrefix(tt.name, "honest") {
						t.Error(err)
					}
				})
				if bound := uint64(multiple*len(tt.file) + constant); got > bound {
					t.Errorf("%d bytes allocated for a file of %d", got, len(tt.file))
				}
			})
		}
	}
}

// TestExpandBoundsMemory has a compressed tensor that claims to be as large as the format
// lets it. It is read only once its bytes turn out to be there.
func TestExpandBoundsMemory(t *testing.T) {
	const stored = 100_000
	const raw = stored * 255 / 18 * 18
	le := binary.LittleEndian
	b := modeltest.APR2Model(t, nil, modeltest.Random("x", layout.U8, stored))
	entry := b[le.Uint32(b[20:])+8+3:] // behind the name
	entry[0] = 17                      // Q4_0
	le.PutUint64(entry[2:], raw/18*32)
	le.PutUint64(entry[26:], raw)
	x := tensor(t, openBytes(t, b, nil), "x")
	if x.RawBytes() != raw || x.Encoding() != layout.LZ4 {
		t.Fatalf("%d bytes, %v", x.RawBytes(), x.Encoding())
	}
	for name, read := range map[string]func() error{
		"Bytes":    func() error { _, err := x.Bytes(); return err },
		"Float32s": func() error { _, err := x.Float32s(); return err },
	} {
		var err error
		if got := testmode.Allocated(func() { err = read() }); err == nil || got > 8*stored {
			t.Errorf("%s: %d bytes allocated for a file of %d, %v", name, got, len(b), err)
		}
	}
}

// TestWriteToIsFrugal with small tensors that have to be read.
func TestWriteToIsFrugal(t *testing.T) {
	m := openPath(t, modeltest.Write(t, "m", modeltest.SafeTensors(modeltest.Random("x", layout.U8, 100))), &loader.Options{NoMap: true})
	x := tensor(t, m, "x")
	if got := testmode.Allocated(func() { x.WriteTo(new(bytes.Buffer)) }); got > 8<<10 {
		t.Errorf("%d bytes allocated to write 100", got)
	}
}
