package explore

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/tensormap/tensormap/explore/internal/answer"
	"github.com/tensormap/tensormap/internal/test/modeltest"
	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/loader"
)

// answersIn returns the answers in a page of one file.
func answersIn(t testing.TB, page string) (answers map[string]json.RawMessage) {
	t.Helper()
	_, page, found := strings.Cut(page, `<script type="application/json" id="answers">`)
	text, _, ended := strings.Cut(page, "</script>")
	if !found || !ended {
		t.Fatal("no answers")
	}
	if err := json.Unmarshal([]byte(text), &answers); err != nil {
		t.Fatal(err)
	}
	return answers
}

// pageOf returns the page of a model in one file.
func pageOf(t testing.TB, m *loader.Model, opts *Options) string {
	t.Helper()
	var b bytes.Buffer
	if err := WriteFile(t.Context(), &b, m.Acquire, opts); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// TestFile: the page has the answers that a server gives, refers to nothing outside, and runs one script and one style only.
func TestFile(t *testing.T) {
	m, other := layered(t), layered(t)
	opts := &Options{Compared: other.Acquire}
	page := pageOf(t, m, opts)
	answers := answersIn(t, page)
	h := Handler(m.Acquire, opts)
	for _, path := range []string{"data/model", "data/metadata", "data/metadata?compared", "data/map?by=sigma&narrow", "data/tensor?name=odd", "data/norms?name=odd"} {
		var want bytes.Buffer
		json.Compact(&want, ask(t, h, path).Body.Bytes())
		if path == "data/model" { // in a file it has no ID, which says that a server has swapped it
			id := regexp.MustCompile(`"id":"[0-9a-f]+"`).FindString(want.String())
			want = *bytes.NewBufferString(strings.Replace(want.String(), id, `"id":""`, 1))
		}
		if strings.HasPrefix(path, "data/map") || strings.HasPrefix(path, "data/tensor") { // which tell what is known by now
			if answers[path] == nil {
				t.Errorf("no %s", path)
			}
		} else if got := string(answers[path]); got != want.String() {
			t.Errorf("%s: %.300s, want %.300s", path, got, want.String())
		}
	}
	var saved struct{ Rows []answer.SavedRow }
	if err := json.Unmarshal(answers["data/rows?numbers=0-14"], &saved); err != nil {
		t.Fatal(err)
	}
	var rows []answer.TensorRow
	for _, row := range saved.Rows {
		rows = append(rows, row.TensorRow)
	}
	if want := answerOf[answer.RowsAnswer](t, h, "data/rows?numbers=0-14").Rows; !reflect.DeepEqual(rows, want) {
		t.Errorf("rows %v, want %v", rows, want)
	}
	for _, path := range []string{"data/stats", "data/compare"} {
		var lines []answer.Line
		if err := json.Unmarshal(answers[path], &lines); err != nil || len(lines) != 1 || !lines[0].Progress.Done {
			t.Errorf("%s: %v %.300s", path, err, answers[path])
		}
	}
	var picture struct{ Tiles, Bytes string }
	if err := json.Unmarshal(answers["data/picture?name=odd&as=max"], &picture); err != nil || picture.Tiles != "12 30 1 1" || len(picture.Bytes) != 12*30*4/3 {
		t.Errorf("%+v, %v", picture, err)
	}
	if answers["data/picture?name=embed.weight&as=max"] != nil {
		t.Error("a tensor that is not odd has a picture")
	}
	if again := pageOf(t, m, opts); again != page {
		t.Error("another page of the same model")
	}
	for _, m := range []*loader.Model{m, other} {
		waitFor(t, "the end of all leases", func() bool { return m.Stats().Leases == 0 })
	}
	if n := strings.Count(page, "<script"); n != 2 || strings.Count(page, "<style") != 1 || strings.Contains(page, `src="`) || strings.Count(page, "href=") != strings.Count(page, `href="#`)+strings.Count(page, `href="data:,"`) {
		t.Errorf("%d scripts, or references", n)
	}
	if !strings.Contains(page, "default-src &#39;none&#39;; script-src &#39;sha256-") || strings.Contains(page, "unsafe") {
		t.Error("no policy")
	}
}

// TestFileOfMany: the page has the figures and pairs of all tensors, though a server hands them out in several lines.
func TestFileOfMany(t *testing.T) {
	const n = maxResults + 100
	tensors := make([]modeltest.Tensor, n)
	for i := range tensors {
		tensors[i] = modeltest.Finite(fmt.Sprintf("layers.%d.w", i), layout.F32, 4)
	}
	m, err := loader.OpenBytes(modeltest.SafeTensors(tensors...), nil)
	m = modeltest.Opened(t, m, err)
	answers := answersIn(t, pageOf(t, m, &Options{Compared: m.Acquire}))
	var stats []answer.Line
	var pairs []answer.Line
	if err := errors.Join(json.Unmarshal(answers["data/stats"], &stats), json.Unmarshal(answers["data/compare"], &pairs)); err != nil {
		t.Fatal(err)
	}
	if len(stats[0].Stats) != n || len(pairs[0].Pairs) != n || pairs[0].A == nil || pairs[0].B == nil || pairs[0].Grid == nil || pairs[0].Overall == nil {
		t.Errorf("%d figures and %d pairs of %d tensors; %v, %v, %v, %v", len(stats[0].Stats), len(pairs[0].Pairs), n, pairs[0].A, pairs[0].B, pairs[0].Grid, pairs[0].Overall)
	}
}

// TestFileLists: the page has the whole lists of a model whose tensors have no layers, and those of one with layers unfolded.
func TestFileLists(t *testing.T) {
	const n = 1500
	tensors := make([]modeltest.Tensor, n)
	for i := range tensors {
		tensors[i] = modeltest.Finite(fmt.Sprintf("table_%d", i), layout.F32, 4)
	}
	m, err := loader.OpenBytes(modeltest.SafeTensors(tensors...), nil)
	many := answersIn(t, pageOf(t, modeltest.Opened(t, m, err), nil))
	few := answersIn(t, pageOf(t, layered(t), nil))
	for _, group := range []string{"role", "layer"} {
		var list struct {
			Rows   int
			Window []json.RawMessage
		}
		if err := json.Unmarshal(many["data/list?group="+group], &list); err != nil || list.Rows != n || len(list.Window) != n || string(list.Window[n-1]) != "[0,1499]" {
			t.Errorf("by %s: %v, %d rows of %d", group, err, len(list.Window), list.Rows)
		}
		if err := json.Unmarshal(few["data/list?group="+group], &list); err != nil || list.Rows != len(list.Window) {
			t.Errorf("by %s: %v, %d rows of %d", group, err, len(list.Window), list.Rows)
		}
		leaves := 0
		for _, row := range list.Window {
			if row[0] == '[' {
				leaves++
			}
		}
		if leaves != 15 {
			t.Errorf("by %s: %d tensors of 15: %s", group, leaves, list.Window)
		}
	}
}

// TestFileHostile: names end neither the answers nor the script.
func TestFileHostile(t *testing.T) {
	m := hostileModel(t)
	plain, page := pageOf(t, layered(t), nil), pageOf(t, m, nil)
	for _, tag := range []string{"<script", "</script", "<style", "<img", "<svg", "<meta"} {
		if a, b := strings.Count(plain, tag), strings.Count(page, tag); a != b {
			t.Errorf("%d of %s, not %d", b, tag, a)
		}
	}
	answers := answersIn(t, page)
	if answers["data/tensor?name="+hostile] == nil {
		t.Error("the page would not find its answer")
	}
}

// TestFileFails: a model that cannot be read makes no page, nor does a context that ends.
func TestFileFails(t *testing.T) {
	m := layered(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := WriteFile(ctx, &bytes.Buffer{}, m.Acquire, nil); err == nil {
		t.Error("no error")
	}
	m.Close()
	if err := WriteFile(t.Context(), &bytes.Buffer{}, m.Acquire, nil); err == nil || strings.HasPrefix(err.Error(), "tensormap:") {
		t.Error(err)
	}
}

// onWrite is a writer that calls a function before it takes bytes.
type onWrite func()

func (f onWrite) Write(b []byte) (int, error) {
	f()
	return len(b), nil
}

// TestFileReleases: no lease is held while the page is written, which may take long.
func TestFileReleases(t *testing.T) {
	m, other := layered(t), layered(t)
	err := WriteFile(t.Context(), onWrite(func() {
		if a, b := m.Stats().Leases, other.Stats().Leases; a+b > 0 {
			t.Errorf("%d leases of the model, %d of the other", a, b)
		}
	}), m.Acquire, &Options{Compared: other.Acquire})
	if err != nil {
		t.Fatal(err)
	}
}
