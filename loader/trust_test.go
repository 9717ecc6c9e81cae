package loader_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/tensormap/tensormap/internal/test/modeltest"
	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/loader"
)

// plainTrust vouches for files by name, in chunks of 64 KiB.
type plainTrust map[string]*layout.Digests

const testChunk = 1 << 16

func (p plainTrust) Digests(name string, in layout.Input) (*layout.Digests, error) {
	d := p[name]
	if d == nil {
		return nil, errors.New("not listed")
	}
	if in.Size() != d.End {
		return nil, layout.ErrChecksum
	}
	return d, nil
}

// countingReader reads from memory and counts the bytes. It lies once lie is set.
type countingReader struct {
	b    []byte
	read atomic.Int64
	lie  atomic.Bool
}

func (r *countingReader) Name() string { return "m.safetensors" }

func (r *countingReader) ReadAt(p []byte, off int64) (int, error) {
	n, err := bytes.NewReader(r.b).ReadAt(p, off)
	r.read.Add(int64(n))
	if r.lie.Load() && n > 0 {
		p[0] ^= 1
	}
	return n, err
}

// trustedKinds opens b in every way that bytes are reached, with trust in the bytes of good: private and not.
func trustedKinds(t *testing.T, b, good []byte, f func(t *testing.T, open func() (*loader.Model, error))) {
	path, trust := modeltest.Write(t, "m.safetensors", b), plainTrust{"m.safetensors": modeltest.Digests(good, testChunk)}
	for _, k := range kindsNamed("Open", "Open/NoMap", "OpenReaderAt/plain", "OpenReaderAt/backed") {
		for _, private := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/private=%v", k.name, private), func(t *testing.T) {
				f(t, func() (*loader.Model, error) { return k.open(t, path, &loader.Options{Trust: trust, Private: private}) })
			})
		}
	}
}

// waysOut are the ways by which bytes of a tensor leave the loader.
var waysOut = map[string]func(x loader.Tensor) error{
	"Bytes": func(x loader.Tensor) error { _, err := x.Bytes(); return err },
	"View":  func(x loader.Tensor) error { _, err := loader.View[byte](x); return err },
	"Float32s": func(x loader.Tensor) error {
		_, err := x.Float32s()
		return err
	},
	"Dequantize": func(x loader.Tensor) error { return x.Dequantize(make([]float32, x.Elements())) },
	"DequantizeRows": func(x loader.Tensor) error {
		n := x.Elements()
		if len(x.Shape()) > 1 {
			n /= uint64(x.Shape()[0])
		}
		var errs []error
		for row := range x.Elements() / n {
			errs = append(errs, x.DequantizeRows(make([]float32, n), row, 1))
		}
		return errors.Join(errs...)
	},
	"ReadAt": func(x loader.Tensor) error {
		_, err := x.ReadAt(make([]byte, x.RawBytes()), 0)
		return err
	},
	"WriteTo":        func(x loader.Tensor) error { _, err := x.WriteTo(io.Discard); return err },
	"WriteDecrypted": func(x loader.Tensor) error { _, err := x.WriteDecrypted(io.Discard); return err },
	"Values": func(x loader.Tensor) error {
		for _, err := range x.Values(make([]float32, 1000)) {
			if err != nil {
				return err
			}
		}
		return nil
	},
}

// TestTrustWrongChunk flips a bit in one chunk: tensors there are errors in every way out, others work.
func TestTrustWrongChunk(t *testing.T) {
	tensors := tensorsOf("many")
	good := modeltest.SafeTensors(tensors...)
	for _, c := range []int{1, 3} {
		bad := bytes.Clone(good)
		bad[c*testChunk+77] ^= 0x10
		trustedKinds(t, bad, good, func(t *testing.T, open func() (*loader.Model, error)) {
			for way, do := range waysOut {
				m, err := open()
				if err != nil {
					t.Fatal(err)
				}
				for x := range m.Tensors() {
					first, last := x.Offset()/testChunk, (x.Offset()+x.StoredBytes()-1)/testChunk
					err := do(x)
					if uint64(c) < first || uint64(c) > last {
						if err != nil {
							t.Errorf("%s of %s: %v", way, x.Name(), err)
						}
						continue
					}
					for range 2 { // the error stays
						var wrong *loader.IntegrityError
						if !errors.As(err, &wrong) || !errors.Is(err, layout.ErrChecksum) {
							t.Fatalf("%s of %s: %v", way, x.Name(), err)
						}
						if wrong.Chunk != uint64(c) || wrong.Offset != uint64(c*testChunk) || wrong.Tensor != x.Name() || filepath.Base(wrong.File) != "m.safetensors" {
							t.Errorf("%s: %+v", way, wrong)
						}
						err = do(x)
					}
				}
				if _, err := m.WarmAll(t.Context(), nil); !errors.Is(err, layout.ErrChecksum) {
					t.Errorf("WarmAll: %v", err)
				}
				var wrong *loader.IntegrityError
				if err := m.VerifyTrust(t.Context(), nil); !errors.As(err, &wrong) || wrong.Tensor == "" {
					t.Errorf("VerifyTrust: %v", err)
				}
				if err := m.ReadFileAt(t.Context(), 0, make([]byte, 10), uint64(c*testChunk)); !errors.Is(err, layout.ErrChecksum) {
					t.Errorf("ReadFileAt: %v", err)
				}
				m.Close()
			}
		})
	}
}

// TestTrustHead flips bits in the head, and cuts and extends the file: Open fails.
func TestTrustHead(t *testing.T) {
	good := modeltest.SafeTensors(tensorsOf("many")...)
	for name, bad := range map[string][]byte{
		"first byte": append([]byte{good[0] ^ 1}, good[1:]...),
		"name":       bytes.Replace(good, []byte(`"a"`), []byte(`"x"`), 1),
		"cut":        good[:len(good)-1],
		"extended":   append(bytes.Clone(good), 0),
		"first chunk": func() []byte {
			b := bytes.Clone(good)
			b[testChunk-1] ^= 1
			return b
		}(),
	} {
		trustedKinds(t, bad, good, func(t *testing.T, open func() (*loader.Model, error)) {
			m, err := open()
			if err == nil {
				m.Close()
			}
			if !errors.Is(err, layout.ErrChecksum) {
				t.Errorf("%s: %v", name, err)
			}
		})
	}
}

// TestTrustWhole reads a good file in every way.
func TestTrustWhole(t *testing.T) {
	tensors := tensorsOf("many")
	good := modeltest.SafeTensors(tensors...)
	trustedKinds(t, good, good, func(t *testing.T, open func() (*loader.Model, error)) {
		m, err := open()
		if err != nil {
			t.Fatal(err)
		}
		defer m.Close()
		for i, x := range tensors {
			got, err := tensor(t, m, x.Name).Bytes()
			if err != nil || !bytes.Equal(got, tensors[i].Data) {
				t.Errorf("%s: %v", x.Name, err)
			}
			for way, do := range waysOut {
				if err := do(tensor(t, m, x.Name)); err != nil {
					t.Errorf("%s of %s: %v", way, x.Name, err)
				}
			}
		}
		if err := m.VerifyTrust(t.Context(), nil); err != nil {
			t.Error(err)
		}
		if m.Granularity() != layout.ByChunk || m.Stats().VerifiedBytes < uint64(len(good)) || m.Stats().WrongChunks != 0 {
			t.Errorf("%v %+v", m.Granularity(), m.Stats())
		}
	})
}

// TestTrustOnce has a hundred goroutines ask for one cold chunk: it is hashed once.
func TestTrustOnce(t *testing.T) {
	good := modeltest.SafeTensors(tensorsOf("many")...)
	trustedKinds(t, good, good, func(t *testing.T, open func() (*loader.Model, error)) {
		m, err := open()
		if err != nil {
			t.Fatal(err)
		}
		defer m.Close()
		x := tensor(t, m, "d")
		chunks := (x.Offset()+x.StoredBytes()-1)/testChunk - x.Offset()/testChunk + 1
		before := m.Stats().VerifiedBytes
		var wg sync.WaitGroup
		for range 100 {
			wg.Go(func() {
				if _, err := x.ReadAt(make([]byte, 10), 5); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		if got := m.Stats().VerifiedBytes - before; got > chunks*testChunk {
			t.Errorf("%d bytes hashed for %d chunks", got, chunks)
		}
	})
}

// TestTrustLyingServer has a server that is honest until the index is read.
func TestTrustLyingServer(t *testing.T) {
	good := modeltest.SafeTensors(tensorsOf("many")...)
	r := &countingReader{b: good}
	m, err := loader.OpenReaderAt(t.Context(), r, int64(len(good)), &loader.Options{Trust: plainTrust{"m.safetensors": modeltest.Digests(good, testChunk)}})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	r.lie.Store(true)
	for range 2 {
		if _, err := tensor(t, m, "e").Bytes(); !errors.Is(err, layout.ErrChecksum) {
			t.Error(err)
		}
		r.lie.Store(false) // too late
	}
	if used := m.Stats().HeapBytes; used != 0 {
		t.Errorf("%d bytes in the cache", used)
	}
	if _, err := tensor(t, m, "a").Bytes(); err != nil {
		t.Error(err)
	}
}

// TestPrivate rewrites a file after it was verified: a private model does not see that.
func TestPrivate(t *testing.T) {
	tensors := tensorsOf("many")
	good := modeltest.SafeTensors(tensors...)
	path := modeltest.Write(t, "m.safetensors", good)
	m, err := loader.Open(path, &loader.Options{Trust: plainTrust{"m.safetensors": modeltest.Digests(good, testChunk)}, Private: true})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	b, err := tensor(t, m, "c").Bytes()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, make([]byte, len(good)), 0o666); err != nil {
		t.Skip(err) // as where open files cannot be written to
	}
	if !bytes.Equal(b, tensors[2].Data) {
		t.Error("the view shows what was written later")
	}
	if _, err := tensor(t, m, "e").Bytes(); !errors.Is(err, layout.ErrChecksum) {
		t.Error("a chunk that was touched later:", err)
	}
	if s := m.Stats(); s.PrivateBytes == 0 || s.PrivateBytes > uint64(len(good)) {
		t.Errorf("%+v", s)
	}
}

// TestTrustShards has a model in several files, one of them swapped for another.
func TestTrustShards(t *testing.T) {
	dir, trust := copyDir(t, "../testdata/shards"), plainTrust{}
	paths, err := filepath.Glob(filepath.Join(dir, "safetensors", "*.safetensors*"))
	if err != nil || len(paths) == 0 {
		t.Skip("no fixture in shards:", err)
	}
	for _, p := range paths {
		b, err := os.ReadFile(p)
		if err != nil {
			t.Fatal(err)
		}
		trust[filepath.Base(p)] = modeltest.Digests(b, testChunk)
	}
	indexes, _ := filepath.Glob(filepath.Join(dir, "safetensors", "*.safetensors.index.json"))
	for _, private := range []bool{false, true} {
		m, err := loader.Open(indexes[0], &loader.Options{Trust: trust, Private: private})
		if err != nil {
			t.Fatal(err)
		}
		if err := m.VerifyTrust(t.Context(), nil); err != nil {
			t.Error(err)
		}
		for x := range m.Tensors() {
			if _, err := x.Bytes(); err != nil {
				t.Error(err)
			}
		}
		m.Close()
		if _, err := loader.Open(indexes[0], &loader.Options{Trust: plainTrust{filepath.Base(indexes[0]): trust[filepath.Base(indexes[0])]}}); err == nil {
			t.Error("a shard that is not listed opens")
		}
	}
}

// TestTrustCancelled ends one of two that wait for a chunk from afar.
func TestTrustCancelled(t *testing.T) {
	good := modeltest.SafeTensors(tensorsOf("many")...)
	m, err := loader.OpenReaderAt(t.Context(), &countingReader{b: good}, int64(len(good)), &loader.Options{Trust: plainTrust{"m.safetensors": modeltest.Digests(good, testChunk)}})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := m.VerifyTrust(ended, nil); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if err := m.VerifyTrust(t.Context(), nil); err != nil {
		t.Error(err)
	}
}

// listing is a plainTrust that knows which files there are.
type listing struct{ plainTrust }

func (l listing) Lists(name string) bool { return l.plainTrust[name] != nil }

// refusing is a reader beside which no file can be read.
type refusing struct{ *countingReader }

func (r refusing) Open(ctx context.Context, name string) (loader.FolderFile, error) {
	if name == r.Name() {
		return loader.FromReaderAt(name, r.countingReader, int64(len(r.b))).Open(ctx, name)
	}
	return loader.FolderFile{}, loader.ErrUnsupported
}

// TestTrustBesideRefused has a registry that stores a configuration so that it cannot be read. Who trusts a list
// with that configuration must not read the model without it.
func TestTrustBesideRefused(t *testing.T) {
	good := modeltest.SafeTensors(modeltest.Random("x", layout.U8, 3))
	by := listing{plainTrust{"m.safetensors": modeltest.Digests(good, testChunk), "config.json": modeltest.Digests([]byte(`{}`), testChunk)}}
	for _, listed := range []string{"config.json", "other.json"} {
		for _, r := range []io.ReaderAt{refusing{&countingReader{b: good}}, &countingReader{b: good}} {
			m, err := loader.OpenReaderAt(t.Context(), r, int64(len(good)), &loader.Options{Trust: by})
			if err != nil {
				t.Fatal(err)
			}
			_, hasSiblings := r.(refusing)
			want := loader.ErrUnsupported // as if there were none
			if hasSiblings && listed == "config.json" {
				want = loader.ErrNotFound
				if _, err := m.Config(t.Context()); !errors.Is(err, want) {
					t.Errorf("Config: %v", err)
				}
			}
			if _, err := m.ReadBeside(t.Context(), listed, 100); !errors.Is(err, want) || want != loader.ErrUnsupported && errors.Is(err, loader.ErrUnsupported) {
				t.Errorf("%s beside a %T: %v", listed, r, err)
			}
			m.Close()
		}
	}
}

// TestTrustBeside reads files beside a model, in names that addresses would cut: the trusted one,
// another, one that is not listed, and one that is missing.
func TestTrustBeside(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("names without ?")
	}
	good := modeltest.SafeTensors(modeltest.Random("x", layout.U8, 3))
	dir := t.TempDir()
	put := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	put("m?.safetensors", string(good))
	put("config.json", `{}`)
	put("other.json", `{}`)
	by := listing{plainTrust{"m?.safetensors": modeltest.Digests(good, testChunk), "config.json": modeltest.Digests([]byte(`{}`), testChunk), "missing.json": modeltest.Digests([]byte(`{}`), testChunk)}}
	m := openPath(t, filepath.Join(dir, "m?.safetensors"), &loader.Options{Trust: by})
	if b, err := m.ReadBeside(t.Context(), "config.json", 100); err != nil || string(b) != `{}` {
		t.Errorf("%q, %v", b, err)
	}
	if _, err := m.ReadBeside(t.Context(), "other.json", 100); err == nil {
		t.Error("a file that is not listed is read")
	}
	if _, err := m.ReadBeside(t.Context(), "missing.json", 100); !errors.Is(err, loader.ErrNotFound) || errors.Is(err, fs.ErrNotExist) {
		t.Error("a file that is missing:", err)
	}
	if _, err := m.ReadBeside(t.Context(), "none.json", 100); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
	for _, name := range []string{"", ".", "..", "../config.json", "a/../b", "a//b", "a/", "/etc/hosts"} {
		if _, err := m.ReadBeside(t.Context(), name, 100); !errors.Is(err, layout.ErrInvalid) {
			t.Errorf("%q: %v", name, err)
		}
	}
	put("config.json", `[]`)
	var wrong *loader.IntegrityError
	if _, err := m.ReadBeside(t.Context(), "config.json", 100); !errors.As(err, &wrong) {
		t.Error(err)
	}
	if err := loader.VerifyFile(t.Context(), filepath.Join(dir, "config.json"), by); !errors.As(err, &wrong) {
		t.Error(err)
	}
	if err := loader.VerifyFile(t.Context(), filepath.Join(dir, "m?.safetensors"), by); err != nil {
		t.Error(err)
	}
}

// silentSource is a Source that nobody should ask.
type silentSource struct {
	t    *testing.T
	size int64
}

func (s silentSource) Size() int64  { return s.size }
func (s silentSource) Close() error { return nil }

func (s silentSource) ReadAt(context.Context, []byte, int64) error {
	s.t.Error("the source was asked")
	return errors.New("nobody is there")
}

// TestRequireDigests: digests of a file that is complete are made of its own bytes. A file without bytes is refused.
func TestRequireDigests(t *testing.T) {
	good := modeltest.SafeTensors(tensorsOf("many")...)
	f, err := os.Open(modeltest.Write(t, "m.safetensors", good))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	by := plainTrust{"m.safetensors": modeltest.Digests(good, testChunk)}
	s := loader.FolderFile{Name: "far/m.safetensors", Source: silentSource{t, int64(len(good))}, Local: f}
	if err := s.RequireDigests(t.Context(), "m.safetensors", by); err != nil {
		t.Error(err)
	}
	if err := s.RequireDigests(t.Context(), "other", by); err == nil {
		t.Error("a file that is not listed is taken")
	}
	empty := loader.FolderFile{Name: "none"}
	if err := empty.RequireDigests(t.Context(), "m.safetensors", by); !errors.Is(err, layout.ErrInvalid) {
		t.Error(err)
	}
}
