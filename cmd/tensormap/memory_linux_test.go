//go:build !race

package main

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// asMeasured makes the test's program run the command and print the most memory that it took.
const asMeasured = "TENSORMAP_TEST_MEASURED"

func init() {
	if os.Getenv(asMeasured) == "" {
		return
	}
	status := run(context.Background(), os.Args[1:], io.Discard, io.Discard)
	text, err := os.ReadFile("/proc/self/status")
	if err != nil {
		panic(err)
	}
	_, most, _ := strings.Cut(string(text), "VmHWM:")
	most, _, _ = strings.Cut(most, " kB")
	fmt.Println(status, strings.TrimSpace(most))
	os.Exit(0)
}

// measured runs the command in a process of its own and returns its status and the most memory,
// in bytes, that it had at a time: that of its pages of the file too. How much garbage there is
// depends on what else the machine does, so the collector is made to leave hardly any.
func measured(t *testing.T, args ...string) (status, most int) {
	t.Helper()
	cmd := exec.Command(os.Args[0], args...)
	cmd.Env = append(os.Environ(), asMeasured+"=1", "GOGC=10")
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	first, second, _ := strings.Cut(strings.TrimSpace(string(out)), " ")
	status, err = strconv.Atoi(first)
	kib, err2 := strconv.Atoi(second)
	if err != nil || err2 != nil {
		t.Fatalf("%q", out)
	}
	return status, kib << 10
}

// lots is a SafeTensors file of n small tensors, assembled from the specification.
func lots(n int) []byte {
	header := bytes.NewBufferString("{")
	for i := range n {
		if i > 0 {
			header.WriteByte(',')
		}
		fmt.Fprintf(header, `"model.layers.%d.block.%d.weight":{"dtype":"F32","shape":[2,1],"data_offsets":[%d,%d]}`, i/100, i%100, 8*i, 8*i+8)
	}
	header.WriteByte('}')
	b := binary.LittleEndian.AppendUint64(nil, uint64(header.Len()))
	return append(append(b, header.Bytes()...), make([]byte, 8*n)...)
}

// blankModule is a TSM module of n nodes about which nothing is said, assembled from the
// specification.
func blankModule(n int) []byte {
	b := make([]byte, 128+12+8*n)
	binary.LittleEndian.PutUint32(b[4:], 0x19910929)
	binary.LittleEndian.PutUint32(b[128+8:], uint32(n))
	return b
}

// initializers is an .april file with n ONNX initializers of 14 bytes, which hold nothing,
// assembled from the specification.
func initializers(n int) []byte {
	le := binary.LittleEndian
	var graph []byte
	for i := range n {
		name := strconv.FormatUint(uint64(i), 36)
		body := append([]byte{8<<3 | 2, byte(len(name))}, name...)      // name
		body = append(body, 2<<3, 1, 1<<3, 0)                           // FLOAT, of no elements
		graph = append(append(graph, 5<<3|2, byte(len(body))), body...) // initializer
	}
	network := binary.AppendUvarint([]byte{7<<3 | 2}, uint64(len(graph))) // graph
	network = append(network, graph...)
	rest := []byte{7<<3 | 2, 0}
	params := append([]byte("PARAMS\x00\x00"), make([]byte, 52)...)
	head := append([]byte("APRILMDL"), 1, 0, 0, 0)
	const header = 8 + 8 + 8 + 4 + 16 + 8 + 3*16
	head = le.AppendUint64(head, header)
	head = append(head, "en-us\x00\x00\x00"...)
	head = append(head, make([]byte, 16)...) // name and description
	head = le.AppendUint32(head, 1)
	at := uint64(20 + header)
	var entries []byte
	for _, n := range [][]byte{network, rest, rest} {
		entries = le.AppendUint64(le.AppendUint64(entries, at), uint64(len(n)))
		at += uint64(len(n))
	}
	head = le.AppendUint64(le.AppendUint64(head, at), uint64(len(params)))
	head = append(le.AppendUint64(head, 3), entries...)
	return append(append(append(append(head, network...), rest...), rest...), params...)
}

// TestMemory holds verbs to SECURITY.md: sixteen times the bytes of a file, beyond what a small one takes, and
// eight times where a verb only opens the file. The 64 MB on top, which such a file does not need, are left out.
func TestMemory(t *testing.T) {
	dir := t.TempDir()
	file := func(name string, b []byte) (path string, size int) {
		path = filepath.Join(dir, name)
		if err := os.WriteFile(path, b, 0o666); err != nil {
			t.Fatal(err)
		}
		return path, len(b)
	}
	small, _ := file("small.safetensors", lots(1))
	many, manySize := file("many.safetensors", lots(50_000))
	blank, blankSize := file("blank.tsm", blankModule(600_000))
	empty, emptySize := file("empty.april", initializers(750_000))
	for _, test := range []struct {
		verb   string
		path   string
		size   int
		times  int
		status int
	}{
		{"dump", many, manySize, 8, exitDone},
		{"inspect", many, manySize, 16, exitDone},
		{"inspect --json", many, manySize, 16, exitDone},
		{"inspect --sort name", many, manySize, 16, exitDone},
		{"inspect --tree", many, manySize, 16, exitDone},
		{"verify", many, manySize, 16, exitDone},
		{"stats", many, manySize, 16, exitDone},
		{"stats --json", many, manySize, 16, exitDone},
		{"hash", many, manySize, 16, exitDone},
		{"map", many, manySize, 16, exitDone},
		{"diff", many, 2 * manySize, 16, exitDone},
		{"inspect", blank, blankSize, 8, exitFailed},
		{"inspect", empty, emptySize, 8, exitFailed},
	} {
		args := func(path string) []string {
			args := append(strings.Fields(test.verb), path)
			switch args[0] {
			case "diff":
				args = append(args, path)
			case "dump":
				args = append(args, "model.layers.0.block.0.weight", "--as", "text")
			}
			return args
		}
		_, base := measured(t, args(small)...)
		status, most := measured(t, args(test.path)...)
		took := float64(most-base) / float64(test.size)
		if status != test.status || took > float64(test.times) {
			t.Errorf("%s of %s: %.1f times its %d bytes, status %d", test.verb, filepath.Base(test.path), took, test.size, status)
		}
		t.Logf("%s of %s: %.1f times", test.verb, filepath.Base(test.path), took)
	}
}
