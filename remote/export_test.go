package remote

// MostAtClose is maxAtClose, for tests to lower.
var MostAtClose = &maxAtClose

// MaxNames is maxNames, for tests to lower.
var MaxNames = &maxNames
