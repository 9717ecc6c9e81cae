package main

import (
	"context"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/tensormap/tensormap/internal/test/modeltest"
)

func TestInspectTree(t *testing.T) {
	got := done(t, "inspect", modeltest.Small(t), "--tree", "--sort", "name")
	const want = `
NAME      TENSORS  ELEMENTS  SIZE   SHARE  DTYPE  SHAPE
a.weight        1         6  24 B  75.0 %  F32      2×3
b/bias          1         4   8 B  25.0 %  I16        4

DTYPE  TENSORS`
	if !strings.Contains(got, want) {
		t.Errorf("\n%s", got)
	}
}

func TestTreeHostileNames(t *testing.T) {
	file := modeltest.WriteSafeTensors(t, `{"a\u001b[2J.\u202eb":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},`+
		`"a\u001b[2J.\n":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}}`, 1, 2)
	out := done(t, "inspect", file, "--tree")
	plain(t, out)
	for _, want := range []string{`a\x1b[2J `, `├─ \u202eb `, `└─ \n `} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is not in\n%s", want, out)
		}
	}
}

func TestInspectUsage(t *testing.T) {
	file := modeltest.Small(t)
	for args, says := range map[string]string{
		"--json --tree":       "goes without --tree and --sort",
		"--json --sort size":  "goes without --tree and --sort",
		"--depth 2":           "--depth is a flag of a --tree",
		"--tree --all":        "exclude each other",
		"--tree --depth -1":   "--depth -1 is negative",
		"--sort alphabetical": "must be one of name, size, offset, dtype",
	} {
		r := tensormap(append([]string{"inspect", file}, strings.Fields(args)...)...)
		if r.status != exitUsage || r.stdout != "" || !strings.Contains(r.stderr, says) {
			t.Errorf("%s: %+v", args, r)
		}
	}
}

// manyTensors are n in blocks of ten.
func manyTensors(t testing.TB, n int) string {
	var header strings.Builder
	for i := range n {
		fmt.Fprintf(&header, `,"model.layers.%d.part%d.weight":{"dtype":"U8","shape":[%d],"data_offsets":[0,0]}`, i/10, i%10, 0)
	}
	return modeltest.WriteSafeTensors(t, "{"+header.String()[1:]+"}")
}

func BenchmarkInspectTree(b *testing.B) {
	file := manyTensors(b, 20_000)
	for b.Loop() {
		if status := run(context.Background(), []string{"inspect", file, "--tree"}, io.Discard, io.Discard); status != exitDone {
			b.Fatal(status)
		}
	}
}
