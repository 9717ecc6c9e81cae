package loader_test

import (
	"testing"

	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/loader"
)

// TestGiveBack has the memory of expanded tensors collected once their model is gone, and not before.
// A model that has expanded little asks for no collection.
func TestGiveBack(t *testing.T) {
	collected := make(chan struct{})
	defer loader.CollectBy(func() { collected <- struct{}{} })()
	file := safeTensors([]content{random("large", layout.F16, 8<<20), random("small", layout.F16, 100)})
	for range 3 {
		m := openBytes(t, file, nil)
		l := acquire(t, m)
		floats(t, tensor(t, l, "large"))
		m.Close()
		select {
		case <-collected:
			t.Error("collected under a lease")
		default:
		}
		l.Release()
		<-collected
	}
	m := openBytes(t, file, nil)
	floats(t, tensor(t, m, "small"))
	m.Close()
	select {
	case <-collected:
		t.Error("collected for 400 bytes")
	default:
	}
}
