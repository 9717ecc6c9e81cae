package remote_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/tensormap/tensormap/convert"
	"github.com/tensormap/tensormap/internal/test/modeltest"
	"github.com/tensormap/tensormap/internal/test/testmode"
	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/layout/apr2"
	"github.com/tensormap/tensormap/layout/encrypted"
	"github.com/tensormap/tensormap/loader"
	"github.com/tensormap/tensormap/remote"
)

// matrices returns an APR2 file of types that are multiplied as stored or through tiles.
func matrices(t *testing.T) []byte {
	random := rand.NewChaCha8([32]byte{5})
	var list []modeltest.Tensor
	for _, d := range []layout.DType{layout.F32, layout.BF16, layout.Q8_0, layout.Q4_K, layout.IQ2_XS} {
		shape := []int{1500, 512}
		row := make([]byte, 8*shape[1]/d.BlockElems()*d.BlockBytes()) // that repeats: LZ4 pays
		random.Read(row)
		size := shape[0] * shape[1] / d.BlockElems() * d.BlockBytes()
		list = append(list, modeltest.Tensor{Name: d.String(), DType: d, Shape: shape, Data: bytes.Repeat(row, size/len(row)+1)[:size]})
	}
	return modeltest.APR2(t, nil, list...)
}

// products returns those of a model's matrices with a vector and with three. Afterwards run does the same again.
func products(t *testing.T, m *loader.Model) (all map[string][]float32, run map[string]func()) {
	t.Helper()
	random := rand.New(rand.NewPCG(1, 2))
	all, run = make(map[string][]float32), make(map[string]func())
	for x := range m.Tensors() {
		rows, cols := x.Shape()[0], x.Shape()[1]
		xs, dst := make([]float32, 3*cols), make([]float32, 4*rows)
		for i := range xs {
			xs[i] = float32(random.NormFloat64())
		}
		all[x.Name()] = dst
		run[x.Name()] = func() {
			if err := errors.Join(x.MatVec(t.Context(), dst[:rows], xs[:cols]), x.MatMul(t.Context(), dst[rows:], xs, 3)); err != nil {
				t.Fatal(err)
			}
		}
		run[x.Name()]()
	}
	return all, run
}

// askedTwice returns an offset of a file that more than one request asked for, or -1.
func askedTwice(t *testing.T, requests []modeltest.Request, size int) int {
	t.Helper()
	asked := make([]bool, size)
	for _, r := range requests {
		if r.Bytes == 0 { // HEAD
			continue
		}
		lo, hi := 0, size-1
		if r.Range != "" {
			if _, err := fmt.Sscanf(r.Range, "bytes=%d-%d", &lo, &hi); err != nil {
				t.Fatalf("%q: %v", r.Range, err)
			}
		}
		for i := lo; i <= min(hi, size-1); i++ {
			if asked[i] {
				return i
			}
			asked[i] = true
		}
	}
	return -1
}

// TestMultiply holds products of a model at an address against those of the same file. Every byte is asked
// for once, and no memory is taken for bytes that are there.
func TestMultiply(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	dir := t.TempDir()
	plain := filepath.Join(dir, "plain.apr")
	if err := os.WriteFile(plain, matrices(t), 0o666); err != nil {
		t.Fatal(err)
	}
	key := encrypted.Key(bytes.Repeat([]byte{7}, 32))
	withKey := &loader.Options{Key: func(context.Context, string) (loader.Secret, error) { return key, nil }}
	write := func(name string, opts *convert.Options) string {
		t.Helper()
		m, err := loader.Open(plain, nil)
		m = modeltest.Opened(t, m, err)
		path := filepath.Join(dir, name)
		if _, err := convert.Write(t.Context(), m, path, opts); err != nil {
			t.Fatal(err)
		}
		return path
	}
	for _, kind := range []struct {
		path string
		opts *loader.Options
	}{
		{plain, nil},
		{write("compressed.apr", &convert.Options{Compress: convert.Fast}), nil},
		{write("encrypted.apr", &convert.Options{Encrypter: &apr2.Encrypter{Secret: key}}), withKey},
		{write("both.apr", &convert.Options{Compress: convert.Fast, Encrypter: &apr2.Encrypter{Secret: key}}), withKey},
	} {
		t.Run(filepath.Base(kind.path), func(t *testing.T) {
			local, err := loader.Open(kind.path, kind.opts)
			want, run := products(t, modeltest.Opened(t, local, err))
			most := make(map[string]float64) // allocations
			for name, again := range run {
				if kind.opts != nil { // what is decrypted takes memory, and from afar is read into memory before
					most[name] = testing.AllocsPerRun(10, again) + 8
				}
			}
			content, err := os.ReadFile(kind.path)
			if err != nil {
				t.Fatal(err)
			}
			var asked modeltest.Recorder
			s := httptest.NewServer(asked.Record(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("ETag", `"1"`)
				http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(content))
			})))
			defer s.Close()
			var requests []modeltest.Request
			for _, turn := range []string{"without a cache", "from afar", "opened again"} {
				noCache := turn == "without a cache"
				m, err := remote.Open(t.Context(), s.URL+"/"+filepath.Base(kind.path), &remote.Options{Loader: kind.opts, NoCache: noCache})
				got, run := products(t, modeltest.Opened(t, m, err))
				for name, values := range want {
					if i := modeltest.Differ(got[name], values); i >= 0 {
						t.Fatalf("%s, %s: product %d is %v, of the file itself %v", turn, name, i, got[name][i], values[i])
					}
				}
				taken := asked.Take()
				if noCache {
					continue
				}
				requests = append(requests, taken...)
				if at := askedTwice(t, requests, len(content)); at >= 0 {
					t.Errorf("%s: byte %d of %d was asked for twice: %v", turn, at, len(content), requests)
				}
				for name, again := range run {
					if n := testing.AllocsPerRun(10, again); n > most[name] && !testmode.Races() && !testmode.ChecksPointers() {
						t.Errorf("%s, %s: %v allocations, at most %v", turn, name, n, most[name])
					}
				}
				if more := asked.Take(); len(more) > 0 {
					t.Errorf("%s: %d requests for bytes that were there", turn, len(more))
				}
			}
		})
	}
}
