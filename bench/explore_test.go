//go:build linux

package bench

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/tensormap/tensormap/explore"
	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/loader"
	"github.com/tensormap/tensormap/loader/survey"
)

// BenchmarkOverview is how long the overview of a model in the page cache takes, from the first request to its last figure:
// as the command asks for it, and as a server does, whose reading pauses half of the time. model-ms of it go by until the
// page knows the map of layers and roles, and cpu-s are the processor's.
//
//	go test ./bench -run '^$' -bench 'Overview|Beside' -benchtime 10x -disk 1024
func BenchmarkOverview(b *testing.B) {
	m := open(b, layeredModel(b))
	for _, host := range []struct {
		name string
		opts explore.Options
	}{{"command", explore.Options{Workers: runtime.GOMAXPROCS(0) + 1}}, {"server", explore.Options{}}} {
		b.Run("host="+host.name, func(b *testing.B) {
			b.SetBytes(int64(m.Files()[0].Size))
			first, used := time.Duration(0), processorTime(b)
			for b.Loop() {
				server := httptest.NewServer(explore.Handler(m.Acquire, &host.opts))
				begun := time.Now()
				request(b, server.URL+"/data/model")
				first += time.Since(begun)
				request(b, server.URL+"/data/stats")
				server.Close()
			}
			b.ReportMetric((processorTime(b)-used).Seconds()/float64(b.N), "cpu-s")
			b.ReportMetric(float64(first.Microseconds())/1000/float64(b.N), "model-ms")
		})
	}
}

// BenchmarkStats reports how fast all figures are found beside reading the same bytes into buffers, from the page cache, on all cores.
func BenchmarkStats(b *testing.B) {
	const size = 256 << 20
	f32 := fullAPR2(b, size/4)
	for _, test := range []struct {
		name, path string
	}{{"F32", f32}, {"BF16", reencoded(b, open(b, f32), layout.BF16)}} {
		b.Run("type="+test.name, func(b *testing.B) {
			m := open(b, test.path)
			f, err := os.Open(test.path)
			if err != nil {
				b.Fatal(err)
			}
			defer f.Close()
			read := &way{name: "read", work: func() { preads(b, f, runtime.GOMAXPROCS(0), 1<<20) }}
			stats := &way{name: "stats", work: func() {
				err := survey.Stats(b.Context(), m, &survey.StatsOptions{BySigma: true}, func(*survey.TensorStats) error { return nil })
				if err != nil {
					b.Error(err)
				}
			}}
			byTurns(b, func() {}, read, stats)
			read.over(b, stats, "read/stats")
		})
	}
}

// BenchmarkBeside is how long requests for rows of a model take that come every 2 ms, while a page of the same server reads
// the whole model, and by turns for as long without it. A request that waits for its turn to be sent counts from its turn on.
func BenchmarkBeside(b *testing.B) {
	m := open(b, layeredModel(b))
	var without, beside []time.Duration
	for b.Loop() {
		mux := http.NewServeMux()
		mux.Handle("/debug/model/", http.StripPrefix("/debug/model", explore.Handler(m.Acquire, nil)))
		mux.HandleFunc("/rows", func(w http.ResponseWriter, _ *http.Request) { answerRows(w, m) })
		server := httptest.NewServer(mux)
		begun := time.Now()
		stop := keepAsking(b, server.URL+"/rows")
		request(b, server.URL+"/debug/model/data/stats")
		beside = append(beside, stop()...)
		stop = keepAsking(b, server.URL+"/rows")
		time.Sleep(time.Since(begun))
		without = append(without, stop()...)
		server.Close()
	}
	slices.Sort(without)
	slices.Sort(beside)
	at := func(late []time.Duration, part float64) float64 {
		return late[int(part*float64(len(late)-1))].Seconds() * 1000
	}
	for name, part := range map[string]float64{"p50": 0.5, "p99": 0.99} {
		b.ReportMetric(at(without, part), "without-"+name+"-ms")
		b.ReportMetric(at(beside, part), "beside-"+name+"-ms")
		b.ReportMetric(at(beside, part)/at(without, part), name+"-ratio")
	}
	b.ReportMetric(0, "ns/op")
	b.Logf("%d requests without a page, %d beside one", len(without), len(beside))
}

// keepAsking sends requests for url until stop is called, which returns how long each took.
func keepAsking(b *testing.B, url string) (stop func() []time.Duration) {
	const clients, each = 4, 8 * time.Millisecond
	var mu sync.Mutex
	var took []time.Duration
	var wg sync.WaitGroup
	ctx, cancel := context.WithCancel(context.Background())
	for i := range clients {
		wg.Go(func() {
			for next := time.Now().Add(each / clients * time.Duration(i)); ctx.Err() == nil; next = next.Add(each) {
				time.Sleep(time.Until(next))
				request(b, url)
				mu.Lock()
				took = append(took, time.Since(next))
				mu.Unlock()
			}
		})
	}
	return func() []time.Duration {
		cancel()
		wg.Wait()
		return took
	}
}

// answerRows answers with some values of some rows of m, as a server of embeddings does.
func answerRows(w http.ResponseWriter, m *loader.Model) {
	const rows = 16
	l, err := m.Acquire()
	if err != nil {
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	defer l.Release()
	tensors := slices.Collect(l.Tensors())
	t := tensors[rand.IntN(len(tensors))]
	values := make([]float32, rows*t.Shape()[1])
	if err := t.DequantizeRows(values, rand.Uint64N(uint64(t.Shape()[0])-rows), rows); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	json.NewEncoder(w).Encode(values[:8])
}

// request reads the whole answer to a request. Anything but a good one fails the benchmark.
func request(b *testing.B, url string) {
	answer, err := http.Get(url)
	if err != nil {
		b.Error(err)
		return
	}
	defer answer.Body.Close()
	if _, err := io.Copy(io.Discard, answer.Body); err != nil || answer.StatusCode != http.StatusOK {
		b.Error(url, answer.Status, err)
	}
}

// layeredModel writes a SafeTensors file of -disk MiB, or a little less: layers of BF16 matrices with Gaussian values, and
// returns its path.
func layeredModel(b *testing.B) string {
	b.Helper()
	const rows, columns, each = 4096, 1024, 4096 * 1024 * 2
	roles := []string{"self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "self_attn.o_proj", "mlp.gate_proj", "mlp.up_proj", "mlp.down_proj"}
	header := "{"
	count := max(1, *diskMiB<<20/each)
	for i := range count {
		header += fmt.Sprintf(`"model.layers.%d.%s.weight":{"dtype":"BF16","shape":[%d,%d],"data_offsets":[%d,%d]},`,
			i/len(roles), roles[i%len(roles)], rows, columns, i*each, (i+1)*each)
	}
	header = header[:len(header)-1] + "}"
	path := filepath.Join(b.TempDir(), "model.safetensors")
	f, err := os.Create(path)
	if err != nil {
		b.Fatal(err)
	}
	defer f.Close()
	fmt.Fprintf(f, "%s%s", binary.LittleEndian.AppendUint64(nil, uint64(len(header))), header)
	random := rand.New(rand.NewPCG(1, 2))
	values := make([]byte, 0, each)
	for range rows * columns {
		values = binary.LittleEndian.AppendUint16(values, uint16(math.Float32bits(float32(random.NormFloat64()/50))>>16))
	}
	for range count {
		if _, err := f.Write(values); err != nil {
			b.Fatal(err)
		}
	}
	return path
}
