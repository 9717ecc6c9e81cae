package remote_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/tensormap/tensormap/internal/parallel/paralleltest"
	"github.com/tensormap/tensormap/internal/test/hubtest"
	"github.com/tensormap/tensormap/internal/test/modeltest"
	"github.com/tensormap/tensormap/remote"
)

// A model that fills comes to its end in the background: its files are complete while it is open, each byte
// came once, and what reads was served meanwhile.
func TestFill(t *testing.T) {
	h := hubtest.New(t, sharded())
	all := make(chan int64, 1)
	var last int64
	m, err := remote.Open(t.Context(), "hf://org/model", &remote.Options{Fill: true, Progress: func(have, total int64) {
		if have < last || have > total {
			t.Errorf("%d of %d after %d", have, total, last)
		}
		if last = have; have == total {
			select {
			case all <- total:
			default:
			}
		}
	}})
	m = modeltest.Opened(t, m, err)
	want(t, m, h, "w3")
	total := <-all
	if total < 4*shardBytes {
		t.Errorf("%d bytes in all", total)
	}
	want(t, m, h, "w0", "w1", "w2")
	m.Close()
	<-m.Done()
	if _, _, _, sent := count(h.Take()); sent > total {
		t.Errorf("%d bytes sent for %d", sent, total)
	}
	blobs, _ := filepath.Glob(filepath.Join(os.Getenv("HF_HOME"), "hub", "models--org--model", "blobs", "*"))
	if len(blobs) < 5 {
		t.Errorf("complete are %v", blobs)
	}
}

// Closing a model ends what fills it.
func TestFillEnds(t *testing.T) {
	h := hubtest.New(t, sharded())
	m, err := remote.Open(t.Context(), "hf://org/model", &remote.Options{Fill: true})
	m = modeltest.Opened(t, m, err)
	m.Close()
	<-m.Done()
	h.Take()
	want(t, open(t, "hf://org/model"), h, "w1")
}

// A callback that panics in the background does so to who closes the model, and the model can be opened again.
func TestFillPanics(t *testing.T) {
	h := hubtest.New(t, sharded())
	called := make(chan bool, 1)
	m, err := remote.Open(t.Context(), "hf://org/model", &remote.Options{Fill: true, Progress: func(int64, int64) {
		select {
		case called <- true:
		default:
		}
		panic(t.Name())
	}})
	m = modeltest.Opened(t, m, err)
	<-called
	if panicked, _ := paralleltest.Ending(func() { m.Close() }); panicked != t.Name() {
		t.Errorf("recovered %v", panicked)
	}
	<-m.Done()
	want(t, open(t, "hf://org/model"), h, "w1")
}
