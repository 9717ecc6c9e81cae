package flags

import (
	"strings"
	"testing"
)

func TestNames(t *testing.T) {
	names := []string{"A", "B", "C"}
	for _, tc := range []struct {
		set         uint32
		list, joint string
	}{
		{0, "", "0x0"}, {1, "A", "A"}, {6, "B C", "B|C"}, {7, "A B C", "A|B|C"}, {8, "", "0x8"}, {0x80000005, "A C", "A|C|0x80000000"},
	} {
		if list := Names(tc.set, names); list == nil || strings.Join(list, " ") != tc.list {
			t.Errorf("%#x: %q, want %s", tc.set, list, tc.list)
		}
		if got := Join(tc.set, names); got != tc.joint {
			t.Errorf("%#x: %s, want %s", tc.set, got, tc.joint)
		}
	}
}
