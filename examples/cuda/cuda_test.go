//go:build linux

package main

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/ebitengine/purego"

	"github.com/tensormap/tensormap/loader"
)

// standIn compiles and loads the stand-in for CUDA's library, with its own functions. It returns its path, too.
func standIn(t *testing.T) (d *driver, path string, calls func(which int32) int32, fail func(which int32)) {
	if _, err := exec.LookPath("gcc"); err != nil {
		t.Skip(err)
	}
	path = filepath.Join(t.TempDir(), "libcuda.so.1")
	if out, err := exec.Command("gcc", "-shared", "-fPIC", "-O1", "-o", path, "testdata/standin.c", "-lpthread").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	d, err := load(path)
	if err != nil {
		t.Fatal(err)
	}
	lib, err := purego.Dlopen(path, purego.RTLD_NOW|purego.RTLD_LOCAL)
	if err != nil {
		t.Fatal(err)
	}
	purego.RegisterLibFunc(&calls, lib, "standin_calls")
	purego.RegisterLibFunc(&fail, lib, "standin_fail")
	return d, path, calls, fail
}

// compare copies all weights back from the device of the library at path, and compares them with those of m. It returns the number of bytes.
func compare(t *testing.T, path string, w *weights, m *loader.Model) (total uint64) {
	t.Helper()
	lib, err := purego.Dlopen(path, purego.RTLD_NOW|purego.RTLD_LOCAL)
	if err != nil {
		t.Fatal(err)
	}
	var copyBack func(to []byte, from, n uint64) int32
	purego.RegisterLibFunc(&copyBack, lib, "cuMemcpyDtoH_v2")
	for x := range m.Tensors() {
		want, err := x.Bytes()
		if err != nil {
			t.Fatal(err)
		}
		total += uint64(len(want))
		got := make([]byte, len(want))
		if len(got) > 0 {
			err = w.bound(func() error { return check("cuMemcpyDtoH", copyBack(got, w.address[x.Name()], uint64(len(got)))) })
		}
		if err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s has other bytes on the device: %v", x.Name(), err)
		}
	}
	return total
}

// open opens a model that fills the buffers more than once.
func open(t *testing.T) *loader.Model {
	t.Helper()
	var header []string
	end := 0
	for i, n := range []int{1000, 40 << 20, 0, 123, 70 << 20, 4} {
		header = append(header, fmt.Sprintf(`"t%d":{"dtype":"U8","shape":[%d],"data_offsets":[%d,%d]}`, i, n, end, end+n))
		end += n
	}
	text := "{" + strings.Join(header, ",") + "}"
	b := append(binary.LittleEndian.AppendUint64(nil, uint64(len(text))), text...)
	data := make([]byte, end)
	rand.NewChaCha8([32]byte{}).Read(data)
	path := filepath.Join(t.TempDir(), "m.safetensors")
	if err := os.WriteFile(path, append(b, data...), 0o666); err != nil {
		t.Fatal(err)
	}
	m, err := loader.Open(path, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.Close() })
	return m
}

// The calls of the stand-in, by its numbers.
const (
	registers, unregisters = 5, 6
	allocs, frees          = 7, 8
	streams, streamEnds    = 9, 10
	copies, events         = 11, 12
	waits, eventEnds       = 14, 15
	retains, leaves        = 2, 3
)

func TestUpload(t *testing.T) {
	d, path, calls, fail := standIn(t)
	m := open(t)
	fail(-1)
	w, result, err := upload(t.Context(), d, m)
	if err != nil {
		t.Fatal(err)
	}
	total := compare(t, path, w, m)
	if err := w.free(); err != nil || result.Bytes != total || calls(copies) == 0 || calls(copies) != calls(events) {
		t.Errorf("%+v of %d bytes, %v; %d copies, %d events", result, total, err, calls(copies), calls(events))
	}
	balanced(t, -1, calls)
	for which := range int32(18) {
		fail(which)
		w, _, err := upload(t.Context(), d, m)
		if err == nil {
			err = w.free()
		}
		if err == nil || !strings.Contains(err.Error(), "CUDA error 700") {
			t.Errorf("call %d fails: %v", which, err)
		}
		balanced(t, which, calls)
	}
}

// TestBound: a thread that had a context, another library's, has it again after bound, also after f has failed.
func TestBound(t *testing.T) {
	d, path, _, fail := standIn(t)
	fail(-1)
	lib, err := purego.Dlopen(path, purego.RTLD_NOW|purego.RTLD_LOCAL)
	if err != nil {
		t.Fatal(err)
	}
	var push func(context uintptr) int32
	var current func(context *uintptr) int32
	purego.RegisterLibFunc(&push, lib, "cuCtxPushCurrent_v2")
	purego.RegisterLibFunc(&current, lib, "cuCtxGetCurrent")
	runtime.LockOSThread() // never unlocked: the thread ends with the test, and its contexts with it
	const others, own = 1, 2
	push(others)
	w := &weights{driver: d, context: own}
	for _, want := range []error{nil, errors.New("f has failed")} {
		var within, after uintptr
		err := w.bound(func() error {
			current(&within)
			return want
		})
		current(&after)
		if !errors.Is(err, want) || within != own || after != others {
			t.Errorf("context %d in f, %d after it; %v", within, after, err)
		}
	}
}

// balanced checks that for all that was made there was a call that ends it. All calls of failing have failed: they made nothing.
func balanced(t *testing.T, failing int32, calls func(which int32) int32) {
	t.Helper()
	for _, pair := range [][2]int32{{retains, leaves}, {registers, unregisters}, {allocs, frees}, {streams, streamEnds}, {events, eventEnds}} {
		made, ended := calls(pair[0]), calls(pair[1])
		if pair[0] == failing {
			made = 0
		}
		if made != ended {
			t.Errorf("call %d fails: %d of call %d, %d of call %d", failing, made, pair[0], ended, pair[1])
		}
	}
}

// TestDevice uploads to a device, if there is one, and compares what is there.
func TestDevice(t *testing.T) {
	const path = "libcuda.so.1"
	d, err := load(path)
	if err != nil {
		t.Skip(err)
	}
	m := open(t)
	w, _, err := upload(t.Context(), d, m)
	if err != nil {
		t.Fatal(err)
	}
	compare(t, path, w, m)
	if err := w.free(); err != nil {
		t.Error(err)
	}
}
