package loader_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tensormap/tensormap/convert"
	"github.com/tensormap/tensormap/internal/test/modeltest"
	"github.com/tensormap/tensormap/internal/test/testmode"
	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/loader"
	"github.com/tensormap/tensormap/mmapio"
)

// streamedType returns the type of what is handed out of t for StreamOptions.As: integers without a scale keep theirs.
func streamedType(t loader.Tensor, as layout.DType) layout.DType {
	_, scaled, err := t.Scale()
	switch integer := !scaled && err == nil && t.Scheme() == nil; {
	case as == layout.Invalid:
		return t.DType()
	case integer && slices.Contains([]layout.Kind{layout.KindInt, layout.KindUint, layout.KindBool}, t.DType().Kind()):
		return t.DType()
	}
	return as
}

// streamed collects what a stream of all tensors hands out, and checks its pieces.
func streamed(t *testing.T, m *loader.Model, opts *loader.StreamOptions) (got map[string][]byte, r loader.StreamResult, err error) {
	t.Helper()
	got = make(map[string][]byte)
	last := ""
	r, err = m.StreamAll(t.Context(), opts, func(p loader.Piece) error {
		name := p.Tensor.Name()
		b, seen := got[name]
		if seen && last != name {
			t.Errorf("%s comes again after %s", name, last)
		}
		last = name
		if p.Offset != uint64(len(b)) || p.Offset+uint64(len(p.Bytes)) > p.Size || cap(p.Bytes) != len(p.Bytes) {
			t.Errorf("%s: %d bytes of %d at %d, want them at %d", name, len(p.Bytes), p.Size, p.Offset, len(b))
		}
		if want := streamedType(p.Tensor, opts.As); p.DType != want {
			t.Errorf("%s: a piece of type %v", name, p.DType)
		}
		if n := p.DType.BlockBytes(); p.DType.HeadBytes() == 0 && len(p.Bytes)%n != 0 {
			t.Errorf("%s: %d bytes are no whole blocks of %d", name, len(p.Bytes), n)
		}
		got[name] = append(b, p.Bytes...)
		clear(p.Bytes) // whoever fills the buffer next begins anew
		return nil
	})
	bytes := uint64(0)
	for _, b := range got {
		bytes += uint64(len(b))
	}
	of := uint64(0)
	for _, f := range r.Files {
		of += f.Mapped + f.Read + f.Direct
		if f.Why == "" && of > 0 {
			t.Errorf("nobody says why file %d was read so: %+v", f.File, f)
		}
	}
	if err == nil && (r.Bytes != bytes || of != bytes) {
		t.Errorf("%+v, but %d bytes came", r, bytes)
	}
	return got, r, err
}

// wantStreamed streams all tensors by buffers of several sizes, and compares with what reads return.
func wantStreamed(t *testing.T, m *loader.Model, as layout.DType, opts ...loader.StreamOptions) {
	t.Helper()
	want := make(map[string][]byte)
	for x := range m.Tensors() {
		var b []byte
		var err error
		if as == layout.Invalid || streamedType(x, as) != as {
			b, err = x.Bytes()
			b = slices.Clone(b)
		} else {
			b = make([]byte, x.Elements()*uint64(as.BlockBytes()))
			err = x.ReadAs(t.Context(), b, as, 0)
		}
		if err != nil {
			t.Fatal(err)
		}
		want[x.Name()] = b
	}
	sizes := [][2]int{{2, 300}, {3, 5000}, {2, 68 << 10}, {4, 1 << 20}}
	if testmode.Brief() {
		sizes = sizes[2:3]
	}
	for _, size := range sizes {
		for _, o := range append(opts, loader.StreamOptions{}, loader.StreamOptions{Backing: loader.BackingDirect, Readers: 1}, loader.StreamOptions{Backing: loader.BackingMap, Readers: 9}) {
			o.As, o.Buffers = as, buffers(size[0], size[1])
			got, _, err := streamed(t, m, &o)
			if err != nil {
				t.Errorf("%v, %v: %v", size, o.Backing, err)
				continue
			}
			for name, b := range want {
				if other, ok := got[name]; !ok || !bytes.Equal(b, other) {
					t.Errorf("%v, %v: %s: %d bytes that differ from the %d of the tensor", size, o.Backing, name, len(other), len(b))
				}
			}
		}
	}
}

// TestStreamPieces streams models of every kind that are opened in every way.
func TestStreamPieces(t *testing.T) {
	tensors := []modeltest.Tensor{
		modeltest.Random("a", layout.F32, 70, 100), modeltest.Random("none", layout.F32, 0, 3), modeltest.Random("b", layout.BF16, 333, 101),
		modeltest.Random("scalar", layout.F16), modeltest.Random("q", layout.Q4_K, 20, 512), modeltest.Random("bytes", layout.U8, 77_777),
		modeltest.Random("positions", layout.I64, 300), modeltest.Random("mask", layout.BOOL, 70),
	}
	for name, b := range map[string][]byte{
		"apr2":        modeltest.APR2Model(t, nil, tensors...),
		"safetensors": modeltest.SafeTensorsAt(3, "", slices.Delete(slices.Clone(tensors), 4, 5)...),
		"lz4":         lz4Model(t, tensors...),
	} {
		t.Run(name, func(t *testing.T) {
			eachWay(t, b, func(t *testing.T, m *loader.Model) {
				wantStreamed(t, m, layout.Invalid)
			})
			eachWay(t, b, func(t *testing.T, m *loader.Model) {
				for _, as := range []layout.DType{layout.F32, layout.BF16} {
					wantStreamed(t, m, as)
				}
			})
		})
	}
}

// TestStreamGuarded streams verified and encrypted models.
func TestStreamGuarded(t *testing.T) {
	raw := modeltest.APR2Model(t, nil, modeltest.Finite("a", layout.F32, 300, 100), modeltest.Finite("b", layout.BF16, 333, 101), modeltest.Random("none", layout.F32, 0))
	for _, k := range kindsNamed("encrypted", "encrypted/OpenReaderAt") {
		t.Run(k.name, func(t *testing.T) {
			m := k.of(t, raw, nil)
			wantStreamed(t, m, layout.Invalid)
			wantStreamed(t, m, layout.F16)
		})
	}
	plain := modeltest.SafeTensors(modeltest.Finite("a", layout.F32, 300, 100), modeltest.Finite("b", layout.BF16, 333, 101))
	trustedKinds(t, plain, plain, func(t *testing.T, open func() (*loader.Model, error)) {
		m, err := open()
		m = modeltest.Opened(t, m, err)
		wantStreamed(t, m, layout.Invalid)
		wantStreamed(t, m, layout.F16)
	})
	bad := slices.Clone(plain)
	bad[len(bad)-5000] ^= 1
	trustedKinds(t, bad, plain, func(t *testing.T, open func() (*loader.Model, error)) {
		m, err := open()
		m = modeltest.Opened(t, m, err)
		for _, as := range []layout.DType{layout.Invalid, layout.F16} {
			for _, by := range []loader.Backing{loader.BackingAuto, loader.BackingMap, loader.BackingRead, loader.BackingDirect} {
				_, err := m.StreamAll(t.Context(), &loader.StreamOptions{Buffers: buffers(2, 70_000), As: as, Backing: by}, func(p loader.Piece) error {
					if p.Tensor.Name() == "b" && p.Offset+uint64(len(p.Bytes)) == p.Size {
						t.Errorf("as %v, %v: the last bytes are handed out", as, by)
					}
					return nil
				})
				if _, ok := errors.AsType[*loader.IntegrityError](err); !ok || strings.Count(err.Error(), m.Path()) != 1 || !strings.Contains(err.Error(), `"b": `) {
					t.Errorf("as %v, %v: %v", as, by, err)
				}
			}
		}
	})
}

// TestStreamWeights streams the logical tensors of quantized checkpoints, and refuses their bytes.
func TestStreamWeights(t *testing.T) {
	for _, dir := range checkpoints(t) {
		m, err := loader.Open(dir, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer m.Close()
		var names []string
		logical := ""
		for x := range m.Tensors() {
			if x.Scheme() != nil && x.Problem() == nil {
				logical = x.Name()
			}
			if x.Problem() == nil && x.ReadAs(t.Context(), nil, layout.F32, 0) == nil {
				names = append(names, x.Name())
			}
		}
		got := make(map[string][]byte)
		opts := &loader.StreamOptions{Buffers: buffers(2, 3000), As: layout.F32, Ordered: true}
		var order []string
		slices.Reverse(names)
		_, err = m.Stream(t.Context(), append(names, names...), opts, func(p loader.Piece) error {
			if p.Offset == 0 {
				order = append(order, p.Tensor.Name())
			}
			got[p.Tensor.Name()] = append(got[p.Tensor.Name()], p.Bytes...)
			return nil
		})
		if err != nil || !slices.Equal(order, names) {
			t.Errorf("%s: %v, in the order of %v, want %v", dir, err, order, names)
		}
		for _, name := range names {
			x := tensor(t, m, name)
			want := make([]byte, 4*x.Elements())
			if err := x.ReadAs(t.Context(), want, layout.F32, 0); err != nil || !bytes.Equal(want, got[name]) {
				t.Errorf("%s: %s differs, %v", dir, name, err)
			}
		}
		if logical == "" {
			continue
		}
		_, err = m.Stream(t.Context(), []string{logical}, &loader.StreamOptions{Buffers: buffers(2, 3000)}, nil)
		if !errors.Is(err, loader.ErrUnsupported) || !strings.Contains(err.Error(), logical) {
			t.Errorf("bytes of %s: %v", logical, err)
		}
	}
}

// TestStreamRefuses: what cannot be streamed is said before anything is read.
func TestStreamRefuses(t *testing.T) {
	d := newDistant("m", modeltest.APR2Model(t, nil, modeltest.Random("q", layout.Q6_K, 4, 256)))
	m := d.open(t, nil)
	d.traffic.reset()
	shared := make([]byte, 2000)
	for _, tt := range []struct {
		name string
		opts *loader.StreamOptions
		want error
		says string
	}{
		{"q", nil, loader.ErrRange, "0 buffers"},
		{"q", &loader.StreamOptions{Buffers: buffers(1, 1000)}, loader.ErrRange, "1 buffers"},
		{"q", &loader.StreamOptions{Buffers: [][]byte{shared[:1000], make([]byte, 1000), shared[999:]}}, loader.ErrRange, "buffers 0 and 2 to stream into overlap"},
		{"q", &loader.StreamOptions{Buffers: [][]byte{make([]byte, 1000), make([]byte, 209)}}, loader.ErrRange, `tensor "q": out of range: a buffer of 209 bytes to stream into holds no block of 210`},
		{"q", &loader.StreamOptions{Buffers: buffers(2, 3), As: layout.F32}, loader.ErrRange, "no block of 4"},
		{"q", &loader.StreamOptions{Buffers: buffers(2, 0), As: layout.F32}, loader.ErrRange, "a buffer of no bytes"},
		{"q", &loader.StreamOptions{Buffers: buffers(2, 1000), As: layout.Q4_0}, loader.ErrUnsupported, "Q4_0"},
		{"x", &loader.StreamOptions{Buffers: buffers(2, 1000)}, loader.ErrNotFound, `"x"`},
	} {
		_, err := m.Stream(t.Context(), []string{tt.name}, tt.opts, func(loader.Piece) error { return errors.New("called") })
		if !errors.Is(err, tt.want) || !strings.Contains(err.Error(), tt.says) || strings.Count(err.Error(), "m: ") != 1 {
			t.Errorf("%s, %+v: %v", tt.name, tt.opts, err)
		}
	}
	if n := d.traffic.requests.Load(); n > 0 {
		t.Errorf("%d requests", n)
	}
	complexes := openBytes(t, modeltest.SafeTensors(modeltest.Random("c", layout.C64, 2)), nil)
	if _, err := complexes.StreamAll(t.Context(), &loader.StreamOptions{Buffers: buffers(2, 1000), As: layout.F32}, nil); !errors.Is(err, loader.ErrUnsupported) || !strings.Contains(err.Error(), `"c"`) {
		t.Errorf("without values: %v", err)
	}
	for _, opts := range []*loader.StreamOptions{nil, {}, {As: layout.Q4_0}, {Buffers: buffers(2, 1)}} {
		if r, err := m.Stream(t.Context(), nil, opts, nil); err != nil || r.Bytes != 0 || len(r.Files) > 0 {
			t.Errorf("nothing, %+v: %+v, %v", opts, r, err)
		}
	}
}

// TestStreamEnds: however the function ends, so does Stream, and nobody writes to a buffer afterwards.
func TestStreamEnds(t *testing.T) {
	failed := errors.New("failed")
	for name, end := range callbacks {
		m := openPath(t, modeltest.Write(t, "m", modeltest.APR2Model(t, nil, tensorsOf("pieces")...)), nil)
		checkEnding(t, "Stream", name, func() {
			m.StreamAll(t.Context(), &loader.StreamOptions{Buffers: buffers(3, 1000)}, func(p loader.Piece) error {
				if p.Offset > 5000 {
					end()
				}
				return nil
			})
		})
		checkEnding(t, "Stream", name, func() {
			m.StreamAll(t.Context(), &loader.StreamOptions{Buffers: buffers(3, 1000), Progress: func(done, _ uint64) { end() }}, func(p loader.Piece) error { return nil })
		})
		checkClose(t, m)
	}
	m := openPath(t, modeltest.Write(t, "m", modeltest.APR2Model(t, nil, tensorsOf("pieces")...)), nil)
	lent := buffers(3, 1000)
	r, err := m.StreamAll(t.Context(), &loader.StreamOptions{Buffers: lent}, func(p loader.Piece) error {
		if p.Offset > 5000 {
			return failed
		}
		return nil
	})
	if err != failed || r.Bytes < 5000 || len(r.Files) != 1 || r.Files[0].Why == "" || r.Files[0].Read+r.Files[0].Direct+r.Files[0].Mapped < r.Bytes {
		t.Errorf("%+v, %v", r, err)
	}
	for _, b := range lent {
		b[0]++ // the race detector knows who else writes
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	_, err = m.StreamAll(ctx, &loader.StreamOptions{Buffers: lent}, func(p loader.Piece) error {
		cancel(failed)
		return nil
	})
	if !errors.Is(err, failed) {
		t.Error(err)
	}
	checkClose(t, m)
	if _, err := m.StreamAll(t.Context(), &loader.StreamOptions{Buffers: lent}, nil); !errors.Is(err, loader.ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
}

// TestStreamRetains: a piece that is retained stays as it is until it is released, by whichever goroutine. Stream returns after
// that, however it ends.
func TestStreamRetains(t *testing.T) {
	m := openPath(t, modeltest.Write(t, "m", modeltest.APR2Model(t, nil, tensorsOf("pieces")...)), nil)
	want, err := tensor(t, m, "x").Bytes()
	if err != nil {
		t.Fatal(err)
	}
	var copies sync.WaitGroup
	var wrong, left atomic.Int64
	_, err = m.StreamAll(t.Context(), &loader.StreamOptions{Buffers: buffers(3, 1000)}, func(p loader.Piece) error {
		if p.Tensor.Name() != "x" {
			return nil
		}
		p.Retain()
		p.Retain() // counts once
		left.Add(1)
		copies.Go(func() {
			for range 10 {
				runtime.Gosched()
			}
			if !bytes.Equal(p.Bytes, want[p.Offset:][:len(p.Bytes)]) {
				wrong.Add(1)
			}
			left.Add(-1)
			p.Release()
			p.Release()
		})
		return nil
	})
	if err != nil || wrong.Load() > 0 || left.Load() > 0 {
		t.Errorf("%v, %d pieces are others, %d are retained", err, wrong.Load(), left.Load())
	}
	copies.Wait()

	for _, last := range []bool{false, true} {
		for _, cancels := range []bool{false, true} {
			why := errors.New("ends")
			ctx, cancel := context.WithCancelCause(t.Context())
			over := make(chan struct{})
			var held atomic.Int64
			n := 0
			_, err = m.StreamAll(ctx, &loader.StreamOptions{Buffers: buffers(2, 1000)}, func(p loader.Piece) error {
				n++
				ends := n == 2 && !last || p.Tensor.Name() == "y" && p.Offset+uint64(len(p.Bytes)) == p.Size
				if !last || ends {
					p.Retain()
					held.Add(1)
					go func() {
						<-over
						runtime.Gosched()
						held.Add(-1)
						p.Release()
					}()
				}
				if ends {
					cancel(why)
					time.AfterFunc(time.Millisecond, func() { close(over) })
					if !cancels {
						return why
					}
				}
				return nil
			})
			if !errors.Is(err, why) && !(last && cancels && err == nil) || held.Load() != 0 {
				t.Errorf("%v, %d pieces are still retained", err, held.Load())
			}
		}
	}
	var late loader.Piece
	m.StreamAll(t.Context(), &loader.StreamOptions{Buffers: buffers(2, 1000)}, func(p loader.Piece) error {
		late = p
		return nil
	})
	late.Release() // nothing
	tooLate := func(when string) {
		defer func() {
			if recover() == nil {
				t.Error(when + ": Retain came too late")
			}
		}()
		late.Retain()
	}
	tooLate("at the end")
	m.StreamAll(t.Context(), &loader.StreamOptions{Buffers: buffers(2, 1000)}, func(p loader.Piece) error {
		late = p
		return io.ErrShortWrite
	})
	tooLate("after an error")
	ctx, cancel := context.WithCancel(t.Context())
	m.StreamAll(ctx, &loader.StreamOptions{Buffers: buffers(2, 1000)}, func(p loader.Piece) error {
		late = p
		cancel()
		return nil
	})
	tooLate("after the end of the context")
	func() {
		defer func() { recover() }()
		m.StreamAll(t.Context(), &loader.StreamOptions{Buffers: buffers(2, 1000)}, func(p loader.Piece) error {
			late = p
			panic("f")
		})
	}()
	tooLate("after a panic")
}

// TestStreamSpares: all buffers but one may be retained, though fewer are filled ahead.
func TestStreamSpares(t *testing.T) {
	m := openPath(t, modeltest.Write(t, "m", modeltest.APR2Model(t, nil, tensorsOf("pieces")...)), nil)
	want, err := tensor(t, m, "x").Bytes()
	if err != nil {
		t.Fatal(err)
	}
	const lent = 7
	var held []loader.Piece
	most := 0
	_, err = m.Stream(t.Context(), []string{"x"}, &loader.StreamOptions{Buffers: buffers(lent, 1000), Readers: 1}, func(p loader.Piece) error {
		p.Retain()
		held = append(held, p)
		most = max(most, len(held))
		last := p.Offset+uint64(len(p.Bytes)) == p.Size
		for len(held) == lent-1 || last && len(held) > 0 {
			if first := held[0]; !bytes.Equal(first.Bytes, want[first.Offset:][:len(first.Bytes)]) {
				t.Errorf("another piece at %d", first.Offset)
			}
			held[0].Release()
			held = held[1:]
		}
		return nil
	})
	if err != nil || most != lent-1 {
		t.Errorf("%v, %d pieces were retained at once", err, most)
	}
}

// TestStreamCloses: a model may be closed, and a lease released, while its tensors are streamed.
func TestStreamCloses(t *testing.T) {
	m := openPath(t, modeltest.Write(t, "m", modeltest.APR2Model(t, nil, tensorsOf("pieces")...)), nil)
	for name, stream := range map[string]func(f func(p loader.Piece) error) error{
		"lease": func(f func(p loader.Piece) error) error {
			l := must(m.Acquire())(t)
			_, err := l.Stream(t.Context(), []string{"x", "y"}, &loader.StreamOptions{Buffers: buffers(2, 1000), As: layout.F16}, func(p loader.Piece) error {
				l.Release()
				return f(p)
			})
			return err
		},
		"model": func(f func(p loader.Piece) error) error {
			_, err := m.Stream(t.Context(), []string{"x", "y"}, &loader.StreamOptions{Buffers: buffers(2, 1000), As: layout.F16}, func(p loader.Piece) error {
				m.Close()
				return f(p)
			})
			return err
		},
	} {
		n := 0
		if err := stream(func(p loader.Piece) error { n += len(p.Bytes); return nil }); err != nil || n != 2*10_000+100_000 { // F16s, and bytes that stay bytes
			t.Errorf("%s: %d bytes, %v", name, n, err)
		}
		if name == "model" {
			<-m.Done()
			return
		}
	}
	t.Log("the model was closed first")
}

// TestStreamNeighbours are read by one request.
func TestStreamNeighbours(t *testing.T) {
	var tensors []modeltest.Tensor
	for i := range 100 {
		tensors = append(tensors, modeltest.Random(fmt.Sprintf("t%d", i), layout.F32, 10, 3))
	}
	d := newDistant("m", modeltest.SafeTensors(tensors...))
	m := d.open(t, nil)
	d.traffic.reset()
	if _, _, err := streamed(t, m, &loader.StreamOptions{Buffers: buffers(2, 1<<20)}); err != nil || d.traffic.requests.Load() != 1 {
		t.Errorf("%d requests, %v", d.traffic.requests.Load(), err)
	}
}

// TestStreamShrinks: a file that becomes shorter while it is streamed is an error, however it is read. One that is written to
// is ErrChanged.
func TestStreamShrinks(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("nobody truncates a mapped file there")
	}
	b := modeltest.APR2Model(t, nil, modeltest.Random("x", layout.F32, 1000, 1000))
	for _, opts := range []*loader.Options{nil, {NoMap: true}, {Trust: plainTrust{"m": modeltest.Digests(b, testChunk)}}} {
		for _, o := range []loader.StreamOptions{{}, {Backing: loader.BackingMap}, {Backing: loader.BackingDirect}, {As: layout.F16}} {
			path := modeltest.Write(t, "m", b)
			m := openPath(t, path, opts)
			o.Buffers = buffers(2, 100_000)
			_, err := m.StreamAll(t.Context(), &o, func(p loader.Piece) error {
				if p.Offset == 0 {
					return os.Truncate(path, 1_000_000)
				}
				return nil
			})
			if !errors.Is(err, io.ErrUnexpectedEOF) && !errors.Is(err, mmapio.ErrFault) && !errors.Is(err, loader.ErrChanged) || strings.Count(err.Error(), path) != 1 ||
				!errors.Is(err, loader.ErrChanged) && !strings.Contains(err.Error(), `tensor "x": `) {
				t.Errorf("%+v, %v, as %v: %v", opts, o.Backing, o.As, err)
			}
		}
	}
	path := modeltest.Write(t, "m", b)
	m := openPath(t, path, nil)
	_, err := m.StreamAll(t.Context(), &loader.StreamOptions{Buffers: buffers(2, 100_000)}, func(p loader.Piece) error {
		if p.Offset > 0 {
			return nil
		}
		return errors.Join(os.WriteFile(path+"2", b, 0o666), os.Rename(path+"2", path))
	})
	if !errors.Is(err, loader.ErrChanged) {
		t.Errorf("replaced: %v", err)
	}
}

// TestStreamShards streams a model in several files, and names them.
func TestStreamShards(t *testing.T) {
	one := modeltest.APR2Model(t, nil, modeltest.Random("a", layout.F32, 100, 10), modeltest.Random("b", layout.F32, 100, 10), modeltest.Random("c", layout.F32, 100, 10))
	path := filepath.Join(t.TempDir(), "model.apr")
	must(convert.Write(t.Context(), openBytes(t, one, nil), path, &convert.Options{ShardBytes: 9000}))(t)
	m := openPath(t, path, nil)
	if a, b, c := tensor(t, m, "a").File(), tensor(t, m, "b").File(), tensor(t, m, "c").File(); a != b || b == c {
		t.Fatalf("a, b and c are in files %d, %d and %d: want one with two tensors, and another", a, b, c)
	}
	wantStreamed(t, m, layout.Invalid)
	wantStreamed(t, m, layout.BF16)
	_, r, err := streamed(t, m, &loader.StreamOptions{Buffers: buffers(2, 100_000)})
	if err != nil || len(r.Files) < 2 || r.Files[0].File >= r.Files[1].File {
		t.Errorf("%+v, %v", r, err)
	}
}

// TestRegion: the pages of a mapped file hold its tensors, also after Close.
func TestRegion(t *testing.T) {
	x, y := modeltest.Random("x", layout.F32, 100, 100), modeltest.Random("y", layout.F32, 30)
	for _, w := range ways {
		m := w.of(t, modeltest.SafeTensors(x, y), nil)
		page := os.Getpagesize()
		r, err := m.Region(t.Context(), 0)
		if w.memory != mappedFile || !mapsFiles {
			if !errors.Is(err, loader.ErrUnsupported) || !strings.Contains(err.Error(), "not mapped") {
				t.Errorf("not mapped: %v", err)
			}
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		m.Close()
		if len(r.Bytes)%page != 0 || !mmapio.IsAligned(r.Bytes, page) || r.Offset%uint64(page) != 0 {
			t.Errorf("%d bytes at %d are no pages", len(r.Bytes), r.Offset)
		}
		end := uint64(0)
		for _, want := range []modeltest.Tensor{x, y} {
			got := tensor(t, openPath(t, modeltest.Write(t, "same", modeltest.SafeTensors(x, y)), nil), want.Name)
			at := got.Offset() - r.Offset
			if !bytes.Equal(r.Bytes[at:][:len(want.Data)], want.Data) {
				t.Errorf("%s is not there", want.Name)
			}
			end = max(end, at+uint64(len(want.Data)))
		}
		for _, b := range r.Bytes[end:] {
			if b != 0 {
				t.Error("bytes behind the end of the file")
			}
		}
		select {
		case <-m.Done():
			t.Error("the model is gone")
		default:
		}
		r.Release()
		r.Release()
		<-m.Done()
	}
	m := openPath(t, modeltest.Write(t, "m", modeltest.SafeTensors(modeltest.Random("none", layout.F32, 0))), nil)
	for file, want := range map[int]error{0: loader.ErrUnsupported, 1: loader.ErrRange, -1: loader.ErrRange} {
		if _, err := m.Region(t.Context(), file); !errors.Is(err, want) || strings.Count(err.Error(), m.Path()) != 1 {
			t.Errorf("file %d: %v", file, err)
		}
	}
	checkClose(t, m)
	new(loader.Region).Release() // nothing
	if _, err := m.Region(t.Context(), 0); !errors.Is(err, loader.ErrClosed) {
		t.Error(err)
	}
}

// TestRegionGuarded: the pages of encrypted files are of no use, and those of verified ones are handed out only if they are verified
// in the mapping.
func TestRegionGuarded(t *testing.T) {
	m := kindsNamed("encrypted")[0].of(t, modeltest.APR2Model(t, nil, modeltest.Random("x", layout.F32, 100, 100)), nil)
	if _, err := m.Region(t.Context(), 0); !errors.Is(err, loader.ErrUnsupported) || !strings.Contains(err.Error(), "encrypted") || strings.Count(err.Error(), m.Path()) != 1 {
		t.Errorf("encrypted: %v", err)
	}
	x := modeltest.Random("x", layout.F32, 400, 200)
	plain := modeltest.SafeTensors(x)
	bad := slices.Clone(plain)
	bad[len(bad)-5000] ^= 1
	for name, b := range map[string][]byte{"good": plain, "bad": bad} {
		trustedKinds(t, b, plain, func(t *testing.T, open func() (*loader.Model, error)) {
			m, err := open()
			m = modeltest.Opened(t, m, err)
			r, err := m.Region(t.Context(), 0)
			_, wrong := errors.AsType[*loader.IntegrityError](err)
			switch mapped := m.Stats().MappedBytes > 0; {
			case !mapped:
				if !errors.Is(err, loader.ErrUnsupported) || strings.Count(err.Error(), m.Path()) != 1 {
					t.Errorf("%s, not mapped: %v", name, err)
				}
			case name == "bad":
				if !wrong {
					t.Errorf("%s: %v", name, err)
				}
			case err != nil:
				t.Error(err)
			default:
				at := tensor(t, m, "x").Offset() - r.Offset
				if !bytes.Equal(r.Bytes[at:][:len(x.Data)], x.Data) {
					t.Errorf("%s: other bytes", name)
				}
				r.Release()
			}
		})
	}
}
