package config

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"net"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
)

// The units of sizes.
const (
	kib = 1 << 10
	mib = 1 << 20
	gib = 1 << 30
)

var sizeUnits = []struct {
	name  string
	bytes int
}{{"GiB", gib}, {"MiB", mib}, {"KiB", kib}, {"B", 1}}

// size is a number of bytes in [low, high], such as 64KiB.
func size(field *int, low, high int) kind {
	return scalar(field, between(low, high, formatSize), func(n *yaml.Node) (int, error) {
		v, err := parseSize(n)
		if err != nil {
			return 0, err
		}
		return v, inRange(v, low, high, formatSize)
	}, formatSize)
}

func parseSize(n *yaml.Node) (int, error) {
	bad := notA(n, "a size: write a whole number with B, KiB, MiB or GiB")
	if n.Kind != yaml.ScalarNode {
		return 0, bad
	}
	digits, unit := n.Value, 1
	for _, u := range sizeUnits {
		if rest, ok := strings.CutSuffix(n.Value, u.name); ok {
			digits, unit = strings.TrimSpace(rest), u.bytes
			break
		}
	}
	v, err := strconv.ParseUint(digits, 10, 63)
	switch {
	case errors.Is(err, strconv.ErrRange), err == nil && v > uint64(math.MaxInt/unit):
		return math.MaxInt, nil // out of every range
	case err != nil:
		return 0, bad
	}
	return int(v) * unit, nil
}

// formatSize uses the largest unit that leaves a whole number.
func formatSize(v int) string {
	for _, u := range sizeUnits {
		if v != 0 && v%u.bytes == 0 {
			return strconv.Itoa(v/u.bytes) + u.name
		}
	}
	return "0B"
}

// duration is a time span in [low, high], such as 5ms or 1m30s.
func duration(field *time.Duration, low, high time.Duration) kind {
	return scalar(field, between(low, high, formatDuration), func(n *yaml.Node) (time.Duration, error) {
		if n.Kind != yaml.ScalarNode {
			return 0, notA(n, "a duration")
		}
		v, err := time.ParseDuration(n.Value)
		if err != nil {
			return 0, notA(n, "a duration: write a number with ms, s, m or h")
		}
		return v, inRange(v, low, high, formatDuration)
	}, formatDuration)
}

// formatDuration uses the largest unit that leaves a whole number.
func formatDuration(d time.Duration) string {
	for _, u := range []struct {
		name string
		span time.Duration
	}{{"h", time.Hour}, {"m", time.Minute}, {"s", time.Second}, {"ms", time.Millisecond}} {
		if d != 0 && d%u.span == 0 {
			return strconv.FormatInt(int64(d/u.span), 10) + u.name
		}
	}
	return d.String()
}

func between[T any](low, high T, show func(T) string) string {
	return show(low) + " to " + show(high)
}

func inRange[T cmp.Ordered](v, low, high T, show func(T) string) error {
	if !(v >= low && v <= high) { // written so for what is no number
		return fmt.Errorf("is out of range")
	}
	return nil
}

// checkAddress accepts HOST:PORT with a numeric port; the host may be empty,
// a name or an IP address, IPv6 in brackets.
func checkAddress(s string) error {
	host, port, err := net.SplitHostPort(s)
	if err == nil {
		_, err = strconv.ParseUint(port, 10, 16)
	}
	if err != nil || strings.ContainsAny(host, "/@ ,\t") {
		return fmt.Errorf("%s is not an address HOST:PORT", clip(s))
	}
	return nil
}

// parseOrigin reads what a browser sends as Origin (RFC 6454 section 6.2).
func parseOrigin(s string) (string, error) {
	u, err := url.Parse(s)
	switch {
	case err != nil || u.Scheme == "" || u.Hostname() == "" || u.User != nil:
		return "", hinted{clip(s) + " is not an origin", "write scheme and host, such as https://app.example"}
	case u.Path != "" || u.RawQuery != "" || u.Fragment != "":
		return "", hinted{clip(s) + " has more than scheme, host and port", "write " + u.Scheme + "://" + u.Host}
	}
	return s, nil
}

// checkPublicURL takes nothing, or the URL of a WebSocket.
func checkPublicURL(s string) error {
	u, err := url.Parse(s)
	switch {
	case s == "":
		return nil
	case err != nil || u.Scheme != "ws" && u.Scheme != "wss" || u.Hostname() == "":
		return hinted{clip(s) + " is not the address of a WebSocket", "write one such as wss://push.example/ws"}
	case u.User != nil || u.RawQuery != "" || u.Fragment != "":
		return hinted{clip(s) + " has more than scheme, host, port and path", "write " + u.Scheme + "://" + u.Host + u.Path}
	}
	return nil
}

// parseNetwork reads a network or a single address.
func parseNetwork(s string) (netip.Prefix, error) {
	if address, err := netip.ParseAddr(s); err == nil {
		address = address.Unmap()
		return address.Prefix(address.BitLen())
	}
	network, err := netip.ParsePrefix(s)
	switch {
	case err != nil || network.Addr().Is4In6():
		return network, fmt.Errorf("%s is not an address or a network", clip(s))
	case network != network.Masked():
		return network, hinted{clip(s) + " has bits behind its length", "write " + network.Masked().String()}
	}
	return network, nil
}
