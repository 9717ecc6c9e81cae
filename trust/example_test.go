package trust_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/loader"
	"github.com/tensormap/tensormap/trust"
)

const example = "../testdata/safetensors/minilm-slice.safetensors"

// Sign a model with a new key, and read it by a loader that hands out no byte which the key has not signed.
func ExampleSign() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "signed")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	bundle := filepath.Join(dir, "model.sig")

	key, err := trust.GenerateKey(trust.P256)
	if err != nil {
		log.Fatal(err)
	}
	if err := trust.Sign(ctx, example, bundle, key, nil); err != nil {
		log.Fatal(err)
	}

	text, err := os.ReadFile(bundle)
	if err != nil {
		log.Fatal(err)
	}
	b, err := trust.ParseBundle(text)
	if err != nil {
		log.Fatal(err)
	}
	signed, err := b.VerifyKey(key.Public())
	if err != nil {
		log.Fatal(err)
	}
	m, err := loader.Open(example, &loader.Options{Trust: signed})
	if err != nil {
		log.Fatal(err)
	}
	defer m.Close()
	t, err := m.Tensor("embeddings.LayerNorm.bias")
	if err != nil {
		log.Fatal(err)
	}
	bias, err := t.Float32s()
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(signed.Files(), bias[:3])
	// Output:
	// [minilm-slice.safetensors] [0.16954054 0.11112433 0.0064446456]
}

// Compare a directory with its signature: files that are missing, too many or changed are errors.
func ExampleStatement_Verify() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "signed")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	config, bundle := filepath.Join(dir, "config.json"), filepath.Join(dir, "model.sig")
	if err := os.WriteFile(config, []byte(`{"hidden_size": 384}`), 0o666); err != nil {
		log.Fatal(err)
	}
	key, err := trust.GenerateKey(trust.P384)
	if err != nil {
		log.Fatal(err)
	}
	if err := trust.Sign(ctx, dir, bundle, key, nil); err != nil {
		log.Fatal(err)
	}
	text, err := os.ReadFile(bundle)
	if err != nil {
		log.Fatal(err)
	}
	b, err := trust.ParseBundle(text)
	if err != nil {
		log.Fatal(err)
	}
	signed, err := b.VerifyKey(key.Public())
	if err != nil {
		log.Fatal(err)
	}

	opts := &trust.VerifyOptions{Bundle: bundle}
	fmt.Println("as signed:", signed.Verify(ctx, dir, opts))
	if err := os.WriteFile(config, []byte(`{"hidden_size": 768}`), 0o666); err != nil {
		log.Fatal(err)
	}
	fmt.Println("changed:", errors.Is(signed.Verify(ctx, dir, opts), layout.ErrChecksum))

	other, err := trust.GenerateKey(trust.P384)
	if err != nil {
		log.Fatal(err)
	}
	_, err = b.VerifyKey(other.Public())
	fmt.Println("another key:", errors.Is(err, trust.ErrSignature))
	// Output:
	// as signed: <nil>
	// changed: true
	// another key: true
}
