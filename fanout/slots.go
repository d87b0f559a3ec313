package fanout

import (
	"cmp"
	"context"
	"errors"
	"net"
	"slices"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"
)

// slotCount is the number of hash slots of a cluster.
const slotCount = 1 << 14

// slotMap says which master has each slot, by its address; "" where none has.
type slotMap [slotCount]string

// masters lists the addresses in the map.
func (m *slotMap) masters() []string {
	var addrs []string
	for i, addr := range m {
		if addr != "" && (i == 0 || addr != m[i-1]) && !slices.Contains(addrs, addr) {
			addrs = append(addrs, addr)
		}
	}
	return addrs
}

// keySlot is the slot of a key or channel: CRC-16 (XMODEM) of what stands between
// the first braces, or of all of it.
func keySlot(key string) int {
	if _, tail, ok := strings.Cut(key, "{"); ok {
		if tag, _, ok := strings.Cut(tail, "}"); ok && tag != "" {
			key = tag
		}
	}
	var crc uint16
	for i := range len(key) {
		crc ^= uint16(key[i]) << 8
		for range 8 {
			if crc&0x8000 != 0 {
				crc = crc<<1 ^ 0x1021
			} else {
				crc <<= 1
			}
		}
	}
	return int(crc % slotCount)
}

var errNoSlots = errors.New("the cluster has no slots: is it a cluster, and complete?")

// askCluster asks nodes, in turn, who has which slots. The first one's answer holds.
func (r Redis) askCluster(ctx context.Context, addrs []string) (m *slotMap, err error) {
	for _, addr := range addrs {
		if m, err = r.askNode(ctx, addr); err == nil {
			return m, nil
		}
	}
	return nil, cmp.Or(err, errNoSlots)
}

func (r Redis) askNode(ctx context.Context, addr string) (*slotMap, error) {
	shards, err := r.askShards(ctx, addr)
	if err != nil {
		return nil, err
	}
	return r.slotsOf(shards, addr)
}

// askShards asks one node for all that there are.
func (r Redis) askShards(ctx context.Context, addr string) ([]redis.ClusterShard, error) {
	o := r.universal().Simple()
	o.Addr = addr
	c := redis.NewClient(o)
	defer c.Close()
	return c.ClusterShards(ctx).Result()
}

// slotsOf makes a map of the shards that a node has told.
func (r Redis) slotsOf(shards []redis.ClusterShard, addr string) (*slotMap, error) {
	m := new(slotMap)
	for _, shard := range shards {
		master := r.masterOf(shard.Nodes, addr)
		for _, span := range shard.Slots {
			for i := max(span.Start, 0); i <= span.End && i < slotCount; i++ {
				m[i] = master
			}
		}
	}
	if len(m.masters()) == 0 {
		return nil, errNoSlots
	}
	return m, nil
}

// masterOf returns the address of a shard's master, of one that is there if its
// nodes name two.
func (r Redis) masterOf(nodes []redis.Node, asked string) (addr string) {
	for _, n := range nodes {
		if n.Role != "master" || addr != "" && n.Health == "fail" {
			continue
		}
		addr = r.addressOf(n, asked)
	}
	return addr
}

// addressOf is where a node is reached. A node leaves the host out when it does not
// know its own: then it is the one that was asked.
func (r Redis) addressOf(n redis.Node, asked string) string {
	host, port := cmp.Or(n.Endpoint, n.IP), n.Port
	if host == "" || host == "?" {
		host, _, _ = net.SplitHostPort(asked)
	}
	if r.now().TLS != nil && n.TLSPort != 0 {
		port = n.TLSPort
	}
	return net.JoinHostPort(host, strconv.FormatInt(port, 10))
}

// isReplica tells whether the node at addr is one, as the node says that was asked.
func (r Redis) isReplica(shards []redis.ClusterShard, addr, asked string) bool {
	for _, shard := range shards {
		for _, n := range shard.Nodes {
			if n.Role == "replica" && r.addressOf(n, asked) == addr {
				return true
			}
		}
	}
	return false
}

// unique returns the addresses without repetitions, in their order.
func unique(addrs ...string) []string {
	var out []string
	for _, a := range addrs {
		if !slices.Contains(out, a) {
			out = append(out, a)
		}
	}
	return out
}
