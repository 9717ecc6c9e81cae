package peers

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tensormap/tensormap/internal/test/modeltest"
	tensors "github.com/tensormap/tensormap/layout"
)

// Four processes of the example load one model from a bucket. The requests that reach the bucket show
// that each has fetched its quarter, and that every byte has come once.
func TestDistributed(t *testing.T) {
	program := filepath.Join(t.TempDir(), "distributed")
	build := exec.Command("go", "build", "-o", program, ".")
	build.Dir = filepath.Join("..", "..", "..", "examples", "distributed")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	environment(t)
	g := startS3(t)
	const ranks, rows, cols = 4, 4096, 512 // 8 MiB; a quarter is 2 MiB
	const wide = 1 << 19                   // of 4 rows, so that columns are far apart
	layers := []modeltest.Tensor{
		{Name: "q_proj.weight", DType: tensors.F32, Shape: []int{rows, cols}, Data: make([]byte, 4*rows*cols)},
		{Name: "down_proj.weight", DType: tensors.F32, Shape: []int{4, wide}, Data: make([]byte, 4*4*wide)},
		{Name: "up_proj.weight", DType: tensors.F32, Shape: []int{rows, cols}, Data: make([]byte, 4*rows*cols)},
	}
	content := modeltest.SafeTensors(layers...)
	g.put(t, "llama/model.safetensors", content)
	g.Take()

	out, err := exec.Command(program, "-ranks", fmt.Sprint(ranks), "s3://models/llama").CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if n := strings.Count(string(out), "rank "); n != ranks {
		t.Errorf("%d ranks have loaded:\n%s", n, out)
	}

	// The chunks that a rank may fetch: those of the head, and those that hold some of its share.
	const chunk, head, tensor = 64 << 10, 256 << 10, 4 * rows * cols
	start := int64(len(content) - 3*tensor)
	var mine [ranks]map[int64]bool
	for rank := range mine {
		mine[rank] = make(map[int64]bool)
		add := func(from, n int64) {
			for at := from / chunk; at <= (from+n-1)/chunk; at++ {
				mine[rank][at] = true
			}
		}
		add(0, head)
		for i := range int64(3) {
			period := int64(tensor)
			if i == 1 {
				period = 4 * wide // a row, split by columns
			}
			for row := start + i*tensor; row < start+(i+1)*tensor; row += period {
				add(row+int64(rank)*period/ranks, period/ranks)
			}
		}
	}
	var sent int64
	for _, r := range g.Take() {
		if r.Range == "" {
			continue
		}
		var from, to, rank int64
		if _, err := fmt.Sscanf(r.Range, "bytes=%d-%d", &from, &to); err != nil {
			t.Fatal(r.Range, err)
		}
		if _, err := fmt.Sscan(r.Header.Get("X-Rank"), &rank); err != nil {
			t.Fatal(r, err)
		}
		sent += r.Bytes
		for at := from / chunk; at <= to/chunk; at++ {
			if !mine[rank][at] {
				t.Errorf("rank %d has fetched bytes %d to %d, of which it holds none", rank, at*chunk, (at+1)*chunk)
			}
		}
	}
	if sent > int64(len(content)) {
		t.Errorf("%d bytes for a file of %d", sent, len(content))
	}
}
