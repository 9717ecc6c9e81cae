package remote_test

import (
	"bytes"
	"errors"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/tensormap/tensormap/internal/test/hubtest"
	"github.com/tensormap/tensormap/internal/test/modeltest"
	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/layout/gguf"
	"github.com/tensormap/tensormap/loader"
)

// TestFootprintAsksForNoTensor: what opening has read, and config.json, are enough to say what a model takes.
func TestFootprintAsksForNoTensor(t *testing.T) {
	files := sharded()
	files["config.json"] = []byte(`{"model_type":"llama","hidden_size":4096,"num_hidden_layers":32,"num_attention_heads":32,"num_key_value_heads":8}`)
	h := hubtest.New(t, files)
	m := open(t, "hf://org/model")
	h.Take()
	f, err := m.Footprint(&loader.FootprintOptions{Context: 2})
	if err != nil {
		t.Fatal(err)
	}
	if f.WeightsBytes != 4*shardBytes || f.KVBytes != 2*32*2*8*128*2 || len(f.Unknown) > 0 {
		t.Errorf("%+v", f)
	}
	for _, r := range h.Take() {
		if strings.HasPrefix(r.Path, hubtest.Signed) || !strings.HasSuffix(r.Path, "/config.json") {
			t.Errorf("asked for %s %s", r.Path, r.Range)
		}
	}
}

// TestFootprintByHeads: of an address, all that is served to tell what a model takes are the heads of its files, of every format that has
// its index there.
func TestFootprintByHeads(t *testing.T) {
	const size = 64 << 20
	x := modeltest.Tensor{Name: "blk.0.x", DType: layout.U8, Shape: []int{size}, Data: make([]byte, size)}
	entries := []layout.Entry{{Key: "general.architecture", Value: "llama"}, {Key: "llama.block_count", Value: uint32(1)},
		{Key: "llama.attention.head_count_kv", Value: uint32(8)}, {Key: "llama.attention.key_length", Value: uint32(128)}}
	var inGGUF bytes.Buffer
	w, err := gguf.NewWriter(&inGGUF, slices.Values([]layout.Tensor{{Name: []byte(x.Name), DType: layout.I8, Shape: x.Shape}}), entries, nil)
	if err == nil {
		err = errors.Join(w.WriteTensor(x.Data), w.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
	architecture := layout.Metadata{{Key: "n_layer", Value: 1}, {Key: "num_key_value_heads", Value: 8}, {Key: "head_dim", Value: 128}}
	config := []byte(`{"num_hidden_layers":1,"num_key_value_heads":8,"head_dim":128}`)
	for name, files := range map[string]map[string][]byte{
		"m.gguf":            {"m.gguf": inGGUF.Bytes()},
		"m.apr":             {"m.apr": modeltest.APR2(t, layout.Metadata{{Key: "architecture", Value: architecture}}, x)},
		"model.safetensors": {"model.safetensors": modeltest.SafeTensors(x), "config.json": config},
	} {
		h := hubtest.New(t, files)
		var sent atomic.Int64
		h.Network = func(w http.ResponseWriter) http.ResponseWriter {
			return modeltest.CountedResponse{ResponseWriter: w, N: &sent}
		}
		f, err := open(t, "hf://org/model/"+name).Footprint(&loader.FootprintOptions{Context: 3})
		if err != nil {
			t.Fatal(err)
		}
		if f.WeightsBytes != size || f.KVBytes != 3*2*8*128*2 || len(f.Unknown) > 0 || sent.Load() > 1<<20 {
			t.Errorf("%s: %d bytes served, %+v", name, sent.Load(), f)
		}
		t.Logf("%s: %d bytes served of %d", name, sent.Load(), size)
	}
}

// TestStatsOfTraffic: what a server has sent is counted apart from what the disk had.
func TestStatsOfTraffic(t *testing.T) {
	h := hubtest.New(t, sharded())
	m := open(t, "hf://org/model")
	want(t, m, h, "w0", "w1", "w2", "w3")
	first := m.Stats()
	m.Close()
	<-m.Done()
	if s := m.Stats(); first.FetchedBytes < 4*shardBytes || first.PresentBytes > 1000 || s.FetchedBytes < first.FetchedBytes {
		t.Errorf("%+v, then %+v", first, s)
	}
	again := open(t, "hf://org/model")
	want(t, again, h, "w0", "w1", "w2", "w3")
	if s := again.Stats(); s.FetchedBytes != 0 || s.PresentBytes < 4*shardBytes {
		t.Errorf("again: %+v", s)
	}
}
