package loader

import (
	"bytes"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/tensormap/tensormap/internal/test/modeltest"
	"github.com/tensormap/tensormap/loader/internal/content"
	"github.com/tensormap/tensormap/loader/internal/content/contenttest"
	datafile "github.com/tensormap/tensormap/loader/internal/file"
	"github.com/tensormap/tensormap/loader/internal/plan"
	"github.com/tensormap/tensormap/mmapio"
)

// TestWarmingContent runs the suite of contents on what Warm reads by: of large tensors, of readers and of sources, by ranges much smaller
// than the tensor, by several readers.
func TestWarmingContent(t *testing.T) {
	const before = 4099 // bytes
	want := modeltest.Noise(200_000, 1)
	b := slices.Concat(make([]byte, before), want)
	for name, stored := range map[string]content.Stored{
		"large":  {File: datafile.New("x", mmapio.FromBytes(b)), Large: true},
		"source": {File: datafile.FromSource("x", contenttest.Source(b), true, nil, nil)},
		"reader": {File: datafile.New("x", mmapio.FromReaderAt(bytes.NewReader(b), int64(len(b))))},
	} {
		t.Run(name, func(t *testing.T) {
			stored.Off, stored.Length = before, uint64(len(want))
			contenttest.Run(t, want, func(*testing.T) content.Content {
				p := &plan.Plan{Ranges: make([]plan.Range, 2), MaxRange: 7000}
				return &warmingContent{&stored, &warming{plan: p, readers: 8}, new(atomic.Uint64)}
			})
		})
	}
}
