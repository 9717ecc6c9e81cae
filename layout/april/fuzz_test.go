package april

import "testing"

// FuzzDecode decodes anything. What is accepted must keep an Index's promises, and
// answer whatever it is asked.
func FuzzDecode(f *testing.F) {
	format.Seed(f, 1<<20)
	f.Fuzz(func(t *testing.T, data []byte) { format.Use(t, data) })
}

// FuzzNetwork puts anything where a network's graph belongs, so that no header has to be
// found first.
func FuzzNetwork(f *testing.F) {
	for _, x := range format.Fixtures(f) {
		if x.Want.Error != nil {
			continue
		}
		for _, n := range format.MustDecode(f, x.Data).Networks {
			f.Add([]byte(x.Data[n.Offset:n.end()]), false)
		}
	}
	f.Add(rawTensor("a", 1, floats(1, 2), 2), true)
	f.Add(numberTensor("a", 10, 5, []int64{0x3c00, 0xfbff}, 1, 2), true)
	f.Fuzz(func(t *testing.T, data []byte, tensor bool) {
		if tensor {
			data = onnx(data)
		}
		format.Use(t, good(data).assemble())
	})
}
