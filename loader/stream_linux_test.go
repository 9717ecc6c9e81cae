package loader_test

import (
	"bytes"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"runtime/metrics"
	"testing"

	"github.com/tensormap/tensormap/convert"
	"github.com/tensormap/tensormap/internal/test/modeltest"
	"github.com/tensormap/tensormap/internal/test/testmode"
	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/layout/apr2"
	"github.com/tensormap/tensormap/loader"
	"github.com/tensormap/tensormap/mmapio"
)

// TestStreamWays: what is not in the page cache is read past it and stays outside, what is there is read from there, and each file
// says why. Other work on the machine may take pages away or read them, but not each time.
func TestStreamWays(t *testing.T) {
	const n = 5 << 20
	tensors := append(numbered(4, n), modeltest.Finite("f", layout.F32, 1024, 1024))
	path := modeltest.Write(t, "model", modeltest.APR2Model(t, nil, tensors...))
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := mmapio.Direct(f); err != nil {
		t.Skip(err) // the file system reads nothing past the page cache
	}
	if _, err := f.ReadAt(mmapio.AlignedBytes(mmapio.DirectAlignment), 0); err != nil {
		t.Skip(err)
	}
	stream := func(m *loader.Model, backing loader.Backing, as layout.DType) loader.StreamedFile {
		t.Helper()
		got, r, err := streamed(t, m, &loader.StreamOptions{Buffers: buffers(2, 2<<20), Backing: backing, As: as})
		if err != nil || len(r.Files) != 1 || r.Files[0].File != 0 {
			t.Fatalf("%+v, %v", r, err)
		}
		for _, want := range tensors {
			if as == layout.Invalid && !bytes.Equal(got[want.Name], want.Data) {
				t.Errorf("%v: other bytes of %s", backing, want.Name)
			}
		}
		return r.Files[0]
	}
	var wrong []string
	for range 3 {
		wrong = nil
		m := openNonresident(t, path)
		is := func(ok bool, format string, args ...any) {
			if !ok {
				wrong = append(wrong, fmt.Sprintf(format, args...))
			}
		}
		f := stream(m, loader.BackingAuto, layout.Invalid)
		is(f.Direct > 3*n && f.Mapped == 0 && f.Why == "bytes in the page cache are read, others direct", "cold: %+v", f)
		in, err := m.ResidentBytes()
		is(err == nil && in < n/4, "%d bytes of a cold mapping came into memory, %v", in, err)
		f = stream(m, loader.BackingAuto, layout.F16)
		is(f.Direct > 3*n && f.Mapped == 0, "cold, converted: %+v", f)
		f = stream(m, loader.BackingDirect, layout.Invalid)
		is(f.Direct > 3*n && f.Why == "asked for", "direct: %+v", f)

		f = stream(m, loader.BackingRead, layout.Invalid)
		is(f.Direct == 0 && f.Read > 3*n && f.Mapped == 0 && f.Why == "asked for", "read: %+v", f)
		if _, err := m.WarmAll(t.Context(), nil); err != nil {
			t.Fatal(err)
		}
		f = stream(m, loader.BackingAuto, layout.Invalid)
		is(f.Read > 3*n && f.Direct == 0 && f.Mapped == 0 && f.Why != "", "warm: %+v", f)
		f = stream(m, loader.BackingMap, layout.Invalid)
		is(f.Mapped > 3*n && f.Read == 0 && f.Direct == 0 && f.Why == "asked for", "mapped: %+v", f)
		m.Close()
		if len(wrong) == 0 {
			return
		}
	}
	t.Error(wrong)
}

// TestStreamMemory: Stream keeps less than 32 MiB beyond the buffers, of models of 64, however they are stored. Pieces
// have 1 MiB, or 8 if they come from a network.
func TestStreamMemory(t *testing.T) {
	if testmode.Brief() {
		t.Skip("large models")
	}
	const most = 32 << 20
	dir := t.TempDir()
	func() { // whose memory is gone afterwards
		tensors := []modeltest.Tensor{modeltest.Finite("a", layout.F32, 12<<10, 1024), modeltest.Finite("b", layout.BF16, 4<<10, 2048)}
		raw := modeltest.APR2Model(t, nil, tensors...)
		modeltest.WriteTo(t, filepath.Join(dir, "plain.apr"), raw)
		modeltest.WriteTo(t, filepath.Join(dir, "lz4.apr"), lz4Model(t, tensors...))
		modeltest.WriteTo(t, filepath.Join(dir, "wide.apr"), lz4Model(t, modeltest.Finite("a", layout.F64, 8<<10, 1024)))
		modeltest.WriteTo(t, filepath.Join(dir, "encrypted.apr"), converted(t, raw, &convert.Options{Encrypter: &apr2.Encrypter{Secret: encrypter.Secret}}))
	}()
	web := serveWeb(t, http.FileServer(http.Dir(dir)))
	liveHeap := func() uint64 { // bytes in use, without garbage
		runtime.GC()
		sample := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
		metrics.Read(sample)
		return sample[0].Value.Uint64()
	}
	near := func(name string, opts *loader.Options) func(t *testing.T) *loader.Model {
		return func(t *testing.T) *loader.Model { return openPath(t, filepath.Join(dir, name), opts) }
	}
	far := func(name string, opts *loader.Options) func(t *testing.T) *loader.Model {
		return func(t *testing.T) *loader.Model { return web.open(t, "/"+name, opts) }
	}
	for _, tt := range []struct {
		name    string
		open    func(t *testing.T) *loader.Model
		largest int // piece
	}{
		{"plain", near("plain.apr", nil), 1 << 20},
		{"lz4", near("lz4.apr", nil), 1 << 20},
		{"wide lz4, read", near("wide.apr", &loader.Options{NoMap: true}), 1 << 20},
		{"encrypted", near("encrypted.apr", withKey), 1 << 20},
		{"remote", far("plain.apr", nil), 8 << 20},
		{"remote encrypted", far("encrypted.apr", withKey), 4 << 20},
		{"remote lz4", far("lz4.apr", nil), 8 << 20},
	} {
		for _, as := range []layout.DType{layout.Invalid, layout.F16} {
			t.Run(fmt.Sprintf("%s as %v", tt.name, as), func(t *testing.T) {
				m := tt.open(t)
				lent := buffers(4, 16<<20)
				before, peak, largest, pieces := liveHeap(), uint64(0), 0, 0
				_, err := m.StreamAll(t.Context(), &loader.StreamOptions{Buffers: lent, As: as}, func(p loader.Piece) error {
					if largest = max(largest, len(p.Bytes)); pieces%(4<<20/tt.largest+1) == 0 {
						peak = max(peak, liveHeap())
					}
					pieces++
					return nil
				})
				if peak = max(peak, liveHeap()); err != nil || peak > before+most {
					t.Errorf("%d bytes of heap, %d before: %v", peak, before, err)
				}
				t.Logf("%d bytes beyond the buffers", int64(peak)-int64(before))
				if largest > tt.largest || largest < tt.largest/2 {
					t.Errorf("a piece of %d bytes, of %d at most", largest, tt.largest)
				}
				runtime.KeepAlive(lent)
			})
		}
	}
}
