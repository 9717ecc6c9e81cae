package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/tensormap/tensormap/internal/test/modeltest"
	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/loader"
)

func TestMapResident(t *testing.T) {
	file := modeltest.Small(t)
	m, err := loader.Open(file, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	_, unsupported := m.Resident(0, 0, 1)
	told := strings.Contains(done(t, "map", file), "in memory now")
	if told == errors.Is(unsupported, errors.ErrUnsupported) {
		t.Errorf("told: %v; asked: %v", told, unsupported)
	}
	if strings.Contains(done(t, "map", file, "--resident=false"), "in memory now") {
		t.Error("told though not asked")
	}
}

func TestMapOutput(t *testing.T) {
	file := modeltest.Small(t)
	dir := t.TempDir()
	for _, name := range []string{"out.svg", "out.SVG"} {
		out := filepath.Join(dir, name)
		if r := tensormap("map", file, "--resident=false", "-o", out); r.status != exitDone || r.stdout != "" || !strings.HasPrefix(r.stderr, out+": wrote ") {
			t.Errorf("%+v", r)
		}
		if got, err := os.ReadFile(out); err != nil || string(got) != done(t, "map", file, "--resident=false") {
			t.Errorf("%s is not what goes to standard output (%v)", name, err)
		}
	}
	if r := tensormap("map", file, "-o", "map.html"); r.status != exitUsage || !strings.Contains(r.stderr, "explore") {
		t.Errorf("%+v", r)
	}
	for _, out := range []string{"out.png", "-", "svg"} {
		r := tensormap("map", file, "-o", out)
		if r.status != exitUsage || !strings.Contains(r.stderr, out+": not .svg") {
			t.Errorf("%s: %+v", out, r)
		}
	}
	link := filepath.Join(dir, "model.svg")
	if err := os.Symlink(file, link); err == nil {
		tensormap("map", file, "-o", link).failsWith(t, link+": is the file that is being read")
	}
	tensormap("map", filepath.Join(dir, "missing"), "-o", filepath.Join(dir, "new.svg")).failsWith(t, "no such file")
	if _, err := os.Stat(filepath.Join(dir, "new.svg")); err == nil {
		t.Error("a file was written")
	}
	nowhere := filepath.Join(dir, "no", "out.svg")
	tensormap("map", file, "-o", nowhere).failsWith(t, nowhere+": no such file")
}

// TestMapParts: all parts of a weight have one class of colour, the parts of the next weight another, and each says
// which weight it belongs to.
func TestMapParts(t *testing.T) {
	svg := done(t, "map", "../../testdata/quantized/ct-pack-4/model.safetensors", "--resident=false")
	classes := make(map[string]string) // by weight
	parts := 0
	for _, cell := range regexp.MustCompile(`<path class="c ([^"]*)"[^>]*><title>[^<]* of (\S+) \(pack-quantized\)\n`).FindAllStringSubmatch(svg, -1) {
		parts++
		if old, ok := classes[cell[2]]; ok && old != cell[1] {
			t.Errorf("%s: %s and %s", cell[2], old, cell[1])
		}
		classes[cell[2]] = cell[1]
	}
	different := make(map[string]bool)
	for _, class := range classes {
		different[class] = true
	}
	if len(classes) != 4 || len(different) != 4 || parts < 10 {
		t.Errorf("%d parts of %v", parts, classes)
	}
}

// TestMapOfOneType: a model whose tensors have one type, but for a small one, is coloured by parts of the network, with brackets over layers.
func TestMapOfOneType(t *testing.T) {
	var tensors []modeltest.Tensor
	for _, name := range []string{"model.embed_tokens.weight", "model.layers.0.self_attn.q_proj.weight", "model.layers.0.mlp.up_proj.weight",
		"model.layers.1.self_attn.q_proj.weight", "model.layers.1.mlp.up_proj.weight"} {
		tensors = append(tensors, modeltest.Finite(name, layout.F32, 64, 64))
	}
	tensors = append(tensors, modeltest.Finite("model.position_ids", layout.I64, 8))
	path := filepath.Join(t.TempDir(), "model.safetensors")
	if err := os.WriteFile(path, modeltest.SafeTensors(tensors...), 0o666); err != nil {
		t.Fatal(err)
	}
	svg := done(t, "map", path, "--resident=false")
	for _, part := range []string{">layer 0<", ">layer 1<", "attention", "feed-forward"} {
		if !strings.Contains(svg, part) {
			t.Errorf("no %s in the picture", part)
		}
	}
}

func TestMapBrokenPipe(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	r.Close()
	var stderr strings.Builder
	if status := run(context.Background(), []string{"map", modeltest.Small(t)}, w, &stderr); status != exitDone || stderr.String() != "" {
		t.Errorf("status %d, stderr %q", status, stderr.String())
	}
}
