// Command tensormap inspects, verifies, dumps and converts model weight files.
//
//	tensormap inspect model.safetensors
//	tensormap convert model.safetensors model.apr
//	tensormap verify model.apr
//	tensormap dump model.apr encoder.weight --as npy -o weight.npy
//
// Standard output carries results only; notes, progress and errors go to standard error.
// The exit status is 0 when the work is done, 1 when the file or the operation failed,
// and 2 for wrong usage. A signal ends it as it ends other programs, once temporary files
// are gone.
package main

import (
	"context"
	"os"
	"runtime/debug"
)

func main() {
	limitGarbage(25)
	freeMemory = func() { limitGarbage(10); debug.FreeOSMemory() }
	ignoreBrokenPipes()
	ctx, cancel := context.WithCancelCause(context.Background())
	finish := obeySignals(cancel)
	status := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	finish()
	os.Exit(status)
}

// limitGarbage makes the collector run once there is garbage of this percentage of the memory in use. A verb keeps
// what a file describes in memory and little else, so that by default half of a listing's memory would be garbage.
func limitGarbage(percent int) {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(percent)
	}
}

// freeMemory returns unused memory to the system, and makes the collector run more often. Verbs call it between steps that need much
// memory. It does nothing in tests, whose process runs many verbs.
var freeMemory = func() {}
