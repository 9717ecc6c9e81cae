package metrics_test

import (
	"fmt"
	"log"
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/tensormap/tensormap/loader"
	"github.com/tensormap/tensormap/metrics"
)

// A server adds its loader.Current once. Models that are swapped in later are counted without more.
func Example() {
	var current loader.Current[loader.Tensor] // what the server serves
	collector := metrics.New()
	if err := collector.Add("embedder", &current); err != nil {
		log.Fatal(err)
	}
	registry := prometheus.NewRegistry()
	registry.MustRegister(collector)
	http.Handle("GET /metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))

	m, err := loader.Open("../testdata/safetensors/minilm-slice.safetensors", nil)
	if err != nil {
		log.Fatal(err)
	}
	x, err := m.Tensor("embeddings.LayerNorm.bias")
	if err != nil {
		log.Fatal(err)
	}
	if err := current.Swap(m, x); err != nil {
		log.Fatal(err)
	}
	defer current.Close()

	families, err := registry.Gather()
	if err != nil {
		log.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() == "tensormap_swaps_total" {
			fmt.Println(f.GetName(), f.Metric[0].Label[0].GetValue(), f.Metric[0].Counter.GetValue())
		}
	}
	// Output: tensormap_swaps_total embedder 1
}
