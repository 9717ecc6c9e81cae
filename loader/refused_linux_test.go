package loader_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/tensormap/tensormap/internal/test/modeltest"
	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/loader"
)

// hole is larger than the address space that limitAddresses leaves.
const hole int64 = 8 << 30

// TestMappingRefused opens files for which there is no address space: they are read.
func TestMappingRefused(t *testing.T) {
	if int64(math.MaxInt) < hole {
		t.Skip("no such file can be opened here")
	}
	dir := t.TempDir()
	c := modeltest.Random("x", layout.F32, 1000)
	name := "model-00001-of-00001.safetensors"
	// withHole writes a SafeTensors file with c and a tensor of hole bytes, which take no room on
	// the disk.
	path := filepath.Join(dir, name)
	n := len(c.Data)
	header := fmt.Sprintf(`{%q:{"dtype":"%v","shape":[%d],"data_offsets":[0,%d]},"hole":{"dtype":"U8","shape":[%d],"data_offsets":[%d,%d]}}`,
		c.Name, c.DType, c.Shape[0], n, hole, n, int64(n)+hole)
	b := append(binary.LittleEndian.AppendUint64(nil, uint64(len(header))), header...)
	modeltest.WriteTo(t, path, append(b, c.Data...))
	if err := os.Truncate(path, int64(len(b)+n)+hole); err != nil {
		t.Skip(err)
	}
	index := filepath.Join(dir, "model.safetensors.index.json")
	modeltest.WriteTo(t, index, []byte(`{"weight_map":{"x":"`+name+`","hole":"`+name+`"}}`))
	// limitAddresses leaves the process address space for its heap, and none for a mapping of hole
	// bytes.
	text, err := os.ReadFile("/proc/self/statm")
	var pages uint64
	if _, err2 := fmt.Sscan(string(text), &pages); err != nil || err2 != nil {
		t.Skip(err, err2)
	}
	var old unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_AS, &old); err != nil {
		t.Skip(err)
	}
	limit := old
	limit.Cur = pages*uint64(os.Getpagesize()) + uint64(hole)/2
	if err := unix.Setrlimit(unix.RLIMIT_AS, &limit); err != nil {
		t.Skip(err)
	}
	t.Cleanup(func() { unix.Setrlimit(unix.RLIMIT_AS, &old) })
	for way, m := range map[string]*loader.Model{
		"Open": openPath(t, filepath.Join(dir, name), nil), "OpenFile": kindsNamed("OpenFile")[0].at(t, filepath.Join(dir, name), nil), "shard": openPath(t, index, nil),
	} {
		x := tensor(t, m, "x")
		for range 2 {
			b, err := x.Bytes()
			if err != nil || !bytes.Equal(b, c.Data) {
				t.Fatalf("%s: %d bytes, %v", way, len(b), err)
			}
			if values, err := x.Float32s(); err != nil || len(values) != 1000 {
				t.Errorf("%s: %d values, %v", way, len(values), err)
			}
		}
		if err := x.Dequantize(make([]float32, 1000)); err != nil {
			t.Errorf("%s: %v", way, err)
		}
		if _, err := x.WriteTo(io.Discard); err != nil {
			t.Errorf("%s: %v", way, err)
		}
		if _, err := m.Verify(t.Context(), nil); err != nil {
			t.Errorf("%s: %v", way, err)
		}
		if _, err := m.Warm(t.Context(), []string{"x"}, &loader.WarmOptions{Ordered: true}); err != nil {
			t.Errorf("%s: %v", way, err)
		}
		if err := m.Evict("x"); err != nil {
			t.Errorf("%s: %v", way, err)
		}
		info, err := os.Stat(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		if s := m.Stats(); s.UnmappedBytes != uint64(info.Size()) || s.MappedBytes > 1000 || x.ZeroCopy() {
			t.Errorf("%s: %+v, zero copy %v", way, s, x.ZeroCopy())
		}
	}
}
