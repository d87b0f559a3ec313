package fanout

import (
	"strings"

	"github.com/sealcast/sealcast/wire/topic"
)

const (
	anyOne  = "*"
	anyRest = "**"
)

// node is a place in the tree of names and filters, one level per segment. The
// segments "*" and "**" of filters cannot be confused with those of names,
// which never hold a '*'. Topic, want and subscription of the same path share a node.
type node struct {
	parent   *node
	segment  string
	children map[string]*node // nil: none

	topic *feed
	want  *want
	sub   *subscription
}

func (n *node) empty() bool { return n.topic == nil && n.want == nil && n.sub == nil }

// grow returns the node of a name or filter and creates it where it is missing.
func (n *node) grow(path string) *node {
	for more := true; more; {
		var segment string
		segment, path, more = strings.Cut(path, string(topic.Separator))
		child := n.children[segment]
		if child == nil {
			child = &node{parent: n, segment: segment}
			if n.children == nil {
				n.children = make(map[string]*node, 1)
			}
			n.children[segment] = child
		}
		n = child
	}
	return n
}

// find returns the node of a name or filter, or nil.
func (n *node) find(path string) *node {
	for more := true; more && n != nil; {
		var segment string
		segment, path, more = strings.Cut(path, string(topic.Separator))
		n = n.children[segment]
	}
	return n
}

// prune takes a node that has become empty out of the tree, and every parent
// that only led to it.
func (n *node) prune() {
	for n.parent != nil && n.empty() && len(n.children) == 0 {
		delete(n.parent.children, n.segment)
		n = n.parent
	}
}

// above appends to dst the nodes whose filter covers the name or filter path,
// itself included.
func (n *node) above(dst []*node, path string) []*node {
	segment, tail, more := strings.Cut(path, string(topic.Separator))
	if rest := n.children[anyRest]; rest != nil && !rest.empty() {
		dst = append(dst, rest)
	}
	if segment == anyRest {
		return dst
	}
	if one := n.children[anyOne]; one != nil {
		dst = one.aboveTail(dst, tail, more)
	}
	if same := n.children[segment]; same != nil && segment != anyOne {
		dst = same.aboveTail(dst, tail, more)
	}
	return dst
}

func (n *node) aboveTail(dst []*node, tail string, more bool) []*node {
	if more {
		return n.above(dst, tail)
	}
	if !n.empty() {
		dst = append(dst, n)
	}
	return dst
}

// below appends to dst the nodes whose name or filter the filter path covers,
// itself included.
func (n *node) below(dst []*node, path string) []*node {
	segment, tail, more := strings.Cut(path, string(topic.Separator))
	switch segment {
	case anyRest:
		return n.descendants(dst)
	case anyOne:
		for s, child := range n.children {
			if s != anyRest {
				dst = child.belowTail(dst, tail, more)
			}
		}
	default:
		if child := n.children[segment]; child != nil {
			dst = child.belowTail(dst, tail, more)
		}
	}
	return dst
}

func (n *node) belowTail(dst []*node, tail string, more bool) []*node {
	if more {
		return n.below(dst, tail)
	}
	if !n.empty() {
		dst = append(dst, n)
	}
	return dst
}

func (n *node) descendants(dst []*node) []*node {
	for _, child := range n.children {
		if !child.empty() {
			dst = append(dst, child)
		}
		dst = child.descendants(dst)
	}
	return dst
}
