package loader

import (
	"cmp"
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/mmapio"
)

// Options tune a Model. A nil *Options and every zero field mean the defaults.
type Options struct {
	// Limits caps what a file may make the decoder accept; nil means layout's defaults.
	Limits *layout.Limits
	// CacheBytes bounds the heap that holds expanded and copied tensors, beyond what
	// leases pin. 0 means 1 GiB; negative keeps nothing that no lease pins.
	CacheBytes int64
	// TensorBytes bounds the heap that one tensor may take if it has to be copied or
	// expanded. A file's claim of a sparse or huge tensor is then an error, not the end of the
	// process. 0 means half of the machine's memory, or 4 GiB if the platform does not tell.
	TensorBytes int64
	// Stored shows the tensors of a quantized checkpoint as the files have them. Otherwise a weight that is
	// stored as codes, scales and more is one logical tensor: see [Tensor.Scheme].
	Stored bool
	// IgnorePart, if set, says which tensors beside a quantized weight are left out, by their names. A tensor there that
	// is neither a known part nor known to be harmless makes the weight an error: it may change the values. IgnorePart is
	// how a program goes on that knows better.
	IgnorePart func(tensor string) bool
	// NoMap reads the file on demand into the heap instead of mapping it: for file
	// systems where a page fault may hang or kill. A file that has shrunk is then
	// io.ErrUnexpectedEOF rather than mmapio.ErrFault. Platforms that cannot map always
	// do this, and so does any other with a file that the system refuses to map: Stats tells.
	NoMap bool
	// Trust, if set, says which bytes the files must have. Nothing is then handed out that it does not
	// vouch for. A chunk is hashed when a byte of it is first touched, and once. Remote files are hashed
	// as they arrive. A mapping shows what others write to the file later: verified means that the bytes
	// were right when they were first touched, unless Private is set.
	Trust Trust
	// Private copies each chunk to memory of this process before it is hashed, and serves the copy. The copies
	// take as much memory as the chunks that were touched, until the model is gone.
	Private bool
	// Key returns the secret of encrypted files, which are APR2's. Every file of the model must then be encrypted, and
	// its head is authenticated before it is parsed. id is the file's key_id, which nobody has verified yet. Key is
	// called once for each id, under the context of opening. An error of it refuses the model. Without Key the
	// tensors of encrypted files are ErrKey.
	Key func(ctx context.Context, id string) (Secret, error)
	// TraceLeases notes who takes each lease, for HeldLeases. A lease then costs about a
	// microsecond and 500 bytes more.
	TraceLeases bool
	// Logger, if set, gets records of models that are opened and gone (Debug), and of models that could not be unmapped (Error).
	// It gets records of layers that a quantization configuration names and the model lacks (Warn).
	Logger *slog.Logger
	// Hooks are called on events that a server counts.
	Hooks Hooks
}

// Hooks are called on events that a server counts. They must not block, and may be called by
// several goroutines. Hooks is a struct of functions, not an interface: functions that are nil cost
// nothing, and new ones break nobody.
type Hooks struct {
	// Expanded is called after a tensor was copied or expanded into the cache, or could not be.
	Expanded func(tensor string, bytes uint64, took time.Duration, err error)
	// Gone is called once a closed model's files are unmapped and its cache is empty, with the time since Close.
	// The garbage collector frees what was cached. A server that cannot wait for its next turn, because it
	// swaps large quantized models, starts a goroutine here that calls [runtime/debug.FreeOSMemory].
	Gone func(drained time.Duration)
}

const defaultCacheBytes = 1 << 30

// withDefaults returns a copy of o with the default limits of memory in place of zeros. o may be nil.
func (o *Options) withDefaults() Options {
	var out Options
	if o != nil {
		out = *o
	}
	out.CacheBytes = cmp.Or(out.CacheBytes, defaultCacheBytes)
	out.TensorBytes = cmp.Or(out.TensorBytes, defaultTensorBytes())
	return out
}

var defaultTensorBytes = sync.OnceValue(func() int64 {
	if n := mmapio.Memory(); n > 0 {
		return int64(n / 2)
	}
	return 4 << 30
})
