package main

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"math"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/tensormap/tensormap/internal/test/modeltest"
	"github.com/tensormap/tensormap/layout"
)

// twoModels writes a model and the same one quantized, and returns their paths.
func twoModels(t *testing.T) (a, b string) {
	t.Helper()
	tensors := []modeltest.Tensor{
		modeltest.Finite("embed.weight", layout.F32, 40, 64), modeltest.Finite("layers.0.up.weight", layout.F32, 64, 64), modeltest.Finite("layers.1.up.weight", layout.F32, 64, 64),
		modeltest.Finite("layers.0.norm.weight", layout.F32, 64), {Name: "layers.1.norm.weight", DType: layout.F32, Shape: []int{64}, Data: make([]byte, 256)},
	}
	for _, m := range tensors[:3] { // values that blocks can hold
		for i := range m.Data {
			if i%4 == 3 {
				m.Data[i] = m.Data[i]&0x80 | 0x3e
			}
		}
	}
	a = modeltest.Write(t, "a.safetensors", modeltest.SafeTensors(tensors...))
	b = filepath.Join(t.TempDir(), "b.gguf")
	done(t, "convert", a, b, "--dtype", "q8_0")
	return a, b
}

// answersOf returns the answers in the page at path.
func answersOf(t *testing.T, path string) (answers map[string]json.RawMessage) {
	t.Helper()
	page, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	m := regexp.MustCompile(`(?s)id="answers">(.*?)</script>`).FindSubmatch(page)
	if m == nil {
		t.Fatal("no answers")
	}
	if err := json.Unmarshal(m[1], &answers); err != nil {
		t.Fatal(err)
	}
	return answers
}

// object is an object of JSON, whose numbers are float64s.
type object = map[string]any

// sameFields compares the fields of names in two objects.
func sameFields(t *testing.T, what string, page, command object, names ...string) {
	t.Helper()
	for _, name := range names {
		x, _ := json.Marshal(page[name])
		if y, _ := json.Marshal(command[name]); string(x) != string(y) {
			t.Errorf("%s: %s is %s on the page, %s for the command", what, name, x, y)
		}
	}
}

// TestExploreFigures: the page's figures are those of stats --json, to the last digit.
func TestExploreFigures(t *testing.T) {
	a, _ := twoModels(t)
	page := filepath.Join(t.TempDir(), "page.html")
	if r := tensormap("explore", a, "-o", page); r.status != exitDone || r.stdout != "" || !strings.HasPrefix(r.stderr, page+": wrote ") {
		t.Fatal(r)
	}
	answers := answersOf(t, page)
	var lines []struct{ Stats []object }
	var rows struct{ Rows []object }
	var command struct{ Tensors []object }
	for _, decoded := range []error{json.Unmarshal(answers["data/stats"], &lines), json.Unmarshal(answers["data/rows?numbers=0-4"], &rows),
		json.Unmarshal([]byte(done(t, "stats", a, "--json")), &command)} {
		if decoded != nil {
			t.Fatal(decoded)
		}
	}
	seen, histograms := 0, 0
	for _, stat := range lines[0].Stats {
		name := rows.Rows[int(stat["number"].(float64))]["name"]
		for _, tensor := range command.Tensors {
			if tensor["name"] == name {
				seen++
				sameFields(t, name.(string), stat, tensor["stats"].(object), "finite", "zeros", "zero_rows", "nan", "pos_inf", "neg_inf", "min", "max", "mean", "std",
					"percentiles", "max_sigma", "max_sigma_at", "kurtosis")
				var one struct{ Stat object }
				if json.Unmarshal(answers["data/tensor?name="+url.QueryEscape(name.(string))], &one) == nil {
					histograms++
					sameFields(t, name.(string), one.Stat, tensor["stats"].(object), "sigma_histogram")
				}
			}
		}
	}
	if seen < len(command.Tensors) || seen == 0 || histograms == 0 {
		t.Errorf("%d figures of %d tensors, %d histograms", seen, len(command.Tensors), histograms)
	}
}

// TestDiffPage: diff -o writes what diff --json says, says the same itself, and has its exit status.
func TestDiffPage(t *testing.T) {
	a, b := twoModels(t)
	page := filepath.Join(t.TempDir(), "page.html")
	r := tensormap("diff", a, b, "--json", "-o", page)
	if r.status != exitFailed || !strings.Contains(r.stderr, page+": wrote ") {
		t.Fatal(r)
	}
	var lines []struct {
		Pairs   []object
		Overall object
	}
	var command struct {
		Tensors []object
		Overall object
		Counts  object
	}
	if err := json.Unmarshal(answersOf(t, page)["data/compare"], &lines); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal([]byte(r.stdout), &command); err != nil {
		t.Fatal(err)
	}
	pairs := make(map[any]object)
	for _, p := range lines[0].Pairs {
		pairs[p["name"]] = p
	}
	share := 0.0
	for _, tensor := range command.Tensors {
		p := pairs[tensor["name"]]
		sameFields(t, tensor["name"].(string), p, tensor["values"].(object), "db", "type_db", "relative_rms", "cosine", "max_abs")
		sameFields(t, tensor["name"].(string), p, tensor, "same_elements")
		if s, ok := p["error_share"].(float64); ok {
			share += s
		}
	}
	sameFields(t, "overall", lines[0].Overall, command.Overall, "db", "relative_rms", "cosine")
	sameFields(t, "counts", lines[0].Overall, command.Counts, "identical", "differ", "only_a", "only_b", "damaged")
	if math.Abs(share-1) > 1e-9 {
		t.Errorf("shares of the error sum up to %v", share)
	}
	if same := filepath.Join(t.TempDir(), "same.html"); tensormap("diff", a, a, "-o", same).status != exitDone {
		t.Error("a model differs from itself")
	} else if _, err := os.Stat(same); err != nil {
		t.Error(err)
	}
}

func TestExploreUsage(t *testing.T) {
	a, b := twoModels(t)
	for _, args := range [][]string{{}, {a, b, a}, {a, "-o", "page.svg"}, {a, "-o", "page"}, {a, "--port", "70000"}, {a, "--port", "-1"}, {a, "-j", "x"}} {
		if r := tensormap(append([]string{"explore"}, args...)...); r.status != exitUsage || r.stdout != "" {
			t.Errorf("%q: %+v", args, r)
		}
	}
	if r := tensormap("diff", a, b, "-o", "page.svg"); r.status != exitUsage {
		t.Errorf("%+v", r)
	}
	tensormap("explore", filepath.Join(t.TempDir(), "none"), "--no-browser").failsWith(t, "no such file")
	link := filepath.Join(t.TempDir(), "a.html")
	if err := os.Symlink(a, link); err == nil {
		tensormap("explore", a, "-o", link).failsWith(t, link+": is the file that is being read")
	}
}

// TestExploreServes: the address that explore prints shows the model in one browser, until a signal ends it.
func TestExploreServes(t *testing.T) {
	a, b := twoModels(t)
	ctx, interrupt := interruptible(t)
	reader, writer := io.Pipe()
	ended := make(chan int)
	go func() {
		ended <- run(ctx, []string{"explore", a, b, "--no-browser", "-j", "1"}, writer, io.Discard)
	}()
	address, err := bufio.NewReader(reader).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	address = strings.TrimSpace(address)
	base, _, ok := strings.Cut(address, "?token=")
	jar, err := cookiejar.New(nil)
	if !ok || err != nil {
		t.Fatal(address, err)
	}
	browser := &http.Client{Jar: jar}
	get := func(client *http.Client, address string) (status int, body string) {
		t.Helper()
		r, err := http.NewRequestWithContext(context.WithoutCancel(t.Context()), http.MethodGet, address, nil)
		if err != nil {
			t.Fatal(err)
		}
		answer, err := client.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer answer.Body.Close()
		text, err := io.ReadAll(answer.Body)
		if err != nil {
			t.Fatal(err)
		}
		return answer.StatusCode, string(text)
	}
	if status, _ := get(browser, base+"data/model"); status != http.StatusForbidden {
		t.Errorf("without the token: %d", status)
	}
	if status, page := get(browser, address); status != http.StatusOK || !strings.Contains(page, "<title>") {
		t.Errorf("%d %s", status, page)
	}
	if status, text := get(browser, base+"data/model"); status != http.StatusOK || !strings.Contains(text, `"layers.0.up`) && !strings.Contains(text, "a.safetensors") {
		t.Errorf("%d %s", status, text)
	}
	if status, text := get(browser, base+"data/compare"); status != http.StatusOK || !strings.Contains(text, `"done":true`) {
		t.Errorf("%d %s", status, text)
	}
	if status, _ := get(http.DefaultClient, address); status != http.StatusForbidden {
		t.Errorf("the token again, in another browser: %d", status)
	}
	interrupt()
	if status := <-ended; status != exitDone {
		t.Errorf("status %d", status)
	}
}
