package atomicfile

// Begin creates the file called path and has begin start to write it, as the constructor of
// an encoder does. Where begin fails the file is aborted, and there is no W.
func Begin[W any](path string, begin func(*File) (W, error)) (W, error) {
	var none W
	f, err := Create(path)
	if err != nil {
		return none, err
	}
	w, err := begin(f)
	if err != nil {
		f.Abort()
		return none, err
	}
	return w, nil
}

// CommitIf is Commit where err, with which the writing ended, is nil: otherwise it is Abort,
// and returns err.
func (f *File) CommitIf(err error) error {
	if err != nil {
		f.Abort()
		return err
	}
	return f.Commit()
}
