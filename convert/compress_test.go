package convert_test

import (
	"bytes"
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"testing"

	"github.com/tensormap/tensormap/convert"
	"github.com/tensormap/tensormap/internal/test/testmode"
	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/loader"
	"github.com/tensormap/tensormap/mmapio"
)

// noisy is a tensor that cannot be compressed, but for the part of it that is zeros.
func noisy(name string, n uint64, zeros uint64) content {
	c := counting(name, layout.U8, int(n))
	rand.NewChaCha8([32]byte{byte(n)}).Read(c.data[zeros:])
	clear(c.data[:zeros])
	return c
}

func reversed(c content) content {
	slices.Reverse(c.data)
	return c
}

func encodingsOf(m *loader.Model) map[string]layout.Encoding {
	all := make(map[string]layout.Encoding)
	for x := range m.Tensors() {
		all[x.Name()] = x.Encoding()
	}
	return all
}

// TestCompress mixes tensors that pay and tensors that do not, at the edges of the rule.
func TestCompress(t *testing.T) {
	const large = 18 << 20 // more than the trial
	tensors := map[string]struct {
		content
		want layout.Encoding
	}{
		"noise":             {noisy("noise", 1<<20, 0), layout.Raw},
		"zeros":             {noisy("zeros", 1<<20, 1<<20), layout.LZ4},
		"one in 32":         {noisy("one in 32", 1<<20, 1<<15+1<<14), layout.LZ4},
		"not one in 32":     {noisy("not one in 32", 1<<20, 1<<14), layout.Raw},
		"empty":             {counting("empty", layout.F32, 0, 3), layout.Raw},
		"small":             {noisy("small", 60, 60), layout.Raw}, // the file would be no smaller
		"not so small":      {noisy("not so small", 200, 200), layout.LZ4},
		"a block":           {noisy("a block", 1<<16, 1<<15), layout.LZ4},
		"a block and more":  {noisy("a block and more", 1<<16+1, 1<<15), layout.LZ4},
		"floats":            {counting("floats", layout.F32, 100, 1000), layout.LZ4},
		"large":             {noisy("large", large, large/2), layout.LZ4},
		"large noise":       {noisy("large noise", large, 0), layout.Raw},
		"zeros, then noise": {noisy("zeros, then noise", large, 5<<20), layout.LZ4},
		"noise, then zeros": {reversed(noisy("noise, then zeros", large, 1<<20)), layout.Raw}, // given up before the zeros
	}
	var list []content
	for _, c := range tensors {
		list = append(list, c.content)
	}
	slices.SortFunc(list, func(a, b content) int { return len(a.name) - len(b.name) })
	m := openBytes(t, safeTensors(3, "{}", list...))
	sizes := make(map[convert.Compression]uint64)
	for _, how := range []convert.Compression{convert.Fast, convert.High, convert.NoCompression} {
		last := uint64(0)
		out, r := toAPR2(t, m, &convert.Options{Compress: how, Progress: func(done, total uint64) {
			if done < last || done > total {
				t.Errorf("%d of %d after %d", done, total, last)
			}
			last = done
		}})
		sameTensors(t, out, m)
		var want sums
		for x := range out.Tensors() {
			if e := tensors[x.Name()].want; x.Encoding() != e && how != convert.NoCompression {
				t.Errorf("%s, level %d: %v, want %v: %d bytes of %d", x.Name(), how, x.Encoding(), e, x.StoredBytes(), x.RawBytes())
			}
			if x.Encoding() == layout.LZ4 {
				want.tensors++
				want.raw += x.RawBytes()
				want.stored += x.StoredBytes()
			}
		}
		flag := slices.Contains(out.Files()[0].Layout.Index().Flags, "COMPRESSED")
		if compressed(r) != want || flag != (how != convert.NoCompression) || (want.tensors > 0) != flag {
			t.Errorf("level %d: %+v, want %+v; flag %t", how, compressed(r), want, flag)
		}
		sizes[how] = r.Bytes
	}
	if !(sizes[convert.High] <= sizes[convert.Fast] && sizes[convert.Fast] < sizes[convert.NoCompression]) {
		t.Errorf("sizes %v", sizes)
	}
}

// TestCompressReencoded compresses what it has encoded itself, and takes that back too.
func TestCompressReencoded(t *testing.T) {
	random, _ := weights("random", 1300, 1024)
	zeros := content{"zeros", layout.F32, []int{1300, 1024}, make([]byte, 4*1300*1024)}
	m := openBytes(t, safeTensors(0, "{}", random, zeros))
	dtypes := []layout.DType{layout.Q8_0, layout.BF16, layout.I8}
	if testmode.Brief() {
		dtypes = dtypes[:1]
	}
	for _, d := range dtypes {
		plain, _ := toAPR2(t, m, &convert.Options{DType: d})
		out, r := toAPR2(t, m, &convert.Options{DType: d, Compress: convert.Fast})
		sameTensors(t, out, plain)
		if e := encodingsOf(out); e["random"] != layout.Raw || e["zeros"] != layout.LZ4 || compressed(r).tensors != 1 {
			t.Errorf("%v: %v, %+v", d, e, compressed(r))
		}
	}
}

// TestLostIsCountedOnce although a tensor is encoded twice when compressing does not pay.
func TestLostIsCountedOnce(t *testing.T) {
	c, values := weights("w", 4096)
	for i := range values {
		values[i] *= 1e38
	}
	c.data = bytes.Clone(mmapio.Bytes(values))
	m := openBytes(t, safeTensors(0, "{}", c))
	_, want := toAPR2(t, m, &convert.Options{DType: layout.F16})
	_, got := toAPR2(t, m, &convert.Options{DType: layout.F16, Compress: convert.Fast})
	if len(lost(want)) != 1 || len(lost(got)) != 1 || lost(got)[0].Lost != lost(want)[0].Lost {
		t.Errorf("lost %v, want %v", lost(got), lost(want))
	}
}

// TestCompressedSource: blocks are copied, decompressed, or made anew, as is asked for.
func TestCompressedSource(t *testing.T) {
	paths, err := filepath.Glob("../testdata/lz4/*.apr")
	if err != nil || len(paths) == 0 {
		t.Fatal(err)
	}
	for _, path := range paths {
		for _, opts := range []*loader.Options{nil, {NoMap: true}} {
			m := open(t, path, opts)
			raw, r := toAPR2(t, m, nil)
			sameTensors(t, raw, m)
			for name, e := range encodingsOf(raw) {
				if e != layout.Raw || compressed(r).tensors != 0 {
					t.Errorf("%s: %s is %v", path, name, e)
				}
			}
			same, r := toAPR2(t, m, &convert.Options{Compress: convert.Fast})
			sameTensors(t, same, m)
			if compressed(r).tensors < 10 {
				t.Errorf("%s: %+v", path, compressed(r))
			}
			for x := range same.Tensors() {
				if x.Encoding() == layout.LZ4 && !bytes.Equal(stored(t, x), stored(t, tensor(t, m, x.Name()))) {
					t.Errorf("%s: %s: the blocks are others", path, x.Name())
				}
			}
			high, r := toAPR2(t, m, &convert.Options{Compress: convert.High})
			sameTensors(t, high, m)
			if compressed(r).tensors < 10 {
				t.Errorf("%s: %+v", path, compressed(r))
			}
		}
	}
}

func stored(t *testing.T, x loader.Tensor) []byte {
	t.Helper()
	var out bytes.Buffer
	if _, err := x.WriteDecrypted(&out); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// TestCompressedSourceDamaged fails rather than carry damage over.
func TestCompressedSourceDamaged(t *testing.T) {
	good, err := os.ReadFile("../testdata/lz4/liblz4-fast.apr")
	if err != nil {
		t.Fatal(err)
	}
	x := tensor(t, openBytes(t, good), "mixed")
	for _, how := range []convert.Compression{convert.NoCompression, convert.Fast, convert.High} {
		bad := bytes.Clone(good)
		bad[x.Offset()+2] = 0xff // of the first length
		dir := t.TempDir()
		_, err := convert.Write(context.Background(), openBytes(t, bad), filepath.Join(dir, "out.apr"), &convert.Options{Compress: how})
		var fe *layout.FormatError
		if !errors.As(err, &fe) || fe.Offset != x.Offset() {
			t.Errorf("level %d: %v", how, err)
		}
		onlyFiles(t, dir)
	}
}

// TestCompressMemory: it does not grow with the tensor.
func TestCompressMemory(t *testing.T) {
	size := 256 << 20
	if testmode.Brief() {
		size = 64 << 20
	}
	m := open(t, write(t, safeTensors(0, "{}", content{"w", layout.U8, []int{size}, make([]byte, size)})), nil)
	out := filepath.Join(t.TempDir(), "out.apr")
	runtime.GC()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	r, err := convert.Write(context.Background(), m, out, &convert.Options{Compress: convert.Fast})
	runtime.ReadMemStats(&after)
	if err != nil || compressed(r).tensors != 1 || r.Bytes > uint64(size)/200 {
		t.Errorf("%+v, %v", r, err)
	}
	if got := after.TotalAlloc - before.TotalAlloc; got > uint64(runtime.GOMAXPROCS(0))*4<<20+8<<20 {
		t.Errorf("%d bytes allocated for %d", got, size)
	}
}
