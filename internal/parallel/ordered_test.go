package parallel

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"
)

// TestWriteInOrder: the bytes of jobs come in their order, whoever fails first in that order is heard, and
// nobody is still producing once it is over, not even where the writer panics.
func TestWriteInOrder(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(4))
	const n, never = 50, 1000
	full, torn := errors.New("full"), errors.New("torn")
	for _, test := range []struct {
		tear, fill, panic uint64 // the jobs at which this happens
		written           uint64
		want              error
	}{
		{never, never, never, n, nil},
		{0, never, never, 0, torn},
		{17, never, never, 17, torn},
		{n - 1, never, never, n - 1, torn},
		{never, 0, never, 0, full},
		{never, 30, never, 30, full},
		{17, 16, never, 16, full},
		{16, 17, never, 16, torn},
		{never, never, 9, 9, nil},
	} {
		t.Run(fmt.Sprint(test.tear, test.fill, test.panic), func(t *testing.T) {
			var busy, begun atomic.Int64
			var out []byte
			w := writerFunc(func(b []byte) (int, error) {
				at := uint64(len(out))
				if ahead := uint64(begun.Load()) - at; ahead > 4*jobsPerCore {
					t.Errorf("%d jobs ahead", ahead)
				}
				switch at {
				case test.fill:
					return 0, full
				case test.panic:
					panic(full)
				}
				out = append(out, b...)
				return len(b), nil
			})
			err := func() error {
				defer func() {
					if v := recover(); (v != nil) != (test.panic < n) {
						t.Errorf("panic: %v", v)
					}
				}()
				produce := func(into []byte, i uint64) (int, error) {
					begun.Add(1)
					busy.Add(1)
					defer busy.Add(-1)
					for range (i * 7 % 5) * 20 { // some are done before those that come first
						runtime.Gosched()
					}
					if i == test.tear {
						return 0, torn
					}
					into[0] = byte(i)
					return 1, nil
				}
				return WriteInOrder(w, n, func(jobs iter.Seq[*Job]) {
					for job := range jobs {
						job.Done(produce(job.Into, job.I))
					}
				})
			}()
			if n := busy.Load(); n != 0 {
				t.Errorf("%d are still producing", n)
			}
			want := make([]byte, test.written)
			for i := range want {
				want[i] = byte(i)
			}
			if err != test.want || !bytes.Equal(out, want) {
				t.Errorf("wrote %v, %v, want %v", out, err, test.want)
			}
		})
	}
}

type writerFunc func(b []byte) (int, error)

func (f writerFunc) Write(b []byte) (int, error) { return f(b) }

// TestWriteInOrderLeft has workers that stop asking for jobs: what they have ended is written, and an
// end without the rest is an error.
func TestWriteInOrderLeft(t *testing.T) {
	for _, each := range []int{0, 1, 3} {
		var wrote bytes.Buffer
		err := WriteInOrder(&wrote, 1000, func(jobs iter.Seq[*Job]) {
			took := 0
			for j := range jobs {
				j.Into[0] = byte(j.I)
				j.Done(1, nil)
				if took++; took >= each {
					return
				}
			}
		})
		if most := max(1, each) * runtime.GOMAXPROCS(0); !errors.Is(err, errLeft) || wrote.Len() == 0 || wrote.Len() > most {
			t.Errorf("%d jobs each: %d bytes, %v", each, wrote.Len(), err)
		}
		for i, b := range wrote.Bytes() {
			if b != byte(i) {
				t.Errorf("byte %d is %d", i, b)
			}
		}
	}
}

// TestInOrderEnds ends the context while use has a job. By the time that use returns, the worker has ended too: the error is the
// cause all the same.
func TestInOrderEnds(t *testing.T) {
	cause := errors.New("ended")
	for range 40 { // a select between two cases may take either
		synctest.Test(t, func(t *testing.T) {
			ctx, end := context.WithCancelCause(t.Context())
			free := make(chan *Job, 1)
			free <- &Job{}
			produce := func(jobs iter.Seq[*Job]) {
				for j := range jobs {
					j.Done(0, nil)
				}
			}
			err := InOrder(ctx, 1, free, func(*Job) bool { return true }, produce, func(*Job) error {
				end(cause)
				synctest.Wait()
				return nil
			})
			if err != cause {
				t.Fatal(err)
			}
		})
	}
}
