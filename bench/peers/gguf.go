package main

import (
	"cmp"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"text/tabwriter"
	"time"

	gguf_parser "github.com/gpustack/gguf-parser-go"
	"github.com/ollama/ollama/fs/ggml"
	"github.com/tensormap/tensormap/bench/internal/llama3"
	"github.com/tensormap/tensormap/loader"
)

// An opener reads the descriptions of the tensors and of the model in a GGUF file, and closes it. It returns the number
// of tensors.
type opener struct {
	name string
	open func(path string) (tensors int, err error)
}

// ggufOpeners are ours, and the others in each of their modes that might be the fastest. Without
// UseMMap, gguf-parser-go takes a system call for every number and string.
var ggufOpeners = []opener{
	{"tensormap loader.Open", func(path string) (int, error) {
		m, err := loader.Open(path, nil)
		if err != nil {
			return 0, err
		}
		return m.Len(), m.Close()
	}},
	{"gguf-parser-go UseMMap, SkipLargeMetadata", parse(gguf_parser.UseMMap(), gguf_parser.SkipLargeMetadata())},
	{"gguf-parser-go UseMMap", parse(gguf_parser.UseMMap())},
	{"ollama fs/ggml, no arrays", decodeGGML(0)},
	{"ollama fs/ggml, all arrays", decodeGGML(-1)},
}

// parse returns a function that opens a file by gguf-parser-go.
func parse(opts ...gguf_parser.GGUFReadOption) func(string) (int, error) {
	return func(path string) (int, error) {
		f, err := gguf_parser.ParseGGUFFile(path, opts...)
		if err != nil {
			return 0, err
		}
		return len(f.TensorInfos), nil
	}
}

// decodeGGML returns a function that opens a file by Ollama's fs/ggml, and reads arrays of up to maxArray elements; -1
// stands for all.
func decodeGGML(maxArray int) func(string) (int, error) {
	return func(path string) (int, error) {
		f, err := os.Open(path)
		if err != nil {
			return 0, err
		}
		defer f.Close()
		g, err := ggml.Decode(f, maxArray)
		if err != nil {
			return 0, err
		}
		return len(g.Tensors().Items()), nil
	}
}

// A lap has the time and the memory that opening a file once takes.
type lap struct {
	opener
	time          time.Duration // of the fastest round
	allocs, bytes uint64
}

// raceGGUF opens a file with outline o by each opener in turn, and prints the time and memory that each takes.
func raceGGUF(w io.Writer, o llama3.Outline, rounds int) error {
	dir, err := os.MkdirTemp("", "peers")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "model.gguf")
	if err := o.WriteFile(path); err != nil {
		return err
	}
	laps, err := openInTurns(path, o.Tensors, rounds)
	if err != nil {
		return err
	}
	fmt.Fprintf(w, "open and close a GGUF file: %d tensors, %d tokens with scores and types, %d merges; best of %d rounds\n\n",
		o.Tensors, o.Tokens, o.Merges, rounds)
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(tw, "ms\tallocations\tkB\ttimes ours\t ")
	for _, l := range laps {
		fmt.Fprintf(tw, "%.3f\t%d\t%d\t%.1f\t %s\n", l.time.Seconds()*1e3, l.allocs, l.bytes/1000,
			l.time.Seconds()/laps[0].time.Seconds(), l.name)
	}
	tw.Flush()
	fastest := slices.MinFunc(laps[1:], func(a, b lap) int { return cmp.Compare(a.time, b.time) })
	fmt.Fprintf(w, "\nthe fastest of the others takes %.1f times as long: %s\n",
		fastest.time.Seconds()/laps[0].time.Seconds(), fastest.name)
	return nil
}

// openInTurns opens the file by every opener in every round, ours first. It collects garbage before each, outside of
// the time. It fails if an opener does not find the number of tensors.
func openInTurns(path string, tensors, rounds int) ([]lap, error) {
	laps := make([]lap, len(ggufOpeners))
	for i, o := range ggufOpeners {
		laps[i] = lap{opener: o, time: 1<<63 - 1}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		n, err := o.open(path)
		runtime.ReadMemStats(&after)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", o.name, err)
		}
		if n != tensors {
			return nil, fmt.Errorf("%s: %d tensors, not %d", o.name, n, tensors)
		}
		laps[i].allocs, laps[i].bytes = after.Mallocs-before.Mallocs, after.TotalAlloc-before.TotalAlloc
	}
	for range rounds {
		for i := range laps {
			runtime.GC()
			start := time.Now()
			if _, err := laps[i].open(path); err != nil {
				return nil, err
			}
			laps[i].time = min(laps[i].time, time.Since(start))
		}
	}
	return laps, nil
}
