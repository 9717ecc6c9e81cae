package remote_test

import (
	"errors"
	"os"
	"testing"

	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/remote"
)

// TestDamagedHead: an incomplete file of the cache whose beginning is damaged, as by a loss of power, is fetched anew. What decodes no
// more because the server has it so is not: the error stays, and so do the bytes.
func TestDamagedHead(t *testing.T) {
	for server, serve := range servedBy {
		t.Run(server, func(t *testing.T) {
			_, address := storedFile(t, serve, twoHalves(1), map[string]string{"ETag": `"1"`})
			m := openQuickly(t, address)
			if v, err := valueOf(t, m, "a"); v != 1 || err != nil {
				t.Fatal(v, err)
			}
			m.Close()
			<-m.Done()
			damage := func() {
				t.Helper()
				list := entries(t)
				if len(list) != 1 || list[0].Complete() {
					t.Fatal(list)
				}
				f, err := os.OpenFile(list[0].Path, os.O_RDWR, 0)
				if err == nil {
					_, err = f.WriteAt(make([]byte, 100), 0)
				}
				if err := errors.Join(err, f.Close()); err != nil {
					t.Fatal(err)
				}
			}
			damage()
			m = openQuickly(t, address)
			for _, name := range []string{"a", "b"} {
				if v, err := valueOf(t, m, name); v != 1 || err != nil {
					t.Errorf("%s: %d, %v", name, v, err)
				}
			}
		})
	}
	t.Run("at the server", func(t *testing.T) {
		content := twoHalves(1)
		copy(content, make([]byte, 100))
		header := map[string]string{"ETag": `"1"`}
		s, address := storedFile(t, servedBy["a hub"], content, header)
		for _, most := range []int{2, 1} { // requests: for the bytes, and to compare them
			s.become(content, header)
			if _, err := remote.Open(t.Context(), address, nil); !errors.As(err, new(*layout.FormatError)) {
				t.Error(err)
			}
			s.Lock()
			requests := len(s.conditions)
			s.Unlock()
			if list := entries(t); len(list) != 1 || list[0].Have == 0 || requests > most {
				t.Errorf("the cache has %v after %d requests", list, requests)
			}
		}
	})
}
