package gateway

import (
	"cmp"
	"slices"
)

// roster is a loop's connections in the order of their ids, which is nearly
// always that in which they come: so that a page of them can be had without
// looking at all.
type roster struct {
	places []place
	gone   int // places without a connection
}

type place struct {
	id   uint64
	conn *conn // nil: gone
}

func (r *roster) at(id uint64) (int, bool) {
	return slices.BinarySearchFunc(r.places, id, func(p place, id uint64) int { return cmp.Compare(p.id, id) })
}

func (r *roster) add(c *conn) {
	i, _ := r.at(c.id)
	r.places = slices.Insert(r.places, i, place{c.id, c})
}

// remove leaves the place until half of them are empty.
func (r *roster) remove(c *conn) {
	i, ok := r.at(c.id)
	if !ok || r.places[i].conn == nil {
		return
	}
	r.places[i].conn = nil
	if r.gone++; r.gone > len(r.places)/2 {
		r.places, r.gone = r.taken(), 0
	}
}

func (r *roster) taken() []place {
	all := make([]place, 0, len(r.places)-r.gone)
	for _, p := range r.places {
		if p.conn != nil {
			all = append(all, p)
		}
	}
	return all
}

// find returns the connection with an id, or nil.
func (r *roster) find(id uint64) *conn {
	i, ok := r.at(id)
	if !ok {
		return nil
	}
	return r.places[i].conn
}

// all is a copy, because serving a connection may remove it.
func (r *roster) all() []*conn {
	conns := make([]*conn, 0, len(r.places)-r.gone)
	for _, p := range r.places {
		if p.conn != nil {
			conns = append(conns, p.conn)
		}
	}
	return conns
}
