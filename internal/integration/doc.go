// Package integration is the tests that drive gateway and client together over
// real sockets, often with somebody hostile in between. It never tests a
// package by itself, and nothing can import it.
package integration
