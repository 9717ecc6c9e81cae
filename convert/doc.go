// Package convert writes models that package loader can read as other files.
package convert
