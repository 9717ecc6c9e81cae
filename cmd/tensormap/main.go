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
	keepGarbage(25)
	collect = func() { keepGarbage(10); debug.FreeOSMemory() }
	ignoreBrokenPipes()
	ctx, cancel := context.WithCancelCause(context.Background())
	finish := obeySignals(cancel)
	status := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	finish()
	os.Exit(status)
}

// keepGarbage makes the collector run often: what a file describes stays in memory and little else
// does, so that by default half of what a listing takes would be garbage.
func keepGarbage(percent int) {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(percent)
	}
}

// collect gives unused memory back, and makes the collector run more often still: verbs that write, or hold more than
// the model, call it between their steps. It does nothing in tests, whose process runs many verbs.
var collect = func() {}
