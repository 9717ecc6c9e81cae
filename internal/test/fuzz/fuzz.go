// Package fuzz does with any bytes what a program does with a model file. Its functions
// FuzzX are what libFuzzer runs, by the configuration in .clusterfuzzlite; fuzz tests of
// Go call the others.
package fuzz

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/tensormap/tensormap/internal/test/modeltest"
	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/layout/jsontext"
	"github.com/tensormap/tensormap/layout/manifest"
	"github.com/tensormap/tensormap/loader"
)

// Open opens b as a model, from memory and from a reader, and reads all of it in every way. It accepts errors of the
// model, and returns an error if the ways disagree or a promise of package loader is broken.
func Open(b []byte) error {
	opts := &loader.Options{TensorBytes: 256 << 20}
	m, err := loader.OpenBytes(b, opts)
	streamed, readErr := loader.OpenReaderAt(context.Background(), bytes.NewReader(b), int64(len(b)), opts)
	if (err == nil) != (readErr == nil) {
		return fmt.Errorf("OpenBytes: %v; OpenReaderAt: %v", err, readErr)
	}
	if err != nil {
		if fe, ok := errors.AsType[*layout.FormatError](err); ok && fe.Offset > uint64(len(b)) {
			return fmt.Errorf("offset %d of %d bytes: %w", fe.Offset, len(b), err)
		}
		return nil
	}
	defer m.Close()
	defer streamed.Close()
	m.Metadata()
	if l, err := m.Acquire(); err == nil {
		l.Summary()
		l.Graph()
		l.Release()
	}
	if _, err := m.Verify(context.Background(), &loader.VerifyOptions{Workers: 1}); err != nil {
		return fmt.Errorf("verify: %w", err)
	}
	count := 0
	for x := range m.Tensors() {
		count++
		other, err := streamed.Tensor(x.Name())
		if err != nil {
			return fmt.Errorf("%q is in one way to open the file and not in the other: %w", x.Name(), err)
		}
		if err := touch(m, x, other); err != nil {
			return fmt.Errorf("%q: %w", x.Name(), err)
		}
	}
	if count != m.Len() {
		return fmt.Errorf("%d of %d tensors", count, m.Len())
	}
	return nil
}

// touch reads tensor x in every way and compares it with streamed, the same tensor of a model that is not mapped.
func touch(m *loader.Model, x, streamed loader.Tensor) error {
	if found, err := m.Tensor(x.Name()); err != nil || found != x {
		return fmt.Errorf("not found: %v", err)
	}
	raw, err := x.Bytes()
	switch {
	case x.Scheme() != nil && !errors.Is(err, layout.ErrUnsupported):
		return fmt.Errorf("%d bytes of a logical tensor, %v", len(raw), err)
	case x.Scheme() == nil && x.Encoding() == layout.Raw && (err != nil || uint64(len(raw)) != x.RawBytes()):
		return fmt.Errorf("%d of %d bytes, %v", len(raw), x.RawBytes(), err)
	}
	other, otherErr := streamed.Bytes()
	if (err == nil) != (otherErr == nil) || !bytes.Equal(raw, other) {
		return fmt.Errorf("bytes: %v; streamed: %v, or other bytes", err, otherErr)
	}
	if n, err := x.WriteTo(io.Discard); err == nil && uint64(n) != x.RawBytes() {
		return fmt.Errorf("%d of %d bytes written", n, x.RawBytes())
	}
	if err := touchValues(x, streamed); err != nil {
		return err
	}
	x.DequantizeRange(make([]float32, 1), x.Elements()-1) // wraps around if there are none
	for _, err := range x.Values(make([]float32, 4096)) {
		if err != nil {
			break
		}
	}
	loader.View[float32](x)
	loader.View[uint16](x)
	for _, p := range x.Parts() {
		if _, err := p.Tensor.WriteTo(io.Discard); err != nil {
			return err
		}
	}
	return nil
}

// touchValues compares the values of x with the values of streamed, and with runs of 1,000 of both.
func touchValues(x, streamed loader.Tensor) error {
	values, err := x.Float32s()
	if err == nil && uint64(len(values)) != x.Elements() {
		return fmt.Errorf("%d of %d values", len(values), x.Elements())
	}
	other, otherErr := streamed.Float32s()
	if (err == nil) != (otherErr == nil) {
		return fmt.Errorf("values: %v; streamed: %v", err, otherErr)
	}
	if i := modeltest.Differ(values, other); i >= 0 {
		return fmt.Errorf("value %d is %v, streamed %v", i, values[i], other[i])
	}
	run := make([]float32, 1000)
	for first := uint64(0); err == nil && first < uint64(len(values)); first += uint64(len(run)) {
		run = run[:min(len(run), len(values)-int(first))]
		for _, from := range []loader.Tensor{x, streamed} {
			if err := from.DequantizeRange(run, first); err != nil {
				return err
			}
			if i := modeltest.Differ(run, values[first:][:len(run)]); i >= 0 {
				return fmt.Errorf("value %d is %v and %v", int(first)+i, run[i], values[int(first)+i])
			}
		}
	}
	return nil
}

// FuzzOpen runs Open for libFuzzer.
func FuzzOpen(b []byte) int {
	if err := Open(b); err != nil {
		panic(err)
	}
	return 0
}

// FuzzManifest decodes and audits b as a manifest, for libFuzzer.
func FuzzManifest(b []byte) int {
	m, err := manifest.Decode(layout.Bytes(b), nil)
	if err != nil {
		return 0
	}
	m.Metadata(layout.Bytes(b))
	m.Audit(layout.Bytes(b))
	return 1
}

// FuzzJSON reads b as JSON, writes it and reads that again, for libFuzzer.
func FuzzJSON(b []byte) int {
	md, err := jsontext.ParsePython(b, layout.SafeTensors, 0, "metadata", (*layout.Limits)(nil).WithDefaults())
	if err != nil {
		return 0
	}
	text, err := md.MarshalJSON()
	if err != nil {
		panic(err)
	}
	if _, err := jsontext.Parse(text, layout.SafeTensors, 0, "metadata", (*layout.Limits)(nil).WithDefaults()); err != nil {
		panic(fmt.Sprintf("%q is read and written as %q: %v", b, text, err))
	}
	return 1
}
