package convert

import (
	"bufio"
	"slices"

	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/layout/apr2"
	"github.com/tensormap/tensormap/layout/encrypted"
	"github.com/tensormap/tensormap/layout/manifest"
)

var apr2Target = target{
	name: "APR2", hasType: apr2.Holds, hasScales: true, hasDigests: true, maxDims: apr2.MaxDims, integers: unsigned,
	divideFiles: (*Plan).divideAPR2, manifest: (*Plan).apr2Manifest,
}

// unsigned has the unsigned integers by their sizes in bytes.
var unsigned = map[int]layout.DType{1: layout.U8, 2: layout.U16, 4: layout.U32, 8: layout.U64}

// divideAPR2 sets p.files to one file. If that is larger than Options.ShardBytes, it plans shards and a manifest instead. It
// fails for tensors and metadata that the format cannot hold.
func (p *Plan) divideAPR2() error {
	p.files = []file{{path: p.Path, tensors: p.Tensors, metadata: p.Metadata}}
	raw := *p
	if raw.opts.Compress.compresses() {
		raw.opts.Compress = NoCompression // sizes are known once tensors are written
	}
	if err := raw.setSize(&p.files[0]); err != nil || p.opts.ShardBytes == 0 || p.files[0].size <= p.opts.ShardBytes {
		return err
	}
	return p.divideAPR2Shards()
}

// divideAPR2Shards plans shards of at most Options.ShardBytes, and names them. Each has as many tensors as fit. A tensor that
// exceeds the limit alone has a shard of its own, and is marked as Oversized. It fails if metadata cannot be written, if
// the encrypter's parameters are invalid, or if nameShards fails.
func (p *Plan) divideAPR2Shards() error {
	methodKeys := without(p.shardKeys(object(p.Metadata, safeTensorsKey)), "format") // which only SafeTensors shards need
	shared, err := p.shardMetadata(methodKeys, nil).MarshalJSON()
	if err != nil {
		return err
	}
	metadataBytes := uint64(len(shared)) // an upper bound for a shard without scales
	if s := p.opts.Encrypter; s != nil {
		n, err := s.MetadataBytes()
		if err != nil {
			return err
		}
		metadataBytes += n
	}
	if s := p.opts.Signer; s != nil {
		metadataBytes += s.SignatureBytes(p.opts.ShardBytes) // a shard is larger only if it has a single tensor
	}
	p.files = nil
	empty := apr2.NewSizer(p.opts.Align, metadataBytes, p.opts.Encrypter)
	shard, first := empty, 0     // the size of the current shard, and its first tensor
	endShard := func(next int) { // ends the current shard before tensor next, which begins another
		tensors := p.Tensors[first:next]
		p.files = append(p.files, file{tensors: tensors, metadata: p.shardMetadata(methodKeys, tensors), size: shard.Size()})
		shard, first = empty, next
	}
	i := 0
	for e := range p.apr2Entries(p.Tensors) {
		scaleBytes := p.Tensors[i].maxScaleBytes()
		if i > first && shard.With(&e, scaleBytes).Size() > p.opts.ShardBytes {
			endShard(i)
		}
		shard = shard.With(&e, scaleBytes)
		p.Tensors[i].Oversized = i == first && shard.Size() > p.opts.ShardBytes
		i++
	}
	endShard(len(p.Tensors)) // the last shard, which has no tensors if the model has none
	return p.nameShards()
}

// apr2Manifest returns the manifest, signed and encrypted as the options say. It fails if writing, signing or encrypting does.
func (p *Plan) apr2Manifest() ([]byte, error) {
	b, err := inMemory(func(w *bufio.Writer) error {
		return manifest.WriteAPR2(w, p.manifestShards(), p.manifestPlaces(), p.Metadata)
	})
	if err != nil || p.opts.Signer == nil && p.opts.Encrypter == nil {
		return b, err
	}
	var finish encrypted.Finisher
	var signature, encryption layout.Metadata
	if s := p.opts.Encrypter; s != nil {
		if encryption, finish.Cipher, err = s.Manifest(); err != nil {
			return nil, err
		}
	}
	if s := p.opts.Signer; s != nil {
		signature, finish.Sign = encrypted.Placeholder(s.Public, 0, 0), s.Sign // 0 bytes of data
	}
	return finish.Manifest(b, signature, encryption)
}

// shardMetadata returns the metadata of an APR2 shard that has the given tensors. It has the keys that the format requires, and under
// safeTensorsKey the methodKeys, which say how weights are quantized. Its key "quantization" has the scales and zero points of the shard's
// tensors, so that their values are known without the manifest. Scales of tensors in other shards are left out.
func (p *Plan) shardMetadata(methodKeys layout.Metadata, tensors []Tensor) (md layout.Metadata) {
	for _, key := range []string{"apr_version", "model_type", "architecture"} {
		if v, ok := p.Metadata.Get(key); ok {
			md.Set(key, v)
		}
	}
	setObject(&md, safeTensorsKey, methodKeys)
	quantization := slices.Clone(object(p.Metadata, "quantization"))
	for _, e := range scalesOf(tensors) {
		if len(object(quantization, e.Key)) > 0 {
			quantization.Set(e.Key, e.Value)
		}
	}
	setObject(&md, "quantization", quantization)
	return md
}

// maxScaleBytes returns a bound of the bytes of JSON that the scale and zero point of t add to its shard's metadata.
func (t *Tensor) maxScaleBytes() (n uint64) {
	if !t.hasScale {
		return 0
	}
	for _, e := range scalesOf([]Tensor{*t}) {
		if o := e.Value.(layout.Metadata); len(o) > 0 {
			b, _ := o.MarshalJSON() // no error: the values are numbers
			n += uint64(len(b))     // counts two braces, where the entry needs one comma
		}
	}
	return n
}
