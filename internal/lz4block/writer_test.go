package lz4block

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"runtime"
	"testing"

	"github.com/tensormap/tensormap/internal/test/testmode"
)

// expanded expands stored blocks, which yield raw bytes, by the reference.
func expanded(t *testing.T, stored []byte, raw int) (all []byte) {
	t.Helper()
	for len(stored) > 0 {
		n := LengthBytes + Length(stored)
		b, ok := reference(stored[LengthBytes:n], Size)
		if !ok || len(b) != min(Size, raw-len(all)) {
			t.Fatalf("the block after %d bytes is malformed", len(all))
		}
		all, stored = append(all, b...), stored[n:]
	}
	return all
}

var errDisk = errors.New("the disk is gone")

// TestWriter writes in pieces of any size, for the same bytes each time.
func TestWriter(t *testing.T) {
	batch := runtime.GOMAXPROCS(0) * batchBlocks * Size
	for _, n := range []int{0, 1, Size - 1, Size, Size + 1, batch, batch + 1, batch + 3*Size + 17} {
		if testmode.Brief() && n == batch {
			continue
		}
		data := make([]byte, n)
		kinds["runs"](data)
		rand.NewChaCha8([32]byte{}).Read(data[n/2 : n/2+n/4])
		for _, level := range []Level{Fast, High} {
			var first bytes.Buffer
			w := NewWriter(&first, level)
			for _, piece := range []int{n + 1, 100_003} {
				var out bytes.Buffer
				w.Reset(&out)
				for at := 0; at < n; at += piece {
					if m, err := w.Write(data[at:min(n, at+piece)]); err != nil || m != min(piece, n-at) {
						t.Fatal(m, err)
					}
				}
				if err := w.Close(); err != nil || w.Raw() != uint64(n) || w.Stored() != uint64(out.Len()) {
					t.Errorf("%d bytes: %v, %d became %d, not %d", n, err, w.Raw(), w.Stored(), out.Len())
				}
				if piece > n {
					first = out
				} else if !bytes.Equal(out.Bytes(), first.Bytes()) {
					t.Errorf("%d bytes in pieces of %d are compressed differently", n, piece)
				}
			}
			if !bytes.Equal(expanded(t, first.Bytes(), n), data) {
				t.Errorf("%d bytes, level %d: expand to others", n, level)
			}
		}
	}
}

type failing struct{ left int }

func (f *failing) Write(b []byte) (int, error) {
	if f.left -= len(b); f.left < 0 {
		return 0, errDisk
	}
	return len(b), nil
}

func TestWriterFails(t *testing.T) {
	data := make([]byte, 8<<20)
	for _, left := range []int{0, 1000, 10_000} {
		w := NewWriter(&failing{left}, Fast)
		_, err := w.Write(data)
		err = errors.Join(err, w.Close())
		if _, again := w.Write(data); !errors.Is(err, errDisk) || again != errDisk {
			t.Errorf("after %d bytes: %v, then %v", left, err, again)
		}
		if w.Reset(io.Discard); w.Close() != nil {
			t.Error("fails after Reset")
		}
	}
}

// TestWriterMemory: what it holds does not grow with what it is given.
func TestWriterMemory(t *testing.T) {
	data, most := make([]byte, 1<<20), runtime.GOMAXPROCS(0)*3*batchBlocks*Size+1<<20
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	w := NewWriter(io.Discard, Fast)
	for range 4 * most / len(data) {
		if _, err := w.Write(data); err != nil {
			t.Fatal(err)
		}
	}
	runtime.ReadMemStats(&after)
	if got := after.TotalAlloc - before.TotalAlloc; got > uint64(most) {
		t.Errorf("%d bytes allocated to compress %d, more than %d", got, 4*most, most)
	}
}
