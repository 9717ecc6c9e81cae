package main

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"

	"github.com/tensormap/tensormap/internal/test/modeltest"
)

const surveyA, surveyB = "../../loader/survey/testdata/a.safetensors", "../../loader/survey/testdata/b.safetensors"

// timing is what stats, hash and diff say last on standard error.
var timing = regexp.MustCompile(`^[0-9,]+ tensors?, .* in .*/s\n$`)

// lines are those of a run's output that hold one of the words, with single spaces.
func lines(out string, words ...string) (found []string) {
	for line := range strings.Lines(out) {
		fields := strings.Fields(line)
		for _, word := range words {
			if len(fields) > 0 && fields[0] == word {
				found = append(found, strings.Join(fields, " "))
			}
		}
	}
	return found
}

func TestStats(t *testing.T) {
	r := tensormap("stats", surveyA)
	if r.status != exitDone || !timing.MatchString(r.stderr) {
		t.Fatalf("status %d\n%s", r.status, r.stderr)
	}
	got := strings.Join(lines(r.stdout, "NAME", "nans", "allnan", "constant", "edges", "bool", "c64"), "\n")
	want := strings.TrimSpace(`
NAME DTYPE SHAPE MIN MAX MEAN STD MAX SIGMA AT KURTOSIS 0.1% 1% 50% 99% 99.9% ZEROS NAN +INF -INF HISTOGRAM
nans F32 4 1 1 1 0 – – – 1 1 1 1 1 0 3 0 0
allnan F32 3 – – – – – – – – – – – – 0 3 0 0
constant F32 2×5 0.1 0.1 0.1 0 – – – 0.1 0.1 0.1 0.1 0.1 0 0 0 0
edges F32 51 0 16 8 4.899 1.63 [0] -1.21 0 0 8 16 16 3 0 0 0 ▄████
bool BOOL 33 0 1 – – – – – – – – – – 22 0 0 0
c64 C64 1 – – – – – – – – – – – – – – – – no values, only bytes`)
	if got != want {
		t.Errorf("%s\nwant\n%s", got, want)
	}
	if out := done(t, "stats", surveyA, "--filter", "edges", "--bins", "16"); !strings.HasSuffix(out, " ▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄█\n") {
		t.Errorf("equal bins:\n%s", out)
	}
	if out := done(t, "stats", surveyA, "--filter", "normal", "--bins", "0"); strings.Contains(out, "HISTOGRAM") || strings.Contains(out, "NAN") {
		t.Errorf("columns without anything in them:\n%s", out)
	}
}

func TestStatsJSON(t *testing.T) {
	out := done(t, "stats", surveyA, "--json", "--bins", "2", "--filter", "{nans,scalar,allnan,f64,c64}", "-j", "1")
	want := `{
  "file": "` + surveyA + `",
  "bins": 2,
  "tensors": [
    {"name":"nans","dtype":"F32","shape":[4],"elements":4,"stats":{"finite":1,"zeros":0,"zero_rows":0,"nan":3,"pos_inf":0,"neg_inf":0,"min":1,"max":1,"mean":1,"std":0,"percentiles":{"0.1":1,"1":1,"50":1,"99":1,"99.9":1},"max_sigma":null,"kurtosis":null,"histogram":[1]}},
    {"name":"allnan","dtype":"F32","shape":[3],"elements":3,"stats":{"finite":0,"zeros":0,"zero_rows":0,"nan":3,"pos_inf":0,"neg_inf":0,"min":null,"max":null,"mean":null,"std":null,"percentiles":{"0.1":null,"1":null,"50":null,"99":null,"99.9":null},"max_sigma":null,"kurtosis":null}},
    {"name":"scalar","dtype":"F32","shape":[],"elements":1,"stats":{"finite":1,"zeros":0,"zero_rows":0,"nan":0,"pos_inf":0,"neg_inf":0,"min":-2.5,"max":-2.5,"mean":-2.5,"std":0,"percentiles":{"0.1":-2.5,"1":-2.5,"50":-2.5,"99":-2.5,"99.9":-2.5},"max_sigma":null,"kurtosis":null,"histogram":[1]}},
    {"name":"f64","dtype":"F64","shape":[5],"elements":5,"stats":{"finite":3,"zeros":0,"zero_rows":0,"nan":1,"pos_inf":1,"neg_inf":0,"min":-1e-300,"max":1e+300,"mean":3.3333333333333335e+299,"std":"Infinity","percentiles":{"0.1":0.00019999980926513672,"1":0.0019999980926513673,"50":0.09999990463256836,"99":9.800000000000001e+299,"99.9":9.980000000000003e+299},"max_sigma":null,"kurtosis":null,"histogram":[2,1]}},
    {"name":"c64","dtype":"C64","shape":[1],"elements":1,"stats":null}
  ]
}
`
	if out != want {
		t.Errorf("%s\nwant\n%s", out, want)
	}
}

// damagedModel has a compressed tensor that does not decompress, and others.
func damagedModel(t *testing.T) (path, name string) {
	t.Helper()
	content, err := os.ReadFile(apr2Fixtures + "compressed.apr")
	if err != nil {
		t.Fatal(err)
	}
	var in struct {
		Tensors []struct {
			Name, Encoding string
			Offset, Stored uint64
		}
	}
	text, err := os.ReadFile(apr2Fixtures + "compressed.json")
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, &in); err != nil {
		t.Fatal(err)
	}
	for _, x := range in.Tensors {
		if x.Encoding == "lz4" && x.Stored > 8 {
			for i := x.Offset + 4; i < x.Offset+x.Stored; i++ {
				content[i] = 0xff
			}
			return modeltest.Write(t, "damaged.apr", content), x.Name
		}
	}
	t.Fatal("no compressed tensor")
	return "", ""
}

// A damaged tensor is a line on standard error, and all others are on standard output.
func TestSurveyDamaged(t *testing.T) {
	path, name := damagedModel(t)
	whole := apr2Fixtures + "compressed.apr"
	for _, args := range [][]string{{"stats", path}, {"hash", path}, {"diff", path, whole}, {"diff", whole, path, "--tolerance", "inf"}} {
		r := tensormap(args...)
		if r.status != exitFailed || r.stdout == "" {
			t.Errorf("%q: status %d\n%s", args, r.status, r.stdout)
		}
		oneLine(t, r.stderr, path+": ", name)
		r = tensormap(append(args, "--json")...)
		var out struct {
			Model   any
			Tensors []struct{ Name, Error string }
		}
		if err := json.Unmarshal([]byte(r.stdout), &out); err != nil || r.status != exitFailed || out.Model != nil {
			t.Fatalf("%q: status %d, %v\n%s", args, r.status, err, r.stdout)
		}
		for _, x := range out.Tensors {
			if (x.Error != "") != (x.Name == name) {
				t.Errorf("%q: %s: error %q", args, x.Name, x.Error)
			}
		}
	}
}

func TestHash(t *testing.T) {
	var want struct {
		Digests map[string]struct {
			Stored string
			Values *string
		}
		TotalValues string `json:"total_values"`
		TotalStored string `json:"total_stored"`
	}
	text, err := os.ReadFile("../../loader/survey/testdata/expected.json")
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, &want); err != nil {
		t.Fatal(err)
	}
	dashes := strings.Repeat("-", 64)
	last := ""
	both := done(t, "hash", surveyA, "--values", "--stored")
	for line := range strings.Lines(both) {
		parts := strings.SplitN(strings.TrimSuffix(line, "\n"), "  ", 3)
		name := parts[2]
		values, stored := dashes, want.Digests[name].Stored
		switch v := want.Digests[name].Values; {
		case name == "(model)":
			values, stored = want.TotalValues, want.TotalStored
		case v != nil:
			values = *v
		}
		if parts[0] != values || parts[1] != stored || name != "(model)" && name < last {
			t.Errorf("%s, want %s  %s, after %s", line, values, stored, last)
		}
		last = name
	}
	if strings.Count(both, "\n") != len(want.Digests)+1 || last != "(model)" {
		t.Errorf("%s", both)
	}
	r := tensormap("hash", surveyA)
	if got := lines(r.stdout, *want.Digests["half"].Values, want.Digests["c64"].Stored, want.TotalValues); len(got) != 3 {
		t.Errorf("%s", r.stdout)
	}
	if !strings.Contains(r.stderr, "6 tensors of values that are no float32s: digests of the stored elements\n") {
		t.Errorf("%s", r.stderr)
	}
	if out := done(t, "hash", surveyA, "--total"); out != want.TotalValues+"  "+surveyA+"\n" {
		t.Errorf("%s", out)
	}
	if out := done(t, "hash", surveyA, "--total", "--stored"); out != want.TotalStored+"  "+surveyA+"\n" {
		t.Errorf("%s", out)
	}
}

func TestHashJSON(t *testing.T) {
	// printf '\x00\x00\x20\xc0' | sha256sum; printf '%s values [] 6:scalar\n' DIGEST | sha256sum
	const (
		scalarDigest = "2f90de89a933bd8118953f22550293198c812014b434e29d79bcdea4cb34c56a"
		scalarModel  = "5bbbb303d5beb7bd787d24679e7db29eb1bfda0020d59e4abcdf6d7a8a8ac889"
	)
	out := done(t, "hash", surveyA, "--json", "--filter", "scalar")
	want := `{
  "file": "` + surveyA + `",
  "algorithm": "sha256",
  "tensors": [
    {"name":"scalar","dtype":"F32","shape":[],"elements":1,"values":"@DIGEST","stored":null}
  ],
  "model": {"values":"@MODEL","stored":null}
}
`
	want = strings.NewReplacer("@DIGEST", scalarDigest, "@MODEL", scalarModel).Replace(want)
	if out != want {
		t.Errorf("%s\nwant\n%s", out, want)
	}
}

// TestHashFile holds the digests of a model's files against what they hold.
func TestHashFile(t *testing.T) {
	const dir = "../../testdata/shards/apr2/"
	var want, rows []string
	for _, name := range []string{"model-00001-of-00004.apr", "model-00002-of-00004.apr", "model-00003-of-00004.apr", "model-00004-of-00004.apr", "model.apr"} {
		b, err := os.ReadFile(dir + name)
		if err != nil {
			t.Fatal(err)
		}
		want = append(want, fmt.Sprintf("%x  %s\n", sha256.Sum256(b), dir+name))
		rows = append(rows, fmt.Sprintf(`    {"path":%q,"size":%d,"sha256":"%x"}`, dir+name, len(b), sha256.Sum256(b)))
	}
	if out := done(t, "hash", "--file", dir+"model.apr"); out != strings.Join(want, "") {
		t.Errorf("%s\nwant\n%s", out, strings.Join(want, ""))
	}
	wantJSON := "{\n  \"file\": \"" + dir + "model.apr\",\n  \"algorithm\": \"sha256\",\n  \"files\": [\n" + strings.Join(rows, ",\n") + "\n  ]\n}\n"
	if out := done(t, "hash", "--file", "--json", "-j", "1", dir+"model.apr"); out != wantJSON {
		t.Errorf("%s\nwant\n%s", out, wantJSON)
	}
	for _, flag := range []string{"--values", "--stored", "--total", "--filter=x"} {
		if r := tensormap("hash", "--file", flag, surveyA); r.status != exitUsage {
			t.Errorf("%s: status %d", flag, r.status)
		}
	}
	if runtime.GOOS == "windows" {
		return // which has no such names
	}
	b, err := os.ReadFile(dir + "model-00001-of-00004.apr")
	if err != nil {
		t.Fatal(err)
	}
	file := modeltest.Write(t, "a\\b\nc\r.apr", b)
	line := fmt.Sprintf(`\%x  %s`, sha256.Sum256(b), filepath.Join(filepath.Dir(file), `a\\b\nc\r.apr`))
	if out := done(t, "hash", "--file", file); out != line+"\n" {
		t.Errorf("%q, sha256sum writes %q", out, line)
	}
}

func TestDiff(t *testing.T) {
	r := tensormap("diff", surveyA, surveyB)
	if r.status != exitFailed {
		t.Fatalf("status %d\n%s", r.status, r.stderr)
	}
	oneLine(t, r.stderr, surveyA+" and "+surveyB+" differ (")
	got := strings.Join(lines(r.stdout, "NAME", "odd", "scalar", "zeros", "u8", "ids", "c64", "extreme", "new", "31"), "\n")
	want := strings.TrimSpace(`
NAME DIFFERENCE DB TYPE DB COSINE REL RMS MAX ABS AT DIFFERING LOST
odd values 37.0 – 0.99990 1.42% 1 [100] 3 2
scalar scalar → 1×1 – – – – – – – –
zeros equal values, other bits ∞ – 1.00000 0% 0 – 0 0
extreme only in A – – – – – – – –
u8 U8 → F32, equal values ∞ – 1.00000 0% 0 – 0 0
ids 1×512 → 512, values – – – – 1 [0, 300] 1 0
c64 bytes – – – – – – – –
new only in B – – – – – – – –
31 tensors: 15 identical, 14 differ, 1 only in A, 1 only in B`)
	if got != want {
		t.Errorf("%s\nwant\n%s", got, want)
	}
}

// TestRanked: --sort orders tensors, the worst first and those without a figure last, and --top shows some. An unknown key
// is wrong usage, and the message lists all.
func TestRanked(t *testing.T) {
	for _, test := range []struct {
		args, want string
	}{
		{"stats " + surveyA + " --top 2", "brain half"},
		{"stats " + surveyA + " --filter {normal,zeros,allnan,bool} --sort max", "bool normal zeros allnan"},
		{"stats " + surveyA + " --filter {normal,zeros,bool} --sort name --top 2", "bool normal"},
		{"diff " + surveyA + " " + surveyB + " --top 3", "constant normal odd"},
		{"diff " + surveyA + " " + surveyB + " --filter {ids,odd,normal,new} --sort max_abs", "ids odd normal new"},
	} {
		args := strings.Fields(test.args)
		table := tensormap(args...).stdout
		var names []string
		for line := range strings.Lines(table) {
			f := strings.Fields(line)
			if len(f) == 0 {
				break
			}
			names = append(names, f[0])
		}
		if got := strings.Join(names[1:], " "); got != test.want {
			t.Errorf("%s: %s, want %s", test.args, got, test.want)
		}
		var out struct{ Tensors []struct{ Name string } }
		text := tensormap(append(args, "--json")...).stdout
		if err := json.Unmarshal([]byte(text), &out); err != nil || len(out.Tensors) != len(names)-1 || out.Tensors[0].Name != names[1] {
			t.Errorf("%s --json: %v\n%s", test.args, err, text)
		}
		if r := tensormap(append(args, "--sort=much")...); r.status != exitUsage || !strings.Contains(r.stderr, "must be one of ") || !strings.Contains(r.stderr, ", name") {
			t.Errorf("%s: status %d\n%s", test.args, r.status, r.stderr)
		}
	}
}

func TestDiffTolerance(t *testing.T) {
	quiet := func(want string, args ...string) {
		t.Helper()
		r := tensormap(append([]string{"diff", surveyA, surveyB}, args...)...)
		if r.status != exitDone || r.stdout != want+"\n" || !timing.MatchString(r.stderr) {
			t.Errorf("%q: status %d\n%s%s", args, r.status, r.stdout, r.stderr)
		}
	}
	quiet("4 tensors: 1 identical, 3 within 0", "--filter", "{u8,zeros,scalar,half}", "--tolerance", "0")
	quiet("2 tensors: identical", "--filter", "{half,brain}")
	quiet("2 tensors: 2 within 1", "--filter", "{ids,normal}", "--tolerance=1")
	for _, args := range [][]string{
		{"--filter", "ids", "--tolerance", "0.999"}, {"--filter", "odd", "--tolerance", "inf"}, {"--filter", "u8"}, {"--filter", "zeros"},
		{"--filter", "new", "--tolerance", "inf"}, {"--filter", "extreme", "--tolerance", "inf"}, {"--filter", "c64", "--tolerance", "inf"},
		{"--filter", "edges", "--tolerance", "inf"},
	} {
		r := tensormap(append([]string{"diff", surveyA, surveyB}, args...)...)
		if r.status != exitFailed || r.stdout == "" {
			t.Errorf("%q: status %d\n%s", args, r.status, r.stdout)
		}
		oneLine(t, r.stderr, surveyA+" and "+surveyB+" differ (")
	}
	for _, x := range []string{"-1", "nan", "much"} {
		if r := tensormap("diff", surveyA, surveyB, "--tolerance", x); r.status != exitUsage {
			t.Errorf("--tolerance %s: status %d", x, r.status)
		}
	}
}

func TestDiffJSON(t *testing.T) {
	r := tensormap("diff", surveyA, surveyB, "--json", "--filter", "{ids,odd,allnan,new,c64}")
	want := `{
  "a": "` + surveyA + `",
  "b": "` + surveyB + `",
  "tensors": [
    {"name":"odd","differs":true,"a":{"dtype":"F32","shape":[5100]},"b":{"dtype":"F32","shape":[5100]},"same_elements":false,"values":{"differing":3,"lost":2,"lost_at":[3],"max_abs":0.9999999850988388,"max_abs_at":[100],"max_rel":0.8004461748974109,"max_rel_at":[100],"rmse":0.014012420300495194,"cosine":COSINE,"db":36.96910789462093,"type_db":null,"relative_rms":0.014175702989647307}},
    {"name":"allnan","differs":true,"a":{"dtype":"F32","shape":[3]},"b":{"dtype":"F32","shape":[3]},"same_elements":false,"values":{"differing":1,"lost":1,"lost_at":[1],"max_abs":0,"max_rel":0,"rmse":0,"cosine":null,"db":null,"type_db":null,"relative_rms":null}},
    {"name":"ids","differs":true,"a":{"dtype":"I64","shape":[1,512]},"b":{"dtype":"I64","shape":[512]},"same_elements":false,"values":{"differing":1,"lost":0,"max_abs":1,"max_abs_at":[0,300],"max_rel":0.0033222591362126247,"max_rel_at":[0,300],"rmse":null,"cosine":null,"db":null,"type_db":null,"relative_rms":null}},
    {"name":"c64","differs":true,"a":{"dtype":"C64","shape":[1]},"b":{"dtype":"C64","shape":[1]},"same_elements":false,"values":null},
    {"name":"new","differs":true,"a":null,"b":{"dtype":"F32","shape":[2]},"same_elements":false,"values":null}
  ],
  "differ": true,
  "counts": {"tensors":5,"identical":0,"within_tolerance":0,"differ":4,"only_a":0,"only_b":1,"damaged":0},
  "overall": {"cosine":COSINE,"db":36.96910789462093,"relative_rms":0.014175702989647307,"rmse":0.014012420300495194}
}
`
	got := regexp.MustCompile(`"cosine":0\.99989955118\d*`).ReplaceAllString(r.stdout, `"cosine":COSINE`)
	if r.status != exitFailed || got != want {
		t.Errorf("status %d\n%s\nwant\n%s", r.status, got, want)
	}
}

// A conversion is proved: nothing differs where nothing was re-encoded, half a step where it was.
func TestDiffConverted(t *testing.T) {
	model := "../../testdata/safetensors/minilm-slice.safetensors"
	dir := t.TempDir()
	same, q8 := filepath.Join(dir, "same.apr"), filepath.Join(dir, "q8.apr")
	done(t, "convert", model, same)
	done(t, "convert", model, q8, "--dtype", "q8_0")
	if out := done(t, "diff", model, same); !strings.HasSuffix(out, " tensors: identical\n") {
		t.Errorf("%s", out)
	}
	if a, b := done(t, "hash", model), done(t, "hash", same); a != b {
		t.Errorf("%s\n%s", a, b)
	}
	var stats struct {
		Tensors []struct {
			Name  string
			Stats struct{ Min, Max float64 }
		}
	}
	var diff struct {
		Tensors []struct {
			Name   string
			Values struct {
				MaxAbs float64 `json:"max_abs"`
				Cosine float64
			}
		}
	}
	r := tensormap("diff", model, q8, "--json")
	for text, into := range map[string]any{done(t, "stats", model, "--json"): &stats, r.stdout: &diff} {
		if err := json.Unmarshal([]byte(text), into); err != nil {
			t.Fatal(err)
		}
	}
	lossy := 0
	for i, x := range diff.Tensors {
		s := stats.Tensors[i].Stats
		step := max(-s.Min, s.Max) / 127
		// Half a step, and what rounding the scale to float16 does to the largest value.
		bound := step/2 + 127*max(step*0x1p-11, 0x1p-25)
		if x.Name != stats.Tensors[i].Name || x.Values.MaxAbs > bound*(1+1e-6) || x.Values.Cosine < 0.999 {
			t.Errorf("%s: %+v, bound %v", x.Name, x.Values, bound)
		}
		if x.Values.MaxAbs > step/4 {
			lossy++
		}
	}
	if r.status != exitFailed || lossy == 0 {
		t.Errorf("status %d, %d tensors with a loss", r.status, lossy)
	}
}

func TestDiffMetadata(t *testing.T) {
	a := modeltest.WriteSafeTensors(t, `{"__metadata__":{"format":"pt","a":"1"},"w":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}}`, 7)
	b := modeltest.WriteSafeTensors(t, `{"__metadata__":{"format":"np","b":"2"},"w":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}}`, 7)
	if out := done(t, "diff", a, b); out != "1 tensor: identical\n" {
		t.Errorf("%s", out)
	}
	if out := done(t, "diff", a, a, "--metadata"); out != "1 tensor: identical; 0 differences in metadata\n" {
		t.Errorf("%s", out)
	}
	r := tensormap("diff", a, b, "--metadata")
	want := []string{`METADATA A B`, `format "pt" "np"`, `a "1" –`, `b – "2"`}
	if got := lines(r.stdout, "METADATA", "format", "a", "b"); r.status != exitFailed || strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("status %d\n%s", r.status, r.stdout)
	}
	r = tensormap("diff", a, b, "--metadata", "--json")
	if !strings.Contains(r.stdout, `"metadata": [{"key":"format","a":"pt","b":"np"},{"key":"a","a":"1"},{"key":"b","b":"2"}]`) {
		t.Errorf("%s", r.stdout)
	}
}

// No verb says that all is well when a pattern is misspelt, or a file is not there.
func TestSurveyFails(t *testing.T) {
	missing := filepath.Join(t.TempDir(), "missing")
	for _, verb := range []string{"stats", "hash", "inspect"} {
		tensormap(verb, surveyA, "--json", "--filter", "nothing").failsWith(t, surveyA+`: no tensor matches "nothing"`)
		tensormap(verb, surveyA, "--filter", "nothing").failsWith(t, surveyA+`: no tensor matches "nothing"`)
		tensormap(verb, missing).failsWith(t, missing+": no such file")
	}
	tensormap("diff", surveyA, surveyB, "--filter", "nothing").failsWith(t, `no tensor matches "nothing"`)
	tensormap("diff", surveyA, missing).failsWith(t, missing+": no such file")
	tensormap("diff", missing, surveyA).failsWith(t, missing+": no such file")
	if r := tensormap("diff", surveyA); r.status != exitUsage {
		t.Errorf("status %d", r.status)
	}
	for _, verb := range []string{"stats", "hash"} {
		done(t, verb, apr2Fixtures+"notensors.apr")
	}
}
