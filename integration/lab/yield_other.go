//go:build !linux

package main

// yield does nothing: only Linux has a class of processes that give way.
func yield() error { return nil }
