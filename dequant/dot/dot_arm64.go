//go:build !purego

package dot

import (
	"github.com/tensormap/tensormap/internal/block"
	"github.com/tensormap/tensormap/internal/simd"
)

// archLevels returns the level of NEON with SDOT, or nothing if this processor has no SDOT.
func archLevels() []*impl {
	if !simd.SDOT {
		return nil
	}
	return []*impl{&neon}
}

// The codes that nibbles stand for, and the tables that spread bits.
var neonIQ4, neonFP4, neonBits = block.IQ4, block.FP4, block.NEONBits

// neonCrumbs are the shifts that move two bits each to the bottom of eight words.
var neonCrumbs = [8]int16{0, -2, -4, -6, -8, -10, -12, -14}

// neonPowers move the digits of four fractions in base three.
var neonPowers = [16]uint8{1, 1, 1, 1, 3, 3, 3, 3, 9, 9, 9, 9, 27, 27, 27, 27}
