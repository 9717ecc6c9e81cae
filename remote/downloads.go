package remote

import (
	"errors"
	"os"
	"sync"

	"github.com/tensormap/tensormap/internal/flight"
	"github.com/tensormap/tensormap/remote/internal/rooted"
)

// downloads are the blobs that a Pull downloads whole, since their registry answers no ranges. The methods of a nil one do nothing.
type downloads struct {
	mu        sync.Mutex
	byAddress map[string]*download
	kept      bool // they stay when their last source closes: they will be read again
}

// download is a blob in a file, which the sources of its address share.
type download struct {
	sources int // counted under the mutex of downloads
	fetches flight.Group[struct{}, *os.File]

	mu   sync.Mutex
	file *os.File // all bytes, or nil while no source needed them
	path rooted.Path
}

// get returns the file with all bytes of the blob, or nil if nothing was downloaded yet.
func (b *download) get() *os.File {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.file
}

// set makes f, which has the given path, the file that get returns and remove removes.
func (b *download) set(f *os.File, path rooted.Path) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.file, b.path = f, path
}

// join returns the download of address, which it makes if there is none, and counts one more source that uses it. Each source must call
// leave in the end. join returns nil if d is nil.
func (d *downloads) join(address string) *download {
	if d == nil {
		return nil
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	blob := d.byAddress[address]
	if blob == nil {
		blob = new(download)
		d.byAddress[address] = blob
	}
	blob.sources++
	return blob
}

// leave ends the use of an address's download by one source, which has called join before. The last source's call removes the download. If
// d.kept is set, the download stays instead until dropUnused removes it. leave fails if removing does.
func (d *downloads) leave(address string) error {
	if d == nil {
		return nil
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	blob := d.byAddress[address]
	if blob.sources--; blob.sources > 0 || d.kept {
		return nil
	}
	delete(d.byAddress, address)
	return blob.remove()
}

// keep sets whether downloads stay when their last source leaves. It removes none.
func (d *downloads) keep(kept bool) {
	if d == nil {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.kept = kept
}

// dropUnused removes the downloads that no source uses. It fails if removing one does.
func (d *downloads) dropUnused() (err error) {
	if d == nil {
		return nil
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	for address, blob := range d.byAddress {
		if blob.sources == 0 {
			delete(d.byAddress, address)
			err = errors.Join(err, blob.remove())
		}
	}
	return err
}

// remove closes and removes the file of the download, if there is one. It fails if closing or removing does.
func (b *download) remove() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.file == nil {
		return nil
	}
	err := errors.Join(b.file.Close(), b.path.Remove())
	b.file = nil
	return err
}
