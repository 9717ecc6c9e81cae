package loader_test

import (
	"encoding/binary"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/tensormap/tensormap/loader"
)

// TestVerifyManySections wants a BW2L file, which says itself how many sections it has and what
// they are called, to be verified in time that grows with their number and not with its square.
func TestVerifyManySections(t *testing.T) {
	const n = 100_000
	b := append([]byte("BW2L\x01\x00"), binary.LittleEndian.AppendUint64(nil, n)...)
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
	r := verify(t, m, nil)
	if took := time.Since(begun); took > 10*time.Second { // by comparing each with each: minutes
		t.Errorf("%v", took)
	}
	if want := n + 3; len(r.Checked) != want || r.Checked[n-1] != "099999" || !slices.Equal(r.Checked[n:], []string{"bounds", "overlaps", "alignment"}) {
		t.Errorf("%d names, the last %q; want %d", len(r.Checked), r.Checked[max(0, len(r.Checked)-3):], want)
	}
	if len(r.Findings) > 0 {
		t.Errorf("found %v", r.Findings[0])
	}
}
