//go:build unix

package attack

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"hash/crc32"
	"io"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/layout/apr2"
	"github.com/tensormap/tensormap/layout/jsontext"
	"github.com/tensormap/tensormap/loader"
	"github.com/tensormap/tensormap/trust"
)

// Bounds of memory, as multiples of the bytes that are really there, beside what a process
// takes that opens or converts a small file.
const (
	openBound = 8
	metaBound = 16 // of metadata that is asked for, on top of opening
	verbBound = 16
	spare     = 64 << 20
)

// hostile are files of which every byte is to cost as much as it can.
var hostile = map[string]func(rng *rand.Rand, size int) []byte{
	"zeros":    func(_ *rand.Rand, size int) []byte { return make([]byte, size) },
	"brackets": func(_ *rand.Rand, size int) []byte { return header(bytes.Repeat([]byte("["), size)) },
	"numbers": func(_ *rand.Rand, size int) []byte {
		return header([]byte(`{"__metadata__":{"a":"` + strings.Repeat("\\u0000", size/6) + `"}}`))
	},
	"metadata": func(_ *rand.Rand, size int) []byte {
		return header(listed(size, `{"__metadata__":{`, `"%x":""`, `}}`))
	},
	"safetensors": func(_ *rand.Rand, size int) []byte {
		return header(listed(size, `{`, `"%x":{"dtype":"U8","shape":[0],"data_offsets":[0,0]}`, `}`))
	},
	"weights": func(_ *rand.Rand, size int) []byte { // of two parts each
		return header(listed(size, `{`, `"%[1]x.weight":{"dtype":"F8_E4M3","shape":[0,1],"data_offsets":[0,0]},"%[1]x.weight_scale":{"dtype":"F32","shape":[0],"data_offsets":[0,0]}`, `}`))
	},
	"codes alone": func(_ *rand.Rand, size int) []byte { // each has an error of its own
		return header(listed(size, `{`, `"%x":{"dtype":"F8_E4M3","shape":[0,1],"data_offsets":[0,0]}`, `}`))
	},
	"misfits": func(_ *rand.Rand, size int) []byte { // with errors that name tensors and shapes
		return header(listed(size, `{`, `"%[1]x.weight":{"dtype":"F8_E4M3","shape":[7,0,3],"data_offsets":[0,0]},"%[1]x.weight_scale":{"dtype":"F32","shape":[9,0,9,9],"data_offsets":[0,0]}`, `}`))
	},
	"states": func(_ *rand.Rand, size int) []byte { // whose contents are asked for
		const text = `{"quant_type":"nf4","blocksize":64,"shape":[0]}`
		n, members := size/400, []string{}
		for i := range n {
			members = append(members, fmt.Sprintf(`"%x":{"dtype":"U8","shape":[0,1],"data_offsets":[%[2]d,%[2]d]},"%[1]x.absmax":{"dtype":"F32","shape":[0],"data_offsets":[%[2]d,%[2]d]},"%[1]x.quant_state.bitsandbytes__nf4":{"dtype":"U8","shape":[%d],"data_offsets":[%[2]d,%d]}`,
				i, i*len(text), len(text), (i+1)*len(text)))
		}
		return append(header([]byte("{"+strings.Join(members, ",")+"}")), strings.Repeat(text, n)...)
	},
	"index": func(rng *rand.Rand, size int) []byte {
		return listed(size, `{"weight_map":{`, `"%x":"m-1.safetensors"`, `}}`)
	},
	"manifest": func(rng *rand.Rand, size int) []byte {
		return listed(size, `{"apr_version":"2.0.0","sharded":true,"shard_count":1,"shards":[{"file":"a.apr","size":1,"crc32":"00000000"}],"tensor_shard_map":{`, `"%x":0`, `}}`)
	},
	"gguf tensors": func(_ *rand.Rand, size int) []byte {
		n := size / 40
		b := ggufHead(uint64(n), 0)
		for i := range n {
			b = append(ggufString(b, fmt.Sprintf("%x", i)), 0, 0, 0, 0, 24, 0, 0, 0) // no dimensions, I8
			b = binary.LittleEndian.AppendUint64(b, uint64(32*i))
		}
		return append(b, make([]byte, 32*n+32)...)
	},
	"gguf keys": func(_ *rand.Rand, size int) []byte {
		n := size / 17
		b := ggufHead(0, uint64(n))
		for i := range n {
			b = append(ggufString(b, fmt.Sprintf("%x", i)), 0, 0, 0, 0, 1)
		}
		return b
	},
	"gguf strings": func(_ *rand.Rand, size int) []byte {
		b := ggufString(ggufHead(0, 1), "tokenizer.ggml.tokens")
		b = append(b, 9, 0, 0, 0, 8, 0, 0, 0)
		b = binary.LittleEndian.AppendUint64(b, uint64(size/8))
		return append(b, make([]byte, size/8*8)...)
	},
	"gguf bytes": func(_ *rand.Rand, size int) []byte {
		b := ggufString(ggufHead(0, 1), "bytes")
		b = append(b, 9, 0, 0, 0, 0, 0, 0, 0)
		b = binary.LittleEndian.AppendUint64(b, uint64(size))
		return append(b, make([]byte, size)...)
	},
	"tsm nodes": func(_ *rand.Rand, size int) []byte { return tsmFile(size/8, make([]byte, size/8*8)) },
	"tsm params": func(_ *rand.Rand, size int) []byte {
		return tsmFile(1, binary.LittleEndian.AppendUint32(nil, uint32(size/8)), make([]byte, size/8*8+4))
	},
	"tsm tensors": func(_ *rand.Rand, size int) []byte {
		n := size / 5 // VOID without dimensions
		return tsmFile(1, []byte{1, 0, 0, 0, 1, 0, 0, 0, 'a'}, binary.LittleEndian.AppendUint32(nil, uint32(n)), make([]byte, 5*n+4))
	},
	"april": func(_ *rand.Rand, size int) []byte { return aprilFile(size) },
	"bw2l": func(_ *rand.Rand, size int) []byte {
		n := size / 14
		one := append([]byte("\x02i8"), make([]byte, 9)...) // an empty array of version 2, no dimensions
		b := []byte("BW2L\x02\x00\x01\x00\x00\x00\x00\x00\x00\x00\x06layers\x06layers\x00\x00\x00\x00\x00\x00\x00\x00")
		data := binary.LittleEndian.AppendUint64(nil, 1)
		data = binary.LittleEndian.AppendUint64(data, 0)
		data = binary.LittleEndian.AppendUint64(data, uint64(n))
		data = append(data, bytes.Repeat(one, n)...)
		return append(binary.LittleEndian.AppendUint64(b, uint64(len(data))), data...)
	},
	"apr2": func(_ *rand.Rand, size int) []byte {
		list := make([]layout.Tensor, size/64)
		for i := range list {
			list[i] = layout.Tensor{Name: []byte(fmt.Sprintf("%x", i)), DType: layout.I8, Shape: []int{1}}
		}
		var out bytes.Buffer
		w := must(apr2.NewWriter(&out, slices.Values(list), nil))
		for range list {
			check(w.WriteTensor([]byte{1}))
		}
		check(w.Close())
		return out.Bytes()
	},
}

// dense makes metadata in JSON whose values take many times their text.
var dense = map[string]func(size int) []byte{
	"digits":          func(size int) []byte { return listed(size, `{"a":[`, `1`, `]}`) },
	"strings":         func(size int) []byte { return listed(size, `{"a":[`, `""`, `]}`) },
	"escapes":         func(size int) []byte { return listed(size, `{"a":[`, `"\n"`, `]}`) },
	"lists":           func(size int) []byte { return listed(size, `{"a":[`, `[]`, `]}`) },
	"mixed":           func(size int) []byte { return listed(size, `{"a":[`, `[0,"",null,{}]`, `]}`) },
	"list of objects": func(size int) []byte { return listed(size, `{"a":[`, `{"":{"":0}}`, `]}`) },
	"nested lists": func(size int) []byte {
		return listed(size, `{`, `"%x":`+strings.Repeat(`[`, 60)+`0`+strings.Repeat(`]`, 60), `}`)
	},
	"nested": func(size int) []byte {
		return listed(size, `{`, `"%x":`+strings.Repeat(`{"":`, 60)+`0`+strings.Repeat(`}`, 60), `}`)
	},
	"keys":              func(size int) []byte { return listed(size, `{`, `"%x":1`, `}`) },
	"objects":           func(size int) []byte { return listed(size, `{`, `"%x":{}`, `}`) },
	"wide keys":         func(size int) []byte { return listed(size, `{`, `"%089x":17`, `}`) },
	"members":           func(size int) []byte { return listed(size, `{"a":{`, `"%014x":17`, `}}`) },
	"empty objects":     func(size int) []byte { return listed(size, `{"a":{`, `"%014x":{}`, `}}`) },
	"architecture":      func(size int) []byte { return listed(size, `{"architecture":{`, `"%014x":17`, `}}`) },
	"scales":            func(size int) []byte { return listed(size, `{"quantization":{"scales":{`, `"%014x":17`, `}}}`) },
	"gguf members":      func(size int) []byte { return listed(size, `{"gguf":{`, `"%014x":17`, `}}`) },
	"safetensors keys":  func(size int) []byte { return listed(size, `{"safetensors":{`, `"%014x":""`, `}}`) },
	"gguf wide members": func(size int) []byte { return listed(size, `{"gguf":{`, `"%089x":17`, `}}`) },
	"originals":         func(size int) []byte { return listed(size, `{"original_tensors":{`, `"%023x":{"shape":[1]}`, `}}`) },
	"vocabulary":        func(size int) []byte { return listed(size, `{"vocab":[`, `""`, `]}`) },
	"gguf strings":      func(size int) []byte { return listed(size, `{"gguf":{"a":[`, `""`, `]}}`) },
	"gguf numbers":      func(size int) []byte { return listed(size, `{"gguf_types":{"a":"[u64]"},"gguf":{"a":[`, `1`, `]}}`) },
	"gguf bytes": func(size int) []byte {
		return listed(size, `{"gguf_bytes":{"a":{"0":"/w=="}},"gguf":{"a":[`, `""`, `]}}`)
	},
}

// configs are files config.json beside a quantized checkpoint.
var configs = map[string]func(size int) []byte{
	"members":      func(size int) []byte { return listed(size, `{"a":{`, `"%014x":17`, `}}`) },
	"architecture": func(size int) []byte { return listed(size, `{"architecture":{`, `"%014x":17`, `}}`) },
	"dynamic": func(size int) []byte {
		return listed(size, `{"quantization_config":{"quant_method":"fp8","dynamic":{`, `"%014x":{}`, `}}}`)
	},
	"overrides": func(size int) []byte {
		return listed(size, `{"quantization_config":{"quant_method":"fp8",`, `"%014x":{}`, `}}`)
	},
	"targets": func(size int) []byte {
		return listed(size, `{"quantization_config":{"quant_method":"fp8","config_groups":{"a":{"weights":{"num_bits":8},"targets":[`, `"%x"`, `]}}}}`)
	},
}

// bundles are signatures of the model in testdata/trust by a key that everybody knows, none of which is right.
var bundles = map[string]func(rng *rand.Rand, size int) []byte{
	"payload": func(rng *rand.Rand, size int) []byte {
		payload := make([]byte, size/4*3)
		for i := range payload {
			payload[i] = byte(rng.Uint32()) // most of them four characters in Python's source
		}
		return bundleFile(publicKey, base64.StdEncoding.EncodeToString(payload), `{"sig":"MAA="}`)
	},
	"escapes": func(_ *rand.Rand, size int) []byte {
		return bundleFile(publicKey, strings.Repeat(`\u0041`, size/6/4*4), `{"sig":"MAA="}`)
	},
	"signatures": func(_ *rand.Rand, size int) []byte {
		return bundleFile(publicKey, "", string(listed(size, `{"sig":"MAA="},`, `{}`, ``)))
	},
	"log entries": func(_ *rand.Rand, size int) []byte {
		return bundleFile(string(listed(size, `"certificate":{},"tlogEntries":[`, `{}`, `]`)), "", `{"sig":"MAA="}`)
	},
	"certificates": func(_ *rand.Rand, size int) []byte {
		block, _ := pem.Decode(must(os.ReadFile("../../../testdata/trust/root.pem")))
		one := fmt.Sprintf(`{"rawBytes":%q}`, base64.StdEncoding.EncodeToString(block.Bytes))
		return bundleFile(string(listed(size, `"x509CertificateChain":{"certificates":[`, one, `]}`)), "", `{"sig":"MAA="}`)
	},
	"members": func(_ *rand.Rand, size int) []byte {
		return bundleFile(string(listed(size, publicKey+`,"a":{`, `"%014x":{}`, `}`)), "", `{"sig":"MAA="}`)
	},
}

// publicKey is how a bundle names the key testdata/trust/p256.pub.pem.
var publicKey = fmt.Sprintf(`"publicKey":{"hint":%q}`, must(trust.Hint(must(trust.ReadPublicKey("../../../testdata/trust/p256.pub.pem")).(*ecdsa.PublicKey))))

// bundleFile makes a bundle of what is in its objects and strings.
func bundleFile(material, payload, signatures string) []byte {
	return fmt.Appendf(nil, `{"mediaType":"application/vnd.dev.sigstore.bundle.v0.3+json","verificationMaterial":{%s},`+
		`"dsseEnvelope":{"payloadType":"application/vnd.in-toto+json","payload":"%s","signatures":[%s]}}`, material, payload, signatures)
}

func init() {
	for kind, text := range configs {
		hostile["config "+kind] = func(_ *rand.Rand, size int) []byte { return text(size / 3) } // of which at most 4 MiB are read
		hostile["quantized "+kind] = func(_ *rand.Rand, size int) []byte {
			return quantizedFile(slices.Concat([]byte(`{"architecture":`), text(size), []byte("}")))
		}
	}
	for kind, text := range dense {
		hostile["json "+kind] = func(_ *rand.Rand, size int) []byte { return aprFile(text(size)) }
	}
}

// aprFile makes an APR2 file of metadata alone.
func aprFile(text []byte) []byte {
	le := binary.LittleEndian
	end := uint32(32 + len(text))
	data := (end + 8 + 63) &^ 63
	b := append([]byte("APR2"), 2, 0, 0, 0, 0, 0, 0, 0)
	for _, field := range []uint32{32, uint32(len(text)), end, 8, data} {
		b = le.AppendUint32(b, field)
	}
	b = append(b, text...)
	b = append(b, make([]byte, int(data)-len(b))...)
	b = le.AppendUint32(b, crc32.ChecksumIEEE(b))
	return le.AppendUint64(append(b, "2RPA"...), uint64(len(b))+12)
}

// quantizedFile makes an APR2 file of one quantized weight, for which the metadata are read at opening.
func quantizedFile(text []byte) []byte {
	md := must(jsontext.Parse(text, layout.APR2, 0, "metadata", (*layout.Limits)(nil).WithDefaults()))
	list := []layout.Tensor{{Name: []byte("a.weight"), DType: layout.F8_E4M3, Shape: []int{1, 1}}, {Name: []byte("a.weight_scale"), DType: layout.F32, Shape: []int{1}}}
	var out bytes.Buffer
	w := must(apr2.NewWriter(&out, slices.Values(list), &apr2.Options{Metadata: md}))
	check(w.WriteTensor([]byte{0}))
	check(w.WriteTensor([]byte{0, 0, 128, 63}))
	check(w.Close())
	return out.Bytes()
}

// header makes a SafeTensors file of a header alone.
func header(text []byte) []byte {
	return append(binary.LittleEndian.AppendUint64(nil, uint64(len(text))), text...)
}

// listed writes JSON with as many numbered members as fit.
func listed(size int, before, member, after string) []byte {
	b := []byte(before)
	for i := 0; len(b) < size; i++ {
		if i > 0 {
			b = append(b, ',')
		}
		if strings.Contains(member, "%") {
			b = fmt.Appendf(b, member, i)
		} else {
			b = append(b, member...)
		}
	}
	return append(b, after...)
}

func ggufHead(tensors, keys uint64) []byte {
	b := append([]byte("GGUF"), 3, 0, 0, 0)
	return binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint64(b, tensors), keys)
}

func ggufString(b []byte, s string) []byte {
	return append(binary.LittleEndian.AppendUint64(b, uint64(len(s))), s...)
}

// tsmFile makes a module of n nodes.
func tsmFile(n int, nodes ...[]byte) []byte {
	b := make([]byte, 128+8)
	binary.LittleEndian.PutUint32(b[4:], 0x19910929)
	b = binary.LittleEndian.AppendUint32(b, uint32(n))
	return append(b, slices.Concat(nodes...)...)
}

// aprilFile makes networks of initializers of a dozen bytes.
func aprilFile(size int) []byte {
	var graph []byte
	for i := 0; len(graph) < size; i++ {
		name := fmt.Sprintf("%x", i)
		graph = append(graph, 5<<3|2, byte(6+len(name)), 1<<3, 0, 2<<3, 1, 8<<3|2, byte(len(name)))
		graph = append(graph, name...)
	}
	network := append(binary.AppendUvarint([]byte{7<<3 | 2}, uint64(len(graph))), graph...)
	params := append([]byte("PARAMS\x00\x00"), make([]byte, 52)...)
	for i, v := range []uint32{1, 9, 5, 80, 16000, 10, 25, 1, 20, 0, 0, 1, 0} {
		binary.LittleEndian.PutUint32(params[8+4*i:], v)
	}
	params = append(params, 1, 0, 0, 0, 'a')
	head := make([]byte, 8+8+8+4+16+8+48)
	copy(head, "en")
	binary.LittleEndian.PutUint32(head[24:], 1)
	at := uint64(20 + len(head))
	entry := func(where int, n int) {
		binary.LittleEndian.PutUint64(head[where:], at)
		binary.LittleEndian.PutUint64(head[where+8:], uint64(n))
		at += uint64(n)
	}
	entry(28, len(params))
	binary.LittleEndian.PutUint64(head[44:], 3)
	parts := [][]byte{network, {7<<3 | 2, 0}, {7<<3 | 2, 0}}
	for i, p := range parts {
		entry(52+16*i, len(p))
	}
	b := append([]byte("APRILMDL"), 1, 0, 0, 0)
	b = binary.LittleEndian.AppendUint64(b, uint64(len(head)))
	return slices.Concat(b, head, params, parts[0], parts[1], parts[2])
}

// beginMemory measures in processes of their own what hostile files cost.
func beginMemory(a *arena) func(*round) {
	kinds := slices.Sorted(maps.Keys(hostile))
	sparse := filepath.Join(a.dir, "plain")
	check(os.WriteFile(sparse, must(os.ReadFile("../../../testdata/safetensors/minilm-slice.safetensors")), 0o666))
	idle := a.peak("open", "Open", sparse)
	idleVerb, idleWriter := a.peak("verb", "inspect", sparse), a.peak("verb", "convert out.apr", sparse)
	return func(r *round) {
		kind := kinds[r.number%len(kinds)]
		b := hostile[kind](r.Rand, (3+r.IntN(8))<<20)
		size, path := int64(len(b)), filepath.Join(r.dir, "model")
		if kind == "index" {
			path += ".safetensors.index.json"
			size *= 2
			check(os.WriteFile(filepath.Join(r.dir, "m-1.safetensors"), b, 0o666))
		}
		if strings.HasPrefix(kind, "config ") {
			check(os.WriteFile(filepath.Join(r.dir, "config.json"), b, 0o666))
			b = header([]byte(`{"a.weight":{"dtype":"F8_E4M3","shape":[0,1],"data_offsets":[0,0]},"a.weight_scale":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}`))
			b = append(b, 0, 0, 128, 63)
		}
		check(os.WriteFile(path, b, 0o666))
		r.count(kind, 1)
		how := pick(r.Rand, []string{"Open", "Open NoMap", "OpenBytes", "Metadata"})
		bound := int64(openBound + 1) // and the file itself
		if how == "Metadata" {
			bound += metaBound
		}
		r.within(kind+" "+how, size, r.peak("open", how, path)-idle, bound)
		verb := pick(r.Rand, []string{"inspect", "inspect --json", "inspect --tree", "verify", "stats", "hash", "map", "dump x", "diff"})
		if verb == "diff" { // opens it twice
			r.within(kind+" "+verb, 2*size, r.peak("verb", verb, path)-idleVerb, verbBound+1)
		} else {
			r.within(kind+" "+verb, size, r.peak("verb", verb, path)-idleVerb, verbBound+1)
		}
		verb = pick(r.Rand, writers)
		r.within(kind+" "+verb, size, r.peak("verb", verb, path)-idleWriter, verbBound) // which map no file
		r.bundle(pick(r.Rand, slices.Sorted(maps.Keys(bundles))), idleVerb)
		r.claims(claimed(r))
	}
}

// bundle has a model verified by a hostile bundle. An idle process takes so much.
func (r *round) bundle(kind string, idle int64) {
	b, path := bundles[kind](r.Rand, (3+r.IntN(8))<<20), filepath.Join(r.dir, "model.sig")
	check(os.WriteFile(path, b, 0o666))
	by := "--key ../../../testdata/trust/p256.pub.pem"
	if kind == "certificates" {
		by = "--certificate-chain ../../../testdata/trust/root.pem"
	}
	r.count("bundle "+kind, 1)
	grown := r.peak("verb", "verify --signature "+path+" "+by, "../../../testdata/trust/model") - idle
	r.within("bundle "+kind, int64(len(b)), grown, verbBound)
}

// TestListing lists and surveys 200,000 tensors, in less memory than Python's safetensors 0.8 takes to list
// them with their types and shapes: 200 MB.
func TestListing(t *testing.T) {
	if buildSetting("-race") == "true" {
		t.Skip("the race detector takes memory of its own")
	}
	const tensors = 200_000
	text := []byte("{")
	for i := range tensors {
		text = fmt.Appendf(text, `"model.layers.%d.block_sparse_moe.experts.%d.down_proj.weight":{"dtype":"F32","shape":[1],"data_offsets":[%d,%d]},`,
			i/1000, i%1000, 4*i, 4*i+4)
	}
	text[len(text)-1] = '}'
	a := &arena{command: buildCommand(t)}
	path := filepath.Join(t.TempDir(), "many.safetensors")
	check(os.WriteFile(path, append(header(text), make([]byte, 4*tensors)...), 0o666))
	for verb, most := range map[string]int64{"inspect": 120 << 20, "stats": 160 << 20} {
		took := a.peak("verb", verb, path)
		t.Logf("%s: %.0f MB", verb, float64(took)/1e6)
		if took > most {
			t.Errorf("%s of %d tensors takes %d bytes, more than %d", verb, tensors, took, most)
		}
	}
}

// writers are verbs that write a model.
var writers = []string{
	"convert out.apr", "convert out.gguf", "convert out.safetensors", "convert out.apr --compress", "convert out.apr --dtype f16",
	"merge out.apr", "merge out.safetensors", "split out.apr --shard-size 1MB", "split out.safetensors --shard-size 1MB", "split out.gguf --shard-size 1MB",
}

// within compares the growth of a process with the bytes of its file.
func (r *round) within(name string, size, grown int64, bound int64) {
	r.count("measured", 1)
	r.mu.Lock()
	r.counts["most, percent of the bound"] = max(r.counts["most, percent of the bound"], 100*grown/(bound*size+spare))
	r.mu.Unlock()
	if grown > bound*size+spare {
		r.errorf("%s: %.1f MB of memory for a file of %.1f MB", name, float64(grown)/1e6, float64(size)/1e6)
	}
}

// peak returns the most memory that a process takes which opens or shows a file.
func (a *arena) peak(kind, how, path string) int64 {
	args := []string{os.Args[0], "-attack.victim", measure, "-attack.folder", path, "-attack.command", how}
	if kind == "verb" {
		words := strings.Fields(how)
		args = []string{a.command, words[0], path}
		for _, arg := range words[1:] {
			if strings.HasPrefix(arg, "out.") {
				arg = filepath.Join(filepath.Dir(path), arg)
			}
			args = append(args, arg)
		}
		if how == "diff" {
			args = append(args, path)
		}
	}
	// A process begins with the most memory that the one had which started it, so a small one does.
	cmd := exec.Command(os.Args[0], append([]string{"-attack.victim", starter, "--"}, args...)...)
	var out, failure bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &failure
	check(cmd.Start())
	var err error
	ends(how+" "+path, func() { err = cmd.Wait() })
	if status := exitStatus(err); status != 0 && status != 1 {
		panic(fmt.Sprintf("%s %s: status %d\n%s", how, path, status, failure.Bytes()))
	}
	return must(strconv.ParseInt(strings.TrimSpace(out.String()), 10, 64))
}

const (
	measure = "measure" // the victim that opens a file and does nothing else
	starter = "starter" // the victim that starts another process and says what memory it took
)

// runStarter starts a process and writes its most memory.
func runStarter(args []string) int {
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Stderr = os.Stderr
	err := cmd.Run()
	fmt.Println(memory(cmd.ProcessState))
	return exitStatus(err)
}

func runMeasure(how, path string) int {
	var m *loader.Model
	var err error
	switch how {
	case "Open", "Metadata":
		m, err = loader.Open(path, nil)
	case "Open NoMap":
		m, err = loader.Open(path, &loader.Options{NoMap: true})
	case "OpenBytes":
		m, err = loader.OpenBytes(must(os.ReadFile(path)), nil)
	}
	if err != nil {
		return 1
	}
	defer m.Close()
	if how == "Metadata" {
		m.Metadata()
	}
	return 0
}

// memory returns the most memory that a process had, in bytes.
func memory(state *os.ProcessState) int64 {
	usage, ok := state.SysUsage().(*syscall.Rusage)
	if !ok {
		return 0
	}
	if runtime.GOOS == "darwin" {
		return int64(usage.Maxrss)
	}
	return int64(usage.Maxrss) << 10
}

// claimed makes a SafeTensors file that claims 4 GiB, of which 1 MiB is there.
func claimed(r *round) *model {
	const size, there = 4 << 30, 1 << 20
	d := pick(r.Rand, []string{"F32", "F16", "U8", "BF16"})
	n := uint64(size) / map[string]uint64{"F32": 4, "F16": 2, "BF16": 2, "U8": 1}[d]
	text := must(json.Marshal(map[string]any{"a": map[string]any{"dtype": d, "shape": []uint64{n}, "data_offsets": []uint64{0, size}}}))
	return &model{files: map[string][]byte{"a": append(header(text), make([]byte, there)...)}, start: uint64(8+len(text)) + size}
}

// A short file is a reader that claims more than there is.
type shortReader struct{ b []byte }

func (s shortReader) ReadAt(p []byte, off int64) (int, error) {
	if off >= int64(len(s.b)) {
		return 0, io.ErrUnexpectedEOF
	}
	n := copy(p, s.b[off:])
	if n < len(p) {
		return n, io.ErrUnexpectedEOF
	}
	return n, nil
}

// claims reads a tensor of which most is not there, in every way that takes memory.
func (r *round) claims(all *model) {
	m, err := loader.OpenReaderAt(context.Background(), shortReader{all.files["a"]}, int64(all.start), &loader.Options{TensorBytes: 8 << 30, CacheBytes: 32 << 30})
	if err != nil {
		r.errorf("4 GiB claimed: %v", err)
		return
	}
	defer m.Close()
	x := must(m.Tensor("a"))
	var before, after runtime.MemStats
	calls := map[string]func() error{
		"Bytes": func() error { _, err := x.Bytes(); return err }, "Float32s": func() error { _, err := x.Float32s(); return err },
		"Warm":    func() error { _, err := m.Warm(context.Background(), []string{"a"}, nil); return err },
		"WarmAll": func() error { _, err := m.WarmAll(context.Background(), nil); return err },
		"WriteTo": func() error { _, err := x.WriteTo(io.Discard); return err },
		"View":    func() error { _, err := loader.View[uint8](x); return err },
	}
	name := pick(r.Rand, slices.Sorted(maps.Keys(calls)))
	runtime.GC()
	runtime.ReadMemStats(&before)
	err = calls[name]()
	runtime.ReadMemStats(&after)
	r.count("claims", 1)
	if grown := after.TotalAlloc - before.TotalAlloc; grown > 160<<20 {
		r.errorf("%s of 4 GiB, 1 MiB of which is there, allocates %d MiB", name, grown>>20)
	}
	if err == nil {
		r.errorf("%s of 4 GiB, 1 MiB of which is there: no error", name)
	}
}

// beginFlood opens files whose names are chosen to collide, or to be compared at length, and
// wants the time to grow with their number.
func beginFlood(*arena) func(*round) {
	const n = 1 << 12
	return func(r *round) {
		names := pick(r.Rand, []func(*rand.Rand, int) []string{colliding, similar, sorted, typed})
		seconds := func(n int) time.Duration {
			b := flood(names(rand.New(rand.NewPCG(uint64(r.number), 1)), n))
			best := time.Hour
			for range 5 {
				start := processTime()
				m := must(loader.OpenBytes(b, nil))
				must(m.Metadata())
				best = min(best, processTime()-start)
				m.Close()
			}
			return best
		}
		// Four times the names take four times as long; sixteen times would be quadratic. What
		// disturbs all five tries, such as collections of garbage, is measured again.
		var small, large time.Duration
		for range 3 {
			if small, large = seconds(n), seconds(4*n); large < 10*small {
				r.count("linear", 1)
				return
			}
		}
		r.errorf("%d names take %v, %d take %v", n, small, 4*n, large)
	}
}

// processTime returns the CPU time of this process, which others that run take no part of.
func processTime() time.Duration {
	var usage syscall.Rusage
	check(syscall.Getrusage(syscall.RUSAGE_SELF, &usage))
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// colliding makes names with one hash under h = 31h + c, as in Java, and any h = kh + c for
// pairs of them.
func colliding(_ *rand.Rand, n int) []string {
	names := make([]string, n)
	for i := range names {
		var b []byte
		for bit := range 16 {
			b = append(b, []string{"Aa", "BB"}[i>>bit&1]...)
		}
		names[i] = string(b)
	}
	return names
}

// similar makes names that differ in their last bytes.
func similar(_ *rand.Rand, n int) []string {
	names, prefix := make([]string, n), strings.Repeat("model.layers.", 15)
	for i := range names {
		names[i] = fmt.Sprintf("%s%08d", prefix, i)
	}
	return names
}

// sorted makes names in falling order.
func sorted(rng *rand.Rand, n int) []string {
	names := similar(rng, n)
	slices.Reverse(names)
	return names
}

// typed makes names that Ollama's metadata give types to, in pairs.
func typed(_ *rand.Rand, n int) []string {
	names := make([]string, n)
	for i := range names {
		names[i] = fmt.Sprintf("%d.%s", i/2, []string{"quant_type", "group_size"}[i%2])
	}
	return names
}

// flood makes a SafeTensors file of empty tensors, and of as much metadata. The last one may be quantized, so that these are asked.
func flood(names []string) []byte {
	var b bytes.Buffer
	b.WriteString(`{"__metadata__":{`)
	for i, n := range names {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, `%q:"int4"`, n)
	}
	b.WriteByte('}')
	for _, n := range names {
		fmt.Fprintf(&b, `,%q:{"dtype":"U8","shape":[0],"data_offsets":[0,0]}`, n)
	}
	b.WriteString(`,"weight":{"dtype":"U8","shape":[0,1],"data_offsets":[0,0]}}`)
	return header(b.Bytes())
}
