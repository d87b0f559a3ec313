// Package proxyproto reads the header of the PROXY protocol, versions 1 and 2,
// with which a proxy tells whose connection it passes on. It takes nothing that
// the protocol does not say, and looks no further than MaxBytes. It touches no
// socket and never judges whether the sender may be believed.
//
// The layouts are those of sections 2.1 and 2.2 of HAProxy's specification.
package proxyproto

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"strconv"
)

// MaxBytes is the longest header that is taken. Version 1 has 107 bytes at most;
// version 2 may carry more about the connection than the addresses, which is
// passed over.
const MaxBytes = 2048

// ErrMalformed is wrapped by every error of Parse.
var ErrMalformed = errors.New("no valid PROXY protocol header")

// maxLine is the longest header of version 1, CR LF included.
const maxLine = 107

var (
	textSignature   = []byte("PROXY ")
	binarySignature = []byte("\r\n\r\n\x00\r\nQUIT\n")
)

// Parse reads the header at the front of buf, of which n bytes are its own.
// source is who opened the connection to the proxy; it is not valid when the
// proxy tells no address: because the connection is its own, a health check
// mostly, or not of TCP. n is 0 without an error while the header is not there as
// a whole; a byte that cannot be right is found when it comes. Parse keeps nothing
// of buf.
func Parse(buf []byte) (source netip.AddrPort, n int, err error) {
	switch {
	case agrees(buf, binarySignature):
		return parseBinary(buf)
	case agrees(buf, textSignature):
		return parseText(buf)
	}
	return source, 0, malformed("it begins like neither version")
}

// agrees tells whether buf begins with signature, as far as it goes.
func agrees(buf, signature []byte) bool {
	n := min(len(buf), len(signature))
	return bytes.Equal(buf[:n], signature[:n])
}

func malformed(why string) error { return fmt.Errorf("%w: %s", ErrMalformed, why) }

// parseText reads version 1: PROXY SP FAMILY SP SOURCE SP DESTINATION SP SOURCE
// PORT SP DESTINATION PORT CR LF, or PROXY SP UNKNOWN and anything up to CR LF.
func parseText(buf []byte) (source netip.AddrPort, n int, err error) {
	end := bytes.Index(buf[:min(len(buf), maxLine)], []byte("\r\n"))
	if end < 0 {
		if len(buf) >= maxLine {
			return source, 0, malformed("a line of more than 107 bytes")
		}
		return source, 0, nil
	}
	n = end + len("\r\n")
	fields := bytes.Split(buf[:end], []byte(" "))
	family := string(fields[1])
	switch {
	case family == "UNKNOWN":
		return source, n, nil
	case family != "TCP4" && family != "TCP6" || len(fields) != 6:
		return source, 0, malformed("not PROXY, TCP4 or TCP6, two addresses and two ports")
	}
	source, ok := textAddress(fields[2], fields[4], family == "TCP4")
	if _, both := textAddress(fields[3], fields[5], family == "TCP4"); !ok || !both {
		return netip.AddrPort{}, 0, malformed("an address or a port is none")
	}
	return source, n, nil
}

func textAddress(ip, port []byte, v4 bool) (netip.AddrPort, bool) {
	addr, err := netip.ParseAddr(string(ip))
	if err != nil || addr.Is4() != v4 || addr.Zone() != "" {
		return netip.AddrPort{}, false
	}
	number, err := strconv.ParseUint(string(port), 10, 16)
	if err != nil || strconv.FormatUint(number, 10) != string(port) {
		return netip.AddrPort{}, false // also with a sign or leading zeros
	}
	return netip.AddrPortFrom(addr.Unmap(), uint16(number)), true
}

// binaryHeader is what version 2 begins with.
//
//	bytes   0–11  signature
//	byte   12     version 2 in the upper half, command in the lower
//	byte   13     family in the upper half, transport in the lower
//	bytes 14–15   length of what follows, big-endian
type binaryHeader [16]byte

func (h *binaryHeader) command() byte { return h[12] & 15 }
func (h *binaryHeader) family() byte  { return h[13] }
func (h *binaryHeader) length() int   { return int(binary.BigEndian.Uint16(h[14:])) }

const (
	commandLocal = 0 // the proxy's own connection
	commandProxy = 1

	familyTCP4 = 0x11 // followed by 4 + 4 bytes of addresses, 2 + 2 of ports
	familyTCP6 = 0x21 // 16 + 16 and 2 + 2
	maxFamily  = 3    // Unix; UDP is the transport 2
	maxCarrier = 2
)

func parseBinary(buf []byte) (source netip.AddrPort, n int, err error) {
	if len(buf) > 12 && (buf[12]>>4 != 2 || buf[12]&15 > commandProxy) {
		return source, 0, malformed("a version other than 2, or an unknown command")
	}
	if len(buf) > 13 && (buf[13]>>4 > maxFamily || buf[13]&15 > maxCarrier) {
		return source, 0, malformed("an unknown family of addresses or transport")
	}
	if len(buf) < len(binaryHeader{}) {
		return source, 0, nil
	}
	h := binaryHeader(buf)
	if n = len(h) + h.length(); n > MaxBytes {
		return source, 0, malformed("more than 2048 bytes")
	}
	if len(buf) < n {
		return source, 0, nil
	}
	source, err = h.source(buf[len(h):n])
	if err != nil {
		return source, 0, err
	}
	return source, n, nil
}

// source reads the address from what follows the header.
func (h *binaryHeader) source(rest []byte) (netip.AddrPort, error) {
	size := 0
	switch h.family() {
	case familyTCP4:
		size = 4
	case familyTCP6:
		size = 16
	}
	if h.command() == commandLocal || size == 0 {
		return netip.AddrPort{}, nil
	}
	if len(rest) < 2*size+4 {
		return netip.AddrPort{}, malformed("too short for its addresses")
	}
	addr, _ := netip.AddrFromSlice(rest[:size]) // 4 and 16 bytes always are one
	return netip.AddrPortFrom(addr.Unmap(), binary.BigEndian.Uint16(rest[2*size:])), nil
}
