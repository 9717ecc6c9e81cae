package remote_test

import (
	"bytes"
	"errors"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tensormap/tensormap/internal/test/hubtest"
	"github.com/tensormap/tensormap/internal/test/modeltest"
	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/layout/apr2"
	"github.com/tensormap/tensormap/loader"
	"github.com/tensormap/tensormap/remote"
	"github.com/tensormap/tensormap/trust"
)

// vouched trusts one content for all files, in chunks of chunk bytes.
type vouched struct {
	content []byte
	chunk   int
}

func (v vouched) Digests(_ string, in layout.Input) (*layout.Digests, error) {
	if in.Size() != uint64(len(v.content)) {
		return nil, layout.ErrChecksum
	}
	return modeltest.Digests(v.content, v.chunk), nil
}

// liar makes the CDN of a Hub send wrong bytes from offset from on, while it lies.
type liar struct {
	lies atomic.Bool
	from int
	sent atomic.Int64
}

func newLiar(h *hubtest.Hub, from int, name string) *liar {
	l := &liar{from: from}
	wrong := bytes.Clone(h.Files[name])
	for i := from; i < len(wrong); i++ {
		wrong[i] ^= 0x55
	}
	h.Lock()
	defer h.Unlock()
	h.Fault = func(w http.ResponseWriter, r *http.Request) bool {
		if !l.lies.Load() || !strings.HasSuffix(r.URL.Path, name) {
			return false
		}
		l.sent.Add(1)
		w.Header().Set("ETag", `"cdn-`+hubtest.Digest(h.Files[name])[:16]+`"`)
		http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(wrong))
		return true
	}
	return l
}

// kept returns how many bytes of content the caches hold. A byte that is not the content's is an error.
func kept(t *testing.T, content []byte) (n int) {
	t.Helper()
	for _, root := range []string{os.Getenv("XDG_CACHE_HOME"), os.Getenv("HF_HOME")} {
		err := filepath.WalkDir(root, func(path string, e fs.DirEntry, err error) error {
			if err != nil || !e.Type().IsRegular() {
				return err
			}
			b, err := os.ReadFile(path)
			if err != nil || len(b) != len(content) {
				return err
			}
			for i, c := range b {
				switch c {
				case content[i]:
					n++
				case 0: // not there yet
				default:
					t.Fatalf("%s: byte %d is one that the server made up", path, i)
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return n
}

// oneFile returns a model in one file of 3 MiB without zeros: a tensor a of 1 MiB, then b of 2 MiB.
func oneFile() []byte {
	data := make([]byte, 3<<20)
	for i := range data {
		data[i] = byte(i*7+i>>11) | 1
	}
	return modeltest.SafeTensors(modeltest.Tensor{Name: "a", DType: layout.U8, Shape: []int{1 << 20}, Data: data[:1<<20]},
		modeltest.Tensor{Name: "b", DType: layout.U8, Shape: []int{2 << 20}, Data: data[1<<20:]})
}

func trusting(t *testing.T, by loader.Trust, private bool) *loader.Model {
	t.Helper()
	m, err := remote.Open(t.Context(), "hf://org/model", &remote.Options{Loader: &loader.Options{Trust: by, Private: private}})
	return modeltest.Opened(t, m, err)
}

// closed closes a model, and waits until its files are let go.
func closed(t *testing.T, m *loader.Model) {
	t.Helper()
	if err := m.Close(); err != nil {
		t.Fatal(err)
	}
	<-m.Done()
}

// TestLyingServer has a server that lies about the second half of a file. Nothing of it is handed out,
// and nothing enters a cache: once the server is honest, the model opens whole.
func TestLyingServer(t *testing.T) {
	content := oneFile()
	const name = "model.safetensors"
	for i, chunk := range []int{64 << 10, 96 << 10, 1 << 20, 4 << 20, 64 << 10, 1 << 20} {
		private := i >= 4
		h := hubtest.New(t, map[string][]byte{name: content})
		l := newLiar(h, len(content)-(1<<20), name)
		by := vouched{content, chunk}
		l.lies.Store(true)
		if chunk >= len(content) {
			if _, err := remote.Open(t.Context(), "hf://org/model", &remote.Options{Loader: &loader.Options{Trust: by}}); !errors.Is(err, layout.ErrChecksum) {
				t.Errorf("chunk %d: %v", chunk, err)
			}
			kept(t, content)
			l.lies.Store(false)
			closed(t, trusting(t, by, private))
			continue
		}
		m := trusting(t, by, private)
		a, errA := m.Tensor("a")
		b, errB := m.Tensor("b")
		if errA != nil || errB != nil {
			t.Fatal(errA, errB)
		}
		if got, err := a.Bytes(); err != nil || !bytes.Equal(got, content[a.Offset():][:1<<20]) {
			t.Errorf("chunk %d: %v", chunk, err)
		}
		for range 2 { // the error stays, also when the server is honest again
			var wrong *loader.IntegrityError
			if got, err := b.Bytes(); !errors.As(err, &wrong) || wrong.Tensor != "b" || got != nil {
				t.Errorf("chunk %d: %d bytes, %v", chunk, len(got), err)
			}
			if _, err := m.WarmAll(t.Context(), nil); !errors.Is(err, layout.ErrChecksum) {
				t.Errorf("chunk %d: %v", chunk, err)
			}
			l.lies.Store(false)
		}
		if l.sent.Load() == 0 {
			t.Error("the server did not lie")
		}
		before := kept(t, content)
		if before < 1<<20 {
			t.Errorf("chunk %d: %d verified bytes are kept", chunk, before)
		}
		closed(t, m)
		again := trusting(t, by, private)
		if err := again.VerifyTrust(t.Context(), nil); err != nil {
			t.Errorf("chunk %d, honest again: %v", chunk, err)
		}
		closed(t, again)
		if all := kept(t, content); all != len(content) {
			t.Errorf("chunk %d: %d of %d bytes are kept", chunk, all, len(content))
		}
	}
}

// TestPullOfLies pulls from a server that lies about the second half of a file. The cache takes nothing of it.
func TestPullOfLies(t *testing.T) {
	content := oneFile()
	const name = "model.safetensors"
	h := hubtest.New(t, map[string][]byte{name: content})
	l := newLiar(h, len(content)-(1<<20), name)
	opts := &remote.Options{Loader: &loader.Options{Trust: vouched{content, 96 << 10}}}
	l.lies.Store(true)
	var wrong *loader.IntegrityError
	if _, err := remote.Pull(t.Context(), "hf://org/model", opts); !errors.As(err, &wrong) || strings.Count(err.Error(), name) != 1 {
		t.Error(err)
	}
	if l.sent.Load() == 0 {
		t.Error("the server did not lie")
	}
	if n := kept(t, content); n == len(content) {
		t.Error("all bytes are kept")
	}
	l.lies.Store(false)
	pulled, err := remote.Pull(t.Context(), "hf://org/model", opts)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(pulled.Files[0]); err != nil || !bytes.Equal(got, content) {
		t.Error(err)
	}
}

// TestLyingHead has a server that lies about the head of a file that carries its signature, which is
// read before any digest is known.
func TestLyingHead(t *testing.T) {
	content, err := os.ReadFile("../testdata/trust/signed.apr")
	if err != nil {
		t.Fatal(err)
	}
	key, err := trust.ReadPublicKey("../testdata/trust/signed.pub.pem")
	if err != nil {
		t.Fatal(err)
	}
	by, err := trust.NewEmbedded(key)
	if err != nil {
		t.Fatal(err)
	}
	h := hubtest.New(t, map[string][]byte{"model.apr": content})
	l := newLiar(h, 100, "model.apr")
	l.lies.Store(true)
	_, err = remote.Open(t.Context(), "hf://org/model", &remote.Options{Loader: &loader.Options{Trust: by}})
	if err == nil || l.sent.Load() == 0 {
		t.Fatal(err)
	}
	for _, path := range partials(t) {
		if marks, err := os.ReadFile(path + ".map"); err != nil || bytes.Contains(marks[64:], []byte{1}) {
			t.Errorf("bytes of a head that is wrong are kept: %v", err)
		}
	}
	l.lies.Store(false)
	closed(t, trusting(t, by, false))
	t.Setenv("HF_HUB_OFFLINE", "1")
	m := trusting(t, by, false) // the head is kept, once it was right
	for x := range m.Tensors() {
		if x.Offset() < 60000 { // in the first chunk, which came with the head
			if _, err := x.Bytes(); err != nil {
				t.Error(err)
			}
		}
	}
}

// partials returns the names of incomplete files, without suffix.
func partials(t *testing.T) (names []string) {
	t.Helper()
	maps, err := filepath.Glob(os.Getenv("XDG_CACHE_HOME") + "/tensormap/*.map")
	if err != nil || len(maps) == 0 {
		t.Fatal("no incomplete files:", err)
	}
	for _, m := range maps {
		names = append(names, strings.TrimSuffix(m, ".map"))
	}
	return names
}

// TestTrustedOnce has a hundred goroutines ask for the same cold chunks: each byte comes once.
func TestTrustedOnce(t *testing.T) {
	content := oneFile()
	h := hubtest.New(t, map[string][]byte{"model.safetensors": content})
	m := trusting(t, vouched{content, 256 << 10}, false)
	b, err := m.Tensor("b")
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for i := range 100 {
		wg.Go(func() {
			p := make([]byte, 100)
			off := int64(i%2) << 20
			if _, err := b.ReadAt(p, off); err != nil || !bytes.Equal(p, content[int64(b.Offset())+off:][:100]) {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if _, _, _, sent := count(h.Take()); sent > 3*256<<10 {
		t.Errorf("%d bytes for three chunks of 256 KiB", sent)
	}
}

// TestFooterOfSigned reads what no digest covers of a signed file, before anything else of its end.
func TestFooterOfSigned(t *testing.T) {
	key, err := trust.GenerateKey(trust.Ed25519)
	if err != nil {
		t.Fatal(err)
	}
	signer, err := trust.NewSigner(key)
	if err != nil {
		t.Fatal(err)
	}
	f, err := os.Create(filepath.Join(t.TempDir(), "model.apr"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	w, err := apr2.NewWriter(f, slices.Values([]layout.Tensor{{Name: []byte("a"), DType: layout.U8, Shape: []int{1 << 20}}}), &apr2.Options{Signer: signer})
	if err == nil {
		err = errors.Join(w.WriteTensor(bytes.Repeat([]byte{7}, 1<<20)), w.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
	content, err := os.ReadFile(f.Name())
	if err != nil {
		t.Fatal(err)
	}
	hubtest.New(t, map[string][]byte{"model.apr": content})
	by, err := trust.NewEmbedded(key.Public())
	if err != nil {
		t.Fatal(err)
	}
	m := trusting(t, by, false)
	footer := make([]byte, 16)
	if err := m.ReadFileAt(t.Context(), 0, footer, uint64(len(content)-16)); err != nil || !bytes.Equal(footer, content[len(content)-16:]) {
		t.Errorf("footer % x, %v", footer, err)
	}
}
