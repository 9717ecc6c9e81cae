package loader_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/tensormap/tensormap/internal/lz4block"
	"github.com/tensormap/tensormap/internal/test/modeltest"
	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/loader"
)

// TestVerifyBlocks: blocks that were written wrongly have a right checksum.
func TestVerifyBlocks(t *testing.T) {
	const long, short = 150*lz4block.Size + 5, 3 * lz4block.Size
	tensors := []modeltest.Tensor{compressible("long", layout.U8, long), compressible("short", layout.U8, short), compressible("empty", layout.U8, 0)}
	good := modeltest.Blocks(t, tensors[0].Data)
	var starts []int // of blocks
	for at := 0; at < len(good); at += 4 + int(binary.LittleEndian.Uint32(good[at:])) {
		starts = append(starts, at)
	}

	// An offset of 0 is none that LZ4 has; two blocks, so that the first has to be told.
	spoil := func(at int) func(b []byte) {
		return func(b []byte) { copy(b[at+4:], []byte{0x00, 0x00, 0x00}) }
	}
	tests := []struct {
		name   string
		change func(b []byte)
		want   int // where in the long tensor, -1 nowhere
	}{
		{"good", func([]byte) {}, -1},
		{"first block", spoil(0), starts[0]},
		{"late block", spoil(starts[140]), starts[140]},
		{"two blocks", func(b []byte) { spoil(starts[149])(b); spoil(starts[70])(b) }, starts[70]},
		{"a length", func(b []byte) { binary.LittleEndian.PutUint32(b[starts[99]:], 1<<31) }, starts[99]},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			tensors[0].LZ4 = bytes.Clone(good)
			test.change(tensors[0].LZ4)
			file := lz4Model(t, tensors...)
			eachWay(t, file, func(t *testing.T, m *loader.Model) {
				for _, workers := range []int{0, 1, 3} {
					r := must(m.Verify(t.Context(), &loader.VerifyOptions{Workers: workers}))(t)
					var want []string
					if test.want >= 0 {
						want = []string{fmt.Sprintf("error lz4 %d", tensor(t, m, "long").Offset()+uint64(test.want))}
					}
					if got := outline(r); !slices.Equal(got, want) {
						t.Errorf("found %q, want %q", got, want)
					}
					if !slices.Contains(r.Checked, "blocks") {
						t.Errorf("checked %q", r.Checked)
					}
					if test.want >= 0 && !strings.Contains(r.Err().Error(), `tensor "long", block `) {
						t.Error(r.Err())
					}
				}
			})
		})
	}
}

// TestVerifyBlocksProgress: every byte is told of, and after cancelling nothing goes on.
func TestVerifyBlocksProgress(t *testing.T) {
	file := lz4Model(t, compressible("x", layout.U8, 100*lz4block.Size), compressible("y", layout.U8, 10))
	eachWay(t, file, func(t *testing.T, m *loader.Model) {
		last, sum := uint64(0), tensor(t, m, "x").StoredBytes()+tensor(t, m, "y").StoredBytes()
		r := must(m.Verify(t.Context(), &loader.VerifyOptions{Progress: func(done, total uint64) {
			if done <= last || done > total {
				t.Errorf("%d of %d after %d", done, total, last)
			}
			last = done
		}}))(t)
		if last != r.BytesRead+sum {
			t.Errorf("the last of progress at %d, want %d and %d", last, r.BytesRead, sum)
		}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		_, err := m.Verify(ctx, &loader.VerifyOptions{Progress: func(done, _ uint64) {
			if done > r.BytesRead {
				cancel()
			}
		}})
		if loader.MappingOf(m).Aliased() && !errors.Is(err, context.Canceled) { // others read x at once
			t.Errorf("cancelled: %v", err)
		}
	})
}
