package loader

import (
	"context"
	"errors"
	"iter"

	"github.com/tensormap/tensormap/internal/parallel"
	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/mmapio"
)

// Granularity returns how much has to be hashed before a byte can be trusted: the coarsest among the
// model's files. It is layout.Unverified without Options.Trust.
func (m *Model) Granularity() (g layout.Granularity) {
	for i := range m.files {
		if v := m.files[i].verification; v != nil {
			g = max(g, v.Digests().Granularity)
		}
	}
	return g
}

// VerifyFile compares every byte of one file with by, whatever its format. It is for files that go with a
// model, such as a tokenizer. The error is an *IntegrityError, or that of by.
func VerifyFile(ctx context.Context, path string, by Trust) error {
	mapping, err := mmapio.OpenReader(path)
	if err != nil {
		return err
	}
	s := opened(path, mapping)
	defer s.close()
	o := Options{Trust: by}
	if err := o.guard(ctx, s); err != nil {
		return err
	}
	return inFile(path, s.data.Verify(ctx, 0, s.data.Size()))
}

// VerifyTrust compares every byte of the model with Options.Trust now, rather than when it is first
// touched. Chunks that were touched before are not hashed again, but for files from afar. The error is
// an *IntegrityError of the first wrong chunk, or says why reading failed. Without Options.Trust it does
// nothing. progress may be nil.
func (m *Model) VerifyTrust(ctx context.Context, progress func(done, total uint64)) error {
	if err := m.enter(); err != nil {
		return err
	}
	defer m.leave()
	ctx, stop := m.from.until(ctx)
	defer stop()
	type chunk struct{ file, i int }
	var chunks []chunk
	p := parallel.Progress{Report: progress}
	for file := range m.files {
		if v := m.files[file].verification; v != nil {
			for i := range int(v.Digests().Count()) {
				chunks = append(chunks, chunk{file, i})
				_, n := v.Digests().Span(uint64(i))
				p.Total += n
			}
		}
	}
	n := uint64(len(chunks))
	return parallel.Each(parallel.Workers(n), parallel.Range(n), func(items iter.Seq[uint64]) error {
		for k := range items {
			if err := context.Cause(ctx); err != nil {
				return err
			}
			f := &m.files[chunks[k].file]
			off, n := f.verification.Digests().Span(uint64(chunks[k].i))
			if err := mmapio.Guard(func() error { return f.verifyRange(ctx, off, n) }); err != nil {
				return f.Wrap(m.tensorAt(err, uint32(chunks[k].file)))
			}
			p.Add(n)
		}
		return nil
	})
}

// verifyRange makes sure that n bytes at off are the trusted ones.
func (f *file) verifyRange(ctx context.Context, off, n uint64) error {
	if f.mapping.Aliased() || f.verification.chunks == nil {
		return f.mapping.Verify(ctx, off, n)
	}
	_, err := f.mapping.Copy(ctx, off, n)
	return err
}

// tensorAt adds the name of the first tensor in a wrong chunk to err.
func (m *Model) tensorAt(err error, file uint32) error {
	wrong, ok := errors.AsType[*IntegrityError](err)
	if !ok {
		return err
	}
	of := *wrong
	_, n := m.files[file].verification.Digests().Span(of.Chunk)
	for i := range m.tensors {
		t := &m.tensors[i]
		if uint32(t.File) == file && t.Offset < of.Offset+n && of.Offset < t.Offset+t.Stored {
			of.Tensor = string(t.Name)
			break
		}
	}
	return &of
}
