package main

import (
	"encoding/json"
	"io"
	"strings"
	"testing"

	"github.com/tensormap/tensormap/internal/test/modeltest"
	"github.com/tensormap/tensormap/layout"
)

// undecodedModel has codes without a scale, codes with one that does not fit, and floats.
func undecodedModel(t *testing.T) string {
	return modeltest.Write(t, "undecoded.safetensors", modeltest.SafeTensors(
		modeltest.Tensor{Name: "alone.weight", DType: layout.F8_E4M3, Shape: []int{2, 2}, Data: make([]byte, 4)},
		modeltest.Tensor{Name: "misfit.weight", DType: layout.F8_E4M3, Shape: []int{2, 2}, Data: make([]byte, 4)},
		modeltest.Tensor{Name: "misfit.weight_scale", DType: layout.F32, Shape: []int{7}, Data: make([]byte, 28)},
		modeltest.Tensor{Name: "norm", DType: layout.F32, Shape: []int{1}, Data: make([]byte, 4)}))
}

// TestUndecoded: codes that are not decoded are not damaged, and JSON gives the reason.
func TestUndecoded(t *testing.T) {
	file := undecodedModel(t)
	for _, verb := range [][]string{{"stats", file}, {"diff", file, file}, {"diff", file, file, "--tolerance", "0"}} {
		if r := tensormap(verb...); strings.Contains(r.stdout, "damaged") && !strings.Contains(r.stdout, " 0 damaged") {
			t.Errorf("%q:\n%s", verb, r.stdout)
		}
	}
	r := tensormap("stats", file)
	for _, name := range []string{"alone.weight", "misfit.weight"} {
		if got := strings.Join(lines(r.stdout, name), ""); !strings.HasSuffix(got, "not decoded") {
			t.Errorf("%q", got)
		}
	}
	for _, why := range []string{"\nnot decoded: 1 tensor (", "without a scale", "): alone.weight\n", "): misfit.weight\n"} {
		if !strings.Contains(r.stderr, why) {
			t.Errorf("stderr lacks %q: %q", why, r.stderr)
		}
	}
	reasons := map[string]string{"alone.weight": "scale", "misfit.weight": "scale"}
	for _, args := range [][]string{{"inspect", "--json", file}, {"stats", "--json", file}} {
		var got struct {
			Tensors []struct{ Name, Problem string }
		}
		out := tensormap(args...).stdout
		if err := json.Unmarshal([]byte(out), &got); err != nil {
			t.Fatalf("%q: %v\n%s", args, err, out)
		}
		for _, x := range got.Tensors {
			if want := reasons[x.Name]; (x.Problem == "") != (want == "") || !strings.Contains(x.Problem, want) {
				t.Errorf("%q: %s: problem %q", args, x.Name, x.Problem)
			}
		}
	}
}

// TestDiffRenamed: models none of whose names agree are told apart from models that differ.
func TestDiffRenamed(t *testing.T) {
	const note = "no tensor has the same name in both"
	file, other := undecodedModel(t), modeltest.Write(t, "renamed.safetensors", modeltest.SafeTensors(
		modeltest.Tensor{Name: "blk.0.norm", DType: layout.F32, Shape: []int{1}, Data: make([]byte, 4)}))
	if r := tensormap("diff", file, other); r.status != exitFailed || strings.Count(r.stderr, note) != 1 {
		t.Errorf("%+v", r)
	}
	if r := tensormap("diff", modeltest.Small(t), modeltest.Small(t)); strings.Contains(r.stderr, note) {
		t.Errorf("%+v", r)
	}
}

// TestInspectSeveral: each file is shown as it is alone, and one that cannot be read does not end the rest.
func TestInspectSeveral(t *testing.T) {
	a, b := modeltest.Small(t), undecodedModel(t)
	if got, want := done(t, "inspect", a, b), done(t, "inspect", a)+"\n"+done(t, "inspect", b); got != want {
		t.Errorf("%s, want %s", got, want)
	}
	r := tensormap("inspect", "--json", a, "missing", b)
	if r.status != exitFailed || !strings.Contains(r.stderr, "missing: ") || r.stdout != done(t, "inspect", "--json", a)+done(t, "inspect", "--json", b) {
		t.Errorf("%+v", r)
	}
	objects := 0
	for d := json.NewDecoder(strings.NewReader(r.stdout)); ; objects++ {
		var one map[string]any
		if err := d.Decode(&one); err == io.EOF {
			break
		} else if err != nil {
			t.Fatal(err)
		}
	}
	if objects != 2 {
		t.Errorf("%d objects", objects)
	}
	if r := tensormap("inspect", a, "-"); r.status != exitUsage {
		t.Errorf("%+v", r)
	}
}
