package main

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tensormap/tensormap/internal/test/modeltest"
)

// TestInspectFiles: the files of a sharded model have the numbers that its tensors refer to, and
// many of them leave room for the rest.
func TestInspectFiles(t *testing.T) {
	for _, test := range []struct {
		shards, listed int
		folded         string
	}{
		{2, 3, ""},
		{11, 12, ""},
		{12, 9, "4 more"},
		{120, 9, "112 more"},
	} {
		var header []string
		for i := range test.shards {
			header = append(header, fmt.Sprintf(`"t%d":{"dtype":"F32","shape":[1],"data_offsets":[%d,%d]}`, i, 4*i, 4*i+4))
		}
		in := modeltest.WriteSafeTensors(t, "{"+strings.Join(header, ",")+"}", make([]byte, 4*test.shards)...)
		out := filepath.Join(t.TempDir(), "m.apr")
		done(t, "split", in, out, "--shard-size=1B")
		head, _, _ := strings.Cut(done(t, "inspect", out), "\n\n")
		if !strings.Contains(head, fmt.Sprintf("files     %d\n", test.shards+1)) {
			t.Errorf("%d shards are not counted:\n%s", test.shards, head)
		}
		if got := strings.Count(head, "\nfile "); got != test.listed {
			t.Errorf("%d shards: %d files are listed, want %d:\n%s", test.shards, got, test.listed, head)
		}
		if folded := strings.Contains(head, "--json lists all"); folded != (test.folded != "") || !strings.Contains(head, test.folded) {
			t.Errorf("%d shards, want %q:\n%s", test.shards, test.folded, head)
		}
	}
}
