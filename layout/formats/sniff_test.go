package formats_test

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/layout/formats"
	"github.com/tensormap/tensormap/layout/internal/layouttest"
)

// safetensors is a file of a header length and a header of size bytes.
func safetensors(length uint64, size int) string {
	header := "{" + strings.Repeat(" ", size-2) + "}"
	return string(binary.LittleEndian.AppendUint64(nil, length)) + header
}

// header64 is aprender's header of 64 bytes, zeros but for how it starts and its checksum.
func header64(start string) string {
	b := make([]byte, 64)
	copy(b, start)
	binary.LittleEndian.PutUint32(b[40:], crc32.ChecksumIEEE(slices.Concat(b[:40], b[44:])))
	return string(b)
}

// damagedHeader64 has its metadata where the header ends, and no checksum that fits.
var damagedHeader64 = "APR\x00\x02\x00\x00\x04\x01\x00\x00\x00\x40" + strings.Repeat("\x00", 27) + "\x01" + strings.Repeat("\x00", 23)

func TestSniff(t *testing.T) {
	tests := []struct {
		file string
		want layout.Format
	}{
		{"APR2\x02\x00\x00\x00", layout.APR2},
		{"APR2", layout.APR2},
		{header64("APR\x00\x02\x00"), layout.APR2},
		{header64("APR\x00\x09\x07"), layout.APR2},
		{damagedHeader64, layout.APR2},
		{"APR\x00\x01\x00\x01\x00", layout.APR2}, // compressed containers are the decoder's to refuse
		{"APR\x00\x02\x00\x01\x00\x00\x28\xb5\x2f\xfd", layout.APR2},
		{"APR\x00\x02\x07\x01\x00", layout.APR2},
		{"APR\x00\x02\x00\x01\x00", layout.APR1},
		{"APR\x00\x02\x00" + strings.Repeat("\x00", 58), layout.APR1},
		{"APR\x00\x02\x00" + strings.Repeat("\x40", 58), layout.APR1},
		{"APR1\x00\x00\x00\x00\x00", layout.APR1},
		{"APR1\x02\x00\x00\x00{}", layout.APR1}, // the JSON dialect is the decoder's to tell
		{"APRILMDL\x01\x00\x00\x00", layout.April},
		{"BW2L\x01", layout.BW2L},
		{"GGUF\x03\x00\x00\x00", layout.GGUF},
		{"\x00\x00\x00\x00\x29\x09\x91\x19", layout.TSM},
		{"\xff\xff\xff\xff\x29\x09\x91\x19", layout.TSM},
		{safetensors(2, 2), layout.SafeTensors},
		{safetensors(0x00525041, 0x00525041), layout.SafeTensors}, // the length reads "APR\0"
		{safetensors(100, 100) + "data", layout.SafeTensors},
		{"\x06\x00\x00\x00\x00\x00\x00\x00\t\n{}\r ", layout.SafeTensors}, // of the reference's test_whitespace_leading_padded_header
		{"\x02\x20\x00\x00\x00\x00\x00\x00" + strings.Repeat(" ", 0x2000) + "{}", layout.SafeTensors},
		{`{"shards":[]}`, layout.Manifest},
		{`{`, layout.Manifest},
		{" \t\r\n  {}", layout.Manifest},
		{strings.Repeat(" ", 15) + "{}", layout.Manifest},
		{`{"data":{"shards":[]}}`, layout.Manifest}, // a brace where SafeTensors has one
	}
	for _, tt := range tests {
		if got, err := formats.Sniff(layout.Bytes(tt.file)); got != tt.want || err != nil {
			t.Errorf("Sniff(%.40q) = %s, %v, want %s", tt.file, got, err, tt.want)
		}
	}
}

func TestSniffUnknown(t *testing.T) {
	const known = "known formats: apr2, apr1, april, bw2l, tsm, gguf, safetensors"
	tests := []struct {
		file  string
		want  error
		words []string
	}{
		{"", layout.ErrFormat, []string{"the file is empty", known}},
		{"\x00", layout.ErrFormat, []string{"starts with 00;", known}},
		{"#!/bin/sh and more than sixteen bytes", layout.ErrFormat, []string{"starts with 23 21 2f 62 69 6e 2f 73 68 20 61 6e 64 20 6d 6f;", known}},
		{"gguf\x03\x00\x00\x00", layout.ErrFormat, []string{"67 67 75 66", known}},
		{"APR\x00", layout.ErrFormat, []string{"41 50 52 00", known}},
		{"APR\x00\x03" + strings.Repeat("\x00", 59), layout.ErrFormat, []string{"41 50 52 00 03", known}},
		{"  [1]", layout.ErrFormat, []string{"20 20 5b 31 5d", known}},
		{"\x02" + strings.Repeat("\x00", 7) + "[]", layout.ErrFormat, []string{"starts with 02 00", known}}, // a header, but no object
		{safetensors(3, 2), layout.ErrFormat, []string{"SafeTensors header of 3 bytes", known}},
		{safetensors(math.MaxUint64, 2), layout.ErrFormat, []string{"SafeTensors header of 18446744073709551615 bytes", known}},
	}
	for _, tt := range tests {
		got, err := formats.Sniff(layout.Bytes(tt.file))
		if got != layout.Unknown || err == nil {
			t.Errorf("Sniff(%q) = %s, %v, want an error", tt.file, got, err)
			continue
		}
		layouttest.WantError(t, err, layout.Unknown, 0, "magic", tt.want, tt.words...)
	}
}

// TestSniffForeign has the beginnings of the files that people take for models.
func TestSniffForeign(t *testing.T) {
	const known = "known formats: apr2, apr1, april, bw2l, tsm, gguf, safetensors"
	zeros := strings.Repeat("\x00", 60)
	tests := []struct {
		file string
		want error
		word string
	}{
		{"APRN\x01\x00", layout.ErrUnsupported, "an APRN container"},
		{"APR!\x01\x00", layout.ErrUnsupported, "an APR! bundle"},
		{"APRT", layout.ErrUnsupported, "an APRT training state"},
		{"\x29\x09\x91\x19" + zeros, layout.ErrUnsupported, ".sta container"},
		{"2RPA\x00\x02", layout.ErrUnsupported, "APR2 with its magic byte-swapped"},
		{"1RPA", layout.ErrUnsupported, "APR1 with its magic byte-swapped"},
		{"L2WB\x01", layout.ErrUnsupported, "BW2L with its magic byte-swapped"},
		{"FUGG\x00\x00\x00\x03", layout.ErrUnsupported, "GGUF with its magic byte-swapped"},
		{"\x00\x00\x00\x00\x19\x91\x09\x29", layout.ErrUnsupported, "big-endian TSM"},
		{"lmgg\x00\x7d", layout.ErrUnsupported, "ggml's first format"},
		{"fmgg\x01\x00", layout.ErrUnsupported, "ggmf"},
		{"tjgg\x03\x00", layout.ErrUnsupported, "ggjt"},
		{"algg\x01\x00", layout.ErrUnsupported, "adapter in ggml's format ggla"},
		{"ggml", layout.ErrUnsupported, "big-endian model in ggml's first"},
		{"ggmf", layout.ErrUnsupported, "big-endian model in ggml's format ggmf"},
		{"ggjt", layout.ErrUnsupported, "big-endian model in ggml's format ggjt"},
		{"ggla", layout.ErrUnsupported, "big-endian adapter"},
		{"PK\x03\x04\x00\x00", layout.ErrUnsupported, "PyTorch's .pt"},
		{"\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19", layout.ErrUnsupported, "pickle, as old PyTorch"},
		{"\x80\x03}", layout.ErrUnsupported, "pickle"},
		{"\x80\x04\x95", layout.ErrUnsupported, "pickle"},
		{"\x80\x05\x95", layout.ErrUnsupported, "pickle"},
		{"\x89HDF\r\n\x1a\n\x00", layout.ErrUnsupported, "HDF5"},
		{"\x93NUMPY\x01\x00", layout.ErrUnsupported, ".npy"},
		{"\x1c\x00\x00\x00TFL3", layout.ErrUnsupported, "TensorFlow Lite"},
		{"\x1c\x00\x00\x00ET12", layout.ErrUnsupported, "ExecuTorch"},
		{"\x1c\x00\x00\x00PTMF", layout.ErrUnsupported, "PyTorch Mobile"},
		{"MZqFpD='\n", layout.ErrUnsupported, "llamafile"},
		{"\x1f\x8b\x08", layout.ErrUnsupported, "gzip"},
		{"\x28\xb5\x2f\xfd\x04", layout.ErrUnsupported, "zstd"},
		{"\xfd7zXZ\x00\x00", layout.ErrUnsupported, "xz"},
		{"\x04\x22\x4d\x18\x64", layout.ErrUnsupported, "lz4"},
		{"BZh9", layout.ErrUnsupported, "bzip2"},
		{"7z\xbc\xaf\x27\x1c\x00", layout.ErrUnsupported, "7-Zip"},
		{"version https://git-lfs.github.com/spec/v1\noid sha256:0", layout.ErrFormat, "Git LFS pointer"},
		{"\xef\xbb\xbf{}", layout.ErrFormat, "byte order mark"},
		{"<!DOCTYPE html>", layout.ErrFormat, "HTML or XML page"},
		{"\n <html lang=en>", layout.ErrFormat, "HTML or XML page"},
		{"<head>", layout.ErrFormat, "HTML or XML page"},
		{"<?xml version=\"1.0\"?><Error><Code>NoSuchKey", layout.ErrFormat, "HTML or XML page"},
		{"<Error><Code>AccessDenied", layout.ErrFormat, "HTML or XML page"},
		{"\x08\x08\x12\x07pytorch", layout.ErrUnsupported, "ONNX"},
		{"\x08\x03\x3a\x99\x01", layout.ErrUnsupported, "ONNX"},
		{"\x08\x0a\x42\x02", layout.ErrUnsupported, "ONNX"},
	}
	for _, tt := range tests {
		_, err := formats.Sniff(layout.Bytes(tt.file))
		if err == nil {
			t.Errorf("Sniff(%q) finds a format", tt.file)
			continue
		}
		layouttest.WantError(t, err, layout.Unknown, 0, "magic", tt.want, tt.word, known)
		for n := range tt.file { // a part of it is nothing, or something else
			if f, err := formats.Sniff(layout.Bytes(tt.file[:n])); f != layout.Unknown || err == nil {
				t.Errorf("the first %d bytes of %q are %v, %v", n, tt.file, f, err)
			}
		}
	}
	for _, near := range []string{"\x08\x02\x12", "\x08\x20\x12", "\x08\x08\x18", "\x08\x08", "\x80\x06", "version https://example.org", "B", "<p>"} {
		_, err := formats.Sniff(layout.Bytes(near))
		layouttest.WantError(t, err, layout.Unknown, 0, "magic", layout.ErrFormat, "the file starts with", known)
	}
}

// No format is recognised by a part of its magic.
func TestSniffTruncated(t *testing.T) {
	for _, magic := range []string{
		"APR2", "APR\x00\x02", "APR1", "APRILMDL", "BW2L", "GGUF", "\x00\x00\x00\x00\x29\x09\x91\x19", safetensors(2, 2)[:9],
	} {
		for n := range len(magic) {
			got, err := formats.Sniff(layout.Bytes(magic[:n]))
			if got != layout.Unknown || !errors.Is(err, layout.ErrFormat) {
				t.Errorf("Sniff(%q) = %s, %v", magic[:n], got, err)
			}
		}
	}
}

// watched notes how far it was read.
type watched struct {
	layout.Bytes
	end uint64
}

func (w *watched) Slice(off, n uint64) ([]byte, error) {
	w.end = max(w.end, off+n)
	return w.Bytes.Slice(off, n)
}

func TestSniffReadsLittle(t *testing.T) {
	for _, start := range []string{"GGUF", safetensors(2, 2), "{", "?"} {
		in := &watched{Bytes: layout.Bytes(start + strings.Repeat(" ", 1000))}
		_, _ = formats.Sniff(in)
		if in.end > 64 {
			t.Errorf("%q was read as far as %d", start, in.end)
		}
	}
	broken := errors.New("broken disk")
	if got, err := formats.Sniff(unreadable{broken}); got != layout.Unknown || !errors.Is(err, broken) {
		t.Errorf("of an unreadable file: %s, %v", got, err)
	}
}

// unreadable is a file of 100 bytes that cannot be read.
type unreadable struct{ err error }

func (unreadable) Size() uint64                          { return 100 }
func (u unreadable) Slice(off, n uint64) ([]byte, error) { return nil, u.err }
