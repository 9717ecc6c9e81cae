package loader_test

import (
	"encoding/binary"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/tensormap/tensormap/internal/test/testmode"
	"github.com/tensormap/tensormap/loader"
)

// TestVerifyManySections wants a BW2L file, which says itself how many sections it has and what
// they are called, to be verified in time that grows with their number and not with its square.
func TestVerifyManySections(t *testing.T) {
	testmode.Sequential(t)
	const n, times = 5_000, 8
	verify := func(n int) time.Duration { // how long n sections take
		b := append([]byte("BW2L\x01\x00"), binary.LittleEndian.AppendUint64(nil, uint64(n))...)
		for i := range n {
			b = fmt.Appendf(b, "\x06%06d\x04data", i)
			b = append(b, make([]byte, 16)...) // no description, no data
		}
		m, err := loader.OpenBytes(b, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer m.Close()
		begun := time.Now()
		r := must(m.Verify(t.Context(), nil))(t)
		took := time.Since(begun)
		if want := n + 3; len(r.Checked) != want || r.Checked[n-1] != fmt.Sprintf("%06d", n-1) || !slices.Equal(r.Checked[n:], []string{"bounds", "overlaps", "alignment"}) {
			t.Errorf("%d names, the last %q; want %d", len(r.Checked), r.Checked[max(0, len(r.Checked)-3):], want)
		}
		if len(r.Findings) > 0 {
			t.Errorf("found %v", r.Findings[0])
		}
		return took
	}
	var few, many time.Duration
	for range 5 { // other work on the machine takes some of the time, but not always
		few, many = verify(n), verify(times*n)
		if many < times*times/2*few {
			return
		}
	}
	t.Errorf("%d sections took %v, %d times as many %v", n, few, times, many)
}
