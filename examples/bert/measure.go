package main

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"
)

// query and sample are measured: 5 tokens and 42.
const query, sample = "quantized weights", "A program that multiplies by quantized weights as they are stored reads a quarter of the bytes, " +
	"keeps none of them twice, and answers before the other one has expanded its first layer."

// printTable measures each model twice, in processes of their own.
func printTable(models []string, vocab string) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	fmt.Println("| model | weights | ready after | a query | a sentence | most memory |\n| --- | --- | --- | --- | --- | --- |")
	for _, path := range models {
		for _, expand := range []bool{false, true} {
			cmd := exec.Command(self, "-measure", "-model", path, "-vocab", vocab, "-expand="+strconv.FormatBool(expand))
			cmd.Stderr = os.Stderr
			line, err := cmd.Output()
			if err != nil {
				return fmt.Errorf("%s: %w", path, err)
			}
			os.Stdout.Write(line)
		}
	}
	return nil
}

// measure prints a line of the table.
func measure(ctx context.Context, path, vocab string, expand bool) error {
	begun := time.Now()
	m, b, t, err := open(ctx, path, vocab, expand)
	if err != nil {
		return err
	}
	defer m.Close()
	if _, err := b.Embed(ctx, t.Encode(query, longest)); err != nil {
		return err
	}
	ready := time.Since(begun)
	var times []float64
	for _, text := range []string{query, sample} {
		best, err := fastest(ctx, b, t.Encode(text, longest))
		if err != nil {
			return err
		}
		times = append(times, 1e3*best.Seconds())
	}
	how := "as stored, " + b.dtypes()
	if expand {
		how = "expanded to F32"
	}
	memory, err := maxMemory()
	if err != nil {
		return err
	}
	fmt.Printf("| %s | %s | %.0f ms | %.2f ms | %.1f ms | %d MB |\n", filepath.Base(path), how, 1e3*ready.Seconds(), times[0], times[1], memory/1e6)
	return nil
}

// dtypes names the types of the matrices of the layers.
func (b *Model) dtypes() string {
	var list []string
	for i := range b.Layers {
		for _, w := range b.Layers[i].matrices() {
			if name := w.Weight.DType().String(); !slices.Contains(list, name) {
				list = append(list, name)
			}
		}
	}
	return strings.Join(list, ", ")
}

// fastest returns the shortest time that Embed takes within two seconds.
func fastest(ctx context.Context, b *Model, tokens []int) (time.Duration, error) {
	best := time.Hour
	for end := time.Now().Add(2 * time.Second); time.Now().Before(end); {
		start := time.Now()
		if _, err := b.Embed(ctx, tokens); err != nil {
			return 0, err
		}
		best = min(best, time.Since(start))
	}
	return best, nil
}

// maxMemory returns the most bytes that the process has had in memory, pages of mapped files included. Systems
// without /proc answer with what Go's runtime has taken.
func maxMemory() (uint64, error) {
	f, err := os.Open("/proc/self/status")
	if err != nil {
		var s runtime.MemStats
		runtime.ReadMemStats(&s)
		return s.Sys, nil
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if text, ok := strings.CutPrefix(lines.Text(), "VmHWM:"); ok {
			kib, err := strconv.ParseUint(strings.TrimSuffix(strings.TrimSpace(text), " kB"), 10, 64)
			return kib << 10, err
		}
	}
	return 0, fmt.Errorf("%s: no VmHWM", f.Name())
}
