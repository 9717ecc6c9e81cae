package layout_test

import (
	"encoding/binary"
	"errors"
	"strings"
	"testing"

	"github.com/tensormap/tensormap/layout"
)

// safetensors is a file of a header length and a header of size bytes.
func safetensors(length uint64, size int) string {
	header := "{" + strings.Repeat(" ", size-2) + "}"
	return string(binary.LittleEndian.AppendUint64(nil, length)) + header
}

func TestSniff(t *testing.T) {
	tests := []struct {
		file string
		want layout.Format
	}{
		{"APR2\x02\x00\x00\x00", layout.APR2},
		{"APR2", layout.APR2},
		{"APR\x00\x02\x00\x01\x00", layout.APR2},
		{"APR\x00\x01\x00\x01\x00", layout.APR2},
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
		{`{"shards":[]}`, layout.Manifest},
		{`{`, layout.Manifest},
		{" \t\r\n  {}", layout.Manifest},
		{strings.Repeat(" ", 15) + "{}", layout.Manifest},
		{`{"data":{"shards":[]}}`, layout.Manifest}, // a brace where SafeTensors has one
	}
	for _, tt := range tests {
		if got, err := layout.Sniff(layout.Bytes(tt.file)); got != tt.want || err != nil {
			t.Errorf("Sniff(%.40q) = %s, %v, want %s", tt.file, got, err, tt.want)
		}
	}
}

func TestSniffUnknown(t *testing.T) {
	const formats = "known formats: apr2, apr1, april, bw2l, tsm, gguf, safetensors"
	tests := []struct {
		file  string
		want  error
		words []string
	}{
		{"", layout.ErrFormat, []string{"the file is empty", formats}},
		{"\x00", layout.ErrFormat, []string{"starts with 00;", formats}},
		{"PK\x03\x04 and more than sixteen bytes", layout.ErrFormat,
			[]string{"starts with 50 4b 03 04 20 61 6e 64 20 6d 6f 72 65 20 74 68;", formats}},
		{"gguf\x03\x00\x00\x00", layout.ErrFormat, []string{"67 67 75 66", formats}},
		{"FUGG\x00\x00\x00\x03", layout.ErrFormat, []string{"46 55 47 47", formats}},
		{"  [1]", layout.ErrFormat, []string{"20 20 5b 31 5d", formats}},
		{"\xef\xbb\xbf{}", layout.ErrFormat, []string{"ef bb bf", formats}},
		{"\x02" + strings.Repeat("\x00", 7) + "[]", layout.ErrFormat, []string{"starts with 02 00", formats}}, // a header, but no object
		{safetensors(3, 2), layout.ErrFormat, []string{"SafeTensors header of 3 bytes", formats}},
		{safetensors(maxUint64, 2), layout.ErrFormat, []string{"SafeTensors header of 18446744073709551615 bytes", formats}},
		{"APRN\x01\x00", layout.ErrUnsupported, []string{"APRN", "signed or encrypted", "no tensors"}},
		{"APR!\x01\x00", layout.ErrUnsupported, []string{"APR!", "bundle", "no tensors"}},
		{"APRT\x01\x00", layout.ErrUnsupported, []string{"APRT", "training", "no tensors"}},
		{"APRT", layout.ErrUnsupported, []string{"APRT"}},
	}
	for _, tt := range tests {
		got, err := layout.Sniff(layout.Bytes(tt.file))
		if got != layout.Unknown || err == nil {
			t.Errorf("Sniff(%q) = %s, %v, want an error", tt.file, got, err)
			continue
		}
		wantFormatError(t, err, layout.Unknown, 0, "magic", tt.want, tt.words...)
	}
}

// No format is recognised by a part of its magic.
func TestSniffTruncated(t *testing.T) {
	for _, magic := range []string{
		"APR2", "APR\x00\x02", "APR1", "APRILMDL", "BW2L", "GGUF", "\x00\x00\x00\x00\x29\x09\x91\x19", safetensors(2, 2)[:9],
	} {
		for n := range len(magic) {
			got, err := layout.Sniff(layout.Bytes(magic[:n]))
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
		_, _ = layout.Sniff(in)
		if in.end > 16 {
			t.Errorf("%q was read as far as %d", start, in.end)
		}
	}
	broken := errors.New("broken disk")
	if got, err := layout.Sniff(failing{100, broken}); got != layout.Unknown || !errors.Is(err, broken) {
		t.Errorf("of an unreadable file: %s, %v", got, err)
	}
}
