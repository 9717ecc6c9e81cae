//go:build unix

package explore

import (
	"context"
	"errors"
	"net/http"
	"os"
	"testing"
	"time"

	"github.com/tensormap/tensormap/explore/internal/answer"
	"github.com/tensormap/tensormap/internal/test/modeltest"
	"github.com/tensormap/tensormap/internal/test/testmode"
	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/loader"
)

// TestChangedFile: a file that was changed under its name has no figures of what it was, opened anew or not.
func TestChangedFile(t *testing.T) {
	file := func(first float32) []byte {
		return modeltest.SafeTensors(modeltest.Tensor{Name: "a", DType: layout.F32, Shape: []int{4}, Data: modeltest.Float32s(first, 1, 2, 3)})
	}
	path := modeltest.Write(t, "model.safetensors", file(100))
	age := func() {
		if testmode.Brief() {
			return
		}
		time.Sleep(1100 * time.Millisecond) // else the file is too new to be told from what is written next
	}
	var current loader.Current[int]
	defer current.Close()
	h := Handler(func() (*loader.Lease, error) {
		_, l, err := current.Acquire(context.Background())
		return l, err
	}, nil)
	reopen := func() {
		t.Helper()
		m, err := loader.Open(path, nil)
		if err == nil {
			err = current.Swap(m, 0)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	largest := func() answer.Real {
		t.Helper()
		alone := answerOf[answer.TensorAnswer](t, h, "data/tensor?name=a").Stat.Max
		for _, l := range linesOf[answer.Line](t, h, "data/stats") {
			if len(l.Stats) > 0 && l.Stats[0].Max != alone {
				t.Errorf("%v, and alone %v", l.Stats[0].Max, alone)
			}
		}
		return alone
	}
	age()
	reopen()
	if got := largest(); got != 100 {
		t.Fatal(got)
	}
	kept := h.(*handler).models[theModel].results
	reopen()
	if largest(); h.(*handler).models[theModel].results != kept && !testmode.Brief() {
		t.Error("the same file has new results")
	}
	info, err := os.Stat(path)
	if err == nil {
		err = os.WriteFile(path, file(300), 0o600) // in place, of the same size and time
	}
	if err := errors.Join(err, os.Chtimes(path, info.ModTime(), info.ModTime())); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"data/stats", "data/tensor?name=a", "data/picture?name=a&as=max"} {
		if w := ask(t, h, path); w.Code != http.StatusConflict {
			t.Errorf("%s of a changed file: %d %s", path, w.Code, w.Body)
		}
	}
	if a := answerOf[answer.ListAnswer](t, h, "data/list?group=none&show=odd"); a.Matches > 0 {
		t.Errorf("%+v", a)
	}
	reopen()
	if got := largest(); got != 300 {
		t.Errorf("written in place: %v", got)
	}
	age()
	reopen()
	if got := largest(); got != 300 {
		t.Errorf("written in place: %v", got)
	}
	if err := errors.Join(os.WriteFile(path+"x", file(200), 0o600), os.Rename(path+"x", path)); err != nil {
		t.Fatal(err)
	}
	age()
	reopen()
	if got := largest(); got != 200 {
		t.Errorf("replaced: %v", got)
	}
}
