// Distributed loads one model by several processes, each its share, as the ranks of a tensor-parallel
// server do. Each opens the same address and asks for the regions that it multiplies by.
//
//	go run -C examples/distributed . -ranks 4 s3://models/llama
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"sync"
	"time"

	"github.com/tensormap/tensormap/loader/httprange"
	"github.com/tensormap/tensormap/remote"
)

func main() {
	ranks := flag.Int("ranks", 4, "processes")
	rank := flag.Int("rank", -1, "which of them this is; without it, all are started")
	flag.Parse()
	if flag.NArg() != 1 || *ranks < 1 || *rank >= *ranks {
		fmt.Fprintln(os.Stderr, "usage: distributed [-ranks N] ADDRESS")
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	var err error
	if *rank < 0 {
		err = start(ctx, *ranks, flag.Arg(0))
	} else {
		err = load(ctx, *rank, *ranks, flag.Arg(0))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "distributed:", err)
		os.Exit(1)
	}
}

// start runs a process for each rank, and waits for all.
func start(ctx context.Context, ranks int, address string) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	var running sync.WaitGroup
	errs := make([]error, ranks)
	for rank := range ranks {
		cmd := exec.CommandContext(ctx, self, "-rank", strconv.Itoa(rank), "-ranks", strconv.Itoa(ranks), address)
		cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
		running.Go(func() {
			if err := cmd.Run(); err != nil {
				errs[rank] = fmt.Errorf("rank %d: %w", rank, err)
			}
		})
	}
	running.Wait()
	return errors.Join(errs...)
}

// load opens the model, expands the share of one rank to float32s in memory, and prints how many values it has.
func load(ctx context.Context, rank, ranks int, address string) error {
	begun := time.Now()
	m, err := remote.Open(ctx, address, &remote.Options{HTTP: &httprange.Options{
		Header: http.Header{"X-Rank": {strconv.Itoa(rank)}}, // for the server's log
	}})
	if err != nil {
		return err
	}
	defer m.Close()
	lease, err := m.AcquireContext(ctx)
	if err != nil {
		return err
	}
	defer lease.Release()
	shards := make(map[string][]float32)
	var values uint64
	for desc := range m.Tensors() {
		tensor, err := lease.Tensor(desc.Name())
		if err != nil {
			return err
		}
		region, err := tensor.Slice(share(tensor.Name(), tensor.Shape(), rank, ranks)...)
		if err != nil {
			return err
		}
		floats := make([]float32, region.Elements())
		if err := region.Dequantize(floats); err != nil {
			return err
		}
		shards[tensor.Name()] = floats
		values += region.Elements()
	}
	fmt.Printf("rank %d: %d values of %d tensors in %v\n", rank, values, len(shards), time.Since(begun).Round(time.Millisecond))
	return nil
}
