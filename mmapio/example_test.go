package mmapio_test

import (
	"errors"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"github.com/tensormap/tensormap/mmapio"
)

// weights writes a file of four float32 and returns its path.
func weights(dir string) string {
	path := filepath.Join(dir, "weights.bin")
	if err := os.WriteFile(path, mmapio.Bytes([]float32{0.5, -1, 2, 4}), 0o666); err != nil {
		log.Fatal(err)
	}
	return path
}

func ExampleMap() {
	dir, err := os.MkdirTemp("", "mmapio")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)

	m, err := mmapio.Map(weights(dir))
	if err != nil {
		log.Fatal(err)
	}
	defer m.Close()

	raw, err := m.Slice(4, 8)
	if err != nil {
		log.Fatal(err)
	}
	// Where the bytes cannot be viewed, Copy always works.
	v, err := mmapio.View[float32](raw)
	if err != nil {
		v, err = mmapio.Copy[float32](raw)
	}
	fmt.Println(v, err)
	// Output: [-1 2] <nil>
}

func ExampleGuard() {
	dir, err := os.MkdirTemp("", "mmapio")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)

	m, err := mmapio.Map(weights(dir))
	if err != nil {
		log.Fatal(err)
	}
	defer m.Close()
	raw, err := m.Slice(0, m.Size())
	if err != nil {
		log.Fatal(err)
	}

	// Touch the file's bytes inside Guard, so that a file that was cut short
	// meanwhile is an error instead of the end of the process.
	var sum float32
	err = mmapio.Guard(func() error {
		v, err := mmapio.Copy[float32](raw)
		for _, x := range v {
			sum += x
		}
		return err
	})
	if fault := (*mmapio.FaultError)(nil); errors.As(err, &fault) {
		fmt.Println("lost the byte at offset", fault.Offset)
	}
	fmt.Println(sum, err)
	// Output: 5.5 <nil>
}
