// SPDX-License-Identifier: Apache-2.0

package main

import "fmt"

// seconds is a duration with three digits and its unit.
func seconds(s float64) string {
	switch {
	case s < 1e-3:
		return fmt.Sprintf("%.0fµs", s*1e6)
	case s < 1:
		return digits(s*1e3) + "ms"
	}
	return digits(s) + "s"
}

// bytesText is a number of bytes with three digits and a decimal prefix.
func bytesText(n float64) string {
	const prefixes = "kMGTP"
	unit := ""
	for i := 0; n >= 999.5 && i < len(prefixes); i++ {
		n /= 1000
		unit = prefixes[i : i+1]
	}
	if unit == "" {
		return fmt.Sprintf("%.0f", n)
	}
	return digits(n) + unit
}

// decimal is a rate: one decimal, none from 1000 on, two below 1.
func decimal(v float64) string {
	switch {
	case v == 0 || v >= 999.95:
		return fmt.Sprintf("%.0f", v)
	case v < 1:
		return fmt.Sprintf("%.2f", v)
	}
	return fmt.Sprintf("%.1f", v)
}

// digits is v with three digits.
func digits(v float64) string {
	switch {
	case v >= 99.95:
		return fmt.Sprintf("%.0f", v)
	case v >= 9.995:
		return fmt.Sprintf("%.1f", v)
	}
	return fmt.Sprintf("%.2f", v)
}
