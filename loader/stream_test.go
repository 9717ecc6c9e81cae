package loader_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tensormap/tensormap/internal/test/modeltest"
	"github.com/tensormap/tensormap/internal/test/testmode"
	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/layout/apr2"
	"github.com/tensormap/tensormap/loader"
	"github.com/tensormap/tensormap/loader/httprange"
)

const testdata = "../testdata"

// TestRemoteModels: what is read from afar is what the file has, whatever its format: of all fixtures that open.
func TestRemoteModels(t *testing.T) {
	same := func(t *testing.T, m, want *loader.Model) { // by all that they can be asked for
		t.Helper()
		if got, want := names(m.Tensors()), names(want.Tensors()); !slices.Equal(got, want) || m.Len() != len(want) {
			t.Fatalf("tensors %q, want %q", got, want)
		}
		md, err := m.Metadata()
		wantMD, wantErr := want.Metadata()
		if !reflect.DeepEqual(md, wantMD) && fmt.Sprint(md) != fmt.Sprint(wantMD) || (err == nil) != (wantErr == nil) {
			t.Errorf("metadata %v, %v; want %v, %v", md, err, wantMD, wantErr)
		}
		for w := range want.Tensors() {
			x := tensor(t, m, w.Name())
			b, err := x.Bytes()
			wb, werr := w.Bytes()
			if !bytes.Equal(b, wb) || (err == nil) != (werr == nil) || x.ZeroCopy() || x.DType() != w.DType() || !slices.Equal(x.Shape(), w.Shape()) {
				t.Errorf("%s: other bytes, or %v, want %v", w.Name(), err, werr)
			}
			values, err := x.Float32s()
			wvalues, werr := w.Float32s()
			if !modeltest.SameFloats(values, wvalues) || (err == nil) != (werr == nil) {
				t.Errorf("%s: other values, or %v, want %v", w.Name(), err, werr)
			}
		}
	}
	s, count := serveWeb(t, http.FileServer(http.Dir(testdata))), 0
	err := filepath.WalkDir(testdata, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		want, err := loader.Open(path, nil)
		if err != nil {
			return nil
		}
		defer want.Close()
		if f, ok := want.Files()[0].Layout.(*apr2.File); ok && f.Encryption != nil {
			return nil // package trust has tests of these
		}
		count++
		relative, err := filepath.Rel(testdata, path)
		name := filepath.ToSlash(relative)
		t.Run(name, func(t *testing.T) {
			same(t, newDistant(path, must(os.ReadFile(path))(t)).open(t, nil), want)
			same(t, s.open(t, "/"+name, nil), want)
			ahead := s.open(t, "/"+name, nil)
			if _, err := ahead.WarmAll(t.Context(), nil); err != nil && !errors.Is(err, loader.ErrUnsupported) {
				t.Error(err)
			}
			same(t, ahead, want)
		})
		return err
	})
	if err != nil || count < 50 {
		t.Errorf("%d models; %v", count, err)
	}
}

// TestRemoteShards: as TestShardsAreOneModel, over HTTP and through a reader that opens siblings.
func TestRemoteShards(t *testing.T) {
	s := serveWeb(t, http.FileServer(http.Dir(testdata)))
	for _, sharded := range sharded {
		single := openPath(t, filepath.Join(testdata, "shards", sharded.single), nil)
		m := s.open(t, "/shards/"+sharded.path, nil)
		manifest := filepath.Join(testdata, "shards", sharded.path)
		near := newDistant(manifest, must(os.ReadFile(manifest))(t)).open(t, nil)
		for want := range single.Tensors() {
			sameTensor(t, tensor(t, m, want.Name()), want)
			sameTensor(t, tensor(t, near, want.Name()), want)
		}
		for _, f := range m.Files() {
			if !strings.HasPrefix(f.Path, s.URL+"/shards/") {
				t.Errorf("a file is called %s", f.Path)
			}
		}
		if report, err := m.Verify(t.Context(), nil); err != nil || report.Err() != nil {
			t.Errorf("%s: %v, %v", sharded.path, err, report.Err())
		}
	}
}

// TestSiblingsAreClosed: those that the model has opened, and not the reader it was given.
func TestSiblingsAreClosed(t *testing.T) {
	for _, test := range []struct {
		path   string
		opens  bool
		closed int64
	}{{"apr2/model.apr", true, 4}, {"gguf/model-00002-of-00004.gguf", true, 3}, {"apr2/missing.apr", false, 3}, {"apr2/single.apr", true, 0}} {
		b, err := os.ReadFile(filepath.Join(testdata, "shards", test.path))
		if err != nil {
			t.Fatal(err)
		}
		d := newDistant(filepath.Join(testdata, "shards", test.path), b)
		m, err := loader.OpenReaderAt(t.Context(), d, d.size, nil)
		if (err == nil) != test.opens {
			t.Fatalf("%s: %v", test.path, err)
		}
		if err == nil {
			if n := d.traffic.closed.Load(); n != 0 {
				t.Errorf("%s: %d files are closed too early", test.path, n)
			}
			m.Close()
		}
		if n := d.traffic.closed.Load(); n != test.closed && test.opens || n > test.closed {
			t.Errorf("%s: %d files are closed, want %d", test.path, n, test.closed)
		}
	}
}

func TestNoSiblings(t *testing.T) {
	for _, test := range []struct{ path, says string }{
		{"apr2/model.apr", `the file "model-00001-of-00004.apr", but its reader is for one file`},
		{"safetensors/model.safetensors.index.json", `the file "model-00001-of-00004.safetensors", but its reader is for one file`},
		{"gguf/model-00001-of-00004.gguf", `split.no`},
	} {
		b, err := os.ReadFile(filepath.Join(testdata, "shards", test.path))
		if err != nil {
			t.Fatal(err)
		}
		_, err = loader.OpenReaderAt(t.Context(), plainReader{bytes.NewReader(b)}, int64(len(b)), nil)
		if err == nil || !strings.HasPrefix(err.Error(), "reader: ") || !strings.Contains(err.Error(), test.says) {
			t.Errorf("%s: %v", test.path, err)
		}
	}
}

// TestRemoteTraffic: opening costs the index, a tensor the tensor, and metadata nothing
// before it is asked for.
func TestRemoteTraffic(t *testing.T) {
	// Models of 1,000 tensors of 1 MB, of which only the index exists.
	const n, size = 1000, 1_000_000 / 64 * 64
	list := make([]modeltest.Tensor, n)
	for i := range list {
		list[i] = modeltest.Tensor{Name: fmt.Sprintf("model.layers.%d.mlp.up_proj.weight", i), DType: layout.F32, Shape: []int{size / 64, 16}}
	}
	note := layout.Metadata{{Key: "notes", Value: strings.Repeat("metadata ", 40_000)}}
	apr, aprSize := modeltest.APR2Head(t, note, list...)
	foot := binary.LittleEndian.AppendUint64([]byte("\x00\x00\x00\x002RPA"), aprSize)

	le := binary.LittleEndian
	text := func(b []byte, s string) []byte { return append(le.AppendUint64(b, uint64(len(s))), s...) }
	gguf := le.AppendUint32([]byte("GGUF"), 3)
	gguf = le.AppendUint64(le.AppendUint64(gguf, n), 1)
	gguf = text(le.AppendUint32(text(gguf, "general.architecture"), 8), "llama")
	var header bytes.Buffer
	for i, c := range list {
		gguf = le.AppendUint32(text(gguf, c.Name), 2)
		gguf = le.AppendUint64(le.AppendUint64(gguf, 16), size/64)
		gguf = le.AppendUint64(le.AppendUint32(gguf, 0), uint64(i)*size)
		fmt.Fprintf(&header, `,%q:{"dtype":"F32","shape":[%d,16],"data_offsets":[%d,%d]}`, c.Name, size/64, i*size, (i+1)*size)
	}
	gguf = append(gguf, make([]byte, -len(gguf)&31)...)
	header.Bytes()[0] = '{'
	header.WriteByte('}')
	header.WriteString(strings.Repeat(" ", -header.Len()&7))
	safe := append(le.AppendUint64(nil, uint64(header.Len())), header.Bytes()...)
	for format, file := range map[string]*made{
		"apr2":        {apr, foot, int64(aprSize)},
		"safetensors": {safe, nil, int64(len(safe)) + n*size},
		"gguf":        {gguf, nil, int64(len(gguf)) + n*size},
	} {
		t.Run(format, func(t *testing.T) {
			const prefix = 128 << 10 // of httprange
			metadata := map[string]int64{"apr2": 360_000}[format]
			index := int64(len(file.head)) - metadata
			d := file.distant(format)
			m := d.open(t, nil)
			most := index + 8<<10
			if format == "gguf" { // whose records only a reader of all finds, in windows that grow
				most += index
			}
			if n := d.traffic.bytes.Load(); n > most || d.traffic.requests.Load() > 16 || m.Len() != 1000 {
				t.Errorf("opening read %d bytes, in %d requests, of an index of %d", n, d.traffic.requests.Load(), index)
			}
			d.traffic.reset()
			if _, err := m.Metadata(); err != nil || d.traffic.bytes.Load() > int64(len(file.head)) || d.traffic.bytes.Load() < metadata {
				t.Errorf("metadata is %d bytes, %v", d.traffic.bytes.Load(), err)
			}

			s := serveWeb(t, file)
			m = s.open(t, "/model", nil)
			if n := s.bytes.Load(); n > prefix+most || n >= 1_000_000 {
				t.Errorf("opening fetched %d bytes in %d requests", n, s.requests.Load())
			}
			t.Logf("opening a file of %d bytes fetched %d in %d requests; header and index are %d", file.size, s.bytes.Load(), s.requests.Load(), index)
			for _, name := range []string{"model.layers.5.mlp.up_proj.weight", "model.layers.999.mlp.up_proj.weight"} {
				s.reset()
				x := tensor(t, m, name)
				b, err := x.Bytes()
				want := make([]byte, x.RawBytes())
				if _, err := file.ReadAt(want, int64(x.Offset())); err != nil {
					t.Fatal(err)
				}
				if err != nil || !bytes.Equal(b, want) {
					t.Errorf("%s: other bytes, or %v", name, err)
				}
				if n := s.bytes.Load(); n != int64(x.StoredBytes()) || s.requests.Load() != 1 {
					t.Errorf("%d bytes in %d requests for a tensor of %d", n, s.requests.Load(), x.StoredBytes())
				}
			}
			s.reset()
			x := tensor(t, m, "model.layers.500.mlp.up_proj.weight")
			if err := x.DequantizeRows(make([]float32, 16), 1000, 1); err != nil || s.bytes.Load() != 64 {
				t.Errorf("%d bytes for a row of 64; %v", s.bytes.Load(), err)
			}
		})
	}
}

// waitForEnd waits for the end of ctx, which the test would not survive otherwise.
func waitForEnd(ctx context.Context) error {
	<-ctx.Done()
	return context.Cause(ctx)
}

func TestOpenIsCancelled(t *testing.T) {
	file := modeltest.APR2Model(t, nil, tensorsOf("three")...)
	d := newDistant("far", file)
	ctx, cancel := context.WithCancel(t.Context())
	d.before = func(ctx context.Context) error {
		cancel()
		return waitForEnd(ctx)
	}
	if _, err := loader.OpenReaderAt(ctx, d, d.size, nil); !errors.Is(err, context.Canceled) || !strings.HasPrefix(err.Error(), "far: ") {
		t.Errorf("opening ends with %v", err)
	}
	if _, err := loader.OpenReaderAt(ctx, plainReader{bytes.NewReader(file)}, d.size, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("opening with a context that has ended: %v", err)
	}
	// ctx bounds opening and nothing else.
	d.before = nil
	ctx, cancel = context.WithCancel(t.Context())
	m, err := loader.OpenReaderAt(ctx, d, d.size, nil)
	m = modeltest.Opened(t, m, err)
	cancel()
	if _, err := tensor(t, m, "i8").Bytes(); err != nil {
		t.Error(err)
	}
}

// TestRemoteFaults: what comes is right, or there is an error, and after it another try.
func TestRemoteFaults(t *testing.T) {
	const size = 300_000
	c := modeltest.Random("x", layout.U8, size)
	file := modeltest.SafeTensors(modeltest.Random("before", layout.U8, 200_000), c)
	etag := `"1"`
	files := http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		w.Header().Set("ETag", etag)
		http.ServeContent(w, req, "", time.Time{}, bytes.NewReader(file))
	})
	for _, test := range []struct {
		name  string
		want  error // nil: of any kind
		fault func(w http.ResponseWriter, req *http.Request) bool
	}{
		{"500", httprange.ErrStatus, func(w http.ResponseWriter, _ *http.Request) bool {
			w.WriteHeader(http.StatusInternalServerError)
			return true
		}},
		{"cut", nil, func(w http.ResponseWriter, _ *http.Request) bool {
			if conn, _, err := http.NewResponseController(w).Hijack(); err == nil {
				conn.Close()
			}
			return true
		}},
		{"stall", httprange.ErrStalled, func(_ http.ResponseWriter, req *http.Request) bool {
			<-req.Context().Done()
			return true
		}},
		{"changed", httprange.ErrChanged, func(w http.ResponseWriter, req *http.Request) bool {
			w.Header().Set("ETag", `"2"`)
			http.ServeContent(w, req, "", time.Time{}, bytes.NewReader(make([]byte, len(file))))
			return true
		}},
		{"no ranges", httprange.ErrNoRanges, func(w http.ResponseWriter, _ *http.Request) bool {
			w.Write(file)
			return true
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			s := serveWeb(t, files)
			stall := time.Minute
			if test.name == "stall" {
				stall = time.Second / 2
			}
			r, err := httprange.Open(t.Context(), s.URL+"/m?sig=secret", &httprange.Options{
				Attempts: 2, Pause: time.Millisecond, Stall: stall, RequestBytes: 100_000, PrefixBytes: 10_000,
			})
			if err != nil {
				t.Fatal(err)
			}
			defer r.Close()
			m, err := loader.OpenReaderAt(t.Context(), r, r.Size(), nil)
			m = modeltest.Opened(t, m, err)
			x := tensor(t, m, "x")
			s.failing(test.fault)
			for name, read := range map[string]func() error{
				"Bytes":      func() error { _, err := x.Bytes(); return err },
				"Dequantize": func() error { return x.Dequantize(make([]float32, size)) },
				"Warm":       func() error { return warmTensors(t.Context(), m, "x") },
				"Verify":     func() error { _, err := m.Verify(t.Context(), nil); return err },
				"WriteTo":    func() error { _, err := x.WriteTo(io.Discard); return err },
			} {
				if name == "Verify" && test.name == "stall" {
					continue // which takes long
				}
				err := read()
				if err == nil || test.want != nil && !errors.Is(err, test.want) || strings.Contains(err.Error(), "secret") ||
					!strings.HasPrefix(err.Error(), r.Name()+": ") {
					t.Errorf("%s: %v, want %v", name, err, test.want)
				}
			}
			s.failing(nil)
			if b, err := x.Bytes(); err != nil || !bytes.Equal(b, c.Data) {
				t.Errorf("when all is well again: %v, or other bytes", err)
			}
		})
	}
}

// TestMetadataIsReadAgain: an error of reading is not for ever.
func TestMetadataIsReadAgain(t *testing.T) {
	for _, broken := range []error{errBroken, fmt.Errorf("deep: %w", &fs.PathError{Op: "read", Path: "x", Err: errBroken}), io.EOF} {
		d := newDistant("far", modeltest.APR2Model(t, nil, tensorsOf("three")...))
		m := d.open(t, nil)
		d.before = func(context.Context) error { return broken }
		if _, err := m.Metadata(); err == nil || errors.Is(err, errBroken) != errors.Is(broken, errBroken) || !strings.HasPrefix(err.Error(), "far: ") {
			t.Errorf("%v of a broken reader", err)
		}
		if _, err := m.Verify(t.Context(), nil); err == nil {
			t.Error("a file that cannot be read is verified")
		}
		d.before = nil
		if md, err := m.Metadata(); err != nil || len(md) == 0 {
			t.Errorf("another try: %v", err)
		}
	}
}

// TestReaderSizes: what is said of a file's size makes nobody take memory.
func TestReaderSizes(t *testing.T) {
	file := modeltest.APR2Model(t, nil, tensorsOf("three")...)
	for _, size := range []int64{-1, -1 << 63} {
		if _, err := loader.OpenReaderAt(t.Context(), bytes.NewReader(file), size, nil); !errors.Is(err, loader.ErrRange) {
			t.Errorf("a size of %d: %v", size, err)
		}
	}
	header := fmt.Sprintf(`{"x":{"dtype":"U8","shape":[%d],"data_offsets":[0,%d]}}`, int64(lyingSize), int64(lyingSize))
	header += strings.Repeat(" ", -len(header)&7)
	liar := append(binary.LittleEndian.AppendUint64(nil, uint64(len(header))), header...)
	for _, test := range []struct {
		name string
		b    []byte
		size int64
	}{
		{"no bytes at all", nil, lyingSize},
		{"a header of that size", binary.LittleEndian.AppendUint64(nil, lyingSize), lyingSize + 8},
		{"a file that is cut", file[:100], int64(len(file))},
	} {
		took := testmode.Allocated(func() {
			if _, err := loader.OpenReaderAt(t.Context(), bytes.NewReader(test.b), test.size, nil); err == nil {
				t.Errorf("%s: opens", test.name)
			}
		})
		if took > 1<<20 {
			t.Errorf("%s: %d bytes of memory taken", test.name, took)
		}
	}
	m, err := loader.OpenReaderAt(t.Context(), bytes.NewReader(liar), int64(len(liar))+lyingSize, nil)
	x := tensor(t, modeltest.Opened(t, m, err), "x")
	for name, read := range map[string]func() error{
		"Bytes":    func() error { _, err := x.Bytes(); return err },
		"Float32s": func() error { _, err := x.Float32s(); return err },
		"Warm":     func() error { return warmTensors(t.Context(), m, "x") },
	} {
		if err := read(); !errors.Is(err, loader.ErrTooLarge) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := x.WriteTo(io.Discard); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("WriteTo: %v", err)
	}
	short := newDistant("short", file)
	m = short.open(t, nil)
	short.r = bytes.NewReader(file[:tensor(t, m, "q4").Offset()+1])
	if _, err := tensor(t, m, "q4").Bytes(); !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("of a file that is cut: %v", err)
	}
}

func TestReaderTensorBytes(t *testing.T) {
	d := newDistant("far", modeltest.SafeTensors(modeltest.Random("large", layout.U8, 2000), modeltest.Random("small", layout.U8, 1000)))
	m := d.open(t, &loader.Options{TensorBytes: 1000})
	if _, err := tensor(t, m, "large").Bytes(); !errors.Is(err, loader.ErrTooLarge) {
		t.Error(err)
	}
	if err := warmTensors(t.Context(), m, "small", "large"); !errors.Is(err, loader.ErrTooLarge) || !strings.Contains(err.Error(), `"large"`) {
		t.Error(err)
	}
	if err := warmTensors(t.Context(), m, "small"); err != nil {
		t.Error(err)
	}
}

// byContext is a distant file that opens no other files.
type byContext struct{ d *distant }

func (r byContext) ReadAt(p []byte, off int64) (int, error) { return r.d.ReadAt(p, off) }

func (r byContext) ReadAtContext(ctx context.Context, p []byte, off int64) (int, error) {
	return r.d.ReadAtContext(ctx, p, off)
}

// TestReadsAreCancelled: what takes a context ends with it, even if nobody ever answers.
func TestReadsAreCancelled(t *testing.T) {
	d := newDistant("far", lz4Model(t, compressible("a", layout.U8, 300_000)))
	m, err := loader.OpenReaderAt(t.Context(), byContext{d}, d.size, nil)
	m = modeltest.Opened(t, m, err)
	for name, work := range map[string]func(ctx context.Context) error{
		"Warm":   func(ctx context.Context) error { return warmTensors(ctx, m, "a") },
		"Verify": func(ctx context.Context) error { _, err := m.Verify(ctx, nil); return err },
	} {
		// The reads of a whole run, and then one after the other is the one that hangs.
		var reads, last atomic.Int64
		last.Store(math.MaxInt64)
		var cancel context.CancelFunc
		d.before = func(ctx context.Context) error {
			if reads.Add(1) < last.Load() {
				return nil
			}
			cancel()
			return waitForEnd(ctx)
		}
		if err := work(t.Context()); err != nil {
			t.Fatal(err)
		}
		for i := reads.Load(); i > 0; i-- {
			m.Evict(names(m.Tensors())...)
			reads.Store(0)
			last.Store(i)
			var ctx context.Context
			ctx, cancel = context.WithCancel(t.Context())
			if err := work(ctx); !errors.Is(err, context.Canceled) {
				t.Errorf("%s: read %d: %v", name, i, err)
			}
			cancel()
		}
	}
}

// TestCloseEndsReads: what takes no context ends with the model, even if nobody ever answers.
// A bubble in which all wait for ever fails at once.
func TestCloseEndsReads(t *testing.T) {
	file := modeltest.APR2Model(t, nil, modeltest.Random("f32", layout.F32, 3, 4), modeltest.Random("i8", layout.I8, 3, 4), modeltest.Random("q4", layout.Q4_0, 3, 64))
	for kind, prefix := range map[string]string{"by context": "reader: ", "by vector": "far: "} {
		calls := map[string]func(m *loader.Model, x loader.Tensor) error{
			"WarmAll": func(m *loader.Model, _ loader.Tensor) error {
				_, err := m.WarmAll(context.Background(), nil)
				return err
			},
			"Warm": func(m *loader.Model, _ loader.Tensor) error { return warmTensors(context.Background(), m, "q4", "i8") },
			"Verify": func(m *loader.Model, _ loader.Tensor) error {
				_, err := m.Verify(context.Background(), nil)
				return err
			},
			"Metadata": func(m *loader.Model, _ loader.Tensor) error { _, err := m.Metadata(); return err },
		}
		for name, call := range tensorCalls {
			calls["Tensor."+name] = func(_ *loader.Model, x loader.Tensor) error { return call(x) }
		}
		for name, call := range calls {
			t.Run(kind+"/"+name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					d := newDistant("far", file)
					var r io.ReaderAt = byContext{d}
					if kind == "by vector" {
						r = d
					}
					m, err := loader.OpenReaderAt(t.Context(), r, d.size, nil)
					m = modeltest.Opened(t, m, err)
					x := tensor(t, m, "i8")
					reads := 0
					d.before = func(ctx context.Context) error { reads++; return waitForEnd(ctx) }
					ended := make(chan error)
					go func() { ended <- call(m, x) }()
					synctest.Wait()
					m.Close()
					if err := <-ended; !errors.Is(err, loader.ErrClosed) || !strings.HasPrefix(err.Error(), prefix) || reads != 1 {
						t.Errorf("%v after %d reads", err, reads)
					}
				})
			})
		}
	}
}

// TestCloseSparesLeases: reads under a lease go on when the model is closed, and those beside
// it end with the last lease.
func TestCloseSparesLeases(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDistant("far", modeltest.APR2Model(t, nil, tensorsOf("three")...))
		m := d.open(t, nil)
		reads := make(chan chan struct{}, 2) // that wait for an answer
		d.before = func(ctx context.Context) error {
			answer := make(chan struct{})
			reads <- answer
			select {
			case <-answer:
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		l, err := m.Acquire()
		if err != nil {
			t.Fatal(err)
		}
		other, err := m.Acquire()
		if err != nil {
			t.Fatal(err)
		}
		leased, err := l.Tensor("i8")
		if err != nil {
			t.Fatal(err)
		}
		x := tensor(t, m, "q4")
		ended, beside := make(chan error, 1), make(chan error, 1)
		go func() { _, err := leased.Bytes(); ended <- err }()
		synctest.Wait()
		go func() { _, err := x.Bytes(); beside <- err }()
		synctest.Wait()
		m.Close()
		other.Release()
		l.Release() // ends once its call has
		synctest.Wait()
		if len(ended)+len(beside) > 0 {
			t.Fatalf("%d leased reads and %d others have ended", len(ended), len(beside))
		}
		close(<-reads)
		if err := <-ended; err != nil {
			t.Error(err)
		}
		if err := <-beside; !errors.Is(err, loader.ErrClosed) {
			t.Errorf("beside the last lease: %v", err)
		}
		if _, err := m.Acquire(); !errors.Is(err, loader.ErrClosed) {
			t.Error(err)
		}
	})
}

// TestZeroPiece: a Piece that no call has made can be released.
func TestZeroPiece(t *testing.T) { loader.Piece{}.Release() }
