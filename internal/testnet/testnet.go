// Package testnet is connections that fail on purpose, at a point that a test
// chooses. It is for tests, never for programs.
package testnet

import (
	"io"
	"net"
)

// Cut is a connection that ends after Left bytes of the other side. One
// goroutine reads it.
type Cut struct {
	net.Conn
	Left int
}

// Read implements net.Conn: it closes the connection and returns io.EOF once
// nothing is left.
func (c *Cut) Read(p []byte) (int, error) {
	if c.Left == 0 {
		c.Conn.Close()
		return 0, io.EOF
	}
	n, err := c.Conn.Read(p[:min(len(p), c.Left)])
	c.Left -= n
	return n, err
}
