package report

import "testing"

func TestCompareNatural(t *testing.T) {
	sorted := []string{"", "a", "a.0", "a.01", "a.1", "a.2", "a.2.b", "a.10", "a.99999999999999999998", "a.99999999999999999999", "b", "b1", "ba", "é"}
	for i, a := range sorted {
		for j, b := range sorted {
			want := 0
			switch {
			case i < j:
				want = -1
			case i > j:
				want = 1
			}
			if got := CompareNatural(a, b); got != want {
				t.Errorf("CompareNatural(%q, %q) = %d, want %d", a, b, got, want)
			}
		}
	}
}
