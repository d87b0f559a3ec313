//go:build !darwin

package cryptobench

// systemModel knows none: Linux tells it in a file, others not at all.
func systemModel() string { return "" }
