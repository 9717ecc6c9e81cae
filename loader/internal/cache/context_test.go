package cache

import (
	"context"
	"errors"
	"runtime"
	"testing"

	"github.com/tensormap/tensormap/layout"
)

var errLate = errors.New("the deadline of one caller")

// TestGetLeavesInTime has the caller that began a fill leave, and then one that joined it. The
// fill goes on for the caller that is left.
func TestGetLeavesInTime(t *testing.T) {
	c, keys := cacheOf(100, 1)
	begun, goOn := make(chan context.Context), make(chan struct{})
	fill := func(ctx context.Context) (Buffer, error) {
		begun <- ctx
		<-goOn
		return Buffer{Bytes: make([]byte, 10)}, ctx.Err()
	}
	get := func(ctx context.Context, p *Pins) chan error {
		end := make(chan error, 1)
		go func() {
			b, err := c.Get(ctx, keys[0], p, fill)
			if err == nil && len(b.Bytes) != 10 {
				err = errors.New("another buffer")
			}
			end <- err
		}()
		return end
	}
	var pins [2]Pins
	var ends [2]chan error
	var cancels [2]context.CancelCauseFunc
	var filling context.Context
	for i := range ends {
		ctx, cancel := context.WithCancelCause(context.Background())
		ends[i], cancels[i] = get(ctx, &pins[i]), cancel
		if i == 0 {
			filling = <-begun
		}
	}
	last := get(context.Background(), nil)
	for c.Counters().Hits < 2 { // both have joined
		runtime.Gosched()
	}
	for i, end := range ends {
		cancels[i](errLate)
		if err := <-end; err != errLate || c.Pinned(&pins[i]) != 0 {
			t.Errorf("caller %d left with %v, %d pins", i, err, c.Pinned(&pins[i]))
		}
	}
	if filling.Err() != nil {
		t.Error("the fill is cancelled, though one caller waits")
	}
	close(goOn)
	if err := <-last; err != nil || c.Counters().Fills != 1 || c.entries[keys[0]].pins != 0 {
		t.Errorf("%v, %+v", err, c.Counters())
	}
}

// TestGetAbandoned has the only caller leave: the fill is cancelled, its result is dropped, and
// the next caller begins anew.
func TestGetAbandoned(t *testing.T) {
	c, keys := cacheOf(100, 1)
	inside := make(chan int, 2) // fills that hold the model
	c.opts.Enter = func() { inside <- 1 }
	left := make(chan struct{})
	c.opts.Leave = func() { close(left) }
	ctx, cancel := context.WithCancelCause(context.Background())
	goOn := make(chan struct{})
	_, err := c.Get(ctx, keys[0], nil, func(filling context.Context) (Buffer, error) {
		cancel(errLate)
		<-filling.Done()
		<-goOn
		return Buffer{Bytes: make([]byte, 5)}, nil
	})
	if err != errLate || len(inside) != 1 || len(c.entries) != 0 {
		t.Errorf("%v, %d fills, %d entries", err, len(inside), len(c.entries))
	}
	if b, err := c.Get(context.Background(), keys[0], nil, fillBytes(10)); err != nil || len(b.Bytes) != 10 {
		t.Errorf("%v, %v", b, err)
	}
	close(goOn)
	<-left
	if got := c.Counters(); got.Fills != 1 || got.Used != 10 || len(c.entries) != 1 {
		t.Errorf("the abandoned fill is kept: %+v", got)
	}
}

// TestGetPanics has a fill panic while its caller waits with a context.
func TestGetPanics(t *testing.T) {
	c, keys := cacheOf(100, 1)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	defer func() {
		if v := recover(); v != errLate || len(c.entries) != 0 {
			t.Errorf("recovered %v, %d entries", v, len(c.entries))
		}
	}()
	c.Get(ctx, keys[0], nil, func(context.Context) (Buffer, error) { panic(errLate) })
}

// TestGetPanicsAbandoned has a fill panic once its caller has left.
func TestGetPanicsAbandoned(t *testing.T) {
	c, keys := cacheOf(100, 1)
	heard := make(chan any, 1)
	c.opts.Panicked = func(_ *layout.Tensor, v any) { heard <- v }
	ctx, cancel := context.WithCancel(context.Background())
	left := make(chan struct{})
	_, err := c.Get(ctx, keys[0], nil, func(context.Context) (Buffer, error) {
		cancel()
		<-left
		panic(errLate)
	})
	close(left)
	if v := <-heard; v != errLate || err != context.Canceled || len(c.entries) != 0 {
		t.Errorf("heard %v; %v, %d entries", v, err, len(c.entries))
	}
}
