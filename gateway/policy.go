package gateway

import (
	"cmp"
	"time"
)

// policy is what holds for a topic: what the first rule that matches says, and
// the settings for all topics where it says nothing.
type policy struct {
	class    class
	latest   bool          // ticks may be merged into newer ones
	interval time.Duration // between two ticks, at least; 0: as they come
	batch    BatchOptions
}

// class says which topics may be compressed together: those of equal classes.
type class uint32

const (
	classOff class = 0       // never compressed
	classAny class = 1 << 31 // what is no tick and no reset, and ends a run of them
)

// ruleTable is the topics' rules with their policies. It never changes.
type ruleTable struct {
	rules    []TopicRule
	policies []policy // of rules
	fallback policy   // where no rule matches
	uniform  bool     // all classes are the same
}

func newRuleTable(rules []TopicRule, batch BatchOptions) *ruleTable {
	known := map[string]class{"": classOff, DefaultClass: 1}
	t := &ruleTable{rules: rules, fallback: policy{class: known[DefaultClass], batch: batch}, uniform: true}
	for _, r := range rules {
		if _, ok := known[r.Compress]; !ok {
			known[r.Compress] = class(len(known))
		}
		p := policy{class: known[r.Compress], latest: r.Latest, batch: *cmp.Or(r.Batch, &batch)}
		if r.Latest {
			p.interval = intervalOf(r.MaxRate)
		}
		t.policies = append(t.policies, p)
		t.uniform = t.uniform && p.class == t.fallback.class
	}
	return t
}

// intervalOf is the time between two ticks at so many a second; 0 is no bound.
func intervalOf(rate float64) time.Duration {
	if rate == 0 {
		return 0
	}
	return time.Duration(float64(time.Second) / rate)
}

func (t *ruleTable) of(name string) *policy {
	for i := range t.rules {
		if t.rules[i].Match.Match(name) {
			return &t.policies[i]
		}
	}
	return &t.fallback
}

// policy is the topic's in a table. It is looked up once for each table.
func (t *loopTopic) policy(table *ruleTable) *policy {
	if t.ruledBy != table {
		t.rule, t.ruledBy = table.of(t.Name), table
	}
	return t.rule
}
