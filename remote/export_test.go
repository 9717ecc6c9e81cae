package remote

// MostAtClose is mostAtClose, for tests to lower.
var MostAtClose = &mostAtClose

// MaxNames is maxNames, for tests to lower.
var MaxNames = &maxNames
