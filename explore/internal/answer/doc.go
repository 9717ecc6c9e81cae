// Package answer declares what the page of package explore asks for and is answered. It holds the contract between them,
// and the types that packages grid, odd and explore share.
package answer
