package loader

import (
	"context"
	"errors"

	"github.com/tensormap/tensormap/internal/parallel"
	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/mmapio"
)

// Granularity returns how much has to be hashed before a byte can be trusted: the coarsest among the
// model's files, which is the greatest value. It is layout.Unverified without Options.Trust.
func (m *Model) Granularity() (g layout.Granularity) {
	for i := range m.files {
		if d := m.files[i].data.Digests(); d != nil {
			g = max(g, d.Granularity)
		}
	}
	return g
}

// VerifyFile compares every byte of one file with the digests that trust has of it, whatever its format. It is for files that go with a
// model, such as a tokenizer. It fails with an *IntegrityError for a wrong chunk, with the error of trust, or if reading fails.
func VerifyFile(ctx context.Context, path string, trust Trust) error {
	mapping, err := mmapio.OpenReader(path)
	if err != nil {
		return err
	}
	f := mappedFile(path, mapping)
	defer f.close()
	if err := f.verifyBy(ctx, &Options{Trust: trust}); err != nil {
		return err
	}
	return guardFile(path, func() error { return f.data.Ensure(ctx, 0, f.data.Size()) })
}

// VerifyTrust compares every byte of the model with Options.Trust now, rather than when it is first
// touched. Chunks that were touched before are not hashed again, but for remote files. The error is
// an *IntegrityError of the first wrong chunk, or says why reading failed. Without Options.Trust it does
// nothing. progress may be nil.
func (m *Model) VerifyTrust(ctx context.Context, progress func(done, total uint64)) error {
	return m.whileOpen(ctx, nil, func(ctx context.Context) error { return m.verifyTrust(ctx, progress) })
}

// verifyTrust compares all bytes of the model with the digests of Options.Trust, on several goroutines. Ensure reads and compares each
// chunk. verifyTrust skips files without digests: all of them if there is no Trust. The caller holds the model open. verifyTrust fails with
// an *IntegrityError if a chunk is wrong. It also fails if reading does, or when ctx ends.
func (m *Model) verifyTrust(ctx context.Context, progress func(done, total uint64)) error {
	type chunk struct{ file, i int }
	var chunks []chunk
	p := parallel.Progress{Report: progress}
	for file := range m.files {
		if d := m.files[file].data.Digests(); d != nil {
			for i := range int(d.Count()) {
				chunks = append(chunks, chunk{file, i})
				_, n := d.ChunkRange(uint64(i))
				p.Total += n
			}
		}
	}
	n := uint64(len(chunks))
	return parallel.ForEach(parallel.Workers(n), parallel.Range(n), func(k uint64) error {
		if err := context.Cause(ctx); err != nil {
			return err
		}
		f := m.files[chunks[k].file]
		off, n := f.data.Digests().ChunkRange(uint64(chunks[k].i))
		if err := f.data.Ensure(ctx, off, n); err != nil {
			return f.Wrap(m.nameTensor(err, uint32(chunks[k].file)))
		}
		p.Add(n)
		return nil
	})
}

// nameTensor returns err, unless that is an IntegrityError. For an IntegrityError it returns a copy with a tensor's name: the name of the
// first of m.tensors with bytes in the wrong chunk, if any. file is the position of the chunk's file.
func (m *Model) nameTensor(err error, file uint32) error {
	wrong, ok := errors.AsType[*IntegrityError](err)
	if !ok {
		return err
	}
	named := *wrong
	_, n := m.files[file].data.Digests().ChunkRange(named.Chunk) // from named.Offset on
	for i := range m.tensors {
		t := &m.tensors[i]
		if uint32(t.File) == file && t.Offset < named.Offset+n && named.Offset < t.Offset+t.Stored {
			named.Tensor = string(t.Name)
			break
		}
	}
	return &named
}
