package remote

// MostAtClose is mostAtClose, for tests to lower.
var MostAtClose = &mostAtClose
