package trust

import (
	"bytes"
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/layout/encrypted"
	"github.com/tensormap/tensormap/loader"
)

// slowPassphrase returns a passphrase whose derivations with a salt that starts with 1 end when release is closed.
// count counts all of them.
func slowPassphrase(t *testing.T, text string, release chan struct{}, count *atomic.Int64) *Passphrase {
	t.Helper()
	p, err := NewPassphrase([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	argon2 := p.argon2
	p.argon2 = func(text, salt []byte, time, memoryKiB uint32, threads uint8, size uint32) []byte {
		count.Add(1)
		if salt[0] == 1 {
			<-release
		}
		return argon2(text, salt, time, memoryKiB, threads, size)
	}
	return p
}

// parametersOf returns cheap parameters with a salt.
func parametersOf(salt ...byte) *encrypted.Argon2 {
	a := &encrypted.Argon2{Time: 1, MemoryKiB: 8, Threads: 1}
	copy(a.Salt[:], salt)
	return a
}

// TestPassphraseContext has derivations that do not end: whoever waits goes when its context ends, other
// parameters do not wait, and no more than four run in the process.
func TestPassphraseContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		defer func(before chan struct{}) { deriving = before }(deriving)
		deriving = make(chan struct{}, cap(deriving))
		release := make(chan struct{})
		var count atomic.Int64
		p := slowPassphrase(t, "open", release, &count)
		type answer struct {
			key []byte
			err error
		}
		key := func(ctx context.Context, p *Passphrase, a *encrypted.Argon2) chan answer {
			c := make(chan answer, 1)
			go func() {
				k, err := p.Key(ctx, a)
				c <- answer{k, err}
			}()
			synctest.Wait()
			return c
		}
		ctx, cancel := context.WithCancel(t.Context())
		first := key(ctx, p, parametersOf(1))
		same := key(t.Context(), p, parametersOf(1))
		cancel()
		if a := <-first; !errors.Is(a.err, context.Canceled) {
			t.Errorf("%x, %v", a.key, a.err)
		}
		if _, err := p.Key(t.Context(), parametersOf(2)); err != nil || count.Load() != 2 {
			t.Errorf("other parameters: %v; %d derivations", err, count.Load())
		}
		other := slowPassphrase(t, "other", release, &count)
		for i := range byte(cap(deriving) - 1) {
			key(t.Context(), other, parametersOf(1, i))
		}
		began := count.Load()
		ctx, cancel = context.WithCancel(t.Context())
		fifth := key(ctx, p, parametersOf(1, 9))
		if count.Load() != began || len(fifth) != 0 {
			t.Errorf("%d derivations at a time", count.Load()-began+4)
		}
		if _, err := p.Key(t.Context(), parametersOf(2)); err != nil {
			t.Errorf("a key that is there: %v", err)
		}
		cancel()
		if a := <-fifth; !errors.Is(a.err, context.Canceled) {
			t.Errorf("%x, %v", a.key, a.err)
		}
		sixth := key(t.Context(), p, parametersOf(1, 9))
		close(release)
		for _, c := range []chan answer{same, sixth} {
			if a := <-c; a.err != nil || len(a.key) != encrypted.KeySize {
				t.Error(a.err)
			}
		}
		if _, err := p.Key(ctx, parametersOf(3)); !errors.Is(err, context.Canceled) {
			t.Error("after the end:", err)
		}
		synctest.Wait() // for all derivations, which give back their places in deriving
	})
}

// TestPassphraseOpen ends the context of an Open whose passphrase is being turned into a key.
func TestPassphraseOpen(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	p, err := NewPassphrase([]byte("открой"))
	if err != nil {
		t.Fatal(err)
	}
	argon2, release := p.argon2, make(chan struct{})
	p.argon2 = func(text, salt []byte, time, memoryKiB uint32, threads uint8, size uint32) []byte {
		cancel()
		<-release
		return argon2(text, salt, time, memoryKiB, threads, size)
	}
	b := fixture(t, "passphrase.apr")
	open := func(ctx context.Context) error {
		m, err := loader.OpenReaderAt(ctx, bytes.NewReader(b), int64(len(b)), &loader.Options{Key: Always(p)})
		if err == nil {
			m.Close()
		}
		return err
	}
	if err := open(ctx); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	close(release)
	if err := open(t.Context()); err != nil { // by the key that was derived meanwhile
		t.Error(err)
	}
}

// TestPassphraseMany has files of strangers, each with parameters of its own: few keys are kept.
func TestPassphraseMany(t *testing.T) {
	var count atomic.Int64
	p := slowPassphrase(t, "open", nil, &count)
	for i := range 2 * maxDerived {
		a, b := parametersOf(0, byte(i)), parametersOf(0, byte(i))
		first, err := p.Key(t.Context(), a)
		if err != nil {
			t.Fatal(err)
		}
		if again, err := p.Key(t.Context(), b); err != nil || !bytes.Equal(first, again) {
			t.Fatalf("%x, then %x, %v", first, again, err)
		}
	}
	if len(p.derived) > maxDerived || count.Load() != 2*maxDerived {
		t.Errorf("%d keys kept, %d derived", len(p.derived), count.Load())
	}
	for _, a := range []encrypted.Argon2{{}, {Time: 17, MemoryKiB: 8, Threads: 1}, {Time: 1, MemoryKiB: 8, Threads: 2}, {Time: 1, MemoryKiB: 8}} {
		if _, err := p.Key(t.Context(), &a); !errors.Is(err, layout.ErrLimit) {
			t.Errorf("%+v: %v", a, err)
		}
		if _, err := encrypted.NewEncryption(encrypted.DefaultBlock, &a, ""); !errors.Is(err, layout.ErrLimit) {
			t.Errorf("a file is made with %+v: %v", a, err)
		}
	}
}
