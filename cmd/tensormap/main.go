// Command tensormap inspects, verifies, dumps and converts model weight files.
//
//	tensormap inspect model.safetensors
//	tensormap convert model.safetensors model.apr
//	tensormap verify model.apr
//	tensormap dump model.apr encoder.weight --as npy -o weight.npy
//
// Standard output carries results only; notes, progress and errors go to standard error.
// The exit status is 0 when the work is done, 1 when the file or the operation failed,
// and 2 for wrong usage.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	ignoreBrokenPipes()
	ctx, restore := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	// The first signal asks for an orderly end; a second one ends the process.
	context.AfterFunc(ctx, restore)
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}
