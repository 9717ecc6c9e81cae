package formats

import "github.com/tensormap/tensormap/layout"

// Sniff returns the name of the format that findFormat finds.
func Sniff(in layout.Input) (layout.Format, error) {
	f, err := findFormat(in)
	if err != nil {
		return layout.Unknown, err
	}
	return f.Name, nil
}
