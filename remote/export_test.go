package remote

// MostAtClose is maxMovedAtClose, for tests to lower.
var MostAtClose = &maxMovedAtClose

// MaxNames is maxListingBytes, for tests to lower.
var MaxNames = &maxListingBytes
