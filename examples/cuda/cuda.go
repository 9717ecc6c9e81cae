//go:build linux

package main

import (
	"fmt"

	"github.com/ebitengine/purego"
)

// driver is the part of CUDA's driver library that an upload needs. Its functions return 0 or the number of an error. They are
// described at https://docs.nvidia.com/cuda/cuda-driver-api.
type driver struct {
	init          func(flags uint32) int32
	deviceGet     func(device *int32, ordinal int32) int32
	retainContext func(context *uintptr, device int32) int32
	leaveContext  func(device int32) int32
	pushContext   func(context uintptr) int32
	popContext    func(context *uintptr) int32
	register      func(memory []byte, n uint64, flags uint32) int32
	unregister    func(memory []byte) int32
	alloc         func(address *uint64, n uint64) int32
	free          func(address uint64) int32
	streamCreate  func(stream *uintptr, flags uint32) int32
	streamWait    func(stream uintptr) int32
	streamDestroy func(stream uintptr) int32
	copyAsync     func(to uint64, from []byte, n uint64, stream uintptr) int32
	eventCreate   func(event *uintptr, flags uint32) int32
	eventRecord   func(event, stream uintptr) int32
	eventWait     func(event uintptr) int32
	eventDestroy  func(event uintptr) int32
}

// load opens CUDA's driver library and finds its functions. It fails if there is no such library, or it lacks one.
func load(path string) (d *driver, err error) {
	lib, err := purego.Dlopen(path, purego.RTLD_NOW|purego.RTLD_LOCAL)
	if err != nil {
		return nil, err
	}
	d = new(driver)
	for name, f := range map[string]any{
		"cuInit": &d.init, "cuDeviceGet": &d.deviceGet, "cuDevicePrimaryCtxRetain": &d.retainContext, "cuDevicePrimaryCtxRelease_v2": &d.leaveContext,
		"cuCtxPushCurrent_v2": &d.pushContext, "cuCtxPopCurrent_v2": &d.popContext,
		"cuMemHostRegister_v2": &d.register, "cuMemHostUnregister": &d.unregister,
		"cuMemAlloc_v2": &d.alloc, "cuMemFree_v2": &d.free, "cuStreamCreate": &d.streamCreate, "cuStreamSynchronize": &d.streamWait, "cuStreamDestroy_v2": &d.streamDestroy,
		"cuMemcpyHtoDAsync_v2": &d.copyAsync, "cuEventCreate": &d.eventCreate, "cuEventRecord": &d.eventRecord,
		"cuEventSynchronize": &d.eventWait, "cuEventDestroy_v2": &d.eventDestroy,
	} {
		symbol, err := purego.Dlsym(lib, name)
		if err != nil {
			return nil, err
		}
		purego.RegisterFunc(f, symbol)
	}
	return d, nil
}

// check returns an error that names the call, unless its result is 0.
func check(call string, result int32) error {
	if result == 0 {
		return nil
	}
	return fmt.Errorf("%s: CUDA error %d", call, result)
}
