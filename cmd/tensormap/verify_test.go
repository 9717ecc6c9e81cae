package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/tensormap/tensormap/internal/test/modeltest"
)

// took stands for the times and speeds of a run.
var took = regexp.MustCompile(`(in )?[0-9.]+ (µs|ms|s)(, [0-9.]+ ([KMG]i)?B/s)?`)

const (
	checked     = "header, bounds, overlaps, alignment"
	checkedAPR2 = "header, metadata, index, footer, bounds, overlaps, alignment, crc32"
)

func TestVerify(t *testing.T) {
	for _, test := range []struct {
		file           string
		status         int
		stdout, stderr string // with FILE and TOOK
	}{
		{modeltest.Small(t), exitDone, "FILE: ok: " + checked + " (no checksums, TOOK)\n", ""},
		{apr2Fixtures + "tiny.apr", exitDone, "FILE: ok: " + checkedAPR2 + " (1.91 KiB TOOK)\n", ""},
		{apr2Fixtures + "gap.apr", exitDone,
			"warning: FILE: apr2: offset 648: padding: 312 bytes belong to no section and no tensor (invalid)\n" +
				"warning: FILE: apr2: offset 1220: padding: 100 bytes belong to no section and no tensor (invalid)\n" +
				"FILE: ok: " + checkedAPR2 + " (1.29 KiB TOOK)\n", ""},
		{apr2Fixtures + "badcrc.apr", exitFailed, "FILE: failed, checked: " + checkedAPR2 + " (964 B TOOK)\n",
			"tensormap: FILE: apr2: offset 964: crc32: the file says aef10ea1, but bytes 0 to 964 have aef00ea1 (checksum mismatch)\n"},
		{apr2Fixtures + "badmagicend.apr", exitFailed, "FILE: failed, checked: " + checkedAPR2 + " (964 B TOOK)\n",
			"tensormap: FILE: apr2: offset 968: magic_end: \"APR2\", not \"2RPA\" (invalid)\n"},
	} {
		t.Run(filepath.Base(test.file), func(t *testing.T) {
			for _, flags := range [][]string{nil, {"-j", "1"}, {"-j", "18446744073709551615"}} {
				r := tensormap(append([]string{"verify", test.file}, flags...)...)
				shape := func(s string) string {
					return strings.ReplaceAll(took.ReplaceAllString(s, "TOOK"), test.file, "FILE")
				}
				if r.status != test.status || shape(r.stdout) != test.stdout || shape(r.stderr) != test.stderr {
					t.Errorf("%q: status %d\n%s%s", flags, r.status, r.stdout, r.stderr)
				}
			}
		})
	}
}

// Each thing that is wrong has a line of its own.
func TestVerifyFindsAll(t *testing.T) {
	r := tensormap("verify", apr2Fixtures+"misaligned.apr")
	lines := strings.Split(strings.TrimSuffix(r.stderr, "\n"), "\n")
	if r.status != exitFailed || len(lines) != 2 {
		t.Fatalf("status %d\n%s", r.status, r.stderr)
	}
	for _, line := range lines {
		oneLine(t, line+"\n", "misaligned.apr: apr2: offset ", "(misaligned)")
	}
}

func TestVerifyJSON(t *testing.T) {
	file := modeltest.Small(t)
	want := `{"file":"` + file + `","ok":true,"checked":["header","bounds","overlaps","alignment"],"findings":[],"bytes":0}` + "\n"
	if out := done(t, "verify", file, "--json"); out != want {
		t.Errorf("%s\nwant\n%s", out, want)
	}

	badcrc := apr2Fixtures + "badcrc.apr"
	r := tensormap("verify", badcrc, "--json")
	want = `{"file":"` + badcrc + `","ok":false,"checked":["header","metadata","index","footer","bounds","overlaps","alignment","crc32"],` +
		`"findings":[{"severity":"error","file":"` + badcrc + `","offset":964,"field":"crc32",` +
		`"reason":"the file says aef10ea1, but bytes 0 to 964 have aef00ea1 (checksum mismatch)"}],"bytes":964}` + "\n"
	if r.status != exitFailed || r.stdout != want {
		t.Errorf("status %d: %s\nwant\n%s", r.status, r.stdout, want)
	}
	oneLine(t, r.stderr, "crc32")

	var v verdict
	out := done(t, "verify", apr2Fixtures+"gap.apr", "--json")
	if err := json.Unmarshal([]byte(out), &v); err != nil || !v.OK || len(v.Findings) != 2 || v.Findings[0].Severity != "warning" {
		t.Errorf("%s (%v)", out, err)
	}
}

// TestVerifyValues: NaN and infinities fail, zeros alone are a warning, and a type without values
// has none.
func TestVerifyValues(t *testing.T) {
	r := tensormap("verify", "--values", surveyA)
	name := regexp.MustCompile(`values: tensor "([^"]*)", (.*?)(?: \(invalid\))?\n`)
	var found []string
	for _, m := range name.FindAllStringSubmatch(r.stderr+r.stdout, -1) {
		found = append(found, m[1]+": "+m[2])
	}
	want := []string{
		"odd: 4 NaN, 2 +Inf, 1 -Inf among 5100 values", "nans: 3 NaN among 4 values", "allnan: 3 NaN among 3 values",
		"half: 159 NaN among 5000 values", "brain: 14 NaN among 4097 values", "eight: 2 NaN among 256 values",
		"f64: 1 NaN, 1 +Inf among 5 values", "f64exact: 1 NaN among 4 values", "zeros: all 3 values are zero",
	}
	if r.status != exitFailed || !slices.Equal(found, want) || !strings.Contains(r.stdout, "alignment, values (no checksums") {
		t.Errorf("status %d: %q\n%s", r.status, found, r.stdout)
	}
	if r := tensormap("verify", surveyA); r.status != exitDone {
		t.Errorf("without --values: status %d\n%s", r.status, r.stderr)
	}
	file := modeltest.Write(t, "zeros.safetensors", []byte("\x40\x00\x00\x00\x00\x00\x00\x00"+`{"z":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}          `+"\x00\x00\x00\x80\x00\x00\x00\x00"))
	r = tensormap("verify", "--values", file)
	if want := "warning: " + file + ": safetensors: offset 72: values: tensor \"z\", all 2 values are zero\n"; r.status != exitDone || !strings.HasPrefix(r.stdout, want) {
		t.Errorf("status %d\n%s%s", r.status, r.stdout, r.stderr)
	}
	damaged, tensor := damagedModel(t)
	r = tensormap("verify", "--values", damaged)
	if n := strings.Count(r.stderr, `tensor "`+tensor+`"`); r.status != exitFailed || n != 1 {
		t.Errorf("status %d, damage is named %d times\n%s", r.status, n, r.stderr)
	}
}

// A file that does not open has its one finding, too.
func TestVerifyJSONUnreadable(t *testing.T) {
	whole, err := os.ReadFile(apr2Fixtures + "tiny.apr")
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		path, field, reason string
	}{
		{filepath.Join(t.TempDir(), "missing"), "file", "no such file or directory"},
		{t.TempDir(), "file", "is a directory with no model in it, that is, no file called *.apr, *.april, *.bw2l, *.gguf, *.safetensors, *.tsm"},
		{modeltest.Write(t, "empty", nil), "magic", "the file is empty; known formats: apr2, apr1, april, bw2l, tsm, gguf, safetensors (unknown format)"},
		{modeltest.Write(t, "cut", whole[:40]), "*", "*"},
	} {
		r := tensormap("verify", test.path, "--json")
		if r.status != exitFailed {
			t.Errorf("%s: status %d", test.path, r.status)
		}
		oneLine(t, r.stderr, test.path)
		var v verdict
		if err := json.Unmarshal([]byte(r.stdout), &v); err != nil {
			t.Fatalf("%s: %v\n%s", test.path, err, r.stdout)
		}
		if v.OK || v.File != test.path || v.Checked == nil || len(v.Findings) != 1 {
			t.Fatalf("%s: %s", test.path, r.stdout)
		}
		f := v.Findings[0]
		if f.Severity != "error" || f.File != test.path || test.field != "*" && (f.Field != test.field || f.Reason != test.reason) {
			t.Errorf("%s: %+v", test.path, f)
		}
	}
}
