package content

import (
	"context"
	"errors"

	"github.com/tensormap/tensormap/mmapio"
)

// Packed is elements that can only be unpacked as a whole. It is read through a [Cached].
type Packed struct {
	Stored Content
	Length uint64 // bytes of the elements
	// Unpack makes dst of all that is stored. It allows no more elements than these bytes can hold.
	Unpack func(ctx context.Context, stored, dst []byte) error
}

// Size returns the number of bytes of the unpacked elements.
func (p *Packed) Size() uint64 { return p.Length }

// View returns nil without an error, but View of [Cached] has all bytes.
func (p *Packed) View(context.Context, Env, uint64, uint64) ([]byte, error) { return nil, nil }

// ReadAt always fails: [Cached] unpacks the whole instead.
func (p *Packed) ReadAt(context.Context, Env, []byte, uint64) error {
	return errors.New("a packed tensor is read as a whole")
}

// Probe makes sure that the last stored byte exists, and fails if it does not. sizeIsSure says whether the other stored bytes then
// exist too.
func (p *Packed) Probe(ctx context.Context) (sizeIsSure bool, err error) { return p.Stored.Probe(ctx) }

// Cost tells that a part costs as much as the whole. ReadBytes is never 0, since View has nothing, even if the stored bytes are
// in memory.
func (p *Packed) Cost() Cost {
	c := p.Stored.Cost()
	return Cost{ReadBytes: max(c.ReadBytes, LocalRead), OnlyWhole: true, MayWait: c.MayWait}
}

// unpackAll reads all stored bytes and returns the unpacked elements. It allocates no memory before Probe has found the last stored
// byte. It fails if reading or Unpack does, or with ErrTooLarge for more stored or unpacked bytes than limit.
func (p *Packed) unpackAll(ctx context.Context, limit Limit) ([]byte, error) {
	if err := limit.Allow(p.Length, 1); err != nil {
		return nil, err
	}
	if _, err := p.Stored.Probe(ctx); err != nil {
		return nil, err
	}
	stored, err := Bytes(ctx, Env{}, p.Stored, limit)
	if err != nil {
		return nil, err
	}
	b := mmapio.AlignedBytes(int(p.Length))
	return b, p.Unpack(ctx, stored, b)
}
