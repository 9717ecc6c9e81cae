package bench

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/layout/apr2"
)

const (
	kB = 1000
	MB = 1000 * kB
	GB = 1000 * MB
)

// modelTensors describes a model of count F32 tensors with the names that language
// models have, sized to make up about size bytes together.
func modelTensors(count int, size uint64) []layout.Tensor {
	parts := []string{
		"self_attn.q_proj.weight", "self_attn.k_proj.weight", "self_attn.v_proj.weight", "self_attn.o_proj.weight",
		"mlp.gate_proj.weight", "mlp.up_proj.weight", "mlp.down_proj.weight",
		"input_layernorm.weight", "post_attention_layernorm.weight",
	}
	const cols = 16 // 64 bytes a row, so that no padding is needed
	rows := max(1, int(size)/count/(4*cols))
	list := make([]layout.Tensor, count)
	for i := range list {
		name := fmt.Sprintf("model.layers.%d.%s", i/len(parts), parts[i%len(parts)])
		list[i] = layout.Tensor{Name: []byte(name), DType: layout.F32, Shape: []int{rows, cols}}
	}
	return list
}

// sparse makes a file of size bytes that begins with head and has holes for the rest.
func sparse(b testing.TB, name string, head []byte, size uint64) string {
	b.Helper()
	path := filepath.Join(b.TempDir(), name)
	if err := os.WriteFile(path, head, 0o666); err != nil {
		b.Fatal(err)
	}
	if err := os.Truncate(path, int64(size)); err != nil {
		b.Skipf("no sparse file of %d bytes here: %v", size, err)
	}
	return path
}

// sparseAPR2 is an APR2 file with the given tensors, all zeros. Its checksum is wrong,
// which opening does not look at.
func sparseAPR2(b testing.TB, tensors []layout.Tensor) string {
	b.Helper()
	var head bytes.Buffer
	w, err := apr2.NewWriter(&head, slices.Values(tensors), nil)
	if err != nil {
		b.Fatal(err)
	}
	path := sparse(b, "model.apr", head.Bytes(), w.Size())
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		b.Fatal(err)
	}
	defer f.Close()
	footer := binary.LittleEndian.AppendUint64([]byte("\x00\x00\x00\x002RPA"), w.Size())
	if _, err := f.WriteAt(footer, int64(w.Size())-int64(len(footer))); err != nil {
		b.Fatal(err)
	}
	return path
}

// sparseSafeTensors is a SafeTensors file with the given tensors, all zeros.
func sparseSafeTensors(b testing.TB, tensors []layout.Tensor) string {
	b.Helper()
	var header bytes.Buffer
	header.WriteString(`{"__metadata__":{"format":"pt"}`)
	end := uint64(0)
	for i := range tensors {
		t := &tensors[i]
		size, err := t.DType.Size(t.Shape)
		if err != nil {
			b.Fatal(err)
		}
		fmt.Fprintf(&header, `,%q:{"dtype":"F32","shape":[%d,%d],"data_offsets":[%d,%d]}`, t.Name, t.Shape[0], t.Shape[1], end, end+size)
		end += size
	}
	header.WriteByte('}')
	for header.Len()%8 != 0 {
		header.WriteByte(' ')
	}
	head := binary.LittleEndian.AppendUint64(nil, uint64(header.Len()))
	head = append(head, header.Bytes()...)
	return sparse(b, "model.safetensors", head, uint64(len(head))+end)
}
