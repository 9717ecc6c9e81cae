package mmapio

import (
	"bytes"
	"errors"
	"io"
	"math"
	"math/bits"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

// makers are the ways to a Mapping of the same bytes.
var makers = []struct {
	name    string
	aliased bool // wherever the platform maps
	make    func(t testing.TB, content []byte) *Mapping
}{
	{"Map", mapsFiles, func(t testing.TB, b []byte) *Mapping {
		return must(t)(Map(writeFile(t, b)))
	}},
	{"MapFile", mapsFiles, func(t testing.TB, b []byte) *Mapping {
		f, err := os.Open(writeFile(t, b))
		if err != nil {
			t.Fatal(err)
		}
		if mapsFiles {
			defer f.Close() // the mapping must not need it
		} else {
			t.Cleanup(func() { f.Close() })
		}
		return must(t)(MapFile(f))
	}},
	{"Lazy", mapsFiles, func(t testing.TB, b []byte) *Mapping {
		path := writeFile(t, b)
		return must(t)(Lazy(path, uint64(len(b)), func() (*os.File, error) { return os.Open(path) }), nil)
	}},
	{"OpenReader", false, func(t testing.TB, b []byte) *Mapping {
		return must(t)(OpenReader(writeFile(t, b)))
	}},
	{"FromBytes", true, func(t testing.TB, b []byte) *Mapping {
		return must(t)(FromBytes(b), nil)
	}},
	{"FromReaderAt", false, func(t testing.TB, b []byte) *Mapping {
		return must(t)(FromReaderAt(bytes.NewReader(b), int64(len(b))), nil)
	}},
}

// must fails the test on an error and closes the mapping at the test's end.
func must(t testing.TB) func(*Mapping, error) *Mapping {
	return func(m *Mapping, err error) *Mapping {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { m.Close() })
		return m
	}
}

func writeFile(t testing.TB, content []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "model.bin")
	if err := os.WriteFile(path, content, 0o666); err != nil {
		t.Fatal(err)
	}
	return path
}

// noise is n bytes that differ from their neighbours and from any shift of themselves.
func noise(n int) []byte {
	b := make([]byte, n)
	rand.NewChaCha8([32]byte{1}).Read(b)
	return b
}

// eachMapping runs f on a mapping of content of every kind.
func eachMapping(t *testing.T, content []byte, f func(t *testing.T, m *Mapping, aliased bool)) {
	for _, k := range makers {
		t.Run(k.name, func(t *testing.T) { f(t, k.make(t, content), k.aliased) })
	}
}

var fileSizes = []int{1, 63, 64, 4095, 4096, 4097, 100_000}

func TestWholeFile(t *testing.T) {
	for _, size := range fileSizes {
		content := noise(size)
		eachMapping(t, content, func(t *testing.T, m *Mapping, aliased bool) {
			if m.Size() != uint64(size) || m.Aliased() != aliased {
				t.Errorf("Size %d, Aliased %v; want %d, %v", m.Size(), m.Aliased(), size, aliased)
			}
			b, err := m.Slice(0, m.Size())
			if err != nil || !bytes.Equal(b, content) {
				t.Errorf("Slice of the whole file differs (error %v)", err)
			}
			if aliased {
				whole := m.Bytes()
				if &whole[0] != &b[0] || len(whole) != size || cap(whole) != size {
					t.Errorf("Bytes is not the memory of Slice: length %d, capacity %d", len(whole), cap(whole))
				}
			} else if m.Bytes() != nil {
				t.Error("Bytes of a reader is not nil")
			}
		})
	}
}

func TestSliceRanges(t *testing.T) {
	const size = 5000
	content := noise(size)
	tests := []struct {
		off, n uint64
		err    error
	}{
		{0, 0, nil}, {0, 1, nil}, {1, 64, nil}, {4095, 2, nil}, {0, size, nil}, {size - 1, 1, nil}, {size, 0, nil},
		{size, 1, ErrRange}, {size + 1, 0, ErrRange}, {0, size + 1, ErrRange}, {1, size, ErrRange},
		{1, math.MaxUint64, ErrRange}, {math.MaxUint64, 1, ErrRange}, {math.MaxUint64, math.MaxUint64, ErrRange},
		{1 << 63, 1 << 63, ErrRange}, {1 << 32, 0, ErrRange}, {0, 1 << 32, ErrRange},
	}
	eachMapping(t, content, func(t *testing.T, m *Mapping, aliased bool) {
		for _, tt := range tests {
			b, err := m.Slice(tt.off, tt.n)
			if !errors.Is(err, tt.err) {
				t.Errorf("Slice(%d, %d): error %v, want %v", tt.off, tt.n, err, tt.err)
			}
			if err != nil {
				continue
			}
			if !bytes.Equal(b, content[tt.off:tt.off+tt.n]) {
				t.Errorf("Slice(%d, %d): wrong bytes", tt.off, tt.n)
			}
			if b == nil || uint64(cap(b)) != tt.n {
				t.Errorf("Slice(%d, %d): nil %v, capacity %d", tt.off, tt.n, b == nil, cap(b))
			}
			if !aliased && !IsAligned(b, 64) {
				t.Errorf("Slice(%d, %d): copy at %#x", tt.off, tt.n, address(b))
			}
		}
	})
}

func TestSliceCopiesAreTheCallers(t *testing.T) {
	content := noise(300)
	m := must(t)(OpenReader(writeFile(t, content)))
	b, err := m.Slice(100, 100)
	if err != nil {
		t.Fatal(err)
	}
	if err := m.Close(); err != nil {
		t.Fatal(err)
	}
	b[0]++
	if !bytes.Equal(b[1:], content[101:200]) {
		t.Error("a copy changed after Close")
	}
}

func TestSliceNamesFileAndRange(t *testing.T) {
	path := writeFile(t, noise(10))
	_, err := must(t)(Map(path)).Slice(9, 2)
	want := "slice " + path + ": out of range: offset 9, length 2, size 10"
	if err == nil || err.Error() != want {
		t.Errorf("error %q, want %q", err, want)
	}
}

func TestReadAt(t *testing.T) {
	const size = 5000
	content := noise(size)
	tests := []struct {
		off  int64
		p, n int
		err  error
	}{
		{0, 10, 10, nil}, {0, size, size, nil}, {4090, 12, 12, nil}, {size - 1, 1, 1, nil},
		{size - 1, 2, 1, io.EOF}, {0, size + 1, size, io.EOF}, {size, 1, 0, io.EOF}, {size + 1, 1, 0, io.EOF},
		{math.MaxInt64, 1, 0, io.EOF}, {7, 0, 0, nil}, {size, 0, 0, nil},
		{-1, 1, 0, ErrRange}, {math.MinInt64, 1, 0, ErrRange},
	}
	eachMapping(t, content, func(t *testing.T, m *Mapping, _ bool) {
		for _, tt := range tests {
			p := make([]byte, tt.p)
			n, err := m.ReadAt(p, tt.off)
			if n != tt.n || !errors.Is(err, tt.err) {
				t.Errorf("ReadAt(%d bytes, %d) = %d, %v; want %d, %v", tt.p, tt.off, n, err, tt.n, tt.err)
			}
			if n > 0 && !bytes.Equal(p[:n], content[tt.off:][:n]) {
				t.Errorf("ReadAt(%d bytes, %d): wrong bytes", tt.p, tt.off)
			}
		}
		// io.Reader's callers compare with ==.
		if _, err := m.ReadAt(make([]byte, 1), size); err != io.EOF {
			t.Errorf("at the end: %v, want io.EOF itself", err)
		}
	})
}

func TestReadAtAllocatesNothing(t *testing.T) {
	m := must(t)(Map(writeFile(t, noise(5000))))
	if !m.Aliased() {
		t.Skip("not mapped here")
	}
	p := make([]byte, 100)
	if n := testing.AllocsPerRun(100, func() { m.ReadAt(p, 50) }); n != 0 {
		t.Errorf("ReadAt allocates %v times", n)
	}
	if n := testing.AllocsPerRun(100, func() { m.Slice(50, 100) }); n != 0 {
		t.Errorf("Slice allocates %v times", n)
	}
}

func TestEmpty(t *testing.T) {
	eachMapping(t, nil, func(t *testing.T, m *Mapping, _ bool) {
		if m.Size() != 0 || m.Mapped() {
			t.Errorf("Size %d, Mapped %v", m.Size(), m.Mapped())
		}
		if b := m.Bytes(); m.Aliased() && (b == nil || len(b) != 0) {
			t.Errorf("Bytes = %v, want empty and not nil", b)
		}
		if b, err := m.Slice(0, 0); b == nil || len(b) != 0 || err != nil {
			t.Errorf("Slice(0, 0) = %v, %v", b, err)
		}
		if _, err := m.Slice(0, 1); !errors.Is(err, ErrRange) {
			t.Errorf("Slice(0, 1): %v", err)
		}
		if n, err := m.ReadAt(make([]byte, 1), 0); n != 0 || err != io.EOF {
			t.Errorf("ReadAt = %d, %v", n, err)
		}
		for name, f := range rangeCalls(m) {
			if err := f(0, 0); err != nil {
				t.Errorf("%s(0, 0): %v", name, err)
			}
		}
		if err := m.Close(); err != nil {
			t.Error(err)
		}
		if m.Bytes() != nil {
			t.Error("Bytes after Close is not nil")
		}
	})
}

// rangeCalls are the methods that take a range and tell the kernel about it.
func rangeCalls(m *Mapping) map[string]func(off, n uint64) error {
	calls := map[string]func(off, n uint64) error{
		"Populate": m.Populate,
		"Lock": func(off, n uint64) error {
			err := m.Lock(off, n)
			m.Unlock(off, n) // locked pages refuse DontNeed
			return err
		},
		"Unlock":   m.Unlock,
		"Resident": func(off, n uint64) error { _, err := m.Resident(off, n); return err },
	}
	for a := Normal; a <= HugePage; a++ {
		calls["Advise "+a.String()] = func(off, n uint64) error { return m.Advise(a, off, n) }
	}
	return calls
}

func TestClosed(t *testing.T) {
	eachMapping(t, noise(100), func(t *testing.T, m *Mapping, aliased bool) {
		mapped := m.Mapped()
		for i := range 2 {
			if err := m.Close(); err != nil {
				t.Fatalf("Close number %d: %v", i+1, err)
			}
		}
		calls := rangeCalls(m)
		calls["Slice"] = func(off, n uint64) error { _, err := m.Slice(off, n); return err }
		calls["ReadAt"] = func(off, n uint64) error { _, err := m.ReadAt(make([]byte, n), int64(off)); return err }
		for name, f := range calls {
			if err := f(0, 1); !errors.Is(err, ErrClosed) {
				t.Errorf("%s after Close: %v", name, err)
			}
		}
		if m.Bytes() != nil {
			t.Error("Bytes after Close is not nil")
		}
		if m.Size() != 100 || m.Aliased() != aliased || m.Mapped() != mapped {
			t.Error("Size, Aliased or Mapped changed with Close")
		}
	})
}

func TestFromBytesIsTheCallersMemory(t *testing.T) {
	b := make([]byte, 10, 20)
	m := FromBytes(b)
	s, _ := m.Slice(3, 4)
	b[3] = 7
	if s[0] != 7 {
		t.Error("FromBytes copied")
	}
	m.Close()
	b[3] = 8
	if s[0] != 8 {
		t.Error("Close took the memory")
	}
}

type zeros struct{}

func (zeros) ReadAt(p []byte, _ int64) (int, error) { clear(p); return len(p), nil }

// miscounting says that it has read so many bytes.
type miscounting int

func (n miscounting) ReadAt([]byte, int64) (int, error) { return int(n), nil }

// TestFromReaderAtMiscounts: callers of ReadAt index with the count.
func TestFromReaderAtMiscounts(t *testing.T) {
	for _, n := range []miscounting{-1, 6, math.MaxInt} {
		m := FromReaderAt(n, 10)
		if got, err := m.ReadAt(make([]byte, 5), 2); got != 0 || err == nil || !strings.Contains(err.Error(), "at offset 2") {
			t.Errorf("a reader that counts %d: %d, %v", n, got, err)
		}
		if _, err := m.Slice(2, 5); err == nil {
			t.Errorf("a reader that counts %d: Slice has no error", n)
		}
	}
}

func TestFromReaderAtLies(t *testing.T) {
	text := strings.NewReader("abc")
	tests := []struct {
		name   string
		r      io.ReaderAt
		size   int64
		off, n uint64
		err    error
	}{
		{"ends early", text, 5, 1, 4, io.ErrUnexpectedEOF},
		{"ends early, nothing to read", text, 5, 4, 1, io.ErrUnexpectedEOF},
		{"ends early, too much to allocate on its word", text, 1 << 40, 0, 1 << 39, io.ErrUnexpectedEOF},
		{"never ends", zeros{}, 1 << 62, 0, 1 << 61, ErrTooLarge},
		{"never ends at all", zeros{}, math.MaxInt64, 0, math.MaxInt64, ErrTooLarge},
		{"negative size", text, -1, 0, 1, ErrRange},
		{"good to its end", text, 3, 0, 3, nil},
	}
	for _, tt := range tests {
		b, err := FromReaderAt(tt.r, tt.size).Slice(tt.off, tt.n)
		if !errors.Is(err, tt.err) || (err == nil) != (b != nil) {
			t.Errorf("%s: %d bytes, error %v; want %v", tt.name, len(b), err, tt.err)
		}
	}
}

var errDisk = errors.New("disk on fire")

type failing struct{}

func (failing) ReadAt(p []byte, _ int64) (int, error) { return 0, errDisk }

func TestReaderErrorsComeThrough(t *testing.T) {
	m := FromReaderAt(failing{}, 10)
	if _, err := m.Slice(0, 1); !errors.Is(err, errDisk) {
		t.Errorf("Slice: %v", err)
	}
	if _, err := m.ReadAt(make([]byte, 1), 0); !errors.Is(err, errDisk) {
		t.Errorf("ReadAt: %v", err)
	}
}

func TestLargeCopy(t *testing.T) {
	const n = 2*Trusted + 12345
	content := noise(n)
	b, err := FromReaderAt(bytes.NewReader(content), n).Slice(1, n-1)
	if err != nil || !bytes.Equal(b, content[1:]) || !IsAligned(b, 64) {
		t.Errorf("wrong copy of %d bytes at %#x: %v", len(b), address(b), err)
	}
}

// TestCloseDuringCalls wants ErrClosed or success from every call, no fault,
// and silence from the race detector.
func TestCloseDuringCalls(t *testing.T) {
	content := noise(50_000)
	eachMapping(t, content, func(t *testing.T, m *Mapping, _ bool) {
		calls := rangeCalls(m)
		for _, name := range []string{"Lock", "Unlock", "Resident", "Advise huge page"} {
			delete(calls, name) // which may be refused
		}
		calls["Slice"] = func(off, n uint64) error { _, err := m.Slice(off, n); return err }
		calls["ReadAt"] = func(off, n uint64) error { _, err := m.ReadAt(make([]byte, n), int64(off)); return err }
		calls["Bytes"] = func(off, n uint64) error { m.Bytes(); return nil }
		var ready, done sync.WaitGroup
		for name, f := range calls {
			ready.Add(1)
			done.Go(func() {
				for i := range 200 {
					if err := f(uint64(i), 40_000); err != nil && !errors.Is(err, ErrClosed) {
						t.Errorf("%s: %v", name, err)
					}
					if i == 10 {
						ready.Done()
					}
				}
			})
		}
		ready.Wait()
		for range 2 {
			done.Go(func() {
				if err := m.Close(); err != nil {
					t.Error(err)
				}
			})
		}
		done.Wait()
	})
}

// slowReader says when it was entered and waits for leave to go.
type slowReader struct {
	entered, leave chan struct{}
	left           atomic.Bool
}

func (r *slowReader) ReadAt(p []byte, _ int64) (int, error) {
	close(r.entered)
	<-r.leave
	r.left.Store(true)
	return len(p), nil
}

func TestCloseWaitsForCalls(t *testing.T) {
	r := &slowReader{entered: make(chan struct{}), leave: make(chan struct{})}
	m := FromReaderAt(r, 10)
	var wg sync.WaitGroup
	wg.Go(func() {
		if _, err := m.Slice(0, 10); err != nil {
			t.Error(err)
		}
	})
	<-r.entered
	go func() {
		for m.calls.TryRLock() { // until Close waits
			m.calls.RUnlock()
			runtime.Gosched()
		}
		close(r.leave)
	}()
	m.Close()
	if !r.left.Load() {
		t.Fatal("Close returned while a read was running")
	}
	wg.Wait()
}

func FuzzSlice(f *testing.F) {
	content := noise(10_000)
	var mappings []*Mapping
	for _, k := range makers {
		mappings = append(mappings, k.make(f, content))
	}
	size := uint64(len(content))
	for _, v := range []uint64{0, 1, 4095, 4096, size - 1, size, size + 1, 1 << 31, 1 << 32, 1 << 63, math.MaxUint64} {
		f.Add(v, uint64(1))
		f.Add(uint64(1), v)
		f.Add(v, -v)
		f.Add(v, size-v)
	}
	f.Fuzz(func(t *testing.T, off, n uint64) {
		end, carry := bits.Add64(off, n, 0)
		inside := carry == 0 && end <= size
		for i, m := range mappings {
			b, err := m.Slice(off, n)
			switch {
			case !inside && !errors.Is(err, ErrRange):
				t.Errorf("%s.Slice(%d, %d): error %v", makers[i].name, off, n, err)
			case inside && (err != nil || !bytes.Equal(b, content[off:end]) || uint64(cap(b)) != n):
				t.Errorf("%s.Slice(%d, %d): %d bytes, capacity %d, error %v", makers[i].name, off, n, len(b), cap(b), err)
			}
		}
	})
}
