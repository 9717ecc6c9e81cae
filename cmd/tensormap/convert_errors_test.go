package main

import (
	"encoding/json"
	"math"
	"path/filepath"
	"regexp"
	"testing"
)

// errorsReport is what convert says of errors on standard error.
var errorsReport = regexp.MustCompile(`(?m)^re-encoded [0-9,]+ tensors?: .* dB over all of their values, cosine .*, relative RMS .*%; the worst:\n(?:  .* dB as .*, which keeps .* of Gaussian values: .*\n)+`)

// TestConvertErrors: convert --json has the figures that diff --json finds between source and result.
func TestConvertErrors(t *testing.T) {
	out := filepath.Join(t.TempDir(), "out.apr")
	r := tensormap("convert", surveyA, out, "--dtype", "bf16", "--keep", "{cancel,brain,half,subnormal,extreme,f64*,odd,nans,allnan}", "--json")
	if r.status != exitDone || len(errorsReport.FindAllString(r.stderr, -1)) != 1 {
		t.Fatalf("status %d\n%s", r.status, r.stderr)
	}
	type figures struct {
		DB any // a number, or "Infinity"
	}
	var written struct {
		Tensors []struct {
			Name string
			figures
		}
		Overall figures
	}
	var diff struct {
		Tensors []struct {
			Name   string
			Values *figures
		}
	}
	if err := json.Unmarshal([]byte(r.stdout), &written); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal([]byte(tensormap("diff", surveyA, out, "--json").stdout), &diff); err != nil {
		t.Fatal(err)
	}
	found := make(map[string]*figures)
	for _, x := range diff.Tensors {
		found[x.Name] = x.Values
	}
	compared := 0
	for _, x := range written.Tensors {
		if x.DB == nil {
			continue
		}
		compared++
		want := found[x.Name]
		got, isNumber := x.DB.(float64)
		if want == nil || want.DB == nil || isNumber && math.Abs(got-want.DB.(float64)) > 1e-9 || !isNumber && want.DB != x.DB {
			t.Errorf("%s: %v dB, want %v", x.Name, x.DB, want)
		}
	}
	if compared == 0 || written.Overall.DB == nil {
		t.Errorf("%d compared\n%s", compared, r.stdout)
	}
}
