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

func (p *Packed) Size() uint64 { return p.Length }

func (p *Packed) View(context.Context, Env, uint64, uint64) ([]byte, error) { return nil, nil }

func (p *Packed) ReadAt(context.Context, Env, []byte, uint64) error {
	return errors.New("a packed tensor is read as a whole")
}

func (p *Packed) Probe(ctx context.Context) (sure bool, err error) { return p.Stored.Probe(ctx) }

func (p *Packed) Cost() Cost {
	c := p.Stored.Cost()
	return Cost{ReadBytes: max(c.ReadBytes, LocalRead), OnlyWhole: true, MayWait: c.MayWait}
}

// unpackAll returns the unpacked elements, for which it reads all stored bytes. More bytes than limit are ErrTooLarge. It
// allocates memory once Probe has found the last stored byte.
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
