package remote

import (
	"errors"
	"os"
	"sync"

	"github.com/tensormap/tensormap/internal/flight"
	"github.com/tensormap/tensormap/remote/internal/rooted"
)

// downloads are the blobs that a Pull has whole, since their registry answers no ranges. A nil one has none.
type downloads struct {
	mu        sync.Mutex
	byAddress map[string]*download
	kept      bool // when their last source closes: they will be read again
}

// download is a blob in a file, which the sources of its address share.
type download struct {
	sources int // counted under the mutex of downloads
	fetches flight.Group[struct{}, *os.File]

	mu   sync.Mutex
	file *os.File // all bytes, or nil while no source needed them
	path rooted.Path
}

// get returns the file with all bytes, or nil while there is none.
func (b *download) get() *os.File {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.file
}

// set makes f, at path, the file with all bytes.
func (b *download) set(f *os.File, path rooted.Path) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.file, b.path = f, path
}

// join returns the download of an address for one source more, which leaves it in the end. It returns nil if d is nil.
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

// leave ends the use of an address's download by one source. The last one removes it, unless it is kept. leave fails if that does.
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

// keep makes downloads stay when their last source closes, until it is called with false.
func (d *downloads) keep(kept bool) {
	if d == nil {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.kept = kept
}

// dropUnused removes the downloads that no source uses. It fails if that does.
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

// remove closes and removes the file of the download, if there is one. It fails if that does.
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
