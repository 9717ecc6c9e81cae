// Package trust signs models and checks signatures, so that [loader] hands out no byte that a key
// does not vouch for. It knows two kinds of signatures.
//
// A bundle of OpenSSF Model Signing 1.0 lies beside a model of any format. It is a JSON file that
// names every file of a directory with its digest. [Sign] writes one and [ParseBundle] reads one.
// The keys are ECDSA keys on P-256, P-384 and P-521; certificates may vouch for them. Bundles by
// Sigstore are verified by trust/keyless, a module of its own. Bundles written here also have the
// digests of chunks of each file, in the annotation [ChunksAnnotation]. The specification has verifiers
// ignore annotations that they do not know.
//
// An APR2 file may carry its own Ed25519 signature: see package layout/apr2.
//
// A signature says who, not which or when: an older model that the same key has signed passes too.
//
// [loader]: https://pkg.go.dev/github.com/tensormap/tensormap/loader
package trust
