package remote

// MostAtClose is mostAtClose, for tests to lower.
var MostAtClose = &mostAtClose

// MostNames is mostNames, for tests to lower.
var MostNames = &mostNames
