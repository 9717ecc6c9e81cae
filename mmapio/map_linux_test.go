package mmapio

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestMapLeavesNothing looks for the file among the process's mappings and
// descriptors.
func TestMapLeavesNothing(t *testing.T) {
	path := writeFile(t, noise(5000))
	m := must(t)(Map(path))
	if !inMaps(t, path) {
		t.Error("not mapped")
	}
	if isOpen(t, path) {
		t.Error("Map left its descriptor open")
	}
	if err := m.Close(); err != nil {
		t.Fatal(err)
	}
	if inMaps(t, path) {
		t.Error("still mapped after Close")
	}

	m = must(t)(OpenReader(path))
	if inMaps(t, path) {
		t.Error("OpenReader has mapped the file")
	}
	if _, err := m.Slice(0, 5000); err != nil || inMaps(t, path) {
		t.Errorf("mapped to be read, or %v", err)
	}
	m.Close()
	if isOpen(t, path) {
		t.Error("OpenReader's file is still there after Close")
	}
}

func inMaps(t *testing.T, path string) bool {
	t.Helper()
	maps, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		t.Skip(err)
	}
	return strings.Contains(string(maps), path)
}

func isOpen(t *testing.T, path string) bool {
	t.Helper()
	links, err := filepath.Glob("/proc/self/fd/*")
	if err != nil {
		t.Fatal(err)
	}
	for _, link := range links {
		if target, err := os.Readlink(link); err == nil && target == path {
			return true
		}
	}
	return false
}
