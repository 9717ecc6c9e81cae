package parallel

import "context"

// Mutex is a lock that is waited for with a context.
type Mutex struct {
	held chan struct{}
}

// NewMutex returns an unlocked Mutex.
func NewMutex() Mutex { return Mutex{make(chan struct{}, 1)} }

// Lock locks m, or returns the cause of ctx if that ends first.
func (m Mutex) Lock(ctx context.Context) error {
	select {
	case m.held <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Unlock unlocks m.
func (m Mutex) Unlock() { <-m.held }
