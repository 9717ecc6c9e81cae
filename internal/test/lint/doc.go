// Package lint holds the rules of this module's prose and files. Its tests apply them.
package lint
