//go:build linux

// Command cuda uploads the weights of a model to an NVIDIA device, by CUDA's driver library and without cgo:
//
//	go run -C examples/cuda . MODEL
//
// Model.Stream fills pinned buffers. The device copies one while the others are filled.
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"runtime"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tensormap/tensormap/loader"
)

const (
	bufferCount = 4
	bufferBytes = 16 << 20
)

func main() {
	if len(os.Args) != 2 {
		log.Fatal("usage: cuda MODEL")
	}
	d, err := load("libcuda.so.1")
	if err != nil {
		log.Fatal(err)
	}
	m, err := loader.Open(os.Args[1], nil)
	if err != nil {
		log.Fatal(err)
	}
	defer m.Close()
	begun := time.Now()
	weights, result, err := upload(context.Background(), d, m)
	if err != nil {
		log.Fatal(err)
	}
	took := time.Since(begun)
	fmt.Printf("%d tensors, %.2f GB in %.2f s: %.2f GB/s\n", len(weights.address), float64(result.Bytes)/1e9, took.Seconds(), float64(result.Bytes)/1e9/took.Seconds())
	for _, f := range result.Files {
		fmt.Printf("file %d: %d bytes mapped, %d read, %d direct: %s\n", f.File, f.Mapped, f.Read, f.Direct, f.Why)
	}
	if err := weights.free(); err != nil {
		log.Fatal(err)
	}
}

// weights is a model's memory on a device.
type weights struct {
	driver  *driver
	device  int32
	context uintptr           // the device's, retained until free
	address map[string]uint64 // by the tensor's name
}

// bound runs f on a thread that has the device's context. After it the thread has the context that it had before. The error is of f or
// of the context. Without a context f does not run.
func (w *weights) bound(f func() error) (err error) {
	runtime.LockOSThread() // a context is current on a thread, not in a goroutine
	defer runtime.UnlockOSThread()
	if err := check("cuCtxPushCurrent", w.driver.pushContext(w.context)); err != nil {
		return err
	}
	defer func() {
		var popped uintptr
		err = errors.Join(err, check("cuCtxPopCurrent", w.driver.popContext(&popped)))
	}()
	return f()
}

// free gives the memory back to the device. Any goroutine may call it, once.
func (w *weights) free() error {
	err := w.bound(func() (err error) {
		for _, address := range w.address {
			err = errors.Join(err, check("cuMemFree", w.driver.free(address)))
		}
		return err
	})
	return errors.Join(err, check("cuDevicePrimaryCtxRelease", w.driver.leaveContext(w.device)))
}

// upload copies all tensors of m to the first device. After an error nothing of them is left there.
func upload(ctx context.Context, d *driver, m *loader.Model) (*weights, loader.StreamResult, error) {
	var result loader.StreamResult
	w := &weights{driver: d, address: make(map[string]uint64)}
	err := check("cuInit", d.init(0))
	if err == nil {
		err = check("cuDeviceGet", d.deviceGet(&w.device, 0))
	}
	if err == nil {
		err = check("cuDevicePrimaryCtxRetain", d.retainContext(&w.context, w.device))
	}
	if err != nil {
		return nil, result, err
	}
	err = w.bound(func() (err error) {
		result, err = w.copyAll(ctx, m)
		return err
	})
	if err != nil {
		return nil, result, errors.Join(err, w.free())
	}
	return w, result, nil
}

// copyAll copies all tensors of m to the device, whose context the thread has. It returns once the device has copied them.
// The error is of reading, or of the first call that the driver refuses.
func (w *weights) copyAll(ctx context.Context, m *loader.Model) (result loader.StreamResult, err error) {
	d := w.driver
	buffers, unpin, err := pinned(d)
	if err != nil {
		return result, err
	}
	defer func() { err = errors.Join(err, unpin()) }()
	var stream uintptr
	const nonBlocking = 1
	if err := check("cuStreamCreate", d.streamCreate(&stream, nonBlocking)); err != nil {
		return result, err
	}
	defer func() { err = errors.Join(err, check("cuStreamDestroy", d.streamDestroy(stream))) }()

	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	fail := func(err error) {
		if err != nil {
			cancel(err)
		}
	}
	copies, done := make(chan copying, 64), make(chan struct{})
	go func() { // releases each piece once the device has copied it
		defer close(done)
		fail(w.bound(func() error {
			for c := range copies {
				fail(check("cuEventSynchronize", d.eventWait(c.event)))
				fail(check("cuEventDestroy", d.eventDestroy(c.event)))
				c.piece.Release()
			}
			return nil
		}))
		for c := range copies { // if there was no context to wait in
			c.piece.Release()
		}
	}()
	result, err = m.StreamAll(ctx, &loader.StreamOptions{Buffers: buffers}, func(p loader.Piece) error {
		return w.add(p, stream, copies)
	})
	close(copies)
	<-done
	err = errors.Join(err, check("cuStreamSynchronize", d.streamWait(stream))) // an event that failed may have left a copy under way
	if cause := context.Cause(ctx); err == nil && cause != nil {
		err = cause // a copy of the last pieces has failed
	}
	return result, err
}

// copying is a piece that the device copies until event has passed.
type copying struct {
	piece loader.Piece
	event uintptr
}

// add begins to copy a piece to the device, and sends it to copies. The first piece of a tensor gets memory there for all of it.
func (w *weights) add(p loader.Piece, stream uintptr, copies chan<- copying) error {
	d, name := w.driver, p.Tensor.Name()
	if p.Size == 0 {
		return nil // the device has no memory of no bytes
	}
	address, ok := w.address[name]
	if !ok {
		if err := check("cuMemAlloc", d.alloc(&address, p.Size)); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		w.address[name] = address
	}
	c := copying{piece: p}
	const blockingSync, disableTiming = 1, 2 // who waits sleeps: else the driver spins, and takes a core from threads that read
	if err := check("cuEventCreate", d.eventCreate(&c.event, blockingSync|disableTiming)); err != nil {
		return err
	}
	err := check("cuMemcpyHtoDAsync", d.copyAsync(address+p.Offset, p.Bytes, uint64(len(p.Bytes)), stream))
	if err == nil {
		err = check("cuEventRecord", d.eventRecord(c.event, stream))
	}
	p.Retain()
	copies <- c
	return err
}

// pinned returns buffers that the device reads without a copy by the driver. unpin frees them.
func pinned(d *driver) (buffers [][]byte, unpin func() error, err error) {
	unpin = func() (err error) {
		for _, b := range buffers {
			err = errors.Join(err, check("cuMemHostUnregister", d.unregister(b)), unix.Munmap(b))
		}
		return err
	}
	for range bufferCount {
		b, err := unix.Mmap(-1, 0, bufferBytes, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
		if err != nil {
			return nil, nil, errors.Join(err, unpin())
		}
		if err := check("cuMemHostRegister", d.register(b, bufferBytes, 0)); err != nil {
			return nil, nil, errors.Join(err, unix.Munmap(b), unpin())
		}
		buffers = append(buffers, b)
	}
	return buffers, unpin, nil
}
