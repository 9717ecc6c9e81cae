package dequant

import (
	"testing"

	"github.com/tensormap/tensormap/internal/test/kerneltest"
)

func TestNoBoundsChecks(t *testing.T) { kerneltest.NoBoundsChecks(t, "expand.go") }
