package convert_test

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/tensormap/tensormap/convert"
	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/loader"
	"github.com/tensormap/tensormap/mmapio"
)

// TestChangedMeanwhile cuts the source within its last page while it is converted: its mapping
// has zeros there, and nothing appears.
func TestChangedMeanwhile(t *testing.T) {
	for _, shardBytes := range []uint64{0, 5 << 20} {
		file := safeTensors(0, "{}", counting("a", layout.F32, 1<<20), counting("b", layout.F32, 1<<20))
		path := write(t, file)
		m := open(t, path, nil)
		dir := t.TempDir()
		cut := false
		_, err := convert.Write(context.Background(), m, filepath.Join(dir, "out.apr"), &convert.Options{ShardBytes: shardBytes, Progress: func(_, _ uint64) {
			if !cut {
				cut = true
				if err := os.Truncate(path, int64(len(file))-1); err != nil {
					t.Fatal(err)
				}
			}
		}})
		if !errors.Is(err, mmapio.ErrChanged) && !errors.Is(err, io.ErrUnexpectedEOF) { // which a read meets
			t.Errorf("shards of %d bytes: %v", shardBytes, err)
		}
		onlyFiles(t, dir)
		if _, err := convert.Write(context.Background(), m, filepath.Join(dir, "out.apr"), nil); !errors.Is(err, mmapio.ErrChanged) {
			t.Errorf("afterwards: %v", err)
		}
		onlyFiles(t, dir)
	}
}

// TestPlanOfChangingFile cuts the source while its scales are looked for.
func TestPlanOfChangingFile(t *testing.T) {
	file := safeTensors(0, "{}", counting("a", layout.F32, 1<<10))
	path := write(t, file)
	m := open(t, path, nil)
	opts := &convert.Options{DType: layout.I8, Keep: func(string) bool {
		if err := os.Truncate(path, int64(len(file))-1); err != nil {
			t.Fatal(err)
		}
		return false
	}}
	for range 2 { // the second time it has changed before
		_, err := convert.NewPlan(t.Context(), m, filepath.Join(t.TempDir(), "out.apr"), opts)
		if !errors.Is(err, mmapio.ErrChanged) {
			t.Error(err)
		}
	}
}

// TestReplacedSource: a model may take the place of the one that it was made of.
func TestReplacedSource(t *testing.T) {
	path := write(t, safeTensors(0, "{}", counting("a", layout.F32, 1000)))
	m := open(t, path, nil)
	if _, err := convert.Write(context.Background(), m, path, &convert.Options{Format: layout.APR2}); err != nil {
		t.Error(err)
	}
	if err := m.Changed(); !errors.Is(err, mmapio.ErrChanged) {
		t.Error(err)
	}
	if open(t, path, &loader.Options{}).Format() != layout.APR2 {
		t.Error("not replaced")
	}
}
