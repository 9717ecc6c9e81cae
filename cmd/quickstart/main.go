// Quickstart does the main job of tensormap once, on weights bundled with the source: it
// converts a SafeTensors file to APR2, inspects and verifies the result with the tensormap
// command, and reads a few values through the library.
//
//	go run ./cmd/quickstart
package main

import (
	"fmt"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/tensormap/tensormap/loader"
)

const source = "testdata/safetensors/minilm-slice.safetensors"

func main() {
	log.SetFlags(0)
	if err := run(); err != nil {
		log.Fatalf("quickstart: %v", err)
	}
}

// run builds the command, runs its verbs on a model in a temporary folder, and prints values of that. It fails outside of the
// top folder of the repository, and where a verb does.
func run() error {
	if _, err := os.Stat(source); err != nil {
		return fmt.Errorf("run this in the top folder of the repository: %w", err)
	}
	dir, err := os.MkdirTemp("", "tensormap")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	tool := filepath.Join(dir, "tensormap")
	if runtime.GOOS == "windows" {
		tool += ".exe"
	}
	fmt.Println("building ./cmd/tensormap …")
	if out, err := exec.Command("go", "build", "-o", tool, "./cmd/tensormap").CombinedOutput(); err != nil {
		return fmt.Errorf("go build ./cmd/tensormap: %w\n%s", err, out)
	}
	model := filepath.Join(dir, "minilm.apr")
	for _, args := range [][]string{
		{"convert", source, model},
		{"inspect", model},
		{"verify", model},
	} {
		fmt.Printf("\n$ tensormap %s\n", strings.Join(args, " "))
		cmd := exec.Command(tool, args...)
		cmd.Stdout, cmd.Stderr = os.Stdout, os.Stdout
		if err := cmd.Run(); err != nil {
			return err
		}
	}
	return printValues(model)
}

// printValues shows the library in use: open, look up, take a view.
func printValues(path string) error {
	m, err := loader.Open(path, nil)
	if err != nil {
		return err
	}
	defer m.Close()
	fmt.Printf("\nFrom Go, each tensor's values as float32:\n")
	for t := range m.Tensors() {
		values, err := t.Float32s()
		if err != nil {
			return err
		}
		fmt.Printf("%-48s %-4v %v zero copy: %v  %.6f …\n", t.Name(), t.DType(), t.Shape(), t.ZeroCopy(), values[:min(4, len(values))])
	}
	return nil
}
