package explore

import (
	"context"
	"errors"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tensormap/tensormap/explore/internal/answer"
	"github.com/tensormap/tensormap/internal/test/modeltest"
	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/loader"
)

// identified is a folder of one file, which is its own source: with an ID, if it is not "", and a count of the reads behind the header.
type identified struct {
	id      string
	content []byte
	values  *atomic.Int64 // reads behind the header
	fail    *atomic.Bool  // those
}

func (f identified) Open(context.Context, string) (loader.FolderFile, error) {
	return loader.FolderFile{Name: "model.safetensors", Source: f}, nil
}

func (f identified) Size() int64       { return int64(len(f.content)) }
func (f identified) Close() error      { return nil }
func (f identified) ContentID() string { return f.id }

func (f identified) ReadAt(_ context.Context, p []byte, off int64) error {
	if off >= int64(len(f.content)-64) {
		f.values.Add(1)
		if f.fail.Load() {
			return errors.New("no network")
		}
	}
	copy(p, f.content[off:])
	return nil
}

// swapping is a handler of a model that tests swap, and the files that they open.
type swapping struct {
	http.Handler
	current, other loader.Current[int]
	values         atomic.Int64
	fail           atomic.Bool
}

func newSwapping(t testing.TB) *swapping {
	s := &swapping{}
	acquire := func(c *loader.Current[int]) func() (*loader.Lease, error) {
		return func() (*loader.Lease, error) {
			_, l, err := c.Acquire(context.Background())
			return l, err
		}
	}
	s.Handler = Handler(acquire(&s.current), &Options{Compared: acquire(&s.other)})
	s.swap(t, &s.other, "other", 5)
	t.Cleanup(func() { s.current.Close(); s.other.Close() })
	return s
}

// swap serves a file of an ID, whose values are 16 of first. It has the same header each time.
func (s *swapping) swap(t testing.TB, c *loader.Current[int], id string, first float32) {
	t.Helper()
	content := modeltest.SafeTensors(modeltest.Tensor{Name: "a", DType: layout.F32, Shape: []int{4, 4}, Data: modeltest.Float32s(first, 1, 2, 3, 4, 5, 6, 7, 8, 9, 1, 2, 3, 4, 5, 6)})
	m, err := loader.OpenFolder(t.Context(), identified{id, content, &s.values, &s.fail}, "model.safetensors", nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Swap(m, 0); err != nil {
		t.Fatal(err)
	}
}

// maxOf returns the largest value that data/stats tells, the ID of the answer, and how many reads of values it took.
func (s *swapping) maxOf(t testing.TB) (largest answer.Real, id string, reads int64) {
	t.Helper()
	before := s.values.Load()
	lines := linesOf[answer.Line](t, s, "data/stats")
	var stats []answer.TensorStat
	for _, l := range lines {
		stats = append(stats, l.Stats...)
	}
	last := lines[len(lines)-1]
	if len(stats) == 0 || !last.Progress.Done || len(last.Findings) == 0 {
		t.Fatalf("%+v", lines)
	}
	tensor := answerOf[answer.TensorAnswer](t, s, "data/tensor?name=a").Stat
	if tensor.Max != stats[0].Max && stats[0].Error == "" {
		t.Errorf("%v, and alone %v", stats[0].Max, tensor.Max)
	}
	return stats[0].Max, answerOf[answer.ModelAnswer](t, s, "data/model").ID, s.values.Load() - before
}

// dB returns the overall figure that data/compare tells, and how many reads of values it took.
func (s *swapping) dB(t testing.TB, query string) (answer.Real, int64) {
	t.Helper()
	before := s.values.Load()
	lines := linesOf[answer.Line](t, s, "data/compare"+query)
	last := lines[len(lines)-1]
	if last.Overall == nil {
		t.Fatalf("%+v", last)
	}
	return last.Overall.DB, s.values.Load() - before
}

// TestResultsAreKept: a reload, and a swap back to the same files, read no values. Files of other content have their own figures.
func TestResultsAreKept(t *testing.T) {
	s := newSwapping(t)
	s.swap(t, &s.current, "one", 100)
	first, id, reads := s.maxOf(t)
	if first != 100 || reads == 0 {
		t.Fatalf("%v after %d reads", first, reads)
	}
	if again, _, reads := s.maxOf(t); again != 100 || reads > 1 { // of the first values, in data/tensor
		t.Errorf("a reload: %v, %d reads", again, reads)
	}
	there, reads := s.dB(t, "")
	back, reads2 := s.dB(t, "?swap=1")
	if reads == 0 || reads2 == 0 || there == back {
		t.Errorf("%v and %v", there, back)
	}
	s.swap(t, &s.current, "two", 200)
	if second, other, reads := s.maxOf(t); second != 200 || other == id || reads == 0 {
		t.Errorf("another model: %v, %s, %d reads", second, other, reads)
	}
	if got, _ := s.dB(t, ""); got == there {
		t.Errorf("another model: %v dB", got)
	}
	s.swap(t, &s.current, "one", 100)
	if again, same, reads := s.maxOf(t); again != 100 || same != id || reads > 1 {
		t.Errorf("swapped back: %v, %s, %d reads", again, same, reads)
	}
	s.swap(t, &s.other, "third", 7)
	s.swap(t, &s.other, "other", 5)
	for query, want := range map[string]answer.Real{"": there, "?swap=1": back} {
		if got, reads := s.dB(t, query); got != want || reads > 0 {
			t.Errorf("swapped back: %v dB, not %v, %d reads", got, want, reads)
		}
	}
}

// TestResultsOfUnknown: of a model whose content nothing identifies, nothing is kept beyond it, nor of one that could not be read.
func TestResultsOfUnknown(t *testing.T) {
	s := newSwapping(t)
	s.swap(t, &s.current, "", 100)
	_, id, _ := s.maxOf(t)
	s.swap(t, &s.current, "", 100)
	if _, other, reads := s.maxOf(t); other == id || reads == 0 {
		t.Errorf("%s, then %s, %d reads", id, other, reads)
	}
	s.fail.Store(true)
	s.swap(t, &s.current, "one", 100)
	lines := linesOf[answer.Line](t, s, "data/stats")
	if p := lines[len(lines)-1].Progress; !p.Done || p.Values != 0 || p.AllValues != 16 { // read is what has values
		t.Errorf("%+v", lines)
	}
	s.fail.Store(false)
	s.swap(t, &s.current, "one", 100)
	if got, _, reads := s.maxOf(t); got != 100 || reads == 0 {
		t.Errorf("after failing: %v, %d reads", got, reads)
	}
}

// TestResultsAreBounded: beside the two models that are served, the results of few others are kept.
func TestResultsAreBounded(t *testing.T) {
	s := newSwapping(t)
	s.swap(t, &s.current, "one", 1)
	s.dB(t, "")
	h := s.Handler.(*handler)
	first := h.models[theModel].results
	for range maxResultTensors/minResultTensors - 2 {
		h.use(&results{tensors: 1})
	}
	h.use(h.models[theModel].results)
	h.use(h.models[theCompared].results)
	s.swap(t, &s.current, "two", 2)
	s.dB(t, "")
	if second := h.models[theModel].results; len(h.results) != 2+maxResultTensors/minResultTensors-2+1 || second == first || len(first.comparisons) != 1 {
		t.Errorf("%d are kept, %v", len(h.results), first)
	}
	h.use(&results{tensors: maxResultTensors})
	h.use(&results{})
	h.use(&results{})
	if len(h.results) != 3 {
		t.Errorf("%d are kept beside a large one", len(h.results))
	}
	s.dB(t, "")
	s.dB(t, "?swap=1")
	other := h.models[theCompared].results
	h.use(&results{tensors: maxResultTensors})
	h.use(other)
	h.use(&results{})
	h.use(&results{})
	if len(other.comparisons) != 0 {
		t.Errorf("compared with a model whose results are dropped: %v", other.comparisons)
	}
	h.forgetModels()
	if h.results != nil || h.models[theModel].results != nil {
		t.Errorf("%+v", h)
	}
}

// TestSwapEndsJobs: those who listen to a job about a model that was swapped out hear so, though nobody asks for anything else.
func TestSwapEndsJobs(t *testing.T) {
	for _, path := range []string{"/data/stats", "/data/compare", "/data/compare?swap=1"} {
		source, before := slow(t)
		ready, other := slow(t)
		close(ready.goOn)
		var current loader.Current[int]
		current.Swap(before, 0)
		h := Handler(func() (*loader.Lease, error) {
			_, l, err := current.Acquire(context.Background())
			return l, err
		}, &Options{Compared: other.Acquire})
		reply := httptest.NewRecorder()
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			h.ServeHTTP(reply, httptest.NewRequest(http.MethodGet, path, nil))
		}()
		waitFor(t, "reading", func() bool { return source.reading.Load() > 0 })
		current.Swap(layered(t), 0)
		select {
		case <-ended:
		case <-time.After(time.Minute):
			t.Fatalf("%s goes on", path)
		}
		if text := reply.Body.String(); !strings.Contains(text, `"swapped":true`) || strings.Contains(text, `"done":true`) {
			t.Errorf("%s: %s", path, text)
		}
		waitFor(t, "the end of the model before", func() bool { return current.Stats().Draining == 0 })
		if lines := linesOf[answer.Line](t, h, "data/stats"); !lines[len(lines)-1].Progress.Done {
			t.Errorf("%s: %+v", path, lines)
		}
		if err := current.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestSwapBeside: whatever is swapped while requests are answered, or whoever leaves, each answer is of one model, or says why not.
func TestSwapBeside(t *testing.T) {
	var current loader.Current[int]
	defer current.Close()
	open := func(i int) (m *loader.Model) {
		switch i % 3 {
		case 0:
			return layered(t)
		case 1:
			return hostileModel(t)
		}
		m, err := loader.OpenBytes(modeltest.SafeTensors(modeltest.Finite("odd", layout.F64, 12, 30)), nil)
		return modeltest.Opened(t, m, err)
	}
	current.Swap(open(0), 0)
	acquire := func() (*loader.Lease, error) {
		_, l, err := current.Acquire(context.Background())
		return l, err
	}
	h := Handler(acquire, &Options{Compared: acquire, Workers: 2})
	var group sync.WaitGroup
	for k := range 4 {
		group.Go(func() {
			random := rand.New(rand.NewPCG(1, uint64(k)))
			for range 25 {
				path := paths[random.IntN(len(paths))]
				ctx, leave := context.WithCancel(t.Context())
				if random.IntN(4) == 0 {
					time.AfterFunc(time.Duration(random.IntN(2000))*time.Microsecond, leave)
				}
				w := httptest.NewRecorder()
				h.ServeHTTP(w, httptest.NewRequestWithContext(ctx, http.MethodGet, "/"+path, nil))
				leave()
				if w.Code == http.StatusInternalServerError {
					t.Errorf("%s: %s", path, w.Body)
				}
			}
		})
	}
	answered := make(chan struct{})
	go func() {
		group.Wait()
		close(answered)
	}()
	for i := 1; ; i++ {
		select {
		case <-answered:
			waitFor(t, "the end of the models before", func() bool { return current.Stats().Draining == 0 })
			return
		case <-time.After(time.Millisecond):
			current.Swap(open(i), i)
		}
	}
}
