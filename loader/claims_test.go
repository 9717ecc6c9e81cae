package loader_test

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/tensormap/tensormap/internal/test/modeltest"
	"github.com/tensormap/tensormap/internal/test/testmode"
	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/loader"
	"github.com/tensormap/tensormap/mmapio"
)

// claimant reads a file that ends earlier than it claims.
type claimant struct {
	has []byte
	// lies says that a single byte is answered wherever it is, so that the end seems to be there.
	lies bool
}

func (c claimant) ReadAt(p []byte, off int64) (int, error) {
	if c.lies && len(p) == 1 {
		p[0] = 0
		return 1, nil
	}
	return bytes.NewReader(c.has).ReadAt(p, off)
}

const (
	claimed   = 4 // tensors
	claimSize = 1 << 30
	claimHas  = 1 << 20
)

// disguises give the tensors of a claimant an encoding, whose name they have. They return what the file has of its tensors.
var disguises = map[string]func(t *testing.T) (has []byte){
	"raw": func(*testing.T) []byte { return modeltest.Noise(claimHas, 1) },
	"lz4": func(t *testing.T) []byte {
		disguised(t, func(f layout.File, list []layout.Tensor) layout.File {
			for i := range list {
				list[i].Encoding = layout.LZ4
			}
			return f
		})
		return modeltest.Blocks(t, modeltest.Noise(claimHas, 1))
	},
	"protobuf": func(t *testing.T) []byte {
		disguised(t, func(f layout.File, list []layout.Tensor) layout.File {
			for i := range list {
				list[i].Encoding = layout.Protobuf
			}
			return packing{f, new(atomic.Int64), nil}
		})
		return modeltest.Noise(claimHas, 1)
	},
}

// TestClaims: memory is taken for what arrives, not for what a file claims to hold.
func TestClaims(t *testing.T) {
	if runtime.GOARCH == "wasm" || ^uint(0)>>32 == 0 {
		t.Skip("a file of 4 GiB")
	}
	calls := map[string]struct {
		call func(m *loader.Model, x loader.Tensor) error
		most uint64
	}{
		"Bytes":    {func(_ *loader.Model, x loader.Tensor) error { _, err := x.Bytes(); return err }, mmapio.Trusted},
		"View":     {func(_ *loader.Model, x loader.Tensor) error { _, err := loader.View[uint16](x); return err }, mmapio.Trusted},
		"Float32s": {func(_ *loader.Model, x loader.Tensor) error { _, err := x.Float32s(); return err }, 2 * mmapio.Trusted},
		"Values": {func(_ *loader.Model, x loader.Tensor) (err error) {
			for _, err = range x.Values(make([]float32, 4096)) {
			}
			return err
		}, 2 * mmapio.Trusted},
		"WriteTo": {func(_ *loader.Model, x loader.Tensor) error { _, err := x.WriteTo(io.Discard); return err }, mmapio.Trusted},
		"Warm":    {func(m *loader.Model, x loader.Tensor) error { return warmTensors(t.Context(), m, x.Name()) }, 8 * mmapio.Trusted},
	}
	var header strings.Builder // of a SafeTensors file of 4 GiB, assembled from the specification
	for i := range claimed {
		fmt.Fprintf(&header, `,"%d":{"dtype":"F16","shape":[64,%d],"data_offsets":[%d,%d]}`, i, claimSize/128, i*claimSize, (i+1)*claimSize)
	}
	head := modeltest.WithHeader("{" + header.String()[1:] + "}")
	size := int64(len(head)) + claimed*claimSize
	for encoding, disguise := range disguises {
		for _, lies := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/lies=%v", encoding, lies), func(t *testing.T) {
				m, err := loader.OpenReaderAt(t.Context(), claimant{slices.Concat(head, disguise(t)), lies}, size, &loader.Options{CacheBytes: 1 << 40, TensorBytes: 1 << 40})
				if err != nil {
					t.Fatal(err)
				}
				defer m.Close()
				for name, c := range calls {
					for i := range claimed {
						x := tensor(t, m, fmt.Sprint(i))
						if x.Encoding().String() != encoding {
							t.Fatal("not disguised, but", x.Encoding())
						}
						most := c.most + 8*claimHas
						if encoding == "lz4" {
							most += loader.Segment // for stored bytes, which are read at once
						}
						took := testmode.Allocated(func() { err = c.call(m, x) })
						if err == nil || took > most {
							t.Errorf("%s of tensor %d: took %d MiB; %v", name, i, took>>20, err)
						}
					}
				}
			})
		}
	}
}

// TestGathered: what comes piece by piece is what the file has, from whichever reader.
func TestGathered(t *testing.T) {
	if testmode.Brief() {
		t.Skip("tensors of 20 MiB")
	}
	raw := modeltest.Random("x", layout.F16, 40, 1<<18)
	compressed := raw
	compressed.Data = append(modeltest.Noise(8<<20, 3), make([]byte, 12<<20)...)
	for encoding, file := range map[string][]byte{
		"raw": modeltest.SafeTensors(modeltest.Random("before", layout.U8, 5), raw),
		"lz4": lz4Model(t, compressed),
	} {
		want := raw
		if encoding == "lz4" {
			want = compressed
		}
		path := modeltest.Write(t, "model", file)
		opts := &loader.Options{CacheBytes: 1 << 40, NoMap: true}
		open := map[string]func() *loader.Model{
			"NoMap": func() *loader.Model { return openPath(t, path, opts) },
			"OpenFile": func() *loader.Model {
				f, err := os.Open(path)
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { f.Close() })
				m, err := loader.OpenFile(f, opts)
				if err != nil {
					t.Fatal(err)
				}
				return m
			},
			"OpenReaderAt": func() *loader.Model {
				m, err := loader.OpenReaderAt(t.Context(), bytes.NewReader(file), int64(len(file)), opts)
				if err != nil {
					t.Fatal(err)
				}
				return m
			},
		}
		wantValues, err := tensor(t, openBytes(t, file, opts), "x").Float32s()
		if err != nil {
			t.Fatal(err)
		}
		for name, open := range open {
			for _, warm := range []bool{false, true} {
				m := open()
				if warm {
					if err := warmTensors(t.Context(), m, "x"); err != nil {
						t.Errorf("%s, %s: Warm: %v", encoding, name, err)
					}
				}
				x := tensor(t, m, "x")
				values, err := x.Float32s()
				if err != nil || !modeltest.SameBits(values, wantValues) {
					t.Errorf("%s, %s: other values; %v", encoding, name, err)
				}
				b, err := x.Bytes()
				if err != nil || !bytes.Equal(b, want.Data) || !mmapio.IsAligned(b, 64) {
					t.Errorf("%s, %s: other bytes; %v", encoding, name, err)
				}
				m.Close()
			}
		}
	}
}
