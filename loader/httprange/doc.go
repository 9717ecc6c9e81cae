// Package httprange reads a remote file at offsets, by HTTP range requests (RFC 9110,
// section 14): what [github.com/tensormap/tensormap/loader.OpenReaderAt] needs to load
// tensors from a web server or an object store without fetching the rest of the file.
//
//	r, err := httprange.Open(ctx, "https://models.example/model.gguf", nil)
//	if err != nil {
//		return err
//	}
//	defer r.Close()
//	m, err := loader.OpenReaderAt(ctx, r, r.Size(), nil)
//
// The bytes are those of one version of the file or there is an error. Open notes the
// file's size and its ETag (else Last-Modified); every later request carries If-Match (or
// If-Unmodified-Since), and every response is held against both: a file that has changed
// is [ErrChanged].
//
// A request that fails for a reason that may pass – a connection cut or silent, an answer
// cut short, 408, 429 or 5xx – is repeated from the byte where it ended, with growing
// pauses. A read that gets fewer than 4 KiB in [Options].Timeout, or by [Options].Attempts
// requests, is [ErrStalled] or the last request's error. Close ends all reads at once. A server that ignores ranges and would send the whole file is [ErrNoRanges], unless
// the file is no larger than what Open asks for.
package httprange
