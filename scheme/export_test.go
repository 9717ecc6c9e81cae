package scheme

// Decoded returns the names of all schemes that are decoded, as their patterns have them, with those that they may become.
func Decoded() map[string]bool {
	names := make(map[string]bool)
	for _, p := range patterns {
		if p.refusal == nil {
			names[p.schemeName] = true
		}
	}
	return names
}

// WithoutSharedForms calls f while each weight's form is found by itself.
func WithoutSharedForms(f func()) {
	findsEachForm = true
	defer func() { findsEachForm = false }()
	f()
}
