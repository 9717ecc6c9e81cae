package content

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"

	"github.com/tensormap/tensormap/internal/lz4block"
	"github.com/tensormap/tensormap/layout"
)

const (
	Size   = lz4block.Size
	offset = 1000 // of the tensor in its file
)

func framed(blocks ...[]byte) (b []byte) {
	for _, block := range blocks {
		b = binary.LittleEndian.AppendUint32(b, uint32(len(block)))
		b = append(b, block...)
	}
	return b
}

func reader(b []byte) Reader {
	return func(off, n uint64) ([]byte, error) { return layout.Bytes(b).Slice(off, n) }
}

func TestCount(t *testing.T) {
	for raw, want := range map[uint64]uint64{0: 0, 1: 1, Size - 1: 1, Size: 1, Size + 1: 2, 3 * Size: 3, 1<<64 - 1: 1 << 48} {
		if n := NewTable(layout.APR2, 0, 0, raw).Count(); n != want {
			t.Errorf("%d bytes: %d blocks, want %d", raw, n, want)
		}
	}
	for i, want := range []int{Size, Size, 5} {
		if n := NewTable(layout.APR2, 0, 0, 2*Size+5).ExpandedSize(uint64(i)); n != want {
			t.Errorf("block %d yields %d, want %d", i, n, want)
		}
	}
}

// three is a tensor of three blocks.
func three() (stored, raw []byte) {
	raw = make([]byte, 2*Size+100)
	rand.NewChaCha8([32]byte{7}).Read(raw[:Size])
	return framed(literals(raw[:Size]), mustEncode(raw[Size:2*Size]), literals(raw[2*Size:])), raw
}

// mustEncode compresses one block.
func mustEncode(data []byte) []byte {
	var b bytes.Buffer
	w := lz4block.NewWriter(&b, lz4block.Fast)
	w.Write(data)
	if err := w.Close(); err != nil {
		panic(err)
	}
	return b.Bytes()[lz4block.LengthBytes:]
}

// literals returns 15 bytes and more as a block without a match.
func literals(data []byte) []byte {
	rest := len(data) - 15
	b := append([]byte{15 << 4}, bytes.Repeat([]byte{255}, rest/255)...)
	return append(append(b, byte(rest%255)), data...)
}

func TestTable(t *testing.T) {
	stored, raw := three()
	table := NewTable(layout.APR2, offset, uint64(len(stored)), uint64(len(raw)))
	var read uint64
	counting := func(off, n uint64) ([]byte, error) { read += n; return reader(stored)(off, n) }
	for n := range uint64(4) {
		if err := table.FindBlocks(t.Context(), n, counting); err != nil || table.KnownBlocks() != n || read != 4*n {
			t.Errorf("%d blocks: %d known, %d bytes read, %v", n, table.KnownBlocks(), read, err)
		}
	}
	if err := table.FindBlocks(t.Context(), 2, nil); err != nil || read != 12 {
		t.Errorf("walked again: %d bytes read, %v", read, err)
	}
	if off, n := table.ByteRange(0, 3); off != 0 || n != uint64(len(stored)) {
		t.Errorf("all blocks: %d bytes at %d", n, off)
	}
	for lo := range uint64(3) {
		off, n := table.ByteRange(lo, 3)
		for i := lo; i < 3; i++ {
			dst := make([]byte, table.ExpandedSize(i))
			if err := (&storedBlocks{table: table, lo: lo, stored: stored[off : off+n]}).expandTo(new(scratch), dst, i*Size); err != nil || !bytes.Equal(dst, raw[i*Size:][:len(dst)]) {
				t.Errorf("block %d of those from %d on: %v", i, lo, err)
			}
		}
	}
}

// TestTableScan gives the table any piece of the stored bytes.
func TestTableScan(t *testing.T) {
	stored, raw := three()
	whole := NewTable(layout.APR2, offset, uint64(len(stored)), uint64(len(raw)))
	if err := whole.FindBlocks(t.Context(), 3, reader(stored)); err != nil {
		t.Fatal(err)
	}
	for from := range uint64(3) {
		base, _ := whole.ByteRange(from, from)
		for _, size := range sizesAround(whole, from) {
			table := NewTable(layout.APR2, offset, uint64(len(stored)), uint64(len(raw)))
			if err := table.FindBlocks(t.Context(), from, reader(stored)); err != nil {
				t.Fatal(err)
			}
			want := from
			for want < 3 {
				if _, n := whole.ByteRange(from, want+1); n > size {
					break
				}
				want++
			}
			got, err := table.FindBlocksIn(t.Context(), from, 3, stored[base:base+size])
			if err != nil || got != want {
				t.Fatalf("%d bytes from block %d on: up to block %d, want %d, %v", size, from, got, want, err)
			}
			if again, err := whole.FindBlocksIn(t.Context(), from, 3, stored[base:base+size]); err != nil || again != want {
				t.Fatalf("%d bytes from block %d on, all known: up to block %d, want %d, %v", size, from, again, want, err)
			}
		}
	}
}

// sizesAround are numbers of bytes from block i on, about where blocks and lengths end.
func sizesAround(table *Table, i uint64) (list []uint64) {
	_, all := table.ByteRange(i, table.Count())
	for end := i; end <= table.Count(); end++ {
		_, size := table.ByteRange(i, end)
		for at := max(size, 6) - 6; at <= min(size+6, all); at++ {
			list = append(list, at)
		}
	}
	return list
}

func TestTableRefuses(t *testing.T) {
	le := binary.LittleEndian
	whole := literals(make([]byte, Size))
	longest := make([]byte, lz4block.MaxStored+1)
	for _, tt := range []struct {
		name   string
		stored []byte
		raw    uint64
		want   error
		block  string
		at     int
		reason string
	}{
		{"nothing", nil, 1, layout.ErrTruncated, "block 0 of 1", 0, "last 0 of the 0"},
		{"half a length", []byte{1, 0, 0}, 1, layout.ErrTruncated, "block 0 of 1", 0, "last 3 of the 3"},
		{"no block", framed(nil), 1, layout.ErrInvalid, "block 0 of 1", 0, "a length of 0, which cannot yield 1"},
		{"past the end", le.AppendUint32(nil, 6), 1, layout.ErrTruncated, "block 0 of 1", 0, "a length of 6 where 0 bytes are left"},
		{"4 GiB", append(le.AppendUint32(nil, 1<<32-1), 0, 0), 1, layout.ErrTruncated, "block 0 of 1", 0, "4294967295 where 2"},
		{"too long", framed(longest), 1, layout.ErrInvalid, "block 0 of 1", 0, "65810, more than the 65809"},
		{"too short", framed(whole[:256], whole), 2 * Size, layout.ErrInvalid, "block 0 of 2", 0, "256, which cannot yield 65536"},
		{"a block too few", framed(whole), Size + 1, layout.ErrTruncated, "block 1 of 2", 4 + len(whole), "last 0 of"},
		{"a block too many", framed(whole, []byte{16, 0}), Size, layout.ErrInvalid, "block 0 of 1", 0, "for the last block, but 65800 bytes are left"},
		{"a byte too many", append(framed(whole), 0), Size, layout.ErrInvalid, "block 0 of 1", 0, "last block"},
		{"second length", append(framed(whole), 9, 9, 9, 9, 1), Size + 1, layout.ErrTruncated, "block 1 of 2", 4 + len(whole), "where 1 bytes are left"},
	} {
		table := NewTable(layout.APR1, offset, uint64(len(tt.stored)), tt.raw)
		n := table.Count()
		_, scanned := NewTable(layout.APR1, offset, uint64(len(tt.stored)), tt.raw).FindBlocksIn(t.Context(), 0, lz4block.Count(tt.raw), tt.stored)
		for _, err := range []error{table.FindBlocks(t.Context(), n, reader(tt.stored)), table.FindBlocks(t.Context(), n, reader(tt.stored)), scanned} {
			var fe *layout.FormatError
			if !errors.As(err, &fe) || !errors.Is(err, tt.want) || fe.Format != layout.APR1 || fe.Offset != uint64(offset+tt.at) ||
				fe.Field != "lz4" || !strings.HasPrefix(fe.Reason, tt.block+": ") || !strings.Contains(fe.Reason, tt.reason) {
				t.Errorf("%s: %v, want %s at %d: …%s… (%v)", tt.name, err, tt.block, offset+tt.at, tt.reason, tt.want)
			}
		}
	}
	empty := NewTable(layout.APR2, offset, 3, 0)
	if err := empty.CheckEmptyTensor(); !errors.Is(err, layout.ErrInvalid) {
		t.Errorf("3 bytes for no elements: %v", err)
	}
	if err := NewTable(layout.APR2, offset, 0, 0).CheckEmptyTensor(); err != nil {
		t.Error(err)
	}
}

func TestTableDecodeRefuses(t *testing.T) {
	stored := framed(literals(make([]byte, 50)), nil)[:4+52]
	table := NewTable(layout.APR2, offset, uint64(len(stored)), 49)
	if err := table.FindBlocks(t.Context(), 1, reader(stored)); err != nil {
		t.Fatal(err)
	}
	err := (&storedBlocks{table: table, stored: stored}).expandTo(new(scratch), make([]byte, 49), 0)
	var fe *layout.FormatError
	if !errors.As(err, &fe) || fe.Offset != offset || !strings.Contains(fe.Reason, "block 0 of 1: no LZ4 block of 52 bytes that yields 49") {
		t.Error(err)
	}
}

var errDisk = errors.New("the disk is gone")

func TestTableReadFails(t *testing.T) {
	stored, raw := three()
	table := NewTable(layout.APR2, offset, uint64(len(stored)), uint64(len(raw)))
	calls := 0
	err := table.FindBlocks(t.Context(), 3, func(off, n uint64) ([]byte, error) {
		if calls++; calls > 2 {
			return nil, errDisk
		}
		return reader(stored)(off, n)
	})
	if err != errDisk || table.KnownBlocks() != 2 {
		t.Errorf("%v, %d blocks known", err, table.KnownBlocks())
	}
	if err := table.FindBlocks(t.Context(), 3, reader(stored)); err != nil { // goes on where it was
		t.Error(err)
	}
}

// TestTableConcurrently has goroutines walk and use what others have walked.
func TestTableConcurrently(t *testing.T) {
	block := mustEncode(make([]byte, Size))
	var stored []byte
	const blocks = 500
	for range blocks {
		stored = append(stored, framed(block)...)
	}
	table := NewTable(layout.APR2, offset, uint64(len(stored)), blocks*Size)
	var wg sync.WaitGroup
	for g := range uint64(8) {
		wg.Go(func() {
			for n := g + 1; n <= blocks; n += g + 1 {
				if err := table.FindBlocks(t.Context(), n, reader(stored)); err != nil {
					t.Error(err)
				}
				if off, size := table.ByteRange(n-1, n); off != (n-1)*size || size != uint64(4+len(block)) {
					t.Errorf("block %d: %d bytes at %d", n-1, size, off)
				}
			}
		})
	}
	wg.Wait()
}
