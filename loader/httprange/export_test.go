package httprange

// CheckRedirect is that of the client that nobody else made.
var CheckRedirect = checkRedirect
