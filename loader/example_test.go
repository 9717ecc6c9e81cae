package loader_test

import (
	"context"
	"fmt"
	"io"
	"log"
	"net/http"
	"os"
	"strings"
	"sync/atomic"

	"github.com/tensormap/tensormap/loader"
)

const example = "../testdata/safetensors/minilm-slice.safetensors"

// Open a model and look at a tensor in place.
func Example() {
	m, err := loader.Open(example, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer m.Close()
	for t := range m.Tensors() {
		fmt.Println(t.Name(), t.DType(), t.Shape())
	}
	bias, err := m.Tensor("embeddings.LayerNorm.bias")
	if err != nil {
		log.Fatal(err)
	}
	values, err := bias.Float32s()
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(values[:3])
	// Output:
	// embeddings.position_ids I64 [1 512]
	// embeddings.LayerNorm.bias F32 [384]
	// embeddings.LayerNorm.weight F32 [384]
	// embeddings.token_type_embeddings.weight F32 [2 384]
	// embeddings.word_embeddings.weight F32 [64 384]
	// encoder.layer.0.attention.output.dense.bias F32 [384]
	// [0.16954054 0.11112433 0.0064446456]
}

// View gives the elements as the Go type that they are stored as.
func ExampleView() {
	m, err := loader.Open(example, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer m.Close()
	t, err := m.Tensor("embeddings.position_ids")
	if err != nil {
		log.Fatal(err)
	}
	ids, err := loader.View[int64](t)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(len(ids), ids[:4])
	// Output: 512 [0 1 2 3]
}

// DequantizeRows looks up an embedding: one row, whatever the type of the table, into
// memory that is used again.
func ExampleTensor_DequantizeRows() {
	m, err := loader.Open(example, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer m.Close()
	table, err := m.Tensor("embeddings.word_embeddings.weight")
	if err != nil {
		log.Fatal(err)
	}
	row := make([]float32, table.Shape()[1])
	for _, token := range []uint64{0, 63} {
		if err := table.DequantizeRows(row, token, 1); err != nil {
			log.Fatal(err)
		}
		fmt.Println(token, row[:2])
	}
	// Output:
	// 0 [-0.004247197 -0.019738585]
	// 63 [0.012757824 -0.048937242]
}

// OpenReaderAt reads from whatever can be read at an offset, and no more than is asked for:
// here from an fs.FS. The files of an embed.FS, for one, can be read so, in a browser too.
func ExampleOpenReaderAt() {
	f, err := os.DirFS("../testdata/safetensors").Open("minilm-slice.safetensors")
	if err != nil {
		log.Fatal(err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		log.Fatal(err)
	}
	m, err := loader.OpenReaderAt(context.Background(), f.(io.ReaderAt), info.Size(), nil)
	if err != nil {
		log.Fatal(err)
	}
	defer m.Close()
	t, err := m.Tensor("embeddings.LayerNorm.bias")
	if err != nil {
		log.Fatal(err)
	}
	values, err := t.Float32s()
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(t.ZeroCopy(), values[:3])
	// Output: false [0.16954054 0.11112433 0.0064446456]
}

// Verify says what it checked; what is wrong is in the report.
func ExampleModel_Verify() {
	m, err := loader.Open("../testdata/apr2/badcrc.apr", nil)
	if err != nil {
		log.Fatal(err)
	}
	defer m.Close()
	report, err := m.Verify(context.Background(), nil)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("checked", report.Checked)
	fmt.Println(report.Err())
	// Output:
	// checked [header metadata index footer bounds overlaps alignment crc32]
	// ../testdata/apr2/badcrc.apr: apr2: offset 964: crc32: the file says aef10ea1, but bytes 0 to 964 have aef00ea1 (checksum mismatch)
}

// A server goes over to a new model while requests run. Each request takes a lease and so
// finishes on the model that it began with; the old one is unmapped after its last request.
func ExampleLease() {
	var current atomic.Pointer[loader.Model]
	swap := func(path string) error {
		m, err := loader.Open(path, nil)
		if err != nil {
			return err
		}
		if old := current.Swap(m); old != nil {
			return old.Close() // does not wait
		}
		return nil
	}
	acquire := func() (*loader.Lease, error) {
		for {
			m := current.Load()
			l, err := m.Acquire()
			if err == nil || current.Load() == m {
				return l, err
			}
			// The model was swapped between the two: take the new one.
		}
	}
	handler := func(w http.ResponseWriter, r *http.Request) {
		l, err := acquire()
		if err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		defer l.Release()
		t, err := l.Tensor(r.PathValue("tensor"))
		if err != nil {
			http.Error(w, err.Error(), http.StatusNotFound)
			return
		}
		values, err := t.Float32s()
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		fmt.Fprintln(w, len(values))
	}
	if err := swap(example); err != nil {
		log.Fatal(err)
	}
	http.HandleFunc("GET /tensors/{tensor}", handler)
}

// Config asks every format the same question; here, GGUF calls it llama.embedding_length.
func ExampleModel_Config() {
	m, err := loader.Open("../testdata/gguf/llama.gguf", nil)
	if err != nil {
		log.Fatal(err)
	}
	defer m.Close()
	c, err := m.Config(context.Background())
	if err != nil {
		log.Fatal(err)
	}
	hidden, err := c.Int("hidden_size")
	fmt.Println(hidden, err)
	theta, err := c.Float("rope_theta")
	fmt.Println(theta, err)
	// Output:
	// 32 <nil>
	// 500000 <nil>
}

// Footprint says what a model takes with 4,096 tokens in each of 8 sequences, and how many fit into 1 GiB.
func ExampleModel_Footprint() {
	m, err := loader.Open("../testdata/gguf/llama.gguf", nil)
	if err != nil {
		log.Fatal(err)
	}
	defer m.Close()
	f, err := m.Footprint(&loader.FootprintOptions{Context: 4096, Sequences: 8})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(f.WeightsBytes, f.KVBytesPerToken, f.KVBytes, f.TotalBytes, f.Unknown)
	fmt.Println(f.LargestContext(1 << 30))
	// Output:
	// 2764 96 3145728 3148492 []
	// 1398097
}

// OpenFS opens models that are embedded in the program, or lie in any other fs.FS.
func ExampleOpenFS() {
	m, err := loader.OpenFS(os.DirFS("../testdata"), "gguf/llama.gguf", nil)
	if err != nil {
		log.Fatal(err)
	}
	defer m.Close()
	fmt.Println(m.Path(), m.Len())
	// Output: gguf/llama.gguf 6
}

// HeldLeases names those who keep a closed model in memory.
func ExampleModel_HeldLeases() {
	m, err := loader.Open(example, &loader.Options{TraceLeases: true})
	if err != nil {
		log.Fatal(err)
	}
	lease, err := m.Acquire()
	if err != nil {
		log.Fatal(err)
	}
	m.Close()
	for _, held := range m.HeldLeases() {
		fmt.Println(strings.Contains(held.Stack, "ExampleModel_HeldLeases"))
	}
	lease.Release()
	<-m.Done()
	// Output: true
}
