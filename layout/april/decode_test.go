package april

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/layout/internal/layouttest"
)

func TestHeaderErrors(t *testing.T) {
	const nameAt, descAt = 28, 28 + 8 + 6
	const modelAt, paramsAt, countAt, networksAt = descAt + 8 + 7, descAt + 8 + 7 + 4, descAt + 8 + 7 + 20, descAt + 8 + 7 + 28
	for _, tc := range []struct {
		name     string
		change   func(m *model)
		sentinel error
		field    string
		at       uint64
		says     string
	}{
		{"magic", func(m *model) { m.magic = "APRILMDX" }, layout.ErrFormat, "magic", 0, `"APRILMDX"`},
		{"version 0", func(m *model) { m.version = 0 }, layout.ErrUnsupported, "version", 8, "0, not 1"},
		{"version 2", func(m *model) { m.version = 2 }, layout.ErrUnsupported, "version", 8, "2, not 1"},
		{"header size", func(m *model) { m.headerSize = 1 << 63 }, layout.ErrTruncated, "header_size", 12, "9223372036854775808 bytes"},
		{"unknown model", func(m *model) { m.kind = 0 }, layout.ErrUnsupported, "model", modelAt, "model type 0"},
		{"new model", func(m *model) { m.kind = 2 }, layout.ErrUnsupported, "model", modelAt, "model type 2, not 1 (LSTM_TRANSDUCER_STATELESS)"},
		{"no networks", func(m *model) { m.count = 0 }, layout.ErrInvalid, "network_count", countAt, "0 networks, not the 3"},
		{"8 networks", func(m *model) { m.count = 8 }, layout.ErrInvalid, "network_count", countAt, "8 networks"},
		{"9 networks", func(m *model) { m.count = 9 }, layout.ErrInvalid, "network_count", countAt, "9 networks"},
		{"many networks", func(m *model) { m.count = 1<<64 - 1 }, layout.ErrInvalid, "network_count", countAt, "18446744073709551615 networks"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			m := good()
			tc.change(m)
			_, err := Decode(m.assemble(), nil)
			format.CheckError(t, err, tc.sentinel, tc.field, tc.at, tc.says)
		})
	}
	size := uint64(len(good().assemble()))
	for _, tc := range []struct {
		name     string
		at       int
		value    uint64
		sentinel error
		field    string
		errorAt  uint64
		says     string
	}{
		{"name", nameAt, size, layout.ErrTruncated, "name_length", nameAt, "bytes, but only"},
		{"longest name", nameAt, 1<<64 - 1, layout.ErrTruncated, "name_length", nameAt, "18446744073709551615 bytes"},
		{"description", descAt, 1 << 63, layout.ErrTruncated, "description_length", descAt, "9223372036854775808 bytes"},
		{"params offset", paramsAt, size + 1, layout.ErrTruncated, "params", paramsAt, "leave the file"},
		{"params size", paramsAt + 8, 1<<64 - 1, layout.ErrTruncated, "params", paramsAt, "leave the file"},
		{"params in header", paramsAt, 3, layout.ErrOverlap, "networks", 3, "section header"},
		{"params in network", paramsAt, networksAt + 3*16 + 1, layout.ErrOverlap, "networks", networksAt + 3*16 + 1, "section params"},
		{"network offset", networksAt + 16, 1<<64 - 1, layout.ErrTruncated, "networks", networksAt + 16, "leave the file"},
		{"network size", networksAt + 40, 1 << 63, layout.ErrTruncated, "networks", networksAt + 32, "leave the file"},
		{"network in header", networksAt, networksAt, layout.ErrOverlap, "networks", networksAt, "networks/encoder"},
		{"same network", networksAt + 16, networksAt + 48, layout.ErrOverlap, "networks", networksAt + 48, `"networks/decoder"`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			data := good().assemble()
			le.PutUint64(data[tc.at:], tc.value)
			_, err := Decode(data, nil)
			format.CheckError(t, err, tc.sentinel, tc.field, tc.errorAt, tc.says)
		})
	}
}

func TestInitializerErrors(t *testing.T) {
	dup := func(field protowire.Number, v uint64) []byte {
		return appendNumber(rawTensor("a", 2, []byte{1}, 1), field, v)
	}
	for _, tc := range []struct {
		name     string
		message  []byte
		sentinel error
		field    string
		inside   uint64 // offset from the start of the message
		says     string
	}{
		{"no name", tensorMessage("", 2, 0), layout.ErrInvalid, "name", 0, "without a name"},
		{"no type", appendRecord(appendRecord(nil, 8, []byte("a")), 9, nil), layout.ErrUnsupported, "data_type", 0, `"encoder/a": 0 (UNDEFINED)`},
		{"string", tensorMessage("a", 8, 1), layout.ErrUnsupported, "data_type", 0, "8 (STRING)"},
		{"uint4", rawTensor("a", 21, []byte{1}, 2), layout.ErrUnsupported, "data_type", 0, "21 (UINT4)"},
		{"int4", rawTensor("a", 22, []byte{1}, 2), layout.ErrUnsupported, "data_type", 0, "22 (INT4)"},
		{"float4", rawTensor("a", 23, []byte{1}, 2), layout.ErrUnsupported, "data_type", 0, "23 (FLOAT4E2M1)"},
		{"float6", rawTensor("a", 27, []byte{1, 2, 3}, 4), layout.ErrUnsupported, "data_type", 0, "27 (FLOAT6E2M3)"},
		{"new type", rawTensor("a", 29, []byte{1}, 1), layout.ErrUnsupported, "data_type", 0, "29 (not a type"},
		{"negative type", rawTensor("a", -1, []byte{1}, 1), layout.ErrUnsupported, "data_type", 0, "-1 (not a type"},
		{"external", appendRecord(tensorMessage("a", 1, 1), 13, nil), layout.ErrUnsupported, "external_data", 0, "in another file"},
		{"external location", appendNumber(tensorMessage("a", 1, 1), 14, 1), layout.ErrUnsupported, "external_data", 0, "in another file"},
		{"odd location", appendNumber(rawTensor("a", 2, []byte{1}, 1), 14, 2), layout.ErrUnsupported, "data_location", 0, "2"},
		{"segment", appendRecord(rawTensor("a", 2, []byte{1}, 1), 3, nil), layout.ErrUnsupported, "segment", 0, "a part"},
		{"no data", tensorMessage("a", 1, 2), layout.ErrInvalid, "raw_data", 0, "no elements, but F32 [2] takes 8 bytes"},
		{"negative dim", rawTensor("a", 2, nil, -1), layout.ErrInvalid, "dims", 0, "dimension 0 is -1"},
		{"huge dims", rawTensor("a", 2, nil, 1<<62, 1<<62), layout.ErrInvalid, "dims", 0, "2^64"},
		{"huge size", rawTensor("a", 11, nil, 1<<61), layout.ErrInvalid, "dims", 0, "2^64"},
		{"short raw", rawTensor("a", 1, make([]byte, 7), 2), layout.ErrInvalid, "raw_data", 9, "7 bytes, but F32 [2] takes 8"},
		{"long raw", rawTensor("a", 1, make([]byte, 9), 2), layout.ErrInvalid, "raw_data", 9, "9 bytes, but F32 [2] takes 8"},
		{"raw for nothing", rawTensor("a", 1, make([]byte, 4), 0), layout.ErrInvalid, "raw_data", 9, "4 bytes"},
		{"numbers for nothing", numberTensor("a", 6, 5, []int64{1}, 0), layout.ErrInvalid, "int32_data", 0, "1 to 1 numbers"},
		{"two fields", appendRecord(rawTensor("a", 1, make([]byte, 4), 1), 4, floats(1)), layout.ErrInvalid, "raw_data", 0, "float_data, raw_data"},
		{"wrong field", appendRecord(tensorMessage("a", 1, 1), 10, make([]byte, 8)), layout.ErrInvalid, "double_data", 0, "F32 belongs in float_data"},
		{"strings", appendRecord(tensorMessage("a", 1, 1), 6, floats(1)), layout.ErrInvalid, "string_data", 0, "F32 belongs in float_data"},
		{"few floats", appendRecord(tensorMessage("a", 1, 3), 4, floats(1, 2)), layout.ErrInvalid, "float_data", 0, "2 to 2 numbers, but F32 [3] takes 3"},
		{"half a float", appendRecord(tensorMessage("a", 1, 3), 4, make([]byte, 11)), layout.ErrInvalid, "float_data", 7, "11 bytes, no multiple of 4"},
		{"half a complex", appendRecord(tensorMessage("a", 14, 2), 4, floats(1, 2, 3)), layout.ErrInvalid, "float_data", 0, "but C64 [2] takes 4"},
		{"few varints", appendRecord(tensorMessage("a", 7, 30), 7, make([]byte, 29)), layout.ErrInvalid, "int64_data", 0, "3 to 29 numbers, but I64 [30] takes 30"},
		{"many varints", appendRecord(tensorMessage("a", 7, 1), 7, make([]byte, 11)), layout.ErrInvalid, "int64_data", 0, "2 to 11 numbers"},
		{"claim", appendRecord(tensorMessage("a", 7, 1<<60), 7, make([]byte, 11)), layout.ErrInvalid, "int64_data", 0, "takes 1152921504606846976"},
		{"two types", dup(2, 2), layout.ErrDuplicate, "data_type", 10, "twice"},
		{"two names", appendRecord(rawTensor("a", 2, []byte{1}, 1), 8, []byte("b")), layout.ErrDuplicate, "name", 10, "twice"},
		{"two raws", appendRecord(rawTensor("a", 2, []byte{1}, 1), 9, []byte{2}), layout.ErrDuplicate, "raw_data", 10, "twice"},
		{"two locations", appendNumber(dup(14, 0), 14, 0), layout.ErrDuplicate, "data_location", 12, "twice"},
		{"name a number", appendNumber(nil, 8, 1), layout.ErrInvalid, "name", 0, "wire type 0"},
		{"type a record", appendRecord(nil, 2, []byte{1}), layout.ErrInvalid, "data_type", 0, "wire type 2"},
		{"raw a float", protowire.AppendFixed32(protowire.AppendTag(nil, 9, protowire.Fixed32Type), 1), layout.ErrInvalid, "raw_data", 0, "wire type 5"},
		{"dims a double", protowire.AppendFixed64(protowire.AppendTag(nil, 1, protowire.Fixed64Type), 1), layout.ErrInvalid, "dims", 0, "wire type 1"},
		{"raw a group", []byte{9<<3 | 3, 9<<3 | 4}, layout.ErrInvalid, "raw_data", 0, "wire type 3"},
		{"long name", tensorMessage(strings.Repeat("n", 70_000), 2, 0), layout.ErrLimit, "name", 4, "70000 bytes"},
		{"bad name", rawTensor("\xff", 2, nil, 0), layout.ErrInvalid, "name", 0, "not valid UTF-8"},
		{"NUL in name", rawTensor("a\x00b", 2, nil, 0), layout.ErrInvalid, "name", 0, "NUL"},
		{"many dims", rawTensor("a", 2, []byte{1}, slices.Repeat([]int64{1}, 65)...), layout.ErrLimit, "dims", 128, "more than 64 dimensions"},
		{"field 0", []byte{0, 0}, layout.ErrInvalid, "graph", 0, "tag 0x0"},
		{"wire type 7", []byte{1<<3 | 7, 0}, layout.ErrInvalid, "graph", 0, "wire type 7"},
		{"lost end", []byte{50<<3&0x7f | 4 | 0x80, 50 >> 4}, layout.ErrInvalid, "graph", 0, "end of group 50"},
		{"endless group", append(appendGroupStart(nil, 50), 8, 1), layout.ErrTruncated, "graph", 0, "group 50 does not end"},
		{"crossed groups", append(append(appendGroupStart(appendGroupStart(nil, 50), 51), appendGroupEnd(50)...), appendGroupEnd(51)...),
			layout.ErrInvalid, "graph", 4, "the end of group 50 in group 51"},
		{"long varint", append([]byte{8}, bytes.Repeat([]byte{0x80}, 10)...), layout.ErrInvalid, "graph", 1, "more than 64 bits"},
		{"cut varint", []byte{8, 0x80}, layout.ErrTruncated, "graph", 1, "has not ended"},
		{"cut dims", []byte{1<<3 | 2, 1, 0x80}, layout.ErrTruncated, "graph", 2, "has not ended"},
		{"cut record", []byte{9<<3 | 2, 5, 1}, layout.ErrTruncated, "graph", 0, "field 9 has 5 bytes, but only 1 are left"},
		{"cut float", []byte{4<<3 | 5, 5, 1}, layout.ErrTruncated, "graph", 0, "field 4 has 4 bytes"},
		{"endless record", []byte{9<<3 | 2, 255, 255, 255, 255, 255, 255, 255, 255, 255, 1}, layout.ErrTruncated, "graph", 0, "18446744073709551615 bytes"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			m := good(onnx(tc.message))
			data := m.assemble()
			at := uint64(bytes.Index(data[m.network(0):], tc.message) + m.network(0))
			_, err := Decode(data, nil)
			format.CheckError(t, err, tc.sentinel, tc.field, at+tc.inside, tc.says)
		})
	}
}

func appendGroupStart(b []byte, num protowire.Number) []byte {
	return protowire.AppendTag(b, num, protowire.StartGroupType)
}

func appendGroupEnd(num protowire.Number) []byte {
	return protowire.AppendTag(nil, num, protowire.EndGroupType)
}

// TestPastLastRecord makes sure that a message cannot read on into what comes behind it.
func TestPastLastRecord(t *testing.T) {
	whole := rawTensor("a", 2, []byte{1, 2}, 2)
	for cut := 1; cut < len(whole); cut++ {
		// The rest of the tensor is still there, but outside of the record.
		graph := append(appendRecord(nil, 5, whole[:cut]), whole[cut:]...)
		f, err := Decode(good(modelProto(graph)).assemble(), nil)
		if err == nil && len(f.Index().Tensors) > 3 {
			t.Errorf("%d of %d bytes: read %+v", cut, len(whole), f.Index().Tensors[3])
		}
	}
}

func TestDuplicateNames(t *testing.T) {
	a := rawTensor("a", 2, []byte{1}, 1)
	m := good(onnx(a, a))
	_, err := Decode(m.assemble(), nil)
	format.CheckError(t, err, layout.ErrDuplicate, "name", uint64(m.network(0)+2+2+2+len(a)+2), `"encoder/a"`)

	f := format.MustDecode(t, good(onnx(a), onnx(a), onnx(a)).assemble()) // a name of each network
	for _, name := range []string{"encoder/a", "decoder/a", "joiner/a"} {
		if f.Index().Find(name) < 0 {
			t.Errorf("%s is not found", name)
		}
	}
}

// TestTwoGraphs wants one graph: protobuf would merge them.
func TestTwoGraphs(t *testing.T) {
	network := appendRecord(onnx(), 7, nil)
	m := good(network)
	f := format.MustDecode(t, m.assemble())
	format.CheckError(t, f.Networks[0].Err, layout.ErrDuplicate, "graph", uint64(m.network(0)+len(network)-2), "a second graph")
}

// TestNumberForInitializer wants a graph's initializers to be messages.
func TestNumberForInitializer(t *testing.T) {
	m := good(modelProto(appendNumber(nil, 5, 1)))
	_, err := Decode(m.assemble(), nil)
	format.CheckError(t, err, layout.ErrInvalid, "initializer", uint64(m.network(0)+2+2), "wire type 0")
}

// TestOpaque keeps networks that are no ONNX models as bytes.
func TestOpaque(t *testing.T) {
	for _, tc := range []struct {
		name, network string
		says          string
	}{
		{"nothing", "", "without a graph"},
		{"ORT", "\x20\x00\x00\x00ORTM", "field 4 has the wire type 0"},
		{"text", "hello, world", "protobuf"},
		{"no graph", "\x08\x07", "without a graph"},
		{"cut", string(onnx(rawTensor("a", 2, []byte{1}, 1)))[:9], "bytes, but only"},
		{"deep", strings.Repeat("\x0b", 10_000), "groups nest deeper than 64"},
	} {
		if tc.name == "ORT" || tc.name == "text" {
			tc.says = ""
		}
		m := good([]byte(tc.network), onnx(rawTensor("b", 2, []byte{1}, 1)))
		data := m.assemble()
		f := format.MustDecode(t, data)
		err := f.Networks[0].Err
		if err == nil || !strings.Contains(err.Error(), tc.says) || !strings.Contains(err.Error(), "april: offset ") {
			t.Errorf("%s: the error is %v, which should say %q", tc.name, err, tc.says)
		}
		x := f.Index().Tensors[f.Index().Find("networks/encoder")]
		if b := data[x.Offset:][:x.Stored]; string(b) != tc.network || f.Index().Find("decoder/b") < 0 {
			t.Errorf("%s: the network is %q", tc.name, b)
		}
		if found := f.Audit(data); len(found) != 1 || found[0].Warning {
			t.Errorf("%s: findings %v", tc.name, found)
		}
	}
}

// TestLimits makes sure that the user's limits are kept to.
func TestLimits(t *testing.T) {
	a, b := rawTensor("abc", 2, []byte{1, 2}, 1, 2), rawTensor("b", 2, nil, 0)
	data := good(onnx(a, b)).assemble()
	for _, lim := range []layout.Limits{{Tensors: 4}, {NameBytes: 2}, {Rank: 1}} {
		if _, err := Decode(data, &lim); !errors.Is(err, layout.ErrLimit) {
			t.Errorf("%+v: %v", lim, err)
		}
	}
	if _, err := Decode(data, &layout.Limits{Tensors: 5, NameBytes: 16, Rank: 2}); err != nil {
		t.Error(err)
	}
	_, err := Decode(data, &layout.Limits{Tensors: 1})
	format.CheckError(t, err, layout.ErrLimit, "initializer", uint64(good().network(0)+2+2+2+len(a)), "more than 1 tensors")
	m := good()
	m.name = "nine byte"
	data = m.assemble()
	f, err := Decode(data, &layout.Limits{HeaderBytes: 8})
	if err != nil {
		t.Fatal(err)
	}
	_, err = f.Metadata(data)
	format.CheckError(t, err, layout.ErrLimit, "name", 28+8, "9 bytes, more than 8")
}

// TestAliases makes sure that initializers lie in their network, and are marked so.
func TestAliases(t *testing.T) {
	data := format.Read(t, "streaming")
	f := format.MustDecode(t, data)
	if n := f.Networks; n[0].Initializers != 7 || n[1].Initializers != 2 || n[2].Initializers != 2 || n[0].Err != nil {
		t.Errorf("networks %+v", n)
	}
	layouttest.CheckIndex(t, f.Index(), data)
	checkPromises(t, f, data, nil)
	sections := []layout.Section{{Name: "header", Offset: 0, Size: f.Networks[0].Offset},
		{Name: "params", Offset: f.Networks[2].end(), Size: uint64(len(data)) - f.Networks[2].end()}}
	if !slices.Equal(f.Index().Sections, sections) {
		t.Errorf("sections %v, want %v", f.Index().Sections, sections)
	}
}

func TestSummary(t *testing.T) {
	data := format.Read(t, "opaque")
	facts, err := format.MustDecode(t, data).Summary(data)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, f := range facts {
		got = append(got, fmt.Sprintf("%s=%s", f.Label, f.Value))
	}
	const want = "name=Fixture|description=A model of no use|language=en-us|model type=LSTM_TRANSDUCER_STATELESS|" +
		"sample rate=16000 Hz|features=8 mel bands, frames of 25 ms every 10 ms|tokens=12, the blank is 0|" +
		"networks=encoder: 48 bytes, not an ONNX model\ndecoder: 454 bytes, 2 initializers\njoiner: 0 bytes, not an ONNX model"
	if s := strings.Join(got, "|"); s != want {
		t.Errorf("got\n%s, want\n%s", s, want)
	}
}

// TestPackedDims checks dimensions packed into one record with a wide varint.
func TestPackedDims(t *testing.T) {
	message := appendRecord(nil, 1, binary.AppendUvarint([]byte{1, 0x82, 0}, 300))
	message = appendRecord(append(message, tensorMessage("a", 2)...), 9, make([]byte, 600))
	f := format.MustDecode(t, good(onnx(message)).assemble())
	if x := f.Index().Tensors[3]; !slices.Equal(x.Shape, []int{1, 2, 300}) {
		t.Errorf("shape %v", x.Shape)
	}
}
