package content_test

import (
	"context"
	"os"
	"slices"
	"testing"

	"github.com/tensormap/tensormap/internal/lz4block"
	"github.com/tensormap/tensormap/internal/test/modeltest"
	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/layout/apr2"
	"github.com/tensormap/tensormap/layout/encrypted"
	"github.com/tensormap/tensormap/loader/internal/content"
	"github.com/tensormap/tensormap/loader/internal/content/contenttest"
	"github.com/tensormap/tensormap/loader/internal/decrypted"
	"github.com/tensormap/tensormap/loader/internal/file"
	"github.com/tensormap/tensormap/mmapio"
)

// before is what a file has in front of a tensor, which makes it misaligned.
const before = 4099

// files are ways to reach the bytes of a file.
var files = map[string]func(t *testing.T, b []byte) *file.File{
	"mapped": func(t *testing.T, b []byte) *file.File {
		m, err := mmapio.Map(modeltest.Write(t, "file", b))
		return file.New("file", modeltest.Opened(t, m, err))
	},
	"read": func(t *testing.T, b []byte) *file.File {
		f, err := os.Open(modeltest.Write(t, "file", b))
		if err != nil {
			t.Fatal(err)
		}
		m, err := mmapio.FromFile(f)
		m = modeltest.Opened(t, m, err)
		t.Cleanup(func() { f.Close() })
		return file.New("file", m)
	},
	"memory": func(_ *testing.T, b []byte) *file.File { return file.New("file", mmapio.FromBytes(b)) },
	"source": func(_ *testing.T, b []byte) *file.File {
		return file.FromSource("file", contenttest.Source(b), true, nil, nil)
	},
	"verified": func(t *testing.T, b []byte) *file.File {
		return trusted(t, b, file.New("file", mmapio.FromBytes(b)), false)
	},
	"private": func(t *testing.T, b []byte) *file.File {
		return trusted(t, b, file.New("file", mmapio.FromBytes(b)), true)
	},
	"source, verified": func(t *testing.T, b []byte) *file.File {
		return trusted(t, b, file.FromSource("file", contenttest.Source(b), true, nil, nil), false)
	},
}

// trusted has f verify chunks of 64 KiB.
func trusted(t *testing.T, b []byte, f *file.File, private bool) *file.File {
	t.Helper()
	digests := func(layout.Input) (*layout.Digests, error) { return modeltest.Digests(b, layout.MinChunk), nil }
	if err := f.Trust(t.Context(), private, digests); err != nil {
		t.Fatal(err)
	}
	return f
}

// stored returns a tensor of these bytes, which a file has behind others.
func stored(t *testing.T, way func(t *testing.T, b []byte) *file.File, b []byte) *content.Stored {
	return &content.Stored{File: way(t, slices.Concat(make([]byte, before), b, []byte("after"))), Off: before, Length: uint64(len(b))}
}

// TestContents runs the suite on every Content: over every file, in memory, compressed, encrypted, packed, and with a cache that is empty
// or filled. Sizes are none, less than a block of LZ4, and several.
func TestContents(t *testing.T) {
	for name, n := range map[string]int{"none": 0, "few": 1000, "many": 3*lz4block.Size + 77} {
		want := modeltest.Noise(uint64(n), 1)
		clear(want[:n/2]) // one half is compressed, the other is not
		run := func(kind string, open func(t *testing.T) content.Content) {
			t.Run(name+"/"+kind, func(t *testing.T) { contenttest.Run(t, want, open) })
		}
		run("Memory", func(t *testing.T) content.Content { return content.Memory(want) })
		large := func(t *testing.T) content.Content {
			s := stored(t, files["memory"], want)
			s.Large = true
			return s
		}
		run("Stored/large", large)
		run("Cached/Stored/large", func(t *testing.T) content.Content { return contenttest.Cached(large(t)) })
		for kind, way := range files {
			plain := func(t *testing.T) content.Content { return stored(t, way, want) }
			lz4 := func(t *testing.T) content.Content {
				blocks := stored(t, way, modeltest.Blocks(t, want))
				return content.LZ4{Table: content.NewTable(layout.APR2, before, blocks.Length, uint64(n)), Stored: blocks}
			}
			packed := func(t *testing.T) content.Content {
				return &content.Packed{Stored: stored(t, way, want), Length: uint64(n), Unpack: func(_ context.Context, stored, dst []byte) error {
					copy(dst, stored)
					return nil
				}}
			}
			for over, open := range map[string]func(t *testing.T) content.Content{"Stored": plain, "LZ4": lz4} {
				run(over+"/"+kind, open)
				run("Cached/"+over+"/"+kind, func(t *testing.T) content.Content { return contenttest.Cached(open(t)) })
			}
			run("Decrypted/"+kind, func(t *testing.T) content.Content { return encryptedContent(t, way, want) })
			run("Cached/Decrypted/"+kind, func(t *testing.T) content.Content { return contenttest.Cached(encryptedContent(t, way, want)) })
			run("Cached/Packed/"+kind, func(t *testing.T) content.Content { return contenttest.Cached(packed(t)) })
			run("Cached, filled/LZ4/"+kind, func(t *testing.T) content.Content {
				c := contenttest.Cached(lz4(t))
				if _, err := c.All(t.Context(), content.Env{}, c.Content); err != nil {
					t.Fatal(err)
				}
				return filled{c}
			})
		}
	}
}

// encryptedContent returns the decrypted content of a tensor of these bytes, which a file has in encrypted blocks.
func encryptedContent(t *testing.T, way func(t *testing.T, b []byte) *file.File, b []byte) content.Content {
	t.Helper()
	encryption, err := encrypted.NewEncryption(encrypted.MinBlock, nil, "")
	if err != nil {
		t.Fatal(err)
	}
	cipher, err := encryption.Cipher(t.Context(), encrypted.Key(modeltest.Noise(32, 2)))
	if err != nil {
		t.Fatal(err)
	}
	n := uint64(len(b))
	tensor := layout.Tensor{Name: []byte("x"), DType: layout.U8, Shape: []int{len(b)}, Offset: before, Raw: n, Encoding: layout.Encrypted}
	tensor.Stored = encrypted.StoredBytes(n, encrypted.MinBlock)
	entry, bytesOfFile, number := apr2.AppendIdentity(nil, &tensor), make([]byte, before), uint64(0)
	for block := range slices.Chunk(b, encrypted.MinBlock) {
		bytesOfFile = cipher.Seal(new(encrypted.Nonce), bytesOfFile, block, entry, 0, number)
		number++
	}
	source := way(t, append(bytesOfFile, "after"...))
	f := decrypted.New(cipher, encrypted.MinBlock, &layout.Index{Tensors: []layout.Tensor{tensor}})
	tensor = f.Decrypted(tensor)
	return f.Content(&tensor, source, source.Remote())
}

// filled is a Cached whose bytes are in the cache, so that it has views though its content has none.
type filled struct{ *content.Cached }

func (f filled) Cost() content.Cost { return content.Cost{} }
